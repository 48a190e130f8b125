"""Compiled search by Hamming distance in blocks of 64 codes, see `blocks`.

Both searches share one top-k. Of each query it keeps a bound, the k-th distance so far, the number of items at each
distance up to the bound, and a row of candidates in the order of the items. Only items up to the bound are looked at.
A kernel is made for the numbers of bytes that one width of sums can hold, when it is first used.
"""

from functools import cache
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from skhash._compiler import kernel
from skhash.codes.bit_kernels import popcount
from skhash.codes.blocks import LANES, NO_ITEM
from skhash.codes.group_kernels import keep_groups, room_for_groups
from skhash.codes.vector_instructions import BYTE, INT, WORD, address, in_all_lanes, load, mask, store

N_VECTOR = 4  # words of a plane that are added by one instruction; LLVM splits or joins them as the CPU can
N_PLANES = 8  # groups of three planes of one step
N_VARIANTS = 10  # of the sums of a group: two digits of ones, eight of twos
MIN_PLANE_QUERIES = 12  # fewer queries are compared faster without planes (benchmarks/search.py)
MAX_PLANE_BYTES = 128  # the variants of longer codes do not stay in the second-level cache
SPARE = 16  # candidates beyond 2 * k of a search for groups: more leave the bound farther away
HEAD = 16  # HEAD * k items are searched without planes, for a first bound
_DTYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32}
_PLANE, _SIZE = ir.VectorType(WORD, N_VECTOR), 8 * N_VECTOR


# -- one query ---------------------------------------------------------------------------------------------------------
#
# A vector holds one byte of 64 items. It takes an exclusive or with that byte of the query, a count of bits in each
# byte, and an addition: with AVX2 eight instructions for 32 items and 8 bits, with AVX-512 three for 64. Sums of 31
# bytes fit into bytes; longer codes add these up in wider lanes. One comparison tells whether any item is near enough.


def lane_bits(n_bytes):
    """Number of bits of a sum of so many bytes."""
    return 8 if n_bytes <= 31 else 16 if n_bytes < 2**13 else 32


def sums_of_lanes(builder, width, block, n_bytes, byte_of_query):
    """Distances of the items of a block from a query, of which a function of the number of a byte gives 64 of it."""
    sums, few = ir.VectorType(ir.IntType(width), LANES), ir.VectorType(BYTE, LANES)
    count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(few, [few]), f"llvm.ctpop.v{LANES}i8")

    def add_bytes(total, first, last):
        with cgutils.for_range_slice(builder, first, last, WORD(1), WORD) as (byte, _):
            items = load(builder, few, builder.add(block, builder.mul(byte, WORD(LANES))))
            differing = builder.xor(items, byte_of_query(byte))
            builder.store(builder.add(builder.load(total), builder.call(count, [differing])), total)

    total, part = cgutils.alloca_once(builder, sums), cgutils.alloca_once(builder, few)
    builder.store(sums([0] * LANES), total)
    if sums == few:
        add_bytes(total, WORD(0), n_bytes)
    else:
        with cgutils.for_range_slice(builder, WORD(0), n_bytes, WORD(31), WORD) as (first, _):
            last = builder.add(first, WORD(31))
            builder.store(few([0] * LANES), part)
            is_last = builder.icmp_signed("<", n_bytes, last)
            add_bytes(part, first, builder.select(is_last, n_bytes, last))
            builder.store(builder.add(builder.load(total), builder.zext(builder.load(part), sums)), total)
    return builder.load(total)


def _lanes_up_to(typingctx, width, block, query, n_bytes, bound, distances):
    """Bits of the items of a block up to a bound; their distances are stored if there are any."""

    def codegen(context, builder, signature, args):
        _, block, query, n_bytes, bound, distances = args

        def byte_of_query(byte):
            return in_all_lanes(builder, load(builder, BYTE, builder.add(query, byte)), LANES)

        found = sums_of_lanes(builder, width.literal_value, block, n_bytes, byte_of_query)
        limit = builder.trunc(bound, found.type.element)
        near = mask(builder, [builder.icmp_unsigned("<=", found, in_all_lanes(builder, limit, LANES))])
        with builder.if_then(builder.icmp_unsigned("!=", near, WORD(0)), likely=False):
            store(builder, found, distances)
        return near

    kinds = types.uint64, types.uint64, types.int64, types.int64, types.uint64
    return types.uint64(width, *kinds), codegen


def _lanes_below(typingctx, width, distances, bound):
    """Bits of the stored distances below a bound."""

    def codegen(context, builder, signature, args):
        _, distances, bound = args
        kind = ir.IntType(width.literal_value)
        limit = in_all_lanes(builder, builder.trunc(bound, kind), LANES)
        return mask(builder, [builder.icmp_unsigned("<", load(builder, limit.type, distances), limit)])

    return types.uint64(width, types.uint64, types.int64), codegen


lanes_up_to: Any = intrinsic(prefer_literal=True)(_lanes_up_to)
lanes_below: Any = intrinsic(prefer_literal=True)(_lanes_below)


@nb.njit(nogil=True, error_model="numpy")
def _empty_candidates(n_queries, largest, k):
    """Distances and places of candidates, counts of distances, and states: their number, the bound, nearer items.

    A search for groups has the group of the bound in place of the nearer items, and no counts.
    """
    distances = np.empty((n_queries, 2 * k + 2 * LANES), np.int32)
    counts, states = np.zeros((n_queries, largest + 2), np.int64), np.zeros((n_queries, 3), np.int64)
    for q in range(n_queries):
        states[q, 1] = largest + 1  # the first bound, beyond any distance
    return distances, np.empty(distances.shape, np.int64), counts, states


@nb.njit(nogil=True, error_model="numpy")
def _keep(distances, items, size, bound, n_equal):
    """Keep the candidates nearer than the bound, and the first `n_equal` at the bound; return how many are kept."""
    kept = 0
    for i in range(size):
        distance = distances[i]
        if distance < bound or (distance == bound and n_equal > 0):
            n_equal -= distance == bound
            distances[kept], items[kept] = distance, items[i]
            kept += 1
    return kept


@nb.njit(nogil=True, error_model="numpy")
def _offer(near, nearer, block, start, k, distances, items, counts, state):
    """Add the items of a block that are nearer than the bound to the candidates of a query.

    `near` has the bits of the items up to the bound, `nearer` those below it, `block` their distances.
    """
    size, bound, n_nearer = state[0], state[1], state[2]
    counts[bound] += np.int64(popcount(near ^ nearer))
    while nearer:
        lowest = nearer & (~nearer + np.uint64(1))
        nearer ^= lowest
        lane = np.int64(popcount(lowest - np.uint64(1)))
        distance = np.int64(block[lane])
        if distance <= bound:
            counts[distance] += 1
        if distance < bound:
            distances[size], items[size] = distance, start + lane
            size += 1
            n_nearer += 1
            while n_nearer >= k:
                bound -= 1
                n_nearer -= counts[bound]
    if size > len(distances) - LANES:
        size = _keep(distances, items, size, bound, k - n_nearer)
    state[0], state[1], state[2] = size, bound, n_nearer


@nb.njit(nogil=True, error_model="numpy")
def _offer_groups(near, block, start, k, distances, items, groups, group_of, table, work, state):
    """Add the items of a block up to the bound, which is a distance and a group, to the candidates of a query."""
    size, bound, last_group = state[0], state[1], state[2]
    while near:
        lowest = near & (~near + np.uint64(1))
        near ^= lowest
        lane = np.int64(popcount(lowest - np.uint64(1)))
        distance = np.int64(block[lane])
        group = group_of[start + lane]
        if distance < bound or group < last_group:
            distances[size], items[size], groups[size] = distance, start + lane, group
            size += 1
    if size > 2 * k + SPARE:
        size, distance, last_group = keep_groups(k, distances, items, groups, size, table, work)
        if last_group >= 0:
            bound = distance
    state[0], state[1], state[2] = size, bound, last_group


@nb.njit(nogil=True, error_model="numpy")
def _list_groups(k, distances, items, groups, size, table, work, found_distances, found_items):
    """Write the nearest items of the k nearest groups of a query, in no order, and return 0: ties are not known."""
    size, _, _ = keep_groups(k, distances, items, groups, size, table, work)
    for i in range(k):
        found_distances[i], found_items[i] = (distances[i], items[i]) if i < size else (np.inf, NO_ITEM)
    return 0


@nb.njit(nogil=True, error_model="numpy")
def _sort(k, distances, items, counts, state, found_distances, found_items):
    """Write the candidates of a query by distance, of equal ones the first, and return the ties of the last one."""
    bound, size = state[1], _keep(distances, items, state[0], state[1], k - state[2])
    place = 0
    for distance in range(bound):
        n_equal = counts[distance]
        counts[distance] = place
        place += n_equal
    n_ties, counts[bound] = counts[bound], place
    for i in range(size):
        place = counts[distances[i]]
        found_distances[place], found_items[place] = distances[i], items[i]
        counts[distances[i]] = place + 1
    for i in range(size, k):
        found_distances[i], found_items[i] = np.inf, NO_ITEM
    return n_ties


@cache
def nearest_codes(width: int) -> Any:
    """Kernel that finds the k nearest items of each of few queries, for sums of so many bits.

    With `group_of`, the group of each item, it finds the nearest items of the k nearest groups, in no order. For None
    another kernel is compiled, without this.
    """
    dtype = _DTYPES[width]

    def nearest(queries, blocks, masks, group_of, first, last, k, found_distances, found_items, n_ties):
        n_queries, n_bytes = queries.shape
        distances, items, counts, states = _empty_candidates(n_queries, 8 * n_bytes, k)
        if group_of is not None:
            groups, table, work = room_for_groups(distances)
        block = np.empty(LANES, dtype)
        here, step = address(blocks) + np.uint64(first) * np.uint64(LANES * n_bytes), np.uint64(LANES * n_bytes)
        for b in range(first, last):
            if masks[b]:
                for q in range(n_queries):
                    query = address(queries) + np.uint64(q) * np.uint64(n_bytes)
                    bound = states[q, 1]
                    near = lanes_up_to(width, here, query, n_bytes, bound, address(block)) & masks[b]
                    if near:
                        if group_of is None:
                            nearer = lanes_below(width, address(block), bound) & near
                            _offer(near, nearer, block, LANES * b, k, distances[q], items[q], counts[q], states[q])
                        else:
                            of_query = distances[q], items[q], groups[q], group_of, table, work
                            _offer_groups(near, block, LANES * b, k, *of_query, states[q])
            here += step
        for q in range(n_queries):
            found = found_distances[q], found_items[q]
            if group_of is None:
                n_ties[q] = _sort(k, distances[q], items[q], counts[q], states[q], *found)
            else:
                n_ties[q] = _list_groups(k, distances[q], items[q], groups[q], states[q, 0], table, work, *found)

    return kernel(nearest)


@cache
def codes_within(width: int) -> Any:
    """Kernel that finds all items up to a bound from one query, ascending, and returns how many there are.

    They are written while there is room for them.
    """
    dtype = _DTYPES[width]

    def within(query, blocks, masks, bound, found_distances, found_items):
        n_bytes = len(query)
        block = np.empty(LANES, dtype)
        here, n_found = address(blocks), 0
        for b in range(len(masks)):
            near = masks[b]
            if near:
                near &= lanes_up_to(width, here, address(query), n_bytes, bound, address(block))
            here += np.uint64(LANES * n_bytes)
            while near:
                lowest = near & (~near + np.uint64(1))
                near ^= lowest
                if n_found < len(found_items):
                    lane = np.int64(popcount(lowest - np.uint64(1)))
                    found_distances[n_found], found_items[n_found] = block[lane], LANES * b + lane
                n_found += 1
        return n_found

    return kernel(within)


@kernel
def copy_codes(blocks, places, copied):
    """Copy the codes at some places into blocks without holes."""
    for i in range(len(places)):
        block, lane = places[i] // LANES, places[i] % LANES
        for byte in range(blocks.shape[1]):
            copied[i // LANES, byte, i % LANES] = blocks[block, byte, lane]


# -- many queries ------------------------------------------------------------------------------------------------------
#
# A plane holds one bit of 256 items, and the distances are binary numbers whose digits are planes. Of three planes a, b
# and c, the query asks for the sum of (a ^ qa) + (b ^ qb) + (c ^ qc): its ones digit is a ^ b ^ c or the complement,
# its twos digit one of eight. These ten variants are made once for all queries, so that a query only picks two of them
# for every three bits, and adds them up by full adders of five instructions. A sum begins at 2^n - bound - 1: an item
# is beyond the bound if the last digit is set. For 64 bits this takes about 1.2 instructions per query and item with
# AVX2, where a scan of bytes takes 2.3. The distances of the few other items come from their block.


def _full_adder(builder, a, b, c):
    """Both digits of the sum of three planes."""
    differs = builder.xor(a, b)
    return builder.xor(differs, c), builder.or_(builder.and_(a, b), builder.and_(differs, c))


def _add_to_digit(builder, digit, planes):
    """The digit after planes are added, and the carried planes."""
    carried = []
    while len(planes) > 1:
        digit, carry = _full_adder(builder, digit, planes[0], planes[1])
        carried.append(carry)
        planes = planes[2:]
    if planes:
        carried.append(builder.and_(digit, planes[0]))
        digit = builder.xor(digit, planes[0])
    return digit, carried


def _complement(builder, plane):
    return builder.xor(plane, _PLANE([2**64 - 1] * N_VECTOR))


def _split_byte(typingctx, byte, planes):
    """Store a byte of 64 items as words of eight planes, from the lowest bit on; the arguments are addresses."""

    def codegen(context, builder, signature, args):
        kind = ir.VectorType(BYTE, LANES)
        byte = load(builder, kind, args[0])
        for bit in reversed(range(8)):
            store(builder, mask(builder, [builder.icmp_signed("<", byte, kind([0] * LANES))]), args[1], _SIZE * bit)
            byte = builder.add(byte, byte)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), codegen


def _store_variants(typingctx, planes, variants):
    """Store the variants of the sum of three planes: two of its ones digit, eight of its twos digit."""

    def codegen(context, builder, signature, args):
        planes = [load(builder, _PLANE, args[0], _SIZE * i) for i in range(3)]
        ones, _ = _full_adder(builder, *planes)
        variants = [ones, _complement(builder, ones)]
        for bits in range(8):
            flipped = [_complement(builder, plane) if bits >> i & 1 else plane for i, plane in enumerate(planes)]
            variants.append(_full_adder(builder, *flipped)[1])
        for i, variant in enumerate(variants):
            store(builder, variant, args[1], _SIZE * i)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), codegen


def _digits_of_sum(builder, digits, variants, offsets, n_steps):
    """Add the variants at some offsets to the digits, which are variables."""
    with cgutils.for_range(builder, n_steps, intp=WORD) as loop:
        here = builder.add(offsets, builder.mul(loop.index, WORD(4 * 2 * N_PLANES)))
        picked = [
            load(builder, _PLANE, builder.add(variants, builder.zext(load(builder, INT, here, 4 * i), WORD)))
            for i in range(2 * N_PLANES)
        ]
        added, twos = picked[:N_PLANES], picked[N_PLANES:]
        for place, digit in enumerate(digits):
            value, carried = _add_to_digit(builder, builder.load(digit), added)
            builder.store(value, digit)
            added = carried + (twos if place == 0 else [])


def _sum_variants(typingctx, last_digit, variants, offsets, n_steps, first, beyond):
    """Add the variants at some offsets to the first digits, store the last digit, and tell whether a bit of it is 0."""

    def codegen(context, builder, signature, args):
        _, variants, offsets, n_steps, first, beyond = args
        last = last_digit.literal_value
        digits = [cgutils.alloca_once_value(builder, load(builder, _PLANE, first, _SIZE * i)) for i in range(last + 1)]
        _digits_of_sum(builder, digits, variants, offsets, n_steps)
        value = builder.load(digits[-1])
        store(builder, value, beyond)
        near = builder.bitcast(_complement(builder, value), ir.IntType(64 * N_VECTOR))
        return builder.icmp_unsigned("!=", near, ir.IntType(64 * N_VECTOR)(0))

    kinds = types.uint64, types.uint64, types.int64, types.uint64, types.uint64
    return types.boolean(last_digit, *kinds), codegen


def _count_variants(typingctx, n_digits, variants, offsets, n_steps, n_eights, counts):
    """Add the number of items at each distance to its counter: 32 bytes, each of which counts up to 8 of the items."""

    def codegen(context, builder, signature, args):
        n_all, few = n_digits.literal_value, ir.VectorType(BYTE, _SIZE)
        count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(few, [few]), f"llvm.ctpop.v{_SIZE}i8")
        _, variants, offsets, n_steps, n_eights, counts = args
        digits = [cgutils.alloca_once_value(builder, _PLANE([0] * N_VECTOR)) for _ in range(n_all)]
        _digits_of_sum(builder, digits, variants, offsets, n_steps)
        planes = [builder.load(digit) for digit in digits]
        low, *upper = (_items_of_each(builder, planes[part]) for part in (slice(3), slice(3, 6), slice(6, n_all)))
        places = [cgutils.alloca_once(builder, _PLANE, WORD(len(values))) for values in upper]
        for place, values in zip(places, upper, strict=True):
            for i, value in enumerate(values):
                builder.store(value, builder.gep(place, [WORD(i)]))
        with cgutils.for_range(builder, n_eights, intp=WORD) as loop:
            indices = builder.and_(loop.index, WORD(7)), builder.lshr(loop.index, WORD(3))
            mid, high = (builder.load(builder.gep(place, [i])) for place, i in zip(places, indices, strict=True))
            chosen = builder.and_(mid, high)
            whole = builder.bitcast(chosen, ir.IntType(64 * N_VECTOR))
            with builder.if_then(builder.icmp_unsigned("!=", whole, whole.type(0))):
                here = builder.add(counts, builder.mul(loop.index, WORD(8 * _SIZE)))
                for i, value in enumerate(low):
                    found = builder.call(count, [builder.bitcast(builder.and_(chosen, value), few)])
                    store(builder, builder.add(load(builder, few, here, _SIZE * i), found), here, _SIZE * i)
        return context.get_dummy_value()

    kinds = types.uint64, types.uint64, types.int64, types.int64, types.uint64
    return types.void(n_digits, *kinds), codegen


def _items_of_each(builder, planes):
    """Masks of the items of each value of some digits."""
    masks = [_PLANE([2**64 - 1] * N_VECTOR)]
    for plane in reversed(planes):
        masks = [builder.and_(mask, side) for mask in masks for side in (_complement(builder, plane), plane)]
    return masks


split_byte: Any = intrinsic(_split_byte)
store_variants: Any = intrinsic(_store_variants)
sum_variants: Any = intrinsic(prefer_literal=True)(_sum_variants)
count_variants: Any = intrinsic(prefer_literal=True)(_count_variants)


@nb.njit(nogil=True, error_model="numpy")
def _offsets_of(queries, n_groups, n_steps):
    """Byte offsets of the variants that each query picks: of every step those of the ones digits, then of the twos."""
    n_queries, n_bytes = queries.shape
    offsets = np.empty((n_queries, n_steps, 2, N_PLANES), np.uint32)
    for q in range(n_queries):
        for group in range(n_steps * N_PLANES):
            bits = 0
            for i in range(3):
                bit = 3 * group + i
                if bit < 8 * n_bytes:
                    bits |= (queries[q, bit // 8] >> (bit % 8) & 1) << i
            n_ones, start = (bits & 1) + (bits >> 1 & 1) + (bits >> 2), N_VARIANTS * min(group, n_groups)
            offsets[q, group // N_PLANES, 0, group % N_PLANES] = _SIZE * (start + n_ones % 2)
            offsets[q, group // N_PLANES, 1, group % N_PLANES] = _SIZE * (start + 2 + bits)
    return offsets


@nb.njit(nogil=True, error_model="numpy")
def empty_variants(queries):
    """Number of steps, offsets of the variants of each query, and room for planes and their variants."""
    n_bytes = queries.shape[1]
    n_groups = (8 * n_bytes + 2) // 3
    n_steps = (n_groups + N_PLANES - 1) // N_PLANES
    planes = np.zeros((8 * n_bytes + 2, N_VECTOR), np.uint64)
    variants = np.zeros((N_VARIANTS * (n_groups + 1), N_VECTOR), np.uint64)  # of no plane in the end
    return n_steps, _offsets_of(queries, n_groups, n_steps), planes, variants


@nb.njit(nogil=True, error_model="numpy")
def _set_first_digits(bound, first):
    """Set the planes of 2^n - bound - 1."""
    value = (1 << (len(first) - 1)) - bound - 1
    for digit in range(len(first)):
        plane = ~np.uint64(0) if value >> digit & 1 else np.uint64(0)
        for i in range(N_VECTOR):
            first[digit, i] = plane


@nb.njit(nogil=True, error_model="numpy")
def fill_variants(blocks, start, planes, variants):
    """Set the planes of N_VECTOR blocks from `start` on, and the variants of their sums."""
    n_bytes = blocks.shape[1]
    for b in range(N_VECTOR):
        for byte in range(n_bytes):
            source = address(blocks) + np.uint64(((start + b) * n_bytes + byte) * LANES)
            split_byte(source, address(planes) + np.uint64(8 * (_SIZE * byte + b)))
    for group in range((8 * n_bytes + 2) // 3):
        source = address(planes) + np.uint64(3 * _SIZE * group)
        store_variants(source, address(variants) + np.uint64(N_VARIANTS * _SIZE * group))


@cache
def nearest_codes_by_planes(width: int, last_digit: int) -> Any:
    """Kernel that does the same for many queries, whose distances have so many digits."""
    dtype = _DTYPES[width]

    def nearest(queries, blocks, masks, group_of, first, last, k, found_distances, found_items, n_ties):
        n_queries, n_bytes = queries.shape
        distances, items, counts, states = _empty_candidates(n_queries, 8 * n_bytes, k)
        if group_of is not None:
            groups, table, work = room_for_groups(distances)
        block = np.empty(LANES, dtype)
        n_steps, offsets, planes, variants = empty_variants(queries)
        bounds = np.full(n_queries, -1)
        digits = np.empty((n_queries, last_digit + 1, N_VECTOR), np.uint64)
        beyond, left = np.empty(N_VECTOR, np.uint64), HEAD * k
        for start in range(first, last, N_VECTOR):
            stop = min(start + N_VECTOR, last)
            n_held = np.int64(0)
            for b in range(start, stop):
                n_held += np.int64(popcount(masks[b]))
            if n_held == 0:
                continue
            by_planes = left <= 0 and stop == start + N_VECTOR
            left -= n_held
            if by_planes:
                fill_variants(blocks, start, planes, variants)
            for q in range(n_queries):
                if by_planes:
                    if bounds[q] != states[q, 1]:
                        bounds[q] = states[q, 1]
                        _set_first_digits(bounds[q], digits[q])
                    picked, begin = address(offsets[q]), address(digits[q])
                    if not sum_variants(last_digit, address(variants), picked, n_steps, begin, address(beyond)):
                        continue
                for b in range(start, stop):
                    kept = masks[b]
                    if by_planes:
                        kept &= ~beyond[b - start]
                    if kept:
                        bound = states[q, 1]
                        here = address(blocks) + np.uint64(b * n_bytes * LANES)
                        near = lanes_up_to(width, here, address(queries[q]), n_bytes, bound, address(block)) & kept
                        if near:
                            if group_of is None:
                                nearer = lanes_below(width, address(block), bound) & near
                                _offer(near, nearer, block, LANES * b, k, distances[q], items[q], counts[q], states[q])
                            else:
                                of_query = distances[q], items[q], groups[q], group_of, table, work
                                _offer_groups(near, block, LANES * b, k, *of_query, states[q])
        for q in range(n_queries):
            found = found_distances[q], found_items[q]
            if group_of is None:
                n_ties[q] = _sort(k, distances[q], items[q], counts[q], states[q], *found)
            else:
                n_ties[q] = _list_groups(k, distances[q], items[q], groups[q], states[q, 0], table, work, *found)

    return kernel(nearest)
