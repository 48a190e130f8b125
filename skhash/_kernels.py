"""Compiled kernels on codes, imported at first use. They release the GIL: `run_in_slices` spreads them over threads."""

from typing import Any

import numba as nb
import numpy as np
from numba.extending import intrinsic

BLOCK = 1024  # database codes whose distances stay in the first-level cache
LANES = 4  # interleaved histograms, so that equal neighbours do not wait for each other


def _popcount(typingctx, word):
    """Number of set bits of one machine word (a single instruction)."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return word(word), codegen


popcount: Any = intrinsic(_popcount)


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _block_distances(database, start, stop, query, distances):
    for w in range(len(query)):
        word = query[w]
        words = database[w, start:stop]
        if w == 0:
            for i in range(stop - start):
                distances[i] = np.uint32(popcount(words[i] ^ word))
        else:
            for i in range(stop - start):
                distances[i] += np.uint32(popcount(words[i] ^ word))


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
            for lane in range(LANES):
                counts[d, v] += lanes[lane, v * n_distances + d]


@nb.njit(nogil=True, cache=True, error_model="numpy")
def hamming_histogram(queries, database, multiplicity, group, table, query_group, counts):
    """Add to ``counts[q, d, level]`` the database items at distance d of query q.

    Parameters
    ----------
    queries : uint64 array of shape (n_queries, n_words)
        Query codes.
    database : uint64 array of shape (n_words, n_items)
        Distinct database codes, word-major.
    multiplicity : int64 array of shape (n_items,)
        How many items share each code.
    group : uint32 array of shape (n_items,)
        Column of `table` that holds an item's level.
    table : uint32 array of shape (n_query_groups, n_groups)
        Index of the affinity level.
    query_group : int64 array of shape (n_queries,)
        Row of `table` of each query.
    counts : int64 array of shape (n_queries, nbits + 1, n_levels)
        Changed in place.
    """
    n_items = database.shape[1]
    n_distances, n_levels = counts.shape[1:]
    for q in range(len(queries)):
        lanes = np.zeros((LANES, n_levels * n_distances), np.int64)
        cell = np.empty(BLOCK, np.uint32)
        level = table[query_group[q]]
        for start in range(0, n_items, BLOCK):
            stop = min(start + BLOCK, n_items)
            _block_distances(database, start, stop, queries[q], cell)
            columns = group[start:stop]
            for i in range(stop - start):
                cell[i] += level[np.uint64(columns[i])] * np.uint32(n_distances)
            _tally(cell, np.uint32(0), multiplicity[start:stop], lanes)
        _add_lanes(lanes, counts[q])


@nb.njit(nogil=True, cache=True, error_model="numpy")
def grouped_histogram(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do what `hamming_histogram` does for a database in the order of its groups, which looks no level up.

    Parameters
    ----------
    queries, database, multiplicity, table, query_group, counts : array
        As there.
    bounds : int64 array of shape (n_groups + 1,)
        Where the items of each group begin, and the end of the last.
    """
    n_distances, n_levels = counts.shape[1:]
    for q in range(len(queries)):
        lanes = np.zeros((LANES, n_levels * n_distances), np.int64)
        distances = np.empty(BLOCK, np.uint32)
        level = table[query_group[q]]
        for g in range(len(level)):
            offset = np.uint32(level[g] * n_distances)
            for start in range(bounds[g], bounds[g + 1], BLOCK):
                stop = min(start + BLOCK, bounds[g + 1])
                _block_distances(database, start, stop, queries[q], distances)
                _tally(distances, offset, multiplicity[start:stop], lanes)
        _add_lanes(lanes, counts[q])


@nb.njit(nogil=True, cache=True)
def byte_table_distances(packed_a, packed_b, table, distances):
    """Sum ``table[byte, a ^ b]`` over the bytes of every pair of packed codes, into `distances`."""
    for i in range(len(packed_a)):
        for j in range(len(packed_b)):
            total = np.int64(0)
            for byte in range(packed_a.shape[1]):
                total += table[byte, packed_a[i, byte] ^ packed_b[j, byte]]
            distances[i, j] = total
