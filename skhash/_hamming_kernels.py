"""Compiled kernels that count differing bits: histograms of distances, and the nearest codes."""

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

BLOCK = 1024  # codes whose distances stay in the first-level cache
SUB_BLOCK = 256  # codes that a search skips together when none of them is near enough; divides BLOCK
LANES = 4  # interleaved histograms, so that equal neighbors do not wait for each other
TEAM = 4  # queries of one pass over the codes, each with histograms of its own
TEAM_LANES = 2  # histograms of each of them
TEAM_BLOCK = 4096  # codes that all teams count before the next ones
MAX_VALUES = 2**17  # of the histograms of all teams
FAR = np.int32(2**30)  # more than any distance


def _popcount(typingctx, word):
    """Number of set bits of one machine word (a single instruction)."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return word(word), codegen


popcount: Any = intrinsic(_popcount)


def in_all_lanes(builder, value, n_lanes):
    """A vector with a value in each of its lanes, for code that is generated."""
    vector = builder.insert_element(ir.VectorType(value.type, n_lanes)(ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(vector, vector, ir.VectorType(ir.IntType(32), n_lanes)([0] * n_lanes))


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _block_distances(words, start, n_items, query, distances):
    """Distances of word-major codes from `start` on, four words at a time so that sums stay in registers."""
    n_words = len(query)
    whole = n_words // 4 * 4
    for w in range(0, whole, 4):
        a, b = words[w, start : start + n_items], words[w + 1, start : start + n_items]
        c, d = words[w + 2, start : start + n_items], words[w + 3, start : start + n_items]
        qa, qb, qc, qd = query[w], query[w + 1], query[w + 2], query[w + 3]
        if w == 0:
            for i in range(n_items):
                n_bits = popcount(a[i] ^ qa) + popcount(b[i] ^ qb) + popcount(c[i] ^ qc) + popcount(d[i] ^ qd)
                distances[i] = np.int32(n_bits)
        else:
            for i in range(n_items):
                n_bits = popcount(a[i] ^ qa) + popcount(b[i] ^ qb) + popcount(c[i] ^ qc) + popcount(d[i] ^ qd)
                distances[i] += np.int32(n_bits)
    for w in range(whole, n_words):
        a, qa = words[w, start : start + n_items], query[w]
        if w == 0:
            for i in range(n_items):
                distances[i] = np.int32(popcount(a[i] ^ qa))
        else:
            for i in range(n_items):
                distances[i] += np.int32(popcount(a[i] ^ qa))


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
    cell = np.empty(BLOCK, np.int32)
    for q in range(len(queries)):
        lanes = np.zeros((LANES, n_levels * n_distances), np.int64)
        level = table[query_group[q]]
        for start in range(0, n_items, BLOCK):
            size = min(BLOCK, n_items - start)
            _block_distances(database, start, size, queries[q], cell)
            columns = group[start : start + size]
            for i in range(size):
                cell[i] += np.int32(level[np.uint64(columns[i])] * n_distances)
            _tally(cell, 0, multiplicity[start : start + size], lanes)
        _add_lanes(lanes, counts[q])


@nb.njit(nogil=True, cache=True, error_model="numpy")
def grouped_histogram(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do what `hamming_histogram` does for a database in the order of its groups, which looks no level up.

    Codes of one word have a kernel of their own, `grouped_words`: a process compiles what it needs.

    Parameters
    ----------
    queries, database, multiplicity, table, query_group, counts : array
        As there.
    bounds : int64 array of shape (n_groups + 1,)
        Where the items of each group begin, and the end of the last.
    """
    n_distances, n_levels = counts.shape[1:]
    distances = np.empty(BLOCK, np.int32)
    for q in range(len(queries)):
        lanes = np.zeros((LANES, n_levels * n_distances), np.int64)
        level = table[query_group[q]]
        for g in range(len(level)):
            offset = np.int64(level[g]) * n_distances
            for start in range(bounds[g], bounds[g + 1], BLOCK):
                size = min(BLOCK, bounds[g + 1] - start)
                _block_distances(database, start, size, queries[q], distances)
                _tally(distances, offset, multiplicity[start : start + size], lanes)
        _add_lanes(lanes, counts[q])


@nb.njit(nogil=True, cache=True, error_model="numpy")
def grouped_words(queries, database, multiplicity, bounds, table, query_group, counts):
    """Do what `grouped_histogram` does for codes of one word, each of which is read once for a team of queries.

    A distance is counted as soon as it is known: no block of distances is written and read again. All teams count a
    block of codes before the next one, so that it stays in the cache.

    Parameters
    ----------
    queries, database, multiplicity, bounds, table, query_group, counts : array
        As there.
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
                    for j in range(TEAM):
                        q = min(t + j, last - 1)  # of a last team that is small, some are not used
                        team[j] = queries[q, 0]
                        offsets[j] = table[query_group[q], g] * n_distances
                    own = lanes[(t - first) // TEAM]
                    _tally_team(words[start:stop], multiplicity[start:stop], team, offsets, own)
        for q in range(first, last):
            _add_lanes(lanes[(q - first) // TEAM, :, (q - first) % TEAM], counts[q])


@nb.njit(nogil=True, cache=True, error_model="numpy")
def order_by_group(words, group, places, ordered):
    """Write the codes in the order of their groups, and within a group in their own.

    Parameters
    ----------
    words : uint64 array of shape (n_words, n_items)
        Codes, word-major.
    group : int64 array of shape (n_items,)
        Group of each code.
    places : int64 array of shape (n_groups,)
        Where each group begins. Changed in place.
    ordered : uint64 array of shape (n_words, n_items)
        Receives the codes.
    """
    for i in range(len(group)):
        place = places[group[i]]
        places[group[i]] = place + 1
        for w in range(len(words)):
            ordered[w, place] = words[w, i]


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


@nb.njit(nogil=True, cache=True, error_model="numpy")
def nearest_codes(queries, database, first, last, nearest_distances, nearest_indices, n_ties):
    """Find the codes nearest to each query, among the database items from `first` to `last`.

    The database streams once for all queries, in blocks that stay in the cache. How many items of each distance were
    found gives the k-th distance so far, the bound. Sub-blocks without an item up to the bound are skipped.

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
    k = nearest_distances.shape[1]
    distances, indices, counts, states = empty_candidates(queries, k)
    scan_codes(queries, database, first, last, k, distances, indices, counts, states)
    order_candidates(distances, indices, counts, states, nearest_distances, nearest_indices, n_ties)


@nb.njit(nogil=True, error_model="numpy")
def empty_candidates(queries, k):
    """Arrays for the candidates of each query: distances, indices, counts and states as in `_offer_codes`."""
    n_queries, n_bits = len(queries), 64 * queries.shape[1]
    distances = np.empty((n_queries, 2 * k + 2 * SUB_BLOCK), np.int32)
    states = np.zeros((n_queries, 3), np.int64)
    states[:, 1] = n_bits + 1
    return distances, np.empty(distances.shape, np.int64), np.zeros((n_queries, n_bits + 2), np.int64), states


@nb.njit(nogil=True, error_model="numpy")
def scan_codes(queries, database, first, last, k, distances, indices, counts, states):
    """Add the database items from `first` to `last` to the candidates of each query, by their distances."""
    n_queries, n_words = queries.shape
    words, block = np.empty((n_words, BLOCK), np.uint64), np.empty(SUB_BLOCK, np.int32)
    for start in range(first, last, BLOCK):
        size = min(BLOCK, last - start)
        for i in range(size):
            for w in range(n_words):
                words[w, i] = database[start + i, w]
        for q in range(n_queries):
            for part in range(0, size, SUB_BLOCK):
                _block_distances(words, part, SUB_BLOCK, queries[q], block)
                if part + SUB_BLOCK > size:
                    block[size - part :] = FAR  # after the last item
                lowest = block[0]
                for i in range(SUB_BLOCK):  # from the first on, so that the loop is vectorized
                    lowest = min(lowest, block[i])
                if lowest <= states[q, 1]:
                    _offer_codes(block, lowest, start + part, k, distances[q], indices[q], counts[q], states[q])


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _offer_codes(block, lowest, start, k, distances, indices, counts, state):
    """Add the items of a sub-block that are nearer than the bound to the candidates of one query.

    ``counts[d]`` is how many items are at distance d, up to the bound. ``state`` is how many candidates there are, the
    bound, and how many items are nearer; they are fewer than k.
    """
    bound = np.int32(state[1])
    if lowest == bound:
        n_equal = np.int32(0)
        for i in range(SUB_BLOCK):
            n_equal += np.int32(block[i] == bound)
        counts[bound] += n_equal
        return
    size, n_nearer = state[0], state[2]
    for i in range(SUB_BLOCK):
        distance = block[i]
        if distance <= bound:
            counts[distance] += 1
        if distance < bound:
            distances[size], indices[size] = distance, start + i
            size += 1
            n_nearer += 1
            while n_nearer >= k:
                bound -= np.int32(1)
                n_nearer -= counts[bound]
    if size > len(distances) - SUB_BLOCK:
        size = keep_codes(distances, indices, size, bound, k - n_nearer)
    state[0], state[1], state[2] = size, bound, n_nearer


@nb.njit(nogil=True, error_model="numpy")
def keep_codes(distances, indices, size, bound, n_equal):
    """Keep the candidates nearer than the bound, and the first `n_equal` at the bound; how many are kept."""
    kept = 0
    for i in range(size):
        distance = distances[i]
        if distance < bound or (distance == bound and n_equal > 0):
            n_equal -= distance == bound
            distances[kept], indices[kept] = distance, indices[i]
            kept += 1
    return kept


@nb.njit(nogil=True, error_model="numpy")
def order_candidates(distances, indices, counts, states, nearest_distances, nearest_indices, n_ties):
    """Sort the candidates of each query, the lowest index first among equals, and count the ties with the last."""
    k = nearest_distances.shape[1]
    for q in range(len(states)):
        size, bound, n_nearer = states[q]
        n_kept = keep_codes(distances[q], indices[q], size, bound, k - n_nearer)
        place = np.cumsum(counts[q, : bound + 1]) - counts[q, : bound + 1]
        for i in range(n_kept):
            distance = distances[q, i]
            nearest_distances[q, place[distance]] = distance
            nearest_indices[q, place[distance]] = indices[q, i]
            place[distance] += 1
        n_ties[q] = counts[q, bound]
