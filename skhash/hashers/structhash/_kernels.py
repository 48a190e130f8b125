"""Compiled kernels of StructHash, imported at first use. They release the GIL for `run_in_slices`."""

import numba as nb
import numpy as np

SHORT = 128  # lists up to this length are sorted in place, which is twice as fast


@nb.njit(nogil=True, inline="always")
def _add_scores(differences, weights, scores):
    """Subtract from the score of each item the weights of its differing bits."""
    for r in range(len(weights)):
        if weights[r] != 0.0:
            for j in range(len(scores)):
                scores[j] -= weights[r] * differences[r, j]


@nb.njit(nogil=True)
def _descending(scores):
    """Indices that sort the scores in descending order."""
    if len(scores) > SHORT:
        return np.argsort(-scores)
    order = np.empty(len(scores), np.int64)
    for i in range(len(scores)):
        j = i
        while j > 0 and scores[order[j - 1]] < scores[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    return order


@nb.njit(nogil=True, cache=True)
def count_differences(misordered, differences, counts):
    """Write ``sum_j misordered[i, j] * differences[i, r, j]`` of each list i and bit r to `counts`.

    The sums are of the type of `counts`: those of smaller integers take half the time.
    """
    kind = counts.dtype.type
    for i in range(len(differences)):
        for r in range(differences.shape[1]):
            total = kind(0)
            for j in range(differences.shape[2]):
                # numba's sum of two int32 is an int64
                total = kind(total + kind(kind(misordered[i, j]) * kind(differences[i, r, j])))
            counts[i, r] = total


@nb.njit(nogil=True, cache=True)
def add_weighted(misordered, weight, total):
    """Add ``weight * misordered`` to `total`, without an array for the product."""
    for i in range(len(total)):
        for j in range(total.shape[1]):
            total[i, j] += weight * misordered[i, j]


@nb.njit(nogil=True, cache=True)
def stump_gains(rows, columns, weights, ranks, gains):
    """Write the gain of each threshold of each feature: the weight of the pairs that it separates.

    Parameters
    ----------
    rows, columns : integer arrays of shape (n_pairs,)
        Pairs of training samples.
    weights : float64 array of shape (n_pairs,)
        Their weights.
    ranks : int32 array of shape (n_features, n_samples)
        Rank of each sample among the distinct values of each feature.
    gains : float64 array of shape (n_features, n_samples)
        Output: the weight of the pairs with one rank <= r and the other > r.
    """
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


@nb.njit(nogil=True, cache=True)
def most_violated_rankings(differences, weights, sizes, gains, kind, misordered, violations, losses):
    """Write the ranking of each list that maximizes loss - margin, by dynamic programming.

    Item j of list i has the score s_j = -sum_r w_r |h_r(x_i) - h_r(x_j)|. The relevant items are
    sorted, s_1 >= s_2 ..., S(m) is the sum of the m highest scores of irrelevant items, and
    m_g <= m_{g+1} irrelevant items come before the g-th relevant one. The ranking minimizes

        sum_g gain(g, g + m_g) + 2 / (P N) [m_g s_g - S(m_g)].

    Parameters
    ----------
    differences : uint8 array of shape (n_lists, nbits, n_relevant + n_irrelevant)
        Whether an item's bit differs from the query's, the relevant items first.
    weights : float64 array of shape (nbits,)
        Bit weights.
    sizes : int64 array of shape (n_lists, 2)
        Number of relevant and of irrelevant items of each list; the others are padding.
    gains : float64 array of shape (n_kinds, n_relevant, n_irrelevant + 1)
        gain(g, g + m) of each pair of sizes.
    kind : int64 array of shape (n_lists,)
        Index into `gains` of each list.
    misordered : int32 array of shape (n_lists, n_relevant + n_irrelevant)
        Output: number of misordered partners of each item, negative for relevant items.
    violations, losses : float64 arrays of shape (n_lists,)
        Output: loss - margin, and the loss, of this ranking.
    """
    counts = np.arange(gains.shape[2]).astype(np.float64)
    for i in range(len(differences)):
        scores = np.zeros(differences.shape[2])
        _add_scores(differences[i], weights, scores)
        first_irrelevant = gains.shape[1]
        n_relevant, n_irrelevant = sizes[i]
        relevant = _descending(scores[:n_relevant])
        irrelevant = _descending(scores[first_irrelevant : first_irrelevant + n_irrelevant])
        gain = gains[kind[i]]
        scale = 2.0 / (n_relevant * n_irrelevant)
        placed = np.zeros(n_irrelevant + 1)  # scale * S(m)
        for m in range(n_irrelevant):
            placed[m + 1] = placed[m] + scale * scores[first_irrelevant + irrelevant[m]]
        best = np.zeros(n_irrelevant + 1)  # cost of the first g relevant items, by m_g
        lowest = np.empty((n_relevant, n_irrelevant + 1))  # the same by the largest m_g that is allowed
        for g in range(n_relevant):
            slope, so_far = scale * scores[relevant[g]], np.inf
            for m in range(n_irrelevant + 1):
                so_far = best[m] if best[m] < so_far else so_far
                lowest[g, m] = so_far
            for m in range(n_irrelevant + 1):  # apart from the loop above, so that it uses vector instructions
                best[m] = lowest[g, m] + gain[g, m] + slope * counts[m] - placed[m]
        before = np.argmin(best)  # number of irrelevant items before the g-th relevant one, starting with the last one
        violations[i] = 1.0 - best[before]
        kept = 0.0
        passed = n_irrelevant  # irrelevant items from this position on have no relevant item after them
        misordered[i] = 0
        for g in range(n_relevant - 1, -1, -1):
            kept += gain[g, before]
            misordered[i, relevant[g]] = -before
            for k in range(before, passed):
                misordered[i, first_irrelevant + irrelevant[k]] = n_relevant - 1 - g
            passed = before
            while before > 0 and lowest[g, before - 1] == lowest[g, before]:
                before -= 1
        for k in range(passed):
            misordered[i, first_irrelevant + irrelevant[k]] = n_relevant
        losses[i] = 1.0 - kept
