"""Exact search by tables for many queries at once.

A distance that is a sum over the bits of a code is a sum over its groups of four bits, with 16 values each. The sums of
16 queries are rounded to 16-bit integers and kept side by side, so that one vector instruction adds one group for all
of them. An item whose rounded sum cannot be among the nearest is skipped; the others, a few of a thousand, are computed
exactly. The result is that of `nearest_by_tables`, in about a tenth of its time (`benchmarks/search.py`).
"""

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from skhash._hamming_kernels import in_all_lanes
from skhash._kernels import candidates, finish, keep_nearest

LANES = 16  # queries that are scanned together
GROUPS = 16  # groups of four bits in a word
BLOCK = 512  # items whose sums stay in the first-level cache
_SUMS, _WORD = ir.VectorType(ir.IntType(16), LANES), ir.IntType(64)


def _add_groups(typingctx, word, table, sums):
    """Add the 16-bit terms of the groups of a word to the sums of all lanes; `table` and `sums` are addresses."""

    def codegen(context, builder, signature, args):
        word, table, sums = args
        sums = builder.inttoptr(sums, _SUMS.as_pointer())
        total = builder.load(sums, align=2)
        for group in range(GROUPS):
            value = builder.and_(builder.lshr(word, _WORD(4 * group)), _WORD(15))
            place = builder.add(builder.mul(value, _WORD(2 * LANES)), _WORD(2 * LANES * 16 * group))
            term = builder.inttoptr(builder.add(table, place), _SUMS.as_pointer())
            total = builder.add(total, builder.load(term, align=2))
        builder.store(total, sums, align=2)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), codegen


def _lanes_at_most(typingctx, sums, limits):
    """Bits of the lanes whose sum is at most their limit; both arguments are addresses."""

    def codegen(context, builder, signature, args):
        a, b = (builder.load(builder.inttoptr(address, _SUMS.as_pointer()), align=2) for address in args)
        return builder.zext(builder.bitcast(builder.icmp_signed("<=", a, b), ir.IntType(LANES)), _WORD)

    return types.uint64(types.uint64, types.uint64), codegen


def _lanes_of_estimates(typingctx, sums, scales, starts, limits, slope, offset):
    """Bits of the lanes with ``offset + slope * (start + scale * sum) <= limit``; the first four are addresses."""

    def codegen(context, builder, signature, args):
        *addresses, slope, offset = args
        values = ir.VectorType(ir.DoubleType(), LANES)
        sums, *terms = (
            builder.inttoptr(a, t.as_pointer()) for a, t in zip(addresses, (_SUMS, *[values] * 3), strict=True)
        )
        scales, starts, limits = (builder.load(term, align=8) for term in terms)
        total = builder.fadd(starts, builder.fmul(scales, builder.sitofp(builder.load(sums, align=2), values)))
        slopes, offsets = (in_all_lanes(builder, value, LANES) for value in (slope, offset))
        near = builder.fcmp_ordered("<=", builder.fadd(offsets, builder.fmul(slopes, total)), limits)
        return builder.zext(builder.bitcast(near, ir.IntType(LANES)), _WORD)

    return types.uint64(*[types.uint64] * 4, types.float64, types.float64), codegen


add_groups: Any = intrinsic(_add_groups)
lanes_of_estimates: Any = intrinsic(_lanes_of_estimates)
lanes_at_most: Any = intrinsic(_lanes_at_most)


def scan_tables(zeros, ones, n_words):
    """Exact and rounded tables of a scan, middles and units, from what a bit of 0 and a bit of 1 adds for each query.

    `exact` has shape (n_queries, 16 * n_words, 16), for each group of four bits. `rounded`, of shape (ceil(n_queries /
    LANES), 16 * n_words, 16, LANES), has the same in units of each query, less the middle of each group, so that no sum
    overflows. A distance differs from ``middle + unit * sum`` by at most ``8 * n_words`` units.
    """
    n_queries, nbits = zeros.shape
    n_groups = GROUPS * n_words
    terms = np.zeros((2, n_queries, 64 * n_words), zeros.dtype)
    terms[0, :, :nbits], terms[1, :, :nbits] = zeros, ones
    # groups in the order of the words, whose lowest four bits are the last four bits of a byte
    terms = terms.reshape(2, n_queries, 8 * n_words, 2, 4)[:, :, :, ::-1].reshape(2, n_queries, n_groups, 4)
    patterns = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1)[:, 4:].astype(zeros.dtype)
    exact = terms[1] @ patterns.T + terms[0] @ (1 - patterns.T)
    low, high = exact.min(axis=2).astype(np.float64), exact.max(axis=2).astype(np.float64)
    units = (high - low).sum(axis=1) / 2 / (2.0**15 - 2 - n_groups / 2)
    units[units == 0] = 1.0
    middle = (high + low) / 2
    rounded = np.zeros((-(-n_queries // LANES) * LANES, n_groups, 16), np.int16)
    rounded[:n_queries] = np.rint((exact - middle[..., None]) / units[:, None, None])
    lanes = rounded.reshape(-1, LANES, n_groups, 16).transpose(0, 2, 3, 1)
    return exact, np.ascontiguousarray(lanes), middle.sum(axis=1), units


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _limit(bound, middle, unit, n_groups):
    """Largest rounded sum of an item that may be as near as `bound`."""
    return np.int16(min(max(np.floor((bound - middle) / unit) + n_groups / 2 + 1, -(2.0**15)), 2.0**15 - 1))


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _exact_distance(table, words):
    total = table[0, 0] * 0
    for w in range(len(words)):
        word = words[w]
        for group in range(GROUPS):
            total += table[w * GROUPS + group, (word >> np.uint64(4 * group)) & np.uint64(15)]
    return total


@nb.njit(nogil=True, error_model="numpy")
def _add_candidate(distance, item, bound, k, distances, indices, state):
    """Add an item to the candidates of one query, as `_offer` does for a block, and return the new bound."""
    if distance > bound:
        return bound
    if distance == bound:
        state[1] += 1
        return bound
    size = state[0]
    distances[size], indices[size] = distance, item
    state[0] = size + 1
    if size + 1 < len(distances):
        return bound
    return keep_nearest(bound, k, distances, indices, state)


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _add_block(rounded, database, start, size, sums):
    """Rounded sums of a block of items in all lanes."""
    sums[:] = 0
    row, table_size = np.uint64(2 * LANES), np.uint64(2 * LANES * 16 * GROUPS)  # bytes of an item, of a word
    for w in range(database.shape[1]):
        table = np.uint64(rounded.ctypes.data) + np.uint64(w) * table_size
        for i in range(size):
            add_groups(database[start + i, w], table, np.uint64(sums.ctypes.data) + np.uint64(i) * row)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def scan(exact, rounded, middles, units, database, first, last, nearest_distances, nearest_indices, n_ties):
    """Do the same as `nearest_by_tables`, with the tables of `scan_tables` and codes of shape (n_items, n_words)."""
    n_queries, n_words, k = len(exact), database.shape[1], nearest_distances.shape[1]
    bounds = np.full(n_queries, np.iinfo(exact.dtype).max, exact.dtype)
    distances, indices, states = candidates(bounds, k)
    limits = np.full((len(rounded), LANES), np.int16(-(2**15)))  # of lanes without a query
    limits.reshape(-1)[:n_queries] = 2**15 - 1
    sums = np.empty((BLOCK, LANES), np.int16)
    row = np.uint64(2 * LANES)  # bytes
    for start in range(first, last, BLOCK):
        size = min(BLOCK, last - start)
        for part in range(len(rounded)):
            _add_block(rounded[part], database, start, size, sums)
            for i in range(size):
                lanes = lanes_at_most(
                    np.uint64(sums.ctypes.data) + np.uint64(i) * row, np.uint64(limits[part].ctypes.data)
                )
                lane = 0
                while lanes != 0:
                    if lanes & np.uint64(1):
                        q, item = part * LANES + lane, start + i
                        distance = _exact_distance(exact[q], database[item])
                        bound = _add_candidate(distance, item, bounds[q], k, distances[q], indices[q], states[q])
                        if bound < bounds[q]:
                            bounds[q] = bound
                            limits[part, lane] = _limit(bound, middles[q], units[q], n_words * GROUPS)
                    lanes >>= np.uint64(1)
                    lane += 1
    finish(bounds, distances, indices, states, nearest_distances, nearest_indices, n_ties)


def nearest_by_scan(zeros, ones, database, first, last, *found):
    """Do the same as `scan`, from the arguments of `scan_tables`."""
    exact, rounded, middles, units = scan_tables(zeros, ones, database.shape[1])
    scan(exact, rounded, middles, units, database, first, last, *found)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def scan_estimates(
    exact, rounded, lanes, units, slopes, offsets, constants, database, first, last, nearest_distances, *found
):
    """Do the same as `nearest_by_estimates`, with the tables of `scan_tables`.

    `lanes`, of shape (2, len(rounded), LANES), are scales and starts: a score is at least ``start + scale * sum``.
    """
    n_queries, k = len(exact), nearest_distances.shape[1]
    bounds = np.full(n_queries, np.inf)
    distances, indices, states = candidates(bounds, k)
    limits = np.full((len(rounded), LANES), -np.inf)  # of lanes without a query
    limits.reshape(-1)[:n_queries] = np.inf
    largest = np.abs(offsets[first:last]).max()
    sums = np.empty((BLOCK, LANES), np.int16)
    row = np.uint64(2 * LANES)  # bytes
    for start in range(first, last, BLOCK):
        size = min(BLOCK, last - start)
        for part in range(len(rounded)):
            _add_block(rounded[part], database, start, size, sums)
            terms = np.uint64(lanes[0, part].ctypes.data), np.uint64(lanes[1, part].ctypes.data)
            limit = np.uint64(limits[part].ctypes.data)
            for i in range(size):
                item = start + i
                place = np.uint64(sums.ctypes.data) + np.uint64(i) * row
                near = lanes_of_estimates(place, terms[0], terms[1], limit, slopes[item], offsets[item])
                lane = 0
                while near != 0:
                    if near & np.uint64(1):
                        q = part * LANES + lane
                        total = _exact_distance(exact[q], database[item])
                        distance = constants[q] + offsets[item] + slopes[item] * (total * units[q])
                        bound = _add_candidate(distance, item, bounds[q], k, distances[q], indices[q], states[q])
                        if bound < bounds[q]:
                            bounds[q] = bound
                            rounding = 1e-12 * (abs(bound) + abs(constants[q]) + largest)
                            limits[part, lane] = bound - constants[q] + rounding
                    near >>= np.uint64(1)
                    lane += 1
    finish(bounds, distances, indices, states, nearest_distances, *found)


def estimates_by_scan(zeros, ones, units, slopes, offsets, constants, database, first, last, *found):
    """Do the same as `scan_estimates`, from the arguments of `scan_tables`."""
    exact, rounded, middles, steps = scan_tables(zeros, ones, database.shape[1])
    lanes = np.zeros((2, len(rounded), LANES))
    lanes.reshape(2, -1)[:, : len(exact)] = (
        units * steps,
        units * (middles - (database.shape[1] * GROUPS / 2 + 1) * steps),
    )
    scan_estimates(exact, rounded, lanes, units, slopes, offsets, constants, database, first, last, *found)
