"""The numba kernels of hashers that are one file, imported at first use."""

import numba as nb
import numpy as np

NARROW = 1e-9  # relative: thresholds that near are one, since rounding would not tell them apart


@nb.njit(nogil=True, cache=True)
def cut_cost(starts, partners, costs, bits):
    """Sum the costs of the pairs whose bits differ.

    Parameters
    ----------
    starts : int64 array of shape (n_rows + 1,)
        Where the partners of each row begin.
    partners : int64 array of shape (2 * n_pairs,)
        The other row of each pair; a pair is there once for each of its rows.
    costs : float64 array of shape (2 * n_pairs,)
        Its cost.
    bits : uint8 array of shape (n_rows,)
        A bit of each row.
    """
    total = 0.0
    for i in range(len(bits)):
        for e in range(starts[i], starts[i + 1]):
            if bits[i] != bits[partners[e]]:
                total += costs[e]
    return total / 2


@nb.njit(nogil=True, cache=True)
def descend_weights(columns, order, starts, partners, costs, weights, activations, bits):
    """Minimise the cost of a bit over one weight after another, each exactly.

    As one weight moves from -inf to inf, each row's bit flips once at most, where its activation is
    0. With these thresholds sorted, the costs of all intervals between them follow by a flip each.

    Parameters
    ----------
    columns : float64 array of shape (n_features, n_rows)
        Feature values of the rows.
    order : int64 array of shape (n_updates,)
        Features whose weights are minimised over.
    starts, partners, costs
        As for `cut_cost`.
    weights : float64 array of shape (n_features,)
        Changed in place.
    activations : float64 array of shape (n_rows,)
        ``weights @ columns``, changed in place.
    bits : uint8 array of shape (n_rows,)
        ``activations >= 0``, changed in place.

    Returns
    -------
    int
        How many weights changed: only those where that lowers the cost.
    """
    n_rows, n_changed = len(bits), 0
    rounding = 1e-12 * np.abs(costs).sum()
    cost = cut_cost(starts, partners, costs, bits)
    flips, rows = np.empty(n_rows), np.empty(n_rows, np.int64)
    trial, moved = np.empty_like(bits), np.empty(n_rows)
    for feature in order:
        values = columns[feature]
        n = 0
        for i in range(n_rows):
            trial[i] = bits[i]
            flip = -activations[i] / values[i] if values[i] != 0.0 else np.inf
            if np.isfinite(flip):
                flips[n], rows[n] = flip, i
                trial[i] = values[i] < 0.0  # at -inf
                n += 1
        if n == 0:
            continue
        by_flip = np.argsort(flips[:n])
        running = cut_cost(starts, partners, costs, trial)
        best, below, above = running, -np.inf, flips[by_flip[0]]
        for place in range(n):
            i = rows[by_flip[place]]
            for e in range(starts[i], starts[i + 1]):
                if trial[i] != trial[partners[e]]:
                    running -= costs[e]
                else:
                    running += costs[e]
            trial[i] = 1 - trial[i]
            left, right = flips[by_flip[place]], np.inf
            if place + 1 < n:
                right = flips[by_flip[place + 1]]
                if right - left <= NARROW * (np.abs(left) + np.abs(right)):
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
        for i in range(n_rows):
            moved[i] = activations[i] + step * values[i]
            trial[i] = moved[i] >= 0.0
        running = cut_cost(starts, partners, costs, trial)
        if running < cost - rounding:  # whatever was rounded
            cost = running
            weights[feature] += step
            activations[:], bits[:] = moved, trial
            n_changed += 1
    return n_changed
