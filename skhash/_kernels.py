"""Compiled kernels on codes with tables over their bytes; `_hamming_kernels` has those that count differing bits.

They are imported at first use, and release the GIL: `run_in_slices` spreads them over threads.
"""

import numba as nb
import numpy as np

BLOCK = 1024  # database codes whose distances stay in the first-level cache
SUB_BLOCK = 64  # distances that a search skips together if none of them is near enough


def byte_table(values):
    """Sum of the values of the set bits for each value of each byte, of shape (..., n_bytes, 256)."""
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
def candidates(bounds, k):
    """Empty candidates of each query: distances of the dtype of `bounds`, indices, and states as in `_offer`."""
    shape = (len(bounds), 2 * k + 2 * SUB_BLOCK)
    return np.empty(shape, bounds.dtype), np.empty(shape, np.int64), np.zeros((len(bounds), 2), np.int64)


@nb.njit(nogil=True, error_model="numpy")
def _select(values, k):
    """The k-th smallest value; `values` are reordered. numba takes ten times as long to compile np.partition."""
    first, last = 0, len(values) - 1
    while first < last:
        pivot = values[(first + last) // 2]
        i, j = first, last
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if k - 1 <= j:
            last = j
        elif k - 1 >= i:
            first = i
        else:
            break
    return values[k - 1]


@nb.njit(nogil=True, error_model="numpy")
def keep_nearest(bound, k, distances, indices, state):
    """Keep the k nearest candidates of one query in their order, of equal ones the first, and return the new bound."""
    size = state[0]
    nearest = _select(distances[:size].copy(), k)
    nearer, equal = 0, 0
    for i in range(size):
        nearer += distances[i] < nearest
        equal += distances[i] == nearest
    kept, left = 0, k - nearer
    for i in range(size):
        distance = distances[i]
        if distance < nearest or (distance == nearest and left > 0):
            left -= distance == nearest
            distances[kept] = distance
            indices[kept] = indices[i]
            kept += 1
    state[0] = kept
    state[1] = equal - (k - nearer) + (state[1] if nearest == bound else 0)
    return nearest


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _offer(block, start, bound, k, distances, indices, state):
    """Add the items of a block that are nearer than `bound` to the candidates of one query, and return the new bound.

    ``state`` is the number of candidates, and the number of items at the bound that are left out.
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
        state[0] = size
        if size > len(distances) - SUB_BLOCK:
            bound = keep_nearest(bound, k, distances, indices, state)
    return bound


@nb.njit(nogil=True, error_model="numpy")
def finish(bounds, distances, indices, states, nearest_distances, nearest_indices, n_ties):
    """Store the nearest candidates of each query, sorted by index, and count the ties of the last one."""
    k = nearest_distances.shape[1]
    for q in range(len(bounds)):
        last = keep_nearest(bounds[q], k, distances[q], indices[q], states[q])
        n_ties[q] = states[q, 1]
        for i in range(k):
            nearest_distances[q, i] = distances[q, i]
            nearest_indices[q, i] = indices[q, i]
            n_ties[q] += distances[q, i] == last


@nb.njit(nogil=True, cache=True, error_model="numpy")
def nearest_by_tables(tables, database, first, last, nearest_distances, nearest_indices, n_ties):
    """Find the items from `first` to `last` with the smallest sums over the bytes of their codes, sorted by index.

    Shapes: tables (n_queries, n_bytes, 256), database of packed codes (n_items, >= n_bytes), nearest_distances and
    nearest_indices (n_queries, k), n_ties (n_queries,).
    """
    n_queries, n_bytes, _ = tables.shape
    k = nearest_distances.shape[1]
    bounds = np.full(n_queries, np.iinfo(tables.dtype).max, tables.dtype)
    distances, indices, states = candidates(bounds, k)
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
    finish(bounds, distances, indices, states, nearest_distances, nearest_indices, n_ties)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def nearest_by_estimates(
    tables, units, slopes, offsets, constants, database, first, last, nearest_distances, nearest_indices, n_ties
):
    """Do the same as `nearest_by_tables` for the estimates ``constant + offset + slope * (sum * unit)``.

    `units` and `constants` are of shape (n_queries,), `slopes` and `offsets` of shape (n_items,).
    """
    n_queries, n_bytes, _ = tables.shape
    k = nearest_distances.shape[1]
    bounds = np.full(n_queries, np.inf)
    distances, indices, states = candidates(bounds, k)
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
    finish(bounds, distances, indices, states, nearest_distances, nearest_indices, n_ties)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def table_distances(tables, database, indices, distances):
    """Distances of the items in each row of `indices`, or in its single row, by tables as in `nearest_by_tables`."""
    for q in range(len(tables)):
        chosen = indices[min(q, len(indices) - 1)]
        for i in range(len(chosen)):
            total = tables[q, 0, database[chosen[i], 0]]
            for byte in range(1, tables.shape[1]):
                total += tables[q, byte, database[chosen[i], byte]]
            distances[q, i] = total


@nb.njit(nogil=True, cache=True)
def distance_keys(queries, database, table, own, group, levels, query_group, shift, keys):
    """Write ``distance << shift | level`` of each query and item into `keys`, of shape (n_queries, n_items).

    `table` has the weight of the differing bits of each byte, `own` the item that a query leaves out (then `keys` has
    one column less) or -1, and ``levels[query_group[i], group[j]]`` the level.
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
    """Write the number of distinct distances of each query into `n_ties`; the keys of a query must ascend."""
    for i in range(len(keys)):
        n_ties[i], last = 0, np.int64(-1)
        for key in keys[i]:
            if key >> shift != last:
                last = key >> shift
                n_ties[i] += 1


@nb.njit(nogil=True, cache=True)
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
