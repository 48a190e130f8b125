"""Compiled histograms of codes of at most 16 bits, from tables of one half of the code.

A code has an upper half h and a lower half x of 8 bits each. Of the items with one upper half, n_i(x, d) counts those
whose lower half differs from x in d of the first i bits and in no other bit:

    n_0(x, 0) = number of items (h, x)
    n_{i+1}(x, d) = n_i(x, d) + n_i(x with bit i flipped, d - 1)

A query (h', x') has n_8(x', d) items of each upper half h at distance d + popcount(h ^ h'). A query thus takes nine
additions for each of the 256 upper halves, and none for an item.

This counts the items of all levels. Those of the most frequent level are what remains after the items of the other
levels, which are counted one by one, are subtracted.
"""

import numba as nb
import numpy as np

from skhash._hamming_kernels import popcount
from skhash.metrics._histogram_kernels import TEAM, TEAM_LANES, add_lanes, fill_team, tally_team

MAX_BITS = 16
HALF = 8  # bits of the lower half of a code
SIDE = 2**HALF  # values of a half


@nb.njit(nogil=True, cache=True, error_model="numpy")
def short_histogram(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do the same as `grouped_histogram` for codes of at most 16 bits; `counts` must be zeros."""
    words, (n_queries, n_distances, n_levels) = database[0], counts.shape
    totals = _count_all(queries[:, 0], words, multiplicity)
    frequent = _frequent_levels(table, bounds, n_levels)[query_group]
    lanes = np.empty((TEAM_LANES, TEAM, n_levels * n_distances), np.int64)
    team, offsets = np.empty(TEAM, np.uint64), np.empty(TEAM, np.uint64)
    for first in range(0, n_queries, TEAM):
        last = min(first + TEAM, n_queries)
        lanes[:] = 0
        for g in range(len(bounds) - 1):
            is_counted = False
            for q in range(first, last):
                is_counted |= table[query_group[q], g] != frequent[q]
            if is_counted:
                fill_team(queries, table[:, g], query_group, first, last, n_distances, team, offsets)
                items = slice(bounds[g], bounds[g + 1])
                tally_team(words[items], multiplicity[items], team, offsets, lanes)
        for q in range(first, last):
            add_lanes(lanes[:, q - first], counts[q])
            counts[q, :, frequent[q]] = 0
            for d in range(n_distances):
                counts[q, d, frequent[q]] = totals[q, d] - counts[q, d].sum()


@nb.njit(nogil=True, error_model="numpy")
def _frequent_levels(table, bounds, n_levels):
    """Level of the most items, for each group of queries."""
    frequent = np.empty(len(table), np.int64)
    for row in range(len(table)):
        sizes = np.zeros(n_levels, np.int64)
        for g in range(table.shape[1]):
            sizes[table[row, g]] += bounds[g + 1] - bounds[g]
        frequent[row] = np.argmax(sizes)
    return frequent


@nb.njit(nogil=True, error_model="numpy")
def _count_all(queries, words, items):
    """Numbers of items of each query at the distances from 0 to 16."""
    mask, half = np.uint64(SIDE - 1), np.uint64(HALF)
    grid = np.zeros((SIDE, SIDE), np.int64)  # number of items by upper and lower half
    for i in range(len(words)):
        grid[words[i] >> half, words[i] & mask] += items[i]
    totals = np.zeros((len(queries), MAX_BITS + 1), np.int64)
    near = np.zeros((HALF + 2, SIDE), np.int64)
    spare = np.zeros_like(near)
    of_query = np.empty((SIDE, HALF + 1), np.int64)  # contiguous for one lower half
    for upper in range(SIDE):
        if grid[upper].any():
            _count_half(grid[upper], near, spare, of_query)
            for q in range(len(queries)):
                first = np.int64(popcount(np.uint64(upper) ^ (queries[q] >> half)))
                total, row = totals[q, first : first + HALF + 1], of_query[np.int64(queries[q] & mask)]
                for d in range(HALF + 1):
                    total[d] += row[d]
    return totals


@nb.njit(nogil=True, error_model="numpy")
def _count_half(items, near, spare, of_query):
    """Set ``near[d + 1, x]`` and ``of_query[x, d]`` to the number of items whose lower half is at distance d of x.

    ``near[0]`` and ``spare[0]`` must be 0.
    """
    near[1] = items
    for i in range(0, HALF, 2):
        _add_bit(near, i, spare)
        _add_bit(spare, i + 1, near)
    for x in range(SIDE):
        for d in range(HALF + 1):
            of_query[x, d] = near[d + 1, x]


@nb.njit(nogil=True, error_model="numpy")
def _add_bit(counts, i, result):
    """Count the differences in one more bit, the first of x, which becomes the last one of the result."""
    counts[i + 2] = 0  # no item differs in more bits so far
    for d in range(1, i + 3):
        same, closer, row = counts[d], counts[d - 1], result[d]
        for x in range(SIDE // 2):
            row[2 * x] = same[x] + closer[x + SIDE // 2]
            row[2 * x + 1] = same[x + SIDE // 2] + closer[x]
