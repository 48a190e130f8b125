"""The nearest groups of items: compiled code that both searches share, those of bits and of tables.

Of each query a row of candidates holds items up to a bound. When the row is full, the nearest item of each of the k
nearest groups stays, and the bound is the last of these: its distance and its group. Of equal distances the group with
the lowest number is nearer, and of the items of a group the first.

A search for more items, until they hold k groups, needs no kernel. For 10 of 200,000 groups it takes 1.2 to 2.3 times
as long as a search for 10 of the 1,000,000 items, since nobody knows how many are enough. This one takes at most 1.2.
"""

import numba as nb
import numpy as np


@nb.njit(nogil=True, error_model="numpy")
def select(values, last, k):
    """The k-th smallest of the first `last` values, which are reordered; np.partition compiles ten times as long."""
    first, pivot, with_equal = 0, values[last // 2], False
    while True:
        end = first
        for i in range(first, last):  # values below the pivot, or up to it, come first, without a branch
            value = values[i]
            values[i], values[end] = values[end], value
            end += (value < pivot) | (with_equal & (not value > pivot))
        if k <= end and with_equal:
            return pivot
        if k <= end:
            last = end
        else:
            first, with_equal = end, not with_equal
        if not with_equal:
            pivot = values[(first + last) // 2]


@nb.njit(nogil=True, error_model="numpy")
def room_for_groups(distances):
    """Groups of the candidates, of the shape of `distances`, and for one query at a time a hash table, and numbers."""
    n_candidates, size = distances.shape[1], 4
    while size < 2 * n_candidates:
        size *= 2
    return np.empty(distances.shape, np.int32), np.empty(size, np.int32), np.empty(n_candidates, distances.dtype)


@nb.njit(nogil=True, error_model="numpy")
def keep_groups(k, distances, items, groups, size, table, work):
    """Keep the nearest item of each of the k nearest groups of the candidates.

    Return how many are kept, and the bound: the distance and the group of the last one; -1 if there are fewer than k.
    """
    last, kept = len(table) - 1, 0
    table[:] = -1
    for i in range(size):
        group = groups[i]
        # neighboring groups often have neighboring numbers, which the product spreads
        slot = np.int64(np.uint64(group) * np.uint64(2654435769) >> np.uint64(16)) & last
        while table[slot] >= 0 and groups[table[slot]] != group:
            slot = (slot + 1) & last
        place = table[slot]
        if place < 0:
            table[slot] = place = kept
            kept += 1
        elif distances[i] >= distances[place]:
            continue
        distances[place], items[place], groups[place] = distances[i], items[i], group
    if kept < k:
        return kept, distances[0], -1
    for i in range(kept):
        work[i] = distances[i]
    farthest = select(work, kept, k)
    n_nearer, n_equal = 0, 0
    for i in range(kept):
        n_nearer += distances[i] < farthest
        if distances[i] == farthest:
            work[n_equal] = groups[i]
            n_equal += 1
    last_group = np.int64(select(work, n_equal, k - n_nearer))
    size, kept = kept, 0
    for i in range(size):
        if distances[i] < farthest or (distances[i] == farthest and groups[i] <= last_group):
            distances[kept], items[kept], groups[kept] = distances[i], items[i], groups[i]
            kept += 1
    return kept, farthest, last_group
