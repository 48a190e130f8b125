"""Compiled kernels that count: how many items of each level are at each distance of a query."""

from functools import cache
from typing import Any

import numba as nb
import numpy as np

from skhash._compiler import kernel
from skhash.codes.bit_kernels import BLOCK, block_distances, popcount
from skhash.codes.blocks import LANES
from skhash.codes.hamming_kernels import N_VECTOR, count_variants, empty_variants, fill_variants
from skhash.codes.vector_instructions import address

N_LANES = 4  # interleaved histograms, so that additions to the same place do not wait for each other
TEAM = 4  # queries of one pass over the codes
TEAM_LANES = 2  # interleaved histograms of each query of a team
TEAM_BLOCK = 4096  # codes of a block that all teams count
MAX_VALUES = 2**17  # values in the histograms of all teams


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _tally(cell, items, lanes):
    whole = len(items) // N_LANES * N_LANES
    for i in range(0, whole, N_LANES):
        for lane in range(N_LANES):
            lanes[lane, np.uint64(cell[i + lane])] += items[i + lane]
    for i in range(whole, len(items)):
        lanes[0, np.uint64(cell[i])] += items[i]


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _add_lanes(lanes, counts):
    n_distances, n_levels = counts.shape
    for d in range(n_distances):
        for v in range(n_levels):
            for lane in range(len(lanes)):
                counts[d, v] += lanes[lane, v * n_distances + d]


@kernel
def hamming_histogram(queries, database, multiplicity, group, table, query_group, counts):
    """Add the number of items at distance d of query q to ``counts[q, d, level]``.

    Shapes: queries (n_queries, n_words), database (n_words, n_items) of distinct codes, multiplicity and group
    (n_items,), table of level indices (n_query_groups, n_groups), query_group (n_queries,), counts (n_queries, nbits +
    1, n_levels).
    """
    n_items = database.shape[1]
    n_distances, n_levels = counts.shape[1:]
    cell = np.empty(BLOCK, np.int32)
    for q in range(len(queries)):
        lanes = np.zeros((N_LANES, n_levels * n_distances), np.int64)
        level = table[query_group[q]]
        for start in range(0, n_items, BLOCK):
            size = min(BLOCK, n_items - start)
            block_distances(database, start, size, queries[q], cell)
            columns = group[start : start + size]
            for i in range(size):
                cell[i] += np.int32(level[np.uint64(columns[i])] * n_distances)
            _tally(cell, multiplicity[start : start + size], lanes)
        _add_lanes(lanes, counts[q])


# -- bit planes --------------------------------------------------------------------------------------------------------
#
# The distances of 256 items are binary numbers whose digits are planes, as in the search for many queries. The items at
# a distance are the bits of a mask, a conjunction of the digits or of their complements. Each byte of it has up to 8
# set bits, which are added to a byte of the counter of that distance: nine instructions with AVX2 for 256 items. Masks
# of eight distances that have no items are skipped, so that a query takes 1.4 instructions per item for 32 bits, and
# 2.5 for 64, where a scan takes about eight. A counter is emptied before its bytes overflow, or for another level.

PLANE_ITEMS = 64 * N_VECTOR  # items of a plane
PLANE_QUERIES = 64  # queries whose counters stay in the second-level cache
MAX_PLANE_BITS = 1023  # distances of 10 digits
_FULL = 31  # planes after which a byte of a counter can be full


def blocks_by_group(rows, group, n_groups, n_bytes):
    """Blocks of codes, see `blocks`, in the order of their groups: each group begins a new plane.

    Also the first plane of each group, with the end of the last one, and its numbers of places without an item.
    """
    sizes = np.bincount(group, minlength=n_groups)
    bounds = np.append(0, np.cumsum(-(-sizes // PLANE_ITEMS)))
    blocks = np.zeros((bounds[-1] * N_VECTOR, n_bytes, LANES), np.uint8)
    _fill_blocks(rows, group, bounds[:-1] * PLANE_ITEMS, blocks)
    return blocks, bounds, np.diff(bounds) * PLANE_ITEMS - sizes


@kernel
def _fill_blocks(rows, group, places, blocks):
    """Write codes to the next place of their group; `places` is changed."""
    for i in range(len(rows)):
        place = np.uint64(places[group[i]])
        places[group[i]] += 1
        for byte in range(blocks.shape[1]):
            blocks[place // np.uint64(LANES), byte, place % np.uint64(LANES)] = rows[i, byte]


def grouped_planes(queries, blocks, bounds, n_missing, table, query_group, counts):
    """Do the same as `hamming_histogram` for the results of `blocks_by_group`; `queries` are words."""
    n_bytes = blocks.shape[1]
    packed = np.ascontiguousarray(queries.view(np.uint8)[:, :n_bytes])
    _count_planes((8 * n_bytes).bit_length())(packed, blocks, bounds, n_missing, table, query_group, counts)


@cache
def _count_planes(n_digits: int) -> Any:
    """Kernel that does this for distances of so many digits."""

    def count(queries, blocks, bounds, n_missing, table, query_group, counts):
        n_queries, n_bytes = queries.shape
        n_steps, offsets, planes, variants = empty_variants(queries)
        counters = np.zeros((PLANE_QUERIES, 8 * (n_bytes + 1), 8 * N_VECTOR), np.uint8)
        levels, n_held = np.zeros(PLANE_QUERIES, np.int64), np.zeros(PLANE_QUERIES, np.int64)
        for first in range(0, n_queries, PLANE_QUERIES):
            last = min(first + PLANE_QUERIES, n_queries)
            for g in range(len(bounds) - 1):
                for plane in range(bounds[g], bounds[g + 1]):
                    fill_variants(blocks, N_VECTOR * plane, planes, variants)
                    for q in range(first, last):
                        level, own = np.int64(table[query_group[q], g]), q - first
                        if n_held[own] == _FULL or level != levels[own]:
                            _empty(counters[own], counts[q, :, levels[own]])
                            levels[own], n_held[own] = level, 0
                        n_held[own] += 1
                        picked, to = address(offsets[q]), address(counters[own])
                        count_variants(n_digits, address(variants), picked, n_steps, n_bytes + 1, to)
            for q in range(first, last):
                _empty(counters[q - first], counts[q, :, levels[q - first]])
                n_held[q - first], n_ones = 0, np.int64(0)
                for byte in queries[q]:
                    n_ones += np.int64(popcount(np.uint64(byte)))
                for g in range(len(n_missing)):  # places without an item hold the code of zeros
                    counts[q, n_ones, table[query_group[q], g]] -= n_missing[g]

    return kernel(count)


@nb.njit(nogil=True, error_model="numpy")
def _empty(counters, counts):
    """Add the counters of a query to the counts, and set them to 0."""
    for d in range(len(counts)):
        total = np.uint32(0)
        for byte in counters[d]:
            total += np.uint32(byte)
        counts[d] += total
    counters[:] = 0


# -- codes of at most 16 bits ------------------------------------------------------------------------------------------
#
# A code has an upper half h and a lower half x of 8 bits each. Of the items with one upper half, n_i(x, d) counts those
# whose lower half differs from x in d of the first i bits and in no other bit:
#
#     n_0(x, 0) = number of items (h, x)
#     n_{i+1}(x, d) = n_i(x, d) + n_i(x with bit i flipped, d - 1)
#
# A query (h', x') has n_8(x', d) items of each upper half h at distance d + popcount(h ^ h'). A query thus takes nine
# additions for each of the 256 upper halves, and none for an item.
#
# This counts the items of all levels. Those of the most frequent level are what remains after the items of the other
# levels, which are counted one by one, are subtracted.

SHORT_BITS = 16
HALF = 8  # bits of the lower half of a code
SIDE = 2**HALF  # values of a half


@kernel
def sort_by_group(codes, group, places, sorted_words):
    """Write the items in the order of their groups, of which group g begins at ``places[g]``; `places` is changed."""
    for i in range(len(codes)):
        place = places[group[i]]
        places[group[i]] = place + 1
        for w in range(len(sorted_words)):
            sorted_words[w, place] = codes[i, w]


@kernel
def grouped_words(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do the same as `short_histogram` for codes of one word, each read once for TEAM queries.

    All teams count a block of codes before the next one, so that it stays in the cache (`benchmarks/histogram.py`).
    """
    words, (n_queries, n_distances, n_levels) = database[0], counts.shape
    n_teams = max(1, MAX_VALUES // (TEAM_LANES * TEAM * n_levels * n_distances))
    lanes = np.empty((min(n_teams, -(-n_queries // TEAM)), TEAM_LANES, TEAM, n_levels * n_distances), np.int64)
    team, offsets = np.empty(TEAM, np.uint64), np.empty(TEAM, np.uint64)
    for first in range(0, n_queries, TEAM * len(lanes)):
        last = min(first + TEAM * len(lanes), n_queries)
        lanes[:] = 0
        for g in range(len(bounds) - 1):
            for start in range(bounds[g], bounds[g + 1], TEAM_BLOCK):
                stop = min(start + TEAM_BLOCK, bounds[g + 1])
                for t in range(first, last, TEAM):
                    _fill_team(queries, table[:, g], query_group, t, last, n_distances, team, offsets)
                    own = lanes[(t - first) // TEAM]
                    _tally_team(words[start:stop], multiplicity[start:stop], team, offsets, own)
        for q in range(first, last):
            _add_lanes(lanes[(q - first) // TEAM, :, (q - first) % TEAM], counts[q])


@kernel
def short_histogram(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do the same as `hamming_histogram` for codes of at most 16 bits in the order of their groups.

    ``bounds[g]`` is the first item of group g. `counts` must be zeros.
    """
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
                _fill_team(queries, table[:, g], query_group, first, last, n_distances, team, offsets)
                items = slice(bounds[g], bounds[g + 1])
                _tally_team(words[items], multiplicity[items], team, offsets, lanes)
        for q in range(first, last):
            _add_lanes(lanes[:, q - first], counts[q])
            counts[q, :, frequent[q]] = 0
            for d in range(n_distances):
                counts[q, d, frequent[q]] = totals[q, d] - counts[q, d].sum()


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _fill_team(queries, levels, query_group, first, last, n_distances, team, offsets):
    """Set the codes of the queries from `first` on, and the offsets of their levels for a group."""
    for j in range(TEAM):
        q = min(first + j, last - 1)  # a small last team repeats a query, whose counts are not used
        team[j], offsets[j] = queries[q, 0], levels[query_group[q]] * n_distances


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _tally_team(words, items, team, offsets, lanes):
    qa, qb, qc, qd = team[0], team[1], team[2], team[3]
    a, b, c, d = offsets[0], offsets[1], offsets[2], offsets[3]
    whole = len(words) // TEAM_LANES * TEAM_LANES
    for i in range(0, whole, TEAM_LANES):
        for lane in range(TEAM_LANES):
            word, n = words[i + lane], items[i + lane]
            lanes[lane, 0, a + popcount(word ^ qa)] += n
            lanes[lane, 1, b + popcount(word ^ qb)] += n
            lanes[lane, 2, c + popcount(word ^ qc)] += n
            lanes[lane, 3, d + popcount(word ^ qd)] += n
    for i in range(whole, len(words)):
        word, n = words[i], items[i]
        lanes[0, 0, a + popcount(word ^ qa)] += n
        lanes[0, 1, b + popcount(word ^ qb)] += n
        lanes[0, 2, c + popcount(word ^ qc)] += n
        lanes[0, 3, d + popcount(word ^ qd)] += n


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
    for i in range(len(items)):
        grid[words[i] >> half, words[i] & mask] += items[i]
    totals = np.zeros((len(queries), SHORT_BITS + 1), np.int64)
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
    """Set ``near[d + 1, x]`` and ``of_query[x, d]`` to the number of items at distance d of x; ``near[0]`` is 0."""
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


# -- weighted distances ------------------------------------------------------------------------------------------------


@kernel
def distance_keys(queries, database, table, own, group, levels, query_group, shift, keys):
    """Write ``distance << shift | level`` of each query and item into `keys`, of shape (n_queries, n_items).

    `table` has the weight of the differing bits of each byte of a code, `own` the item that a query leaves out (then
    `keys` has one column less) or -1, and ``levels[query_group[i], group[j]]`` the level.
    """
    for i in range(len(queries)):
        level, place = levels[query_group[i]], 0
        for j in range(len(database)):
            if j == own[i]:
                continue
            total = np.int64(0)
            for byte in range(len(table)):
                total += table[byte, queries[i, byte] ^ database[j, byte]]
            keys[i, place] = (total << shift) | np.int64(level[group[j]])
            place += 1


@kernel
def count_ties(keys, shift, n_ties):
    """Write the number of distinct distances of each query into `n_ties`; the keys of a query must ascend."""
    for i in range(len(keys)):
        n_ties[i], last = 0, np.int64(-1)
        for key in keys[i]:
            if key >> shift != last:
                last = key >> shift
                n_ties[i] += 1


@kernel
def fill_ties(keys, shift, unit, starts, counts, distances):
    """Write the ties of each query from ``starts[i]`` on: ``distance * unit``, and the number of items by level."""
    for i in range(len(keys)):
        tie, last = starts[i] - 1, np.int64(-1)
        for key in keys[i]:
            distance = key >> shift
            if distance != last:
                tie += 1
                last = distance
                distances[tie] = distance * unit
            counts[tie, key - (distance << shift)] += 1
