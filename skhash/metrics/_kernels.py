"""Compiled kernels that count: how many items of each level are at each distance of a query."""

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from skhash._compiler import kernel
from skhash.codes.bit_kernels import BLOCK, block_distances, popcount
from skhash.codes.vector_instructions import BYTE, WORD, address, in_all_lanes, load, store, table_lookup

LANES = 4  # interleaved histograms, so that additions to the same place do not wait for each other
TEAM = 4  # queries of one pass over the codes
TEAM_LANES = 2  # interleaved histograms of each query of a team
TEAM_BLOCK = 4096  # codes of a block that all teams count
MAX_VALUES = 2**17  # values in the histograms of all teams


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _tally(cell, offset, items, lanes):
    whole = len(items) // LANES * LANES
    for i in range(0, whole, LANES):
        for lane in range(LANES):
            lanes[lane, np.uint64(offset + cell[i + lane])] += items[i + lane]
    for i in range(whole, len(items)):
        lanes[0, np.uint64(offset + cell[i])] += items[i]


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
        lanes = np.zeros((LANES, n_levels * n_distances), np.int64)
        level = table[query_group[q]]
        for start in range(0, n_items, BLOCK):
            size = min(BLOCK, n_items - start)
            block_distances(database, start, size, queries[q], cell)
            columns = group[start : start + size]
            for i in range(size):
                cell[i] += np.int32(level[np.uint64(columns[i])] * n_distances)
            _tally(cell, 0, multiplicity[start : start + size], lanes)
        _add_lanes(lanes, counts[q])


@kernel
def grouped_histogram(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do the same as `hamming_histogram` for items sorted by group; ``bounds[g]`` is the first item of group g."""
    n_distances, n_levels = counts.shape[1:]
    distances = np.empty(BLOCK, np.int32)
    for q in range(len(queries)):
        lanes = np.zeros((LANES, n_levels * n_distances), np.int64)
        level = table[query_group[q]]
        for g in range(len(level)):
            offset = np.int64(level[g]) * n_distances
            for start in range(bounds[g], bounds[g + 1], BLOCK):
                size = min(BLOCK, bounds[g + 1] - start)
                block_distances(database, start, size, queries[q], distances)
                _tally(distances, offset, multiplicity[start : start + size], lanes)
        _add_lanes(lanes, counts[q])


@kernel
def sort_by_group(words, group, places, sorted_words):
    """Write the items in the order of their groups, of which group g begins at ``places[g]``; `places` is changed."""
    for i in range(words.shape[1]):
        place = places[group[i]]
        places[group[i]] = place + 1
        for w in range(len(words)):
            sorted_words[w, place] = words[w, i]


@kernel
def grouped_words(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do the same as `grouped_histogram` for codes of one word, each read once for TEAM queries.

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


# -- pairs of items ----------------------------------------------------------------------------------------------------
#
# A plane holds four bits of 128 items, one byte each. All queries of a block of items share the planes. How many of
# these bits differ from those of a query is looked up in 16 bytes: two instructions, a lookup and an addition, for 16
# to 64 items and four bits; for 64 bits that is one instruction per item with AVX2. The distances are bytes, so that
# those of two neighbors, read as one number of 16 bits, are the place of a counter, to which 1 is added: a load and an
# addition for both. After each block the margins of the counters of a level are the numbers of items. Codes of one word
# are counted as fast by `grouped_words`, and those of four words by `grouped_histogram`.

PAIR_STEP = 128  # items of a plane
PAIR_CHUNK = 1024  # items whose distances stay in the first-level cache
PAIR_BLOCK = 2**14  # items whose planes stay in the second-level cache; a counter has 32 bits
SIDE_OF_PAIRS = 256  # distances of less than a byte
_PART = 64  # items of a plane that are made at once


def _split_byte(typingctx, words, shift, planes):
    """Store both halves of the byte from bit `shift` on of 64 words in two planes; the others are addresses."""

    def codegen(context, builder, signature, args):
        words, planes = ir.VectorType(WORD, _PART), ir.VectorType(BYTE, _PART)
        items = load(builder, words, args[0])
        byte = builder.trunc(builder.lshr(items, in_all_lanes(builder, args[1], _PART)), planes)
        for half, value in enumerate(
            (builder.and_(byte, planes([15] * _PART)), builder.lshr(byte, planes([4] * _PART)))
        ):
            store(builder, value, args[2], PAIR_STEP * half)
        return context.get_dummy_value()

    return types.void(*[types.uint64] * 3), codegen


def _sum_halves(typingctx, planes, tables, n_bytes, distances):
    """Store the distances of the items of some planes, of which each byte of a code has two, from their addresses."""

    def codegen(context, builder, signature, args):
        planes, tables, n_bytes, distances = args
        size, look_up = table_lookup(context, builder)
        items, table = ir.VectorType(BYTE, size), ir.VectorType(BYTE, 16)

        sums = [cgutils.alloca_once_value(builder, items([0] * size)) for _ in range(PAIR_STEP // size)]
        with cgutils.for_range(builder, n_bytes, intp=WORD) as loop:
            here = builder.add(planes, builder.mul(loop.index, WORD(2 * PAIR_STEP)))
            own = builder.add(tables, builder.mul(loop.index, WORD(2 * 16)))
            for half in range(2):
                values = load(builder, table, own, 16 * half)
                for part, total in enumerate(sums):
                    indices = load(builder, items, here, PAIR_STEP * half + size * part)
                    builder.store(builder.add(builder.load(total), look_up(values, indices)), total)
        for part, total in enumerate(sums):
            store(builder, builder.load(total), distances, size * part)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.int64, types.uint64), codegen


split_byte: Any = intrinsic(_split_byte)
sum_halves: Any = intrinsic(_sum_halves)


@kernel
def grouped_pairs(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do the same as `grouped_histogram` for codes of at most 255 bits, each of multiplicity 1.

    The database has at least PAIR_STEP - 1 more items, which are not counted.
    """
    n_queries, n_distances, n_levels = counts.shape
    n_bytes, n_items, n_groups = (n_distances + 6) // 8, bounds[-1], table.shape[1]
    planes = np.empty((PAIR_BLOCK // PAIR_STEP, 2 * n_bytes, PAIR_STEP), np.uint8)
    tables, distances = _tables_of(queries, n_bytes), np.empty(PAIR_CHUNK, np.uint8)
    pairs = np.zeros((n_levels, n_distances * SIDE_OF_PAIRS), np.uint32)
    is_used, block_group = np.zeros(n_levels, np.bool_), 0
    for start in range(0, n_items, PAIR_BLOCK):
        stop = min(start + PAIR_BLOCK, n_items)
        _fill_planes(database, start, stop, n_bytes, planes)
        while bounds[block_group + 1] <= start:
            block_group += 1
        for q in range(n_queries):
            g, level, low, high = block_group, table[query_group[q]], n_distances, 0
            for chunk in range(start, stop, PAIR_CHUNK):
                end = min(chunk + PAIR_CHUNK, stop)
                _fill_distances(planes, chunk - start, end - start, tables, q, distances)
                nearest, farthest = _range_of(distances[: end - chunk])
                low, high, first = min(low, nearest), max(high, farthest), chunk
                while first < end:  # a run of items of the same level
                    while bounds[g + 1] <= first:
                        g += 1
                    v = np.int64(level[g])
                    while g + 1 < n_groups and bounds[g + 1] < end and level[g + 1] == v:
                        g += 1
                    last = min(bounds[g + 1], end)
                    if (last - first) % 2:
                        counts[q, distances[first - chunk], v] += 1
                        first += 1
                    two = distances[first - chunk : last - chunk].view(np.uint16)
                    for i in range(len(two)):
                        pairs[v, np.uint64(two[i])] += np.uint32(1)
                    is_used[v], first = True, last
            for used in range(n_levels):
                if is_used[used]:
                    _add_margins(pairs[used], low, high, counts[q, :, used])
                    is_used[used] = False


@nb.njit(nogil=True, error_model="numpy")
def _tables_of(queries, n_bytes):
    """Numbers of differing bits of each half of a byte of each query, and of the 16 values of that half."""
    tables = np.empty((len(queries), 2 * n_bytes, 16), np.uint8)
    for q in range(len(queries)):
        for half in range(2 * n_bytes):
            own = queries[q, half // 16] >> np.uint64(4 * (half % 16)) & np.uint64(15)
            for value in range(16):
                tables[q, half, value] = np.uint8(popcount(np.uint64(value) ^ own))
    return tables


@nb.njit(nogil=True, error_model="numpy")
def _fill_planes(database, start, stop, n_bytes, planes):
    """Set the planes of the items of a block."""
    place, n = address(planes), database.shape[1]
    for first in range(start, stop, PAIR_STEP):
        for byte in range(n_bytes):
            words = address(database) + np.uint64(8 * (byte // 8 * n + first))
            for part in range(0, PAIR_STEP, _PART):
                split_byte(words + np.uint64(8 * part), np.uint64(byte % 8 * 8), place + np.uint64(part))
            place += np.uint64(2 * PAIR_STEP)


@nb.njit(nogil=True, error_model="numpy")
def _fill_distances(planes, first, last, tables, q, distances):
    """Set the distances of a query from the items of a chunk."""
    n_halves = tables.shape[1]
    own, to = address(tables) + np.uint64(16 * n_halves * q), address(distances)
    here = address(planes) + np.uint64(first * n_halves)
    for _ in range(first, last, PAIR_STEP):
        sum_halves(here, own, n_halves // 2, to)
        here, to = here + np.uint64(PAIR_STEP * n_halves), to + np.uint64(PAIR_STEP)


@nb.njit(nogil=True, error_model="numpy")
def _range_of(distances):
    """Smallest and largest distance."""
    low, high = np.uint8(255), np.uint8(0)
    for distance in distances:
        low, high = min(low, distance), max(high, distance)
    return np.int64(low), np.int64(high)


@nb.njit(nogil=True, error_model="numpy")
def _add_margins(pairs, low, high, counts):
    """Add both margins of the counters of pairs in a range of distances to the counts, and set the counters to 0."""
    first = low // 16 * 16  # whole vectors
    of_columns = np.zeros((high - first + 16) // 16 * 16, np.uint32)
    for d in range(low, high + 1):
        start, total = SIDE_OF_PAIRS * d + first, np.uint32(0)
        row = pairs[start : start + len(of_columns)]
        for i in range(len(of_columns)):
            of_columns[i] += row[i]
            total += row[i]
            row[i] = 0
        counts[d] += total
    for d in range(low, high + 1):
        counts[d] += of_columns[d - first]


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
                _fill_team(queries, table[:, g], query_group, first, last, n_distances, team, offsets)
                items = slice(bounds[g], bounds[g + 1])
                _tally_team(words[items], multiplicity[items], team, offsets, lanes)
        for q in range(first, last):
            _add_lanes(lanes[:, q - first], counts[q])
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
