"""Compiled kernels of StructHash, imported at first use. They release the GIL for `run_in_slices`."""

import numba as nb
import numpy as np

from skhash._compiler import kernel

SHORT = 128  # lists up to this length are sorted in place, which is faster (benchmarks/structhash_growth.py)
LANES = 16  # number of lists that are ranked side by side


@nb.njit(nogil=True, inline="always")
def _add_scores(differences, weights, scores):
    """Subtract from the score of each item the weights of its differing bits."""
    for r in range(len(weights)):
        if weights[r] != 0.0:
            for j in range(len(scores)):
                scores[j] -= weights[r] * differences[r, j]


@nb.njit(nogil=True)
def _sort_descending(scores, order):
    """Write the indices that sort the scores in descending order to `order`."""
    if len(scores) > SHORT:
        order[: len(scores)] = np.argsort(-scores)
        return
    for i in range(len(scores)):
        j = i
        while j > 0 and scores[order[j - 1]] < scores[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@kernel
def count_differences(misordered, differences, counts):
    """Write ``sum_j misordered[i, j] * differences[i, r, j]`` of each list i and bit r to `counts`."""
    for i in range(len(differences)):
        for r in range(differences.shape[1]):
            total = 0
            for j in range(differences.shape[2]):
                total += misordered[i, j] * differences[i, r, j]
            counts[i, r] = total


@kernel
def stump_gains(rows, columns, weights, ranks, gains):
    """Write the weight of the pairs with one rank <= r and the other > r, of each feature and r, to `gains`."""
    for f in range(len(ranks)):
        gain = gains[f]
        gain[:] = 0.0
        for e in range(len(weights)):
            a, b = ranks[f, rows[e]], ranks[f, columns[e]]
            if a != b:
                gain[min(a, b)] += weights[e]
                gain[max(a, b)] -= weights[e]
        for r in range(1, len(gain)):
            gain[r] += gain[r - 1]


@kernel
def most_violated_rankings(differences, weights, sizes, gains, kind, lists, misordered, violations, losses):
    """Write the ranking of each list that maximizes loss - margin, found by dynamic programming.

    Item j of list i has the score s_j = -sum_r w_r |h_r(x_i) - h_r(x_j)|, and m_g <= m_{g+1} irrelevant items come
    before the g-th relevant one. With s_1 >= s_2 ... of the relevant items, and S(m) the sum of the m highest scores of
    irrelevant items, the ranking minimizes

        sum_g gain(g, g + m_g) + 2 / (P N) [m_g s_g - S(m_g)].

    LANES lists of the same sizes, a team, are computed side by side: value m of list l of a team is at
    ``m * LANES + l`` of a flat array. Each minimum over m waits for the one before it, so one list alone is slower
    (``benchmarks/structhash_growth.py``). `differences` is uint8 of shape (n_lists, nbits, n_items), the relevant items
    first, and `gains` has the shape (n_kinds, n_relevant, n_irrelevant + 1). `misordered` (n_lists, n_items), which is
    negative for relevant items, `violations` and `losses` (n_lists,) are written.
    """
    first_irrelevant, size = gains.shape[1], gains.shape[2] * LANES
    relevant = np.empty((LANES, first_irrelevant), np.int64)  # in descending order of their scores
    irrelevant = np.empty((LANES, gains.shape[2]), np.int64)
    scores, slopes = np.empty(differences.shape[2]), np.zeros(first_irrelevant * LANES)
    best, placed, falls = np.empty(size), np.zeros(size), np.empty((first_irrelevant, size), np.bool_)
    start = 0
    while start < len(lists):
        stop = start + 1
        while stop < min(start + LANES, len(lists)) and kind[lists[stop]] == kind[lists[start]]:
            stop += 1
        team = lists[start:stop]
        n_relevant, n_irrelevant = sizes[team[0]]
        gain, scale = gains[kind[team[0]], :n_relevant, : n_irrelevant + 1], 2.0 / (n_relevant * n_irrelevant)
        for lane in range(len(team)):
            scores[:] = 0.0
            _add_scores(differences[team[lane]], weights, scores)
            _sort_descending(scores[:n_relevant], relevant[lane])
            _sort_descending(scores[first_irrelevant : first_irrelevant + n_irrelevant], irrelevant[lane])
            for g in range(n_relevant):
                slopes[g * LANES + lane] = scale * scores[relevant[lane, g]]
            for m in range(n_irrelevant):
                score = scores[first_irrelevant + irrelevant[lane, m]]
                placed[(m + 1) * LANES + lane] = placed[m * LANES + lane] + scale * score
        _add_relevant(gain, slopes, placed, best, falls)
        for lane in range(len(team)):
            i = team[lane]
            costs, own_falls = best[lane : (n_irrelevant + 1) * LANES : LANES], falls[:, lane::LANES]
            last = np.argmin(costs)
            misordered[i] = 0
            own = misordered[i, :first_irrelevant], misordered[i, first_irrelevant:]
            violations[i] = 1.0 - costs[last]
            losses[i] = 1.0 - _write_ranking(gain, own_falls, last, relevant[lane], irrelevant[lane], *own)
        start = stop


@nb.njit(nogil=True)
def _add_relevant(gain, slopes, placed, best, falls):
    """Write the costs of a team to `best`, by the m of the last relevant item, and to `falls` where they fall."""
    n_counts = gain.shape[1]
    best[: n_counts * LANES] = 0.0
    lowest = np.empty(LANES)
    for g in range(len(gain)):
        fall, slope = falls[g], slopes[g * LANES : (g + 1) * LANES]
        lowest[:] = np.inf
        for m in range(n_counts):
            of_pair, count = gain[g, m], float(m)
            for lane in range(LANES):
                i = m * LANES + lane
                cost, so_far = best[i], lowest[lane]
                fall[i] = cost < so_far
                lowest[lane] = so_far = cost if cost < so_far else so_far
                best[i] = so_far + of_pair + slope[lane] * count - placed[i]


@nb.njit(nogil=True)
def _write_ranking(gain, falls, before, relevant, irrelevant, of_relevant, of_irrelevant):
    """Write the number of misordered partners of the items of a list, and return the sum of its gains."""
    kept, n_relevant = 0.0, len(gain)
    passed = gain.shape[1] - 1  # irrelevant items from this position on have no relevant item after them
    for g in range(n_relevant - 1, -1, -1):
        kept += gain[g, before]
        of_relevant[relevant[g]] = -before
        for k in range(before, passed):
            of_irrelevant[irrelevant[k]] = n_relevant - 1 - g
        passed = before
        while before > 0 and not falls[g, before]:
            before -= 1
    for k in range(passed):
        of_irrelevant[irrelevant[k]] = n_relevant
    return kept
