"""Compiled kernels of relevance histograms: how many items of each level are at each distance of a query."""

import numba as nb
import numpy as np

from skhash._hamming_kernels import BLOCK, block_distances, popcount

LANES = 4  # interleaved histograms, so that additions to the same place do not wait for each other
TEAM = 4  # queries of one pass over the codes
TEAM_LANES = 2  # interleaved histograms of each query of a team
TEAM_BLOCK = 4096  # codes of a block that all teams count
MAX_VALUES = 2**17  # values in the histograms of all teams
PAIR_BLOCK = 2**16  # codes of a block that is counted in pairs, which stays in the second-level cache
BYTE = 256  # number of distances that a byte can hold


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _tally(cell, offset, items, lanes):
    whole = len(items) // LANES * LANES
    for i in range(0, whole, LANES):
        for lane in range(LANES):
            lanes[lane, np.uint64(offset + cell[i + lane])] += items[i + lane]
    for i in range(whole, len(items)):
        lanes[0, np.uint64(offset + cell[i])] += items[i]


@nb.njit(nogil=True, error_model="numpy", inline="always")
def add_lanes(lanes, counts):
    n_distances, n_levels = counts.shape
    for d in range(n_distances):
        for v in range(n_levels):
            for lane in range(len(lanes)):
                counts[d, v] += lanes[lane, v * n_distances + d]


@nb.njit(nogil=True, cache=True, error_model="numpy")
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
        add_lanes(lanes, counts[q])


@nb.njit(nogil=True, cache=True, error_model="numpy")
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
        add_lanes(lanes, counts[q])


@nb.njit(nogil=True, cache=True, error_model="numpy")
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
                    fill_team(queries, table[:, g], query_group, t, last, n_distances, team, offsets)
                    own = lanes[(t - first) // TEAM]
                    tally_team(words[start:stop], multiplicity[start:stop], team, offsets, own)
        for q in range(first, last):
            add_lanes(lanes[(q - first) // TEAM, :, (q - first) % TEAM], counts[q])


@nb.njit(nogil=True, cache=True, error_model="numpy")
def paired_histogram(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do the same as `grouped_histogram` for distances below 256 and multiplicities of 1, which are not read.

    The distances of two successive items are one index into a table, so that one addition counts both
    (`benchmarks/histogram.py`).
    """
    n_items, (n_queries, n_distances, n_levels) = database.shape[1], counts.shape
    pairs = np.zeros((n_levels, n_distances * BYTE), np.int32)
    distances = np.empty(BLOCK, np.uint8)
    indices = distances.view(np.uint16)
    size = -(-n_items // -(-n_items // PAIR_BLOCK))  # blocks of nearly equal size
    for begin in range(0, n_items, size):
        for q in range(n_queries):
            level = table[query_group[q]]
            for g in range(len(level)):
                last = min(bounds[g + 1], begin + size)
                for start in range(max(bounds[g], begin), last, BLOCK):
                    n = min(BLOCK, last - start)
                    block_distances(database, start, n, queries[q], distances)
                    if n % 2:
                        counts[q, distances[n - 1], level[g]] += 1
                    _count_pairs(indices[: n // 2], pairs[level[g]])
            for v in range(n_levels):
                _move_pairs(pairs[v], counts[q, :, v])


@nb.njit(nogil=True, error_model="numpy")
def _count_pairs(indices, pairs):
    for i in range(len(indices)):
        pairs[indices[i]] += np.int32(1)


@nb.njit(nogil=True, error_model="numpy")
def _move_pairs(pairs, counts):
    """Add both distances of each pair to the counts, and set the pairs to 0."""
    n_distances = len(counts)
    seconds = np.zeros(n_distances, np.int32)
    for d in range(n_distances):
        row, n_firsts = pairs[BYTE * d : BYTE * d + n_distances], np.int32(0)
        for other in range(n_distances):
            n_firsts += row[other]
            seconds[other] += row[other]
            row[other] = 0
        counts[d] += n_firsts
    for d in range(n_distances):
        counts[d] += seconds[d]


@nb.njit(nogil=True, cache=True, error_model="numpy")
def order_by_group(words, group, places, ordered):
    """Write codes of shape (n_words, n_items) into `ordered`, sorted by group.

    `places` has the place of the first item of each group, and is changed.
    """
    for i in range(len(group)):
        place = places[group[i]]
        places[group[i]] = place + 1
        for w in range(len(words)):
            ordered[w, place] = words[w, i]


@nb.njit(nogil=True, error_model="numpy", inline="always")
def fill_team(queries, levels, query_group, first, last, n_distances, team, offsets):
    """Set the codes of the queries from `first` on, and the offsets of their levels for a group."""
    for j in range(TEAM):
        q = min(first + j, last - 1)  # a small last team repeats a query, whose counts are not used
        team[j], offsets[j] = queries[q, 0], levels[query_group[q]] * n_distances


@nb.njit(nogil=True, error_model="numpy", inline="always")
def tally_team(words, items, team, offsets, lanes):
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
