"""Compiled kernels that count differing bits: distances, and the nearest codes."""

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

BLOCK = 1024  # codes whose distances stay in the first-level cache
SUB_BLOCK = 256  # codes that a search skips together if none of them is near enough; divides BLOCK
FAR = np.int32(2**30)  # larger than any distance


def _popcount(typingctx, word):
    """Number of set bits of one machine word, by a single instruction."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return word(word), codegen


popcount: Any = intrinsic(_popcount)


def in_all_lanes(builder, value, n_lanes):
    """A vector with a value in each of its lanes, in generated code."""
    vector = builder.insert_element(ir.VectorType(value.type, n_lanes)(ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(vector, vector, ir.VectorType(ir.IntType(32), n_lanes)([0] * n_lanes))


@nb.njit(nogil=True, error_model="numpy", inline="always")
def block_distances(words, start, n_items, query, distances):
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


@nb.njit(nogil=True, cache=True, error_model="numpy")
def nearest_codes(queries, database, first, last, nearest_distances, nearest_indices, n_ties):
    """Find the k nearest codes of each query among the database items from `first` to `last`.

    Counts per distance give the k-th distance so far, the bound; sub-blocks without an item up to the bound are skipped
    (`benchmarks/search.py`). Shapes: queries (n_queries, n_words), database (n_items, n_words), nearest_distances and
    nearest_indices (n_queries, k), n_ties (n_queries,), the number of items at the k-th distance. There must be at
    least k items.
    """
    k = nearest_distances.shape[1]
    distances, indices, counts, states = empty_candidates(queries, k)
    scan_codes(queries, database, first, last, k, distances, indices, counts, states)
    order_candidates(distances, indices, counts, states, nearest_distances, nearest_indices, n_ties)


@nb.njit(nogil=True, error_model="numpy")
def empty_candidates(queries, k):
    """Empty candidates of each query: distances, indices, counts and states as in `_offer_codes`."""
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
                block_distances(words, part, SUB_BLOCK, queries[q], block)
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

    ``counts[d]`` is the number of items at distance d, up to the bound. ``state`` is the number of candidates, the
    bound, and the number of nearer items, which is below k.
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
    """Keep the candidates nearer than the bound, and the first `n_equal` at the bound; return how many are kept."""
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
    """Sort the candidates of each query, the lowest index first among equals, and count the ties of the last one."""
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
