"""Compiled kernels of BRE, imported at first use. They release the GIL."""

import numpy as np

from skhash._compiler import kernel

MIN_GAP = 1e-9  # relative gap below which two thresholds are one, because rounding may swap them


@kernel
def cut_cost(starts, partners, costs, bits):
    """Sum of the costs of the pairs whose bits differ; those of sample i are at ``starts[i]:starts[i + 1]``."""
    total = 0.0
    for i in range(len(bits)):
        for e in range(starts[i], starts[i + 1]):
            if bits[i] != bits[partners[e]]:
                total += costs[e]
    return total / 2


@kernel
def descend_weights(columns, order, starts, partners, costs, weights, activations, bits):
    """Minimize the cost of a bit exactly over one weight after another; return the number of changed weights.

    As one weight moves from -inf to inf, the bit of each sample flips at most once. These thresholds are sorted, and
    each flip gives the cost of the next interval. `weights`, `activations` and `bits` are changed in place.
    """
    n_samples, n_changed = len(bits), 0
    rounding = 1e-12 * np.abs(costs).sum()
    cost = cut_cost(starts, partners, costs, bits)
    flips, samples = np.empty(n_samples), np.empty(n_samples, np.int64)
    trial, moved = np.empty_like(bits), np.empty(n_samples)
    for feature in order:
        values = columns[feature]
        n = 0
        for i in range(n_samples):
            trial[i] = bits[i]
            flip = -activations[i] / values[i] if values[i] != 0.0 else np.inf
            if np.isfinite(flip):
                flips[n], samples[n] = flip, i
                trial[i] = values[i] < 0.0  # at -inf
                n += 1
        if n == 0:
            continue
        by_flip = np.argsort(flips[:n])
        running = cut_cost(starts, partners, costs, trial)
        best, below, above = running, -np.inf, flips[by_flip[0]]
        for place in range(n):
            i = samples[by_flip[place]]
            for e in range(starts[i], starts[i + 1]):
                if trial[i] != trial[partners[e]]:
                    running -= costs[e]
                else:
                    running += costs[e]
            trial[i] = 1 - trial[i]
            left, right = flips[by_flip[place]], np.inf
            if place + 1 < n:
                right = flips[by_flip[place + 1]]
                if right - left <= MIN_GAP * (np.abs(left) + np.abs(right)):
                    continue
            if running < best - rounding:
                best, below, above = running, left, right
        if not best < cost - rounding:
            continue
        spread = (flips[by_flip[n - 1]] - flips[by_flip[0]]) / n
        if below == -np.inf:
            step = above - (max(spread, np.abs(above)) or 1.0)
        elif above == np.inf:
            step = below + (max(spread, np.abs(below)) or 1.0)
        else:
            step = below + (above - below) / 2
        for i in range(n_samples):
            moved[i] = activations[i] + step * values[i]
            trial[i] = moved[i] >= 0.0
        running = cut_cost(starts, partners, costs, trial)
        if running < cost - rounding:  # despite rounding
            cost = running
            weights[feature] += step
            for i in range(n_samples):  # an assignment of arrays would add two seconds of compilation
                activations[i], bits[i] = moved[i], trial[i]
            n_changed += 1
    return n_changed
