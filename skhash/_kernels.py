"""Compiled kernels on codes, imported at first use. They release the GIL: `run_in_slices` spreads them over threads."""

from typing import Any

import numba as nb
import numpy as np
from numba.extending import intrinsic

BLOCK = 1024  # database codes whose distances stay in the first-level cache
SUB_BLOCK = 64  # distances that a search skips together when none of them is near enough
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


def byte_table(values):
    """Sum of the values of the set bits, for every pattern of every byte.

    Parameters
    ----------
    values : integer array of shape (..., nbits)
        Values of the bits.

    Returns
    -------
    integer array of shape (..., n_bytes, 256)
        The table.
    """
    patterns = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    *shape, nbits = values.shape
    n_bytes = -(-nbits // 8)
    padded = np.zeros((*shape, n_bytes * 8), dtype=values.dtype)
    padded[..., :nbits] = values
    return np.ascontiguousarray(padded.reshape(*shape, n_bytes, 8) @ patterns.T)


@nb.njit(nogil=True, cache=True)
def byte_table_distances(packed_a, packed_b, table, distances):
    """Sum ``table[byte, a ^ b]`` over the bytes of every pair of packed codes, into `distances`."""
    for i in range(len(packed_a)):
        for j in range(len(packed_b)):
            total = np.int64(0)
            for byte in range(packed_a.shape[1]):
                total += table[byte, packed_a[i, byte] ^ packed_b[j, byte]]
            distances[i, j] = total


@nb.njit(nogil=True, error_model="numpy")
def _keep_nearest(distances, indices, size, k):
    """Keep the k nearest of the first `size` candidates in their order; of equal ones, the first.

    Returns how many are kept, the largest distance among them, and how many at this distance are left out.
    """
    bound = np.partition(distances[:size], k - 1)[k - 1]
    nearer, equal = 0, 0
    for i in range(size):
        nearer += distances[i] < bound
        equal += distances[i] == bound
    kept, left = 0, k - nearer
    for i in range(size):
        distance = distances[i]
        if distance < bound or (distance == bound and left > 0):
            left -= distance == bound
            distances[kept] = distance
            indices[kept] = indices[i]
            kept += 1
    return kept, bound, equal - (k - nearer)


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _offer(block, start, bound, k, distances, indices, state):
    """Add the items of a block that are nearer than `bound` to the candidates of one query; the new bound.

    ``state`` is how many candidates there are, and how many items at the distance of the bound are left out.
    """
    n_items = len(block)
    for first in range(0, n_items, SUB_BLOCK):
        last = min(first + SUB_BLOCK, n_items)
        lowest = block[first]
        for i in range(first, last):  # from the first on, so that the loop is vectorized
            lowest = min(lowest, block[i])
        if lowest > bound:
            continue
        size = state[0]
        for i in range(first, last):
            if block[i] < bound:
                distances[size] = block[i]
                indices[size] = start + i
                size += 1
            elif block[i] == bound:
                state[1] += 1
        if size > len(distances) - SUB_BLOCK:
            size, nearest, left_out = _keep_nearest(distances, indices, size, k)
            state[1] = left_out + (state[1] if nearest == bound else 0)
            bound = nearest
        state[0] = size
    return bound


@nb.njit(nogil=True, error_model="numpy")
def _finish(k, bound, distances, indices, state, nearest_distances, nearest_indices):
    """Sort the candidates of one query, the lowest index first among equals; how many tie with the last."""
    kept, last, left_out = _keep_nearest(distances, indices, state[0], k)
    left_out += state[1] if last == bound else 0
    order = np.argsort(distances[:kept], kind="mergesort")
    n_ties = left_out
    for i in range(kept):
        nearest_distances[i] = distances[order[i]]
        nearest_indices[i] = indices[order[i]]
        n_ties += distances[i] == last
    return n_ties


@nb.njit(nogil=True, cache=True, error_model="numpy")
def nearest_codes(queries, database, first, last, nearest_distances, nearest_indices, n_ties):
    """Find the codes nearest to each query, among the database items from `first` to `last`.

    The database streams once for all queries, in blocks that stay in the cache.

    Parameters
    ----------
    queries : uint64 array of shape (n_queries, n_words)
        Query codes.
    database : uint64 array of shape (n_items, n_words)
        Database codes.
    first, last : int
        Items to search; at least k of them.
    nearest_distances : int32 array of shape (n_queries, k)
        Receives the distances, ascending.
    nearest_indices : int64 array of shape (n_queries, k)
        Receives the items; the lowest index first among equal distances.
    n_ties : int64 array of shape (n_queries,)
        Receives how many items have the distance of the k-th one.
    """
    n_queries, n_words = queries.shape
    k = nearest_distances.shape[1]
    distances = np.empty((n_queries, 2 * k + 2 * SUB_BLOCK), np.int32)
    indices = np.empty(distances.shape, np.int64)
    bounds = np.full(n_queries, 64 * n_words + 1, np.int32)
    states = np.zeros((n_queries, 2), np.int64)
    words, block = np.empty((n_words, BLOCK), np.uint64), np.empty(BLOCK, np.int32)
    for start in range(first, last, BLOCK):
        size = min(BLOCK, last - start)
        for i in range(size):
            for w in range(n_words):
                words[w, i] = database[start + i, w]
        for q in range(n_queries):
            _word_distances(words, queries[q], block[:size])
            bounds[q] = _offer(block[:size], start, bounds[q], k, distances[q], indices[q], states[q])
    for q in range(n_queries):
        found = nearest_distances[q], nearest_indices[q]
        n_ties[q] = _finish(k, bounds[q], distances[q], indices[q], states[q], *found)


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _word_distances(words, query, block):
    """Hamming distances of a block of word-major codes, four words at a time so that sums stay in registers."""
    n_words = len(query)
    whole = n_words // 4 * 4
    for w in range(0, whole, 4):
        a, b, c, d = words[w], words[w + 1], words[w + 2], words[w + 3]
        qa, qb, qc, qd = query[w], query[w + 1], query[w + 2], query[w + 3]
        for i in range(len(block)):
            n_bits = popcount(a[i] ^ qa) + popcount(b[i] ^ qb) + popcount(c[i] ^ qc) + popcount(d[i] ^ qd)
            block[i] = np.int32(n_bits) + (block[i] if w > 0 else 0)
    for w in range(whole, n_words):
        a, qa = words[w], query[w]
        if w == 0:
            for i in range(len(block)):
                block[i] = np.int32(popcount(a[i] ^ qa))
        else:
            for i in range(len(block)):
                block[i] += np.int32(popcount(a[i] ^ qa))


@nb.njit(nogil=True, cache=True, error_model="numpy")
def nearest_by_tables(tables, database, first, last, nearest_distances, nearest_indices, n_ties):
    """Do what `nearest_codes` does for distances that are sums over the bytes of a code.

    Parameters
    ----------
    tables : int32 or int64 array of shape (n_queries, n_bytes, 256)
        What each value of each byte adds to the distance from each query.
    database : uint8 array of shape (n_items, >= n_bytes)
        Packed codes.
    first, last : int
        Items to search; at least k of them.
    nearest_distances : array of shape (n_queries, k), of the dtype of `tables`
        Receives the distances, ascending.
    nearest_indices, n_ties : array
        As there.
    """
    n_queries, n_bytes, _ = tables.shape
    k = nearest_distances.shape[1]
    distances = np.empty((n_queries, 2 * k + 2 * SUB_BLOCK), tables.dtype)
    indices = np.empty(distances.shape, np.int64)
    bounds = np.full(n_queries, np.iinfo(tables.dtype).max, tables.dtype)
    states = np.zeros((n_queries, 2), np.int64)
    block = np.empty(BLOCK, tables.dtype)
    for start in range(first, last, BLOCK):
        size = min(BLOCK, last - start)
        for q in range(n_queries):
            table = tables[q]
            for i in range(size):
                total = table[0, database[start + i, 0]]
                for byte in range(1, n_bytes):
                    total += table[byte, database[start + i, byte]]
                block[i] = total
            bounds[q] = _offer(block[:size], start, bounds[q], k, distances[q], indices[q], states[q])
    for q in range(n_queries):
        found = nearest_distances[q], nearest_indices[q]
        n_ties[q] = _finish(k, bounds[q], distances[q], indices[q], states[q], *found)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def nearest_by_estimates(
    tables, units, slopes, offsets, constants, database, first, last, nearest_distances, nearest_indices, n_ties
):
    """Do what `nearest_by_tables` does for estimates, ``constant + offset + slope * (sum * unit)``.

    Parameters
    ----------
    tables : int32 array of shape (n_queries, n_bytes, 256)
        As there.
    units, constants : float64 array of shape (n_queries,)
        Terms of the queries.
    slopes, offsets : float64 array of shape (n_items,)
        Terms of the items.
    database, first, last, nearest_distances, nearest_indices, n_ties
        As there; the distances are float64.
    """
    n_queries, n_bytes, _ = tables.shape
    k = nearest_distances.shape[1]
    distances = np.empty((n_queries, 2 * k + 2 * SUB_BLOCK))
    indices = np.empty(distances.shape, np.int64)
    bounds = np.full(n_queries, np.inf)
    states = np.zeros((n_queries, 2), np.int64)
    block = np.empty(BLOCK)
    for start in range(first, last, BLOCK):
        size = min(BLOCK, last - start)
        for q in range(n_queries):
            table = tables[q]
            for i in range(size):
                item = start + i
                total = table[0, database[item, 0]]
                for byte in range(1, n_bytes):
                    total += table[byte, database[item, byte]]
                block[i] = constants[q] + offsets[item] + slopes[item] * (total * units[q])
            bounds[q] = _offer(block[:size], start, bounds[q], k, distances[q], indices[q], states[q])
    for q in range(n_queries):
        found = nearest_distances[q], nearest_indices[q]
        n_ties[q] = _finish(k, bounds[q], distances[q], indices[q], states[q], *found)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def table_distances(tables, database, indices, distances):
    """Distances of chosen items by `tables` as in `nearest_by_tables`, into `distances` of the shape of `indices`."""
    for q in range(len(tables)):
        for i in range(indices.shape[1]):
            total = tables[q, 0, database[indices[q, i], 0]]
            for byte in range(1, tables.shape[1]):
                total += tables[q, byte, database[indices[q, i], byte]]
            distances[q, i] = total


@nb.njit(nogil=True, cache=True)
def distance_keys(queries, database, table, own, group, levels, query_group, shift, keys):
    """Write ``distance << shift | level`` of every query and item into `keys`: sorted, they are rankings.

    Parameters
    ----------
    queries, database : uint8 arrays of shape (n_queries, n_bytes) and (n_items, n_bytes)
        Packed codes.
    table : int64 array of shape (n_bytes, 256)
        Weight of every pattern of differing bits of every byte.
    own : int64 array of shape (n_queries,)
        Item that is left out of the ranking of each query; -1 for none.
    group : int64 array of shape (n_items,)
        Column of `levels` of each item.
    levels : uint32 array of shape (n_query_groups, n_groups)
        Index of the affinity level.
    query_group : int64 array of shape (n_queries,)
        Row of `levels` of each query.
    shift : int
        Number of bits of an index of a level.
    keys : int64 array of shape (n_queries, n_items), or with one item less
        Changed in place.
    """
    for i in range(len(queries)):
        level, place = levels[query_group[i]], 0
        for j in range(len(database)):
            if j == own[i]:
                continue
            total = np.int64(0)
            for byte in range(queries.shape[1]):
                total += table[byte, queries[i, byte] ^ database[j, byte]]
            keys[i, place] = (total << shift) | np.int64(level[group[j]])
            place += 1


@nb.njit(nogil=True, cache=True)
def count_ties(keys, shift, n_ties):
    """Write the number of distinct distances of each query into `n_ties`; `keys` ascend in each row."""
    for i in range(len(keys)):
        n_ties[i], last = 0, np.int64(-1)
        for key in keys[i]:
            if key >> shift != last:
                last = key >> shift
                n_ties[i] += 1


@nb.njit(nogil=True, cache=True)
def fill_ties(keys, shift, unit, starts, counts, distances):
    """Write the ties of each query from ``starts[i]`` on: ``distance * unit``, and their items by level."""
    for i in range(len(keys)):
        tie, last = starts[i] - 1, np.int64(-1)
        for key in keys[i]:
            distance = key >> shift
            if distance != last:
                tie += 1
                last = distance
                distances[tie] = distance * unit
            counts[tie, key - (distance << shift)] += 1
