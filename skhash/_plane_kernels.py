"""Compiled search for many queries by bit planes: a vector of words that holds one bit of 256 codes.

With p(x) set bits in an item x and c(q, x) bits set in both, the Hamming distance of a query q is
d = p(q) + p(x) - 2 c(q, x). So d needs only the planes where q has a 1, about half of them. Sums are binary numbers
whose digits are planes, too, and a full adder takes five instructions for all 256 items. A sum begins at M - p(x) and
ends at t = M + p(q) - d: the items up to a bound are those with a large t. They are few, and their distances are
computed one by one. `benchmarks/search.py` measures the search.

A query with more ones than zeros adds the planes of its zeros. Then t = M - p(q) + d, and near items have a small t.
"""

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from skhash._hamming_kernels import (
    empty_candidates,
    in_all_lanes,
    keep_codes,
    order_candidates,
    popcount,
    scan_codes,
)

VECTOR = 4  # words that are added at once
N_VECTORS = 4  # vectors of a plane; the planes of 64 bits stay in the first-level cache
N_WORDS = VECTOR * N_VECTORS
BLOCK = 64 * N_WORDS  # items whose planes are made together
STEP = 16  # planes that are added together
HEAD = 16  # HEAD * k items are searched without planes, for a first bound
_INT, _PLANE = ir.IntType(64), ir.VectorType(ir.IntType(64), VECTOR)
_SIZE = 8 * VECTOR  # bytes of a vector
_W, _STEP_BYTES = np.uint64(N_WORDS), np.uint64(8 * STEP)


def _load(builder, address, place):
    """Load the vector at an address plus a number of bytes."""
    return builder.load(builder.inttoptr(builder.add(address, place), _PLANE.as_pointer()), align=8)


def _store(builder, value, address, place):
    """Store a vector at an address plus a number of bytes."""
    builder.store(value, builder.inttoptr(builder.add(address, place), _PLANE.as_pointer()), align=8)


def _add_to_digit(builder, digit, planes):
    """The digit after planes are added, two at a time by a full adder, and the carried planes."""
    carried = []
    for a, b in zip(planes[::2], planes[1::2], strict=True):
        differs = builder.xor(digit, a)
        carried.append(builder.or_(builder.and_(digit, a), builder.and_(differs, b)))
        digit = builder.xor(differs, b)
    return digit, carried


def _add_planes(typingctx, planes, offsets, before, sums, n_digits):
    """Add twice the planes at 16 offsets to the sums before; all arguments but `n_digits` are addresses."""

    def codegen(context, builder, signature, args):
        planes, offsets, before, sums, n_digits = args
        places = builder.inttoptr(offsets, _INT.as_pointer())
        added = [_load(builder, planes, builder.load(builder.gep(places, [_INT(i)]))) for i in range(STEP)]
        _store(builder, _load(builder, before, _INT(0)), sums, _INT(0))
        for digit in range(1, STEP.bit_length()):
            total, added = _add_to_digit(builder, _load(builder, before, _INT(_SIZE * digit)), added)
            _store(builder, total, sums, _INT(_SIZE * digit))
        carry = cgutils.alloca_once_value(builder, added[0])
        with cgutils.for_range_slice(builder, _INT(STEP.bit_length()), n_digits, _INT(1), _INT) as (digit, _):
            place, carried = builder.mul(digit, _INT(_SIZE)), builder.load(carry)
            value = _load(builder, before, place)
            _store(builder, builder.xor(value, carried), sums, place)
            builder.store(builder.and_(value, carried), carry)
        return context.get_dummy_value()

    return types.void(*[types.uint64] * 4, types.int64), codegen


def _compare_sums(typingctx, sums, n_digits, threshold, flip, masks):
    """Store the bits of the sums above a threshold and of those equal to it as two vectors; whether any bit is set.

    If all bits of `flip` are set, the digits are flipped first, which reverses the order.
    """

    def codegen(context, builder, signature, args):
        sums, n_digits, threshold, flip, masks = args
        above = cgutils.alloca_once_value(builder, _PLANE([0] * VECTOR))
        equal = cgutils.alloca_once_value(builder, _PLANE([2**64 - 1] * VECTOR))
        with cgutils.for_range_slice(builder, _INT(1), builder.add(n_digits, _INT(1)), _INT(1), _INT) as (i, _):
            digit = builder.sub(n_digits, i)
            bit = builder.sub(_INT(0), builder.and_(builder.lshr(threshold, digit), _INT(1)))
            value = _load(builder, sums, builder.mul(digit, _INT(_SIZE)))
            differs = builder.xor(value, in_all_lanes(builder, builder.xor(bit, flip), VECTOR))
            differs = builder.and_(differs, builder.load(equal))
            larger = builder.and_(differs, builder.xor(value, in_all_lanes(builder, flip, VECTOR)))
            builder.store(builder.or_(builder.load(above), larger), above)
            builder.store(builder.xor(builder.load(equal), differs), equal)
        found = _INT(0)
        for place, mask in enumerate((builder.load(above), builder.load(equal))):
            _store(builder, mask, masks, _INT(_SIZE * place))
            for word in range(VECTOR):
                found = builder.or_(found, builder.extract_element(mask, ir.IntType(32)(word)))
        return found

    return types.uint64(types.uint64, types.int64, types.int64, types.uint64, types.uint64), codegen


add_planes: Any = intrinsic(_add_planes)
compare_sums: Any = intrinsic(_compare_sums)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def nearest_codes_by_planes(queries, database, first, last, nearest_distances, nearest_indices, n_ties):
    """Do the same as `nearest_codes`, about twice as fast for many queries and a small k (`benchmarks/search.py`)."""
    n_words, k = queries.shape[1], nearest_distances.shape[1]
    distances, indices, counts, states = empty_candidates(queries, k)
    middle = min(last, first + max(BLOCK, HEAD * k))
    end = middle + (last - middle) // BLOCK * BLOCK
    n_digits = _n_digits(64 * n_words + 1)
    largest, all_ones = 2**n_digits - 1, 2 ** (n_digits + 1) - 1
    offsets, n_ones, flips = _planes_of_queries(queries)
    planes = np.zeros((64 * n_words + 1) * N_WORDS, np.uint64)
    first_sums = np.zeros((N_VECTORS, n_digits + 1, VECTOR), np.uint64)
    sums, masks = np.zeros((n_digits + 1, VECTOR), np.uint64), np.empty((2, VECTOR), np.uint64)
    scan_codes(queries, database, first, middle, k, distances, indices, counts, states)
    for start in range(middle, end, BLOCK):
        _fill_planes(database[start : start + BLOCK], planes)
        _fill_first_sums(planes, offsets[len(queries)], first_sums)
        for q in range(len(queries)):
            n_chosen = 64 * n_words - n_ones[q] if flips[q] else n_ones[q]
            for part in range(N_VECTORS):
                _sum_planes(planes, part, offsets[q], n_chosen, first_sums[part], sums)
                threshold = largest + n_ones[q] - states[q, 1]
                if flips[q]:
                    threshold = all_ones - (largest - n_ones[q] + states[q, 1])
                if compare_sums(_address(sums), n_digits + 1, threshold, flips[q], _address(masks)):
                    found = distances[q], indices[q], counts[q], states[q]
                    _offer_items(queries[q], database, start + 64 * VECTOR * part, masks, k, *found)
    scan_codes(queries, database, end, last, k, distances, indices, counts, states)
    order_candidates(distances, indices, counts, states, nearest_distances, nearest_indices, n_ties)


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _address(array):
    return np.uint64(array.ctypes.data)


@nb.njit(nogil=True, error_model="numpy")
def _n_digits(value):
    """Number of binary digits."""
    n = 0
    while value >> n:
        n += 1
    return n


@nb.njit(nogil=True, error_model="numpy")
def _planes_of_queries(queries):
    """Byte offsets of the planes that each query adds, its number of ones, and whether it adds the planes of its zeros.

    A row is filled up with the offset of a plane of zeros. The last row has all planes.
    """
    n_queries, n_bits = len(queries), 64 * queries.shape[1]
    offsets = np.full((n_queries + 1, n_bits), 8 * n_bits * N_WORDS)
    for bit in range(n_bits):  # numba takes two seconds to compile an assignment of arrays
        offsets[n_queries, bit] = 8 * N_WORDS * bit
    n_ones, flips = np.zeros(n_queries, np.int64), np.zeros(n_queries, np.uint64)
    for q in range(n_queries):
        for word in queries[q]:
            n_ones[q] += np.int64(popcount(word))
        chosen, n_chosen = np.uint64(1), 0
        if 2 * n_ones[q] > n_bits:
            chosen, flips[q] = np.uint64(0), ~np.uint64(0)
        for bit in range(n_bits):
            if (queries[q, bit // 64] >> np.uint64(bit % 64)) & np.uint64(1) == chosen:
                offsets[q, n_chosen] = 8 * N_WORDS * bit
                n_chosen += 1
    return offsets.astype(np.uint64), n_ones, flips


@nb.njit(nogil=True, error_model="numpy")
def _fill_planes(items, planes):
    """Fill the planes of a block of codes; bit i of word w is that of item 64 w + i."""
    for word in range(items.shape[1]):
        part = planes[64 * word * N_WORDS : 64 * (word + 1) * N_WORDS]
        for i in range(64):
            for w in range(N_WORDS):
                part[i * N_WORDS + w] = items[64 * w + i, word]
        _transpose(part)


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _exchange(low, high, shift, mask):
    """Exchange the high bits of one word with the low bits of another."""
    changed = ((low >> shift) ^ high) & mask
    return low ^ (changed << shift), high ^ changed


@nb.njit(nogil=True, error_model="numpy")
def _transpose(words):
    """Exchange bit i of word j and bit j of word i, in N_WORDS interleaved groups of 64 words.

    Squares of 32 x 32 bits are exchanged first, then those of 16 x 16, down to single bits. Two sizes at a time are
    twice as fast, since words are read and written once for both.
    """
    side, mask = 32, np.uint64(0xFFFFFFFF)
    while side:
        half = side // 2
        half_mask = mask ^ (mask << np.uint64(half))
        shift, half_shift = np.uint64(side), np.uint64(half)
        for square in range(0, 64, 2 * side):
            for i in range(square, square + half):
                a_at, b_at = np.uint64(i) * _W, np.uint64(i + half) * _W
                c_at, d_at = np.uint64(i + side) * _W, np.uint64(i + side + half) * _W
                for word in range(N_WORDS):
                    w = np.uint64(word)
                    a, b, c, d = words[a_at + w], words[b_at + w], words[c_at + w], words[d_at + w]
                    a, c = _exchange(a, c, shift, mask)
                    b, d = _exchange(b, d, shift, mask)
                    a, b = _exchange(a, b, half_shift, half_mask)
                    c, d = _exchange(c, d, half_shift, half_mask)
                    words[a_at + w], words[b_at + w], words[c_at + w], words[d_at + w] = a, b, c, d
        side //= 4
        mask = half_mask ^ (half_mask << np.uint64(side))


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _sum_planes(planes, part, offsets, n_chosen, before, sums):
    """Add twice the chosen planes to the sums before, for the items of one vector."""
    here, source = _address(planes) + np.uint64(_SIZE) * np.uint64(part), _address(before)
    for step in range(max(1, -(-n_chosen // STEP))):
        add_planes(here, _address(offsets) + _STEP_BYTES * np.uint64(step), source, _address(sums), len(sums))
        source = _address(sums)


@nb.njit(nogil=True, error_model="numpy")
def _fill_first_sums(planes, every, first_sums):
    """Set the digits of ``M - p(x)``, the complement of p(x); all of them must be 0 before."""
    zeros, twice = np.zeros_like(first_sums[0]), np.zeros((first_sums.shape[1], VECTOR), np.uint64)
    for part in range(N_VECTORS):
        _sum_planes(planes, part, every, len(every), zeros, twice)
        for digit in range(len(twice) - 1):
            for w in range(VECTOR):
                first_sums[part, digit, w] = ~twice[digit + 1, w]


@nb.njit(nogil=True, error_model="numpy")
def _offer_items(query, database, start, masks, k, distances, indices, counts, state):
    """Add the items of a vector that are nearer than the bound to the candidates of a query, as `_offer_codes` does."""
    size, bound, n_nearer = state
    for w in range(VECTOR):
        counts[state[1]] += np.int64(popcount(masks[1, w]))
        items = masks[0, w]
        while items:
            lowest = items & (~items + np.uint64(1))
            items ^= lowest
            item = start + 64 * w + np.int64(popcount(lowest - np.uint64(1)))
            distance = np.int64(0)
            for word in range(len(query)):
                distance += np.int64(popcount(query[word] ^ database[item, word]))
            if distance <= bound:  # as in `_offer_codes`: a shared function is half as fast
                counts[distance] += 1
            if distance < bound:
                distances[size], indices[size] = distance, item
                size += 1
                n_nearer += 1
                while n_nearer >= k:
                    bound -= 1
                    n_nearer -= counts[bound]
    if size > len(distances) - 64 * VECTOR:
        size = keep_codes(distances, indices, size, bound, k - n_nearer)
    state[0], state[1], state[2] = size, bound, n_nearer
