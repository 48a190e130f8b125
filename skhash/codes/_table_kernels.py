"""Compiled search by sums of tables in blocks of 64 codes, see `blocks`: weighted Hamming distances, real queries.

What four bits add to a distance depends on their 16 values alone, and is read from a table. Rounded down to bytes, the
tables give a lower bound of the distance, and one instruction reads one table for 16 to 64 items. Only items whose
bound is within the k-th distance so far are computed exactly: about one of a thousand.

Of each query the top-k keeps a bound, its k-th distance so far, and a row of candidates that are nearer: `distances`
and `indices`, of shape (n_queries, 2 * k + SPARE). ``states[q]`` is the number of candidates, and the number of items
at the bound that are left out. When a row is full, the k nearest candidates stay. At the end they are the first k of a
row, in the order of the items, and the state has the number of all items at the k-th distance. A search for groups, see
`group_kernels`, has the group of the bound as the second number of a state, and finds no ties.
"""

import functools
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from skhash._compiler import kernel
from skhash.codes.bit_kernels import popcount
from skhash.codes.blocks import LANES, NO_ITEM
from skhash.codes.group_kernels import keep_groups, room_for_groups, select
from skhash.codes.vector_instructions import BYTE, HALF, WORD, in_all_lanes, mask, shuffle, table_lookup

SPARE = 8  # candidates beyond 2 * k, so that the k nearest are not chosen again for each one of few
TILE = 2**14  # bytes of blocks that are searched for one query after the other, from the first-level cache
LARGEST = 2**16 - 1  # sum of rounded tables
_ROUNDING = 1e-12  # more than the rounding of a few sums of floats, relative

# -- sums of tables ----------------------------------------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _sum_of_tables(tables, q, blocks, item):
    """Exact sum of a query and an item."""
    block, lane, total = item // LANES, item % LANES, np.int64(0)
    for byte in range(blocks.shape[1]):
        code = blocks[block, byte, lane]
        total += tables[q, 2 * byte, code >> np.uint8(4)] + tables[q, 2 * byte + 1, code & np.uint8(15)]
    return total


@kernel
def table_distances(tables, blocks, places, distances):
    """Exact sums of the items at each row of places, or at its single row."""
    for q in range(len(tables)):
        row = min(q, len(places) - 1)
        for i in range(places.shape[1]):
            distances[q, i] = _sum_of_tables(tables, q, blocks, places[row, i])


@nb.njit(nogil=True, error_model="numpy")
def _round_tables(tables, q, goal, rounded, lows, ranges):
    """Round the tables of a query down, and return terms of the bound: a sum is at least ``least + step * rounded``.

    The step is so large that two values add up in a byte, and all in 16 bits. Values beyond an end are cut off. The end
    is the largest value, or less if that excludes more items: rounded sums are then, on average, more standard
    deviations above the `goal`, which is the bound of the query.
    """
    n_halves = tables.shape[1]
    most = min(127, LARGEST // n_halves)
    least, largest = 0.0, 1.0
    for half in range(n_halves):
        low, high = tables[q, half, 0], tables[q, half, 0]
        for value in range(1, 16):
            low, high = min(low, tables[q, half, value]), max(high, tables[q, half, value])
        lows[half], ranges[half] = low, high - low
        least, largest = least + low, max(largest, ranges[half])
    farthest, best_end, end, room = -np.inf, largest, largest, goal - least
    while room < np.inf and end > largest / 2**20:
        total, squares = -2 * room, 1.0
        for half in range(n_halves):
            kept = min(ranges[half], end)
            total += kept - min(kept, end / most)  # twice the mean, less the mean of what is rounded off
            squares += kept * kept
        if total > farthest * np.sqrt(squares):
            farthest, best_end = total / np.sqrt(squares), end
        end /= 2
    step = max(best_end / most, 1.0)
    per_step = (1 - _ROUNDING) / step
    for half in range(n_halves):
        for value in range(16):
            rounded[q, half, value] = np.uint8(min((tables[q, half, value] - lows[half]) * per_step, most))
    return least, step


# -- vectors of items --------------------------------------------------------------------------------------------------


def _load(builder, array, kind, *places):
    """Load a vector from an array; its place in vectors is the sum of `places`."""
    place = functools.reduce(builder.add, places)
    return builder.load(builder.gep(builder.bitcast(array.data, kind.as_pointer()), [place]), align=1)


def _lanes_by_sums(typingctx, blocks, block, rounded, query, limit, sums):
    """Bits of the items of a block whose rounded sum for a query is at most the limit; all `sums` are stored.

    The high and the low half of a byte are looked up for 16, 32 or 64 items at once, and both values add up in a byte.
    Bytes add up two by two, as ``even + 256 * odd`` in 16 bits. The odd ones, shifted down, also add up alone, and are
    taken off in the end. A byte of these items takes 9 instructions beside the loads: a shift and two masks for the
    halves, two lookups, an addition, a shift, and two additions in 16 bits.
    """

    def codegen(context, builder, signature, args):
        _, block, _, query, limit, _ = args
        blocks, rounded, sums = (context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 2, 5))
        n_bytes = builder.extract_value(blocks.shape, 1)
        size, lookup = table_lookup(context, builder)
        codes, table, pairs = (ir.VectorType(*kind) for kind in ((BYTE, size), (BYTE, 16), (HALF, size // 2)))
        parts, eight = range(LANES // size), pairs([8] * pairs.count)
        both, odd = ([cgutils.alloca_once_value(builder, pairs([0] * pairs.count)) for _ in parts] for _ in range(2))
        with cgutils.for_range(builder, n_bytes, intp=WORD) as loop:
            place = builder.mul(builder.add(builder.mul(query, n_bytes), loop.index), WORD(2))
            high, low = (_load(builder, rounded, table, place, WORD(half)) for half in range(2))
            place = builder.mul(builder.add(builder.mul(block, n_bytes), loop.index), WORD(len(parts)))
            for part in parts:
                code = _load(builder, blocks, codes, place, WORD(part))
                of_high = lookup(high, builder.lshr(code, codes([4] * size)))
                of_low = lookup(low, builder.and_(code, codes([15] * size)))
                added = builder.bitcast(builder.add(of_high, of_low), pairs)
                builder.store(builder.add(builder.load(both[part]), added), both[part])
                builder.store(builder.add(builder.load(odd[part]), builder.lshr(added, eight)), odd[part])
        near = []
        for part in parts:
            odds = builder.load(odd[part])
            evens = builder.sub(builder.load(both[part]), builder.shl(odds, eight))
            total = shuffle(builder, evens, [i // 2 + i % 2 * pairs.count for i in range(size)], odds)
            builder.store(
                total, builder.gep(builder.bitcast(sums.data, total.type.as_pointer()), [WORD(part)]), align=1
            )
            near.append(builder.icmp_unsigned("<=", total, in_all_lanes(builder, limit, size)))
        return mask(builder, near)

    return types.uint64(blocks, types.int64, rounded, types.int64, types.uint16, sums), codegen


def _lanes_by_estimates(typingctx, sums, least, step, slopes, offsets, place, limit):
    """Bits of the items, from a place on, with ``offset + slope * (least + step * sum) <= limit``."""
    size = 8  # whose terms stay in registers

    def codegen(context, builder, signature, args):
        sums, slopes, offsets = (context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 3, 4))
        least, step, limit = (in_all_lanes(builder, args[i], size) for i in (1, 2, 6))
        first, near = builder.udiv(args[5], WORD(size)), []
        for part in map(WORD, range(LANES // size)):
            total = builder.uitofp(_load(builder, sums, ir.VectorType(HALF, size), part), least.type)
            total = builder.fadd(least, builder.fmul(step, total))
            slope, offset = (_load(builder, terms, least.type, first, part) for terms in (slopes, offsets))
            near.append(builder.fcmp_ordered("<=", builder.fadd(offset, builder.fmul(slope, total)), limit))
        return mask(builder, near)

    double = types.float64
    return types.uint64(sums, double, double, slopes, offsets, types.int64, double), codegen


lanes_by_sums: Any = intrinsic(_lanes_by_sums)
lanes_by_estimates: Any = intrinsic(_lanes_by_estimates)

# -- the top-k ---------------------------------------------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy")
def _keep_nearest(q, k, bounds, distances, indices, states, work):
    """Keep the k nearest candidates of a query in their order, of equal ones the first, and lower its bound."""
    size = states[q, 0]
    for i in range(size):
        work[i] = distances[q, i]
    nearest = select(work, size, k)
    n_nearer, n_equal = 0, 0
    for i in range(size):
        n_nearer += distances[q, i] < nearest
        n_equal += distances[q, i] == nearest
    kept, left = 0, k - n_nearer
    for i in range(size):
        distance = distances[q, i]
        distances[q, kept], indices[q, kept] = distance, indices[q, i]  # the next is written over one that is not kept
        kept += (distance < nearest) | ((distance == nearest) & (left > 0))
        left -= distance == nearest
    states[q, 0] = kept
    states[q, 1] = n_equal - (k - n_nearer) + (states[q, 1] if nearest == bounds[q] else 0)
    bounds[q] = nearest


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _add_candidate(distance, item, q, k, bounds, distances, indices, states, work):
    """Add an item to the candidates of a query, or to its ties, unless it is beyond the bound."""
    if distance < bounds[q]:
        size = states[q, 0]
        distances[q, size], indices[q, size] = distance, item
        states[q, 0] = size + 1
        if size + 1 == distances.shape[1]:
            _keep_nearest(q, k, bounds, distances, indices, states, work)
    elif distance == bounds[q]:
        states[q, 1] += 1


@nb.njit(nogil=True, error_model="numpy")
def _keep_nearest_groups(q, k, bounds, distances, indices, states, groups, table, work):
    """Keep the nearest candidates of the k nearest groups of a query, and lower its bound."""
    of_query = distances[q], indices[q], groups[q]
    states[q, 0], nearest, last_group = keep_groups(k, *of_query, states[q, 0], table, work)
    if last_group >= 0:
        bounds[q], states[q, 1] = nearest, last_group


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _add_of_group(distance, item, group, q, k, bounds, distances, indices, states, groups, table, work):
    """Add an item to the candidates of a query unless it, or of equal distances its group, is beyond the bound."""
    if distance < bounds[q] or (distance == bounds[q] and group < states[q, 1]):
        size = states[q, 0]
        distances[q, size], indices[q, size], groups[q, size] = distance, item, group
        states[q, 0] = size + 1
        if size + 1 == distances.shape[1]:
            _keep_nearest_groups(q, k, bounds, distances, indices, states, groups, table, work)


# -- searches ----------------------------------------------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _terms_of_item(factors, item, of_score, of_norm):
    """Slope and offset of an item, as `terms_of_items` in `distances` computes them."""
    norm, along = np.float64(factors[item, 0]), np.float64(factors[item, 1])
    return of_score * (norm * norm / along if along > 0 else 0.0), of_norm * (norm * norm)


@kernel
def nearest_by_tables(
    tables, estimates, blocks, masks, group_of, first, last, every, k, bounds, distances, indices, states
):
    """Nearest items by the sums of `half_byte_tables`, of the blocks from `first` to `last`, or of one in `every`.

    With `estimates`, which are factors of the items, the shares of scores and of norms, and the constants and units of
    the queries, a distance is ``constant + offset + slope * (sum * unit)``. Without factors it is the sum. `states` are
    0 at first, and only items below the first `bounds` are found. If these are fewer than k, the last distances are
    infinite. With `group_of`, the group of each item, the nearest items of the k nearest groups are found, in no order.
    """
    factors, of_score, of_norm, constants, units = estimates
    is_estimated, n_bytes = len(factors) > 0, blocks.shape[1]
    n_together = max(1, TILE // (n_bytes * LANES)) if every == 1 else 1
    rounded, halves, terms = np.empty(tables.shape, np.uint8), np.empty((2, 2 * n_bytes)), np.empty((len(tables), 3))
    slopes, offsets = np.empty(n_together * LANES), np.empty(n_together * LANES)
    sums, work = np.empty(LANES, np.uint16), np.empty(distances.shape[1])
    if group_of is not None:
        groups, table, _ = room_for_groups(distances)
    for start in range(first, last, n_together * every):
        for i in range(min(len(slopes), len(factors) - start * LANES)):
            slopes[i], offset = _terms_of_item(factors, start * LANES + i, of_score, of_norm)
            offsets[i] = offset - _ROUNDING * abs(offset)
        for q in range(len(tables)):
            room = np.inf if is_estimated or start == first else bounds[q] - terms[q, 0]
            if start == first or room < 0.9 * terms[q, 2]:  # the bound has moved, so that other steps may be better
                goal = np.inf if is_estimated else bounds[q]
                terms[q, 0], terms[q, 1] = _round_tables(tables, q, goal, rounded, halves[0], halves[1])
                terms[q, 2] = goal - terms[q, 0]
            least, step = terms[q, 0], terms[q, 1]
            for block in range(start, min(start + n_together, last)):
                near = masks[block]
                if near == 0:
                    continue
                if is_estimated:
                    lanes_by_sums(blocks, block, rounded, q, LARGEST, sums)
                    begin = (least - _ROUNDING * abs(least)) * units[q]
                    limit = bounds[q] - constants[q] + _ROUNDING * (abs(bounds[q]) + abs(constants[q]))
                    place = (block - start) * LANES
                    near &= lanes_by_estimates(sums, begin, step * units[q], slopes, offsets, place, limit)
                else:
                    limit = np.uint16(min((bounds[q] - least) / step, LARGEST))
                    near &= lanes_by_sums(blocks, block, rounded, q, limit, sums)
                while near != 0:
                    item = block * LANES + np.int64(popcount((near & -near) - np.uint64(1)))  # of the lowest bit
                    near &= near - np.uint64(1)
                    distance = np.float64(_sum_of_tables(tables, q, blocks, item))
                    if is_estimated:
                        slope, offset = _terms_of_item(factors, item, of_score, of_norm)
                        distance = constants[q] + offset + slope * (distance * units[q])
                    if group_of is None:
                        _add_candidate(distance, item, q, k, bounds, distances, indices, states, work)
                    else:
                        group = group_of[item]
                        _add_of_group(
                            distance, item, group, q, k, bounds, distances, indices, states, groups, table, work
                        )
    for q in range(len(tables)):
        if group_of is not None:
            _keep_nearest_groups(q, k, bounds, distances, indices, states, groups, table, work)
            states[q, 1] = 0
        for i in range(states[q, 0], k):
            distances[q, i], indices[q, i] = np.inf, NO_ITEM
        if group_of is None:
            states[q, 0] = max(states[q, 0], k)
            _keep_nearest(q, k, bounds, distances, indices, states, work)
            for i in range(k):
                states[q, 1] += distances[q, i] == bounds[q]
