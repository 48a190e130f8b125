"""Compiled kernels on codes: distances, and the nearest items by each kind of distance.

They are imported at first use, and release the GIL: `run_in_slices` spreads them over threads. Without numba's cache
the first search waits until its kernel is compiled. numba compiles functions of numpy slowly, and again in each kernel,
so that kernels are loops over single values, and the caller makes their arrays.

The searches share one top-k. Each query has a bound, its k-th distance so far, and a row of candidates that are nearer:
`distances` and `indices`, of shape (n_queries, size). ``states[q]`` is the number of candidates, and the number of
items at the bound that are left out. When a row is full, the k nearest candidates stay. At the end they are the first k
of a row, sorted by index, and the state has the number of all items at the k-th distance.
"""

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from skhash._compiler import kernel

BLOCK = 1024  # items whose distances stay in the first-level cache
CODE_BLOCK = 256  # items whose distances or rounded sums are computed together; divides BLOCK
SUB_BLOCK = 64  # items of these that are skipped together if none of them is near enough
FAR = np.int32(2**30)  # larger than any Hamming distance, and any rounded sum
SPARE = 8  # candidates beyond 2 * k, so that the k nearest are not chosen again for each one of few
VECTOR = 4  # words of a vector instruction
PLANES = 4  # bits of a rounded weight; `_add_planes` writes them out
_WORD = ir.IntType(64)
_ROUNDING = 1e-12  # more than the rounding of a few sums of floats, relative

# -- distances ---------------------------------------------------------------------------------------------------------


def _popcount(typingctx, word):
    """Number of set bits of one machine word, by a single instruction."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return word(word), codegen


popcount: Any = intrinsic(_popcount)


@nb.njit(nogil=True, error_model="numpy", inline="always")
def block_distances(words, start, n_items, query, distances):
    """Hamming distances of word-major codes from `start` on, four words at a time so that sums stay in registers."""
    n_words = len(query)
    whole = n_words // 4 * 4
    distances[:n_items] = 0
    for w in range(0, whole, 4):
        a, b = words[w, start : start + n_items], words[w + 1, start : start + n_items]
        c, d = words[w + 2, start : start + n_items], words[w + 3, start : start + n_items]
        qa, qb, qc, qd = query[w], query[w + 1], query[w + 2], query[w + 3]
        for i in range(n_items):
            n_bits = popcount(a[i] ^ qa) + popcount(b[i] ^ qb) + popcount(c[i] ^ qc) + popcount(d[i] ^ qd)
            distances[i] += np.int32(n_bits)
    for w in range(whole, n_words):
        a, qa = words[w, start : start + n_items], query[w]
        for i in range(n_items):
            distances[i] += np.int32(popcount(a[i] ^ qa))


def byte_tables(zeros, ones):
    """Sum over the bits of a byte for each of its values, of shape (n, n_bytes, 256), from what each bit adds."""
    n, nbits = ones.shape
    tables = np.empty((n, -(-nbits // 8), 256), ones.dtype)
    _fill_byte_tables(np.ascontiguousarray(zeros), np.ascontiguousarray(ones), tables)
    return tables


@kernel
def _fill_byte_tables(zeros, ones, tables):
    n, nbits = ones.shape
    for q in range(n):
        for byte in range(tables.shape[1]):
            table = tables[q, byte]
            table[0] = 0
            for bit in range(8 * byte, min(8 * byte + 8, nbits)):
                table[0] += zeros[q, bit]
            for place in range(8):  # values whose highest bit is this one, from those without it
                bit, n_values = 8 * byte + 7 - place, 1 << place
                added = ones[q, bit] - zeros[q, bit] if bit < nbits else 0
                for value in range(n_values):
                    table[n_values + value] = table[value] + added


@kernel
def byte_table_distances(packed_a, packed_b, table, distances):
    """Sum ``table[byte, a ^ b]`` over the bytes of every pair of packed codes, into `distances`."""
    for i in range(len(packed_a)):
        for j in range(len(packed_b)):
            total = np.int64(0)
            for byte in range(len(table)):
                total += table[byte, packed_a[i, byte] ^ packed_b[j, byte]]
            distances[i, j] = total


@kernel
def table_distances(tables, database, indices, distances):
    """Distances of the items in each row of `indices`, or in its single row, by tables as in `nearest_by_tables`."""
    for q in range(len(tables)):
        chosen = indices[min(q, len(indices) - 1)]
        for i in range(len(chosen)):
            total = tables[q, 0, database[chosen[i], 0]]
            for byte in range(1, tables.shape[1]):
                total += tables[q, byte, database[chosen[i], byte]]
            distances[q, i] = total


# -- the top-k ---------------------------------------------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy")
def _select(values, last, k):
    """The k-th smallest of the values up to `last`, which are reordered; np.partition compiles ten times as long."""
    first = 0
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
def _keep_nearest(q, k, bounds, distances, indices, states, work):
    """Keep the k nearest candidates of a query in their order, of equal ones the first, and lower its bound."""
    size = states[q, 0]
    for i in range(size):
        work[i] = distances[q, i]
    nearest = _select(work, size - 1, k)
    nearer, equal = 0, 0
    for i in range(size):
        nearer += distances[q, i] < nearest
        equal += distances[q, i] == nearest
    kept, left = 0, k - nearer
    for i in range(size):
        distance = distances[q, i]
        if distance < nearest or (distance == nearest and left > 0):
            left -= distance == nearest
            distances[q, kept] = distance
            indices[q, kept] = indices[q, i]
            kept += 1
    states[q, 0] = kept
    states[q, 1] = equal - (k - nearer) + (states[q, 1] if nearest == bounds[q] else 0)
    bounds[q] = nearest


@nb.njit(nogil=True, error_model="numpy")
def _add_candidate(distance, item, q, k, bounds, distances, indices, states, work):
    """Add an item to the candidates of one query unless it is beyond the bound, and say whether the bound has moved."""
    if distance > bounds[q]:
        return False
    if distance == bounds[q]:
        states[q, 1] += 1
        return False
    size = states[q, 0]
    distances[q, size], indices[q, size] = distance, item
    states[q, 0] = size + 1
    if size + 1 < distances.shape[1]:
        return False
    _keep_nearest(q, k, bounds, distances, indices, states, work)
    return True


@nb.njit(nogil=True, error_model="numpy")
def _finish(k, bounds, distances, indices, states, work):
    """Keep the k nearest candidates of each query, and count the ties of the last one."""
    for q in range(len(states)):
        _keep_nearest(q, k, bounds, distances, indices, states, work)
        for i in range(k):
            states[q, 1] += distances[q, i] == bounds[q]


# -- searches ----------------------------------------------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy")
def _keep_codes(distances, indices, q, size, bound, n_equal):
    """Keep the candidates nearer than the bound, and the first `n_equal` at the bound; return how many are kept."""
    kept = 0
    for i in range(size):
        distance = distances[q, i]
        if distance < bound or (distance == bound and n_equal > 0):
            n_equal -= distance == bound
            distances[q, kept], indices[q, kept] = distance, indices[q, i]
            kept += 1
    return kept


@nb.njit(nogil=True, error_model="numpy")
def _offer_codes(block, lowest, start, q, k, distances, indices, counts, states):
    """Add the items of a sub-block that are nearer than the bound to the candidates of a query."""
    size, bound, n_nearer = states[q, 0], states[q, 1], states[q, 2]
    if lowest == bound:
        n_equal = np.int32(0)
        for i in range(CODE_BLOCK):
            n_equal += np.int32(block[i] == lowest)
        counts[q, bound] += n_equal
        return
    for i in range(CODE_BLOCK):
        distance = np.int64(block[i])
        if distance <= bound:
            counts[q, distance] += 1
        if distance < bound:
            distances[q, size], indices[q, size] = distance, start + i
            size += 1
            n_nearer += 1
            while n_nearer >= k:
                bound -= 1
                n_nearer -= counts[q, bound]
    if size > distances.shape[1] - CODE_BLOCK:
        size = _keep_codes(distances, indices, q, size, bound, k - n_nearer)
    states[q, 0], states[q, 1], states[q, 2] = size, bound, n_nearer


@kernel
def nearest_codes(queries, database, first, last, k, distances, indices, counts, states, block):
    """Nearest items by Hamming distance among those from `first` to `last`, at least k of them.

    Counts per distance give the k-th distance so far, the bound; sub-blocks without an item up to the bound are skipped
    (`benchmarks/search.py`). The first k candidates of a row are the result, and ``counts[q, bound]`` the ties. Shapes:
    queries (n_queries, n_words), database (n_items, n_words), distances and indices (n_queries, 2 * k + 2 *
    CODE_BLOCK), counts (n_queries, nbits + 2), of the items at each distance up to the bound, and states (n_queries,
    3), the number of candidates, the bound, and the number of nearer items, which is below k. `block`, of shape
    (CODE_BLOCK,), is for work.
    """
    n_words = queries.shape[1]
    words = np.empty((n_words, BLOCK), np.uint64)  # of this kernel alone, so that the copy is vectorized
    for start in range(first, last, BLOCK):
        size = min(BLOCK, last - start)
        for i in range(size):
            for w in range(n_words):
                words[w, i] = database[start + i, w]
        for q in range(len(queries)):
            for part in range(0, size, CODE_BLOCK):
                block_distances(words, part, CODE_BLOCK, queries[q], block)
                for i in range(size - part, CODE_BLOCK):
                    block[i] = FAR  # after the last item
                lowest = block[0]
                for i in range(CODE_BLOCK):  # from the first on, so that the loop is vectorized
                    lowest = min(lowest, block[i])
                if lowest <= states[q, 1]:
                    _offer_codes(block, lowest, start + part, q, k, distances, indices, counts, states)
    for q in range(len(queries)):
        states[q, 0] = _keep_codes(distances, indices, q, states[q, 0], states[q, 1], k - states[q, 2])


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _sum_of_bytes(table, code):
    """Sum over the bytes of a code."""
    total = table[0, code[0]]
    for byte in range(1, len(table)):
        total += table[byte, code[byte]]
    return total


def _count_planes(typingctx, words, planes):
    """Rounded sum of VECTOR words; the arguments are addresses, of `planes` as in `bit_planes`."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(_WORD, VECTOR)
        kind, name = ir.FunctionType(vector, [vector]), f"llvm.ctpop.v{VECTOR}i64"
        count = cgutils.get_or_insert_function(builder.module, kind, name)
        words, planes = (builder.inttoptr(address, vector.as_pointer()) for address in args)
        flips, *places = (builder.load(builder.gep(planes, [_WORD(i)]), align=8) for i in range(1 + PLANES))
        differing = builder.xor(builder.load(words, align=8), flips)
        total = vector([0] * VECTOR)
        for place, plane in enumerate(places):
            counts = builder.call(count, [builder.and_(differing, plane)])
            total = builder.add(total, builder.shl(counts, vector([place] * VECTOR)))
        n_left = VECTOR // 2
        while n_left:  # add the halves
            half = builder.shuffle_vector(
                total,
                total,
                ir.VectorType(ir.IntType(32), VECTOR)([n_left + i if i < n_left else i for i in range(VECTOR)]),
            )
            total, n_left = builder.add(total, half), n_left // 2
        return builder.extract_element(total, ir.IntType(32)(0))

    return types.uint64(types.uint64, types.uint64), codegen


count_planes: Any = intrinsic(_count_planes)


def bit_planes(zeros, ones, n_words):
    """Rounded weights of bits, whose sums need only counts of bits, from what a bit of 0 and a bit of 1 adds.

    A bit that differs from the bit that adds less adds its weight to the least distance of a query. Weights are rounded
    to whole steps below 2**PLANES. The planes, of shape (n_queries, ceil(n_words / VECTOR), 1 + PLANES, VECTOR), have
    the bits that add less, and the bits of the rounded weights. A distance is at least ``start + step * sum``.
    """
    n_queries, nbits = zeros.shape
    n_vectors = -(-n_words // VECTOR)
    added = ones.astype(np.float64) - zeros
    weights = np.abs(added)
    # larger weights are clipped: few bits have them, and these do not differ in the nearest items
    largest = np.minimum(weights.max(axis=1), 2.5 * np.sqrt(np.square(weights).mean(axis=1)))
    steps = np.where(largest > 0, largest, 1.0) / (2**PLANES - 1)
    rounded = np.rint(weights / steps[:, None]).clip(max=2**PLANES - 1)
    starts = np.minimum(zeros, ones).sum(axis=1) - (rounded * steps[:, None] - weights).clip(0).sum(axis=1)
    bits = np.zeros((n_queries, 1 + PLANES, 64 * VECTOR * n_vectors), bool)
    bits[:, 0, :nbits] = added < 0
    for place in range(PLANES):
        bits[:, 1 + place, :nbits] = rounded.astype(np.uint8) >> place & 1
    words = np.packbits(bits, axis=2).view(np.uint64).reshape(n_queries, 1 + PLANES, n_vectors, VECTOR)
    return np.ascontiguousarray(words.transpose(0, 2, 1, 3)), starts, steps


@nb.njit(nogil=True, error_model="numpy")
def _add_planes(database, start, size, planes, sums):
    """Rounded sums of `size` items, at most CODE_BLOCK."""
    n_words = database.shape[1]
    n_vectors = n_words // VECTOR
    step = np.uint64(8 * VECTOR)  # bytes
    words = np.uint64(database[start:].ctypes.data)
    for i in range(size):
        total, place, of_words = np.uint64(0), words, np.uint64(planes.ctypes.data)
        for _ in range(n_vectors):
            total += count_planes(place, of_words)
            place, of_words = place + step, of_words + step * np.uint64(1 + PLANES)
        words += np.uint64(8 * n_words)
        sums[i] = np.int32(total)
    for w in range(n_vectors * VECTOR, n_words):
        of_word = planes[w // VECTOR, :, w % VECTOR]
        flip, a, b, c, d = of_word[0], of_word[1], of_word[2], of_word[3], of_word[4]
        for i in range(size):
            x = database[start + i, w] ^ flip
            n_bits = popcount(x & a) + (popcount(x & b) << np.uint64(1))
            n_bits += (popcount(x & c) << np.uint64(2)) + (popcount(x & d) << np.uint64(3))
            sums[i] += np.int32(n_bits)
    sums[size:] = FAR


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _limit_of(bound, start, step):
    """Largest rounded sum of an item that may be near enough, with a margin for the rounding of this division."""
    return np.int64(min(max(np.floor((bound - start) / step) + 1, -1.0), 2.0**31))


@kernel
def nearest_by_tables(
    tables, planes, starts, steps, database, first, last, k, bounds, distances, indices, states, work
):
    """Nearest items by the sum over the bytes of a code, for few queries.

    A distance is at least ``start + step * sum``, with the sums of `bit_planes`: an item that cannot be near enough is
    skipped. Shapes: tables (n_queries, n_bytes, 256), planes, starts and steps as `bit_planes` returns them, bounds
    (n_queries,), database (n_items, n_words), distances and indices (n_queries, 2 * k + SPARE), states (n_queries, 2),
    work (2 * k + SPARE,).
    """
    packed = database.view(np.uint8)
    sums = np.empty(CODE_BLOCK, np.int32)
    for start in range(first, last, CODE_BLOCK):
        size = min(CODE_BLOCK, last - start)
        for q in range(len(tables)):
            _add_planes(database, start, size, planes[q], sums)
            limit = _limit_of(bounds[q], starts[q], steps[q])
            for part in range(0, size, SUB_BLOCK):
                lowest = sums[part]
                for i in range(part, part + SUB_BLOCK):  # from the first on, so that the loop is vectorized
                    lowest = min(lowest, sums[i])
                if lowest > limit:
                    continue
                for i in range(part, min(part + SUB_BLOCK, size)):
                    if sums[i] <= limit:
                        distance = _sum_of_bytes(tables[q], packed[start + i])
                        if _add_candidate(distance, start + i, q, k, bounds, distances, indices, states, work):
                            limit = _limit_of(bounds[q], starts[q], steps[q])
    _finish(k, bounds, distances, indices, states, work)


@kernel
def nearest_by_estimates(
    tables, planes, starts, steps, units, slopes, offsets, constants, database, first, last, k, bounds, *found
):
    """Do the same as `nearest_by_tables` for the estimates ``constant + offset + slope * (sum * unit)``."""
    distances, indices, states, work = found
    packed = database.view(np.uint8)
    sums = np.empty(CODE_BLOCK, np.int32)
    least = np.empty(CODE_BLOCK)
    for start in range(first, last, CODE_BLOCK):
        size = min(CODE_BLOCK, last - start)
        for q in range(len(tables)):
            _add_planes(database, start, size, planes[q], sums)
            begin, step, constant = starts[q] * units[q], steps[q] * units[q], constants[q]
            begin -= _ROUNDING * abs(begin)
            least[size:] = np.inf
            for i in range(size):
                offset = offsets[start + i]
                least[i] = offset - _ROUNDING * abs(offset) + slopes[start + i] * (begin + step * sums[i])
            limit = bounds[q] - constant + _ROUNDING * (abs(bounds[q]) + abs(constant))
            for part in range(0, size, SUB_BLOCK):
                lowest = least[part]
                for i in range(part, part + SUB_BLOCK):  # from the first on, so that the loop is vectorized
                    lowest = min(lowest, least[i])
                if lowest > limit:
                    continue
                for i in range(part, min(part + SUB_BLOCK, size)):
                    if least[i] <= limit:
                        item = start + i
                        total = _sum_of_bytes(tables[q], packed[item])
                        distance = constant + offsets[item] + slopes[item] * (total * units[q])
                        if _add_candidate(distance, item, q, k, bounds, distances, indices, states, work):
                            limit = bounds[q] - constant + _ROUNDING * (abs(bounds[q]) + abs(constant))
    _finish(k, bounds, distances, indices, states, work)


# -- searches by tables for many queries -------------------------------------------------------------------------------
#
# A distance that is a sum over the bits of a code is a sum over its groups of four bits, with 16 values each. The sums
# of 16 queries are rounded to 16-bit integers and kept side by side, so that one vector instruction adds one group for
# all of them. An item whose rounded sum cannot be among the nearest is skipped; the others, a few of a thousand, are
# computed exactly. The result is that of `nearest_by_tables`, which is faster for few queries (`benchmarks/search.py`).

LANES = 16  # queries that are scanned together
GROUPS = 16  # groups of four bits in a word
SCAN_BLOCK = 512  # items whose sums stay in the first-level cache
_SUMS = ir.VectorType(ir.IntType(16), LANES)


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


def _in_all_lanes(builder, value, n_lanes):
    """A vector with a value in each of its lanes, in generated code."""
    vector = builder.insert_element(ir.VectorType(value.type, n_lanes)(ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(vector, vector, ir.VectorType(ir.IntType(32), n_lanes)([0] * n_lanes))


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
        slopes, offsets = (_in_all_lanes(builder, value, LANES) for value in (slope, offset))
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
def _exact_distance(table, words):
    total = table[0, 0] * 0
    for w in range(len(words)):
        word = words[w]
        for group in range(GROUPS):
            total += table[w * GROUPS + group, (word >> np.uint64(4 * group)) & np.uint64(15)]
    return total


@nb.njit(nogil=True, error_model="numpy")
def _add_block(rounded, database, start, size, sums):
    """Rounded sums of a block of items in all lanes."""
    for i in range(size):
        for lane in range(LANES):
            sums[i, lane] = 0
    row, table_size = np.uint64(2 * LANES), np.uint64(2 * LANES * 16 * GROUPS)  # bytes of an item, of a word
    for w in range(database.shape[1]):
        table = np.uint64(rounded.ctypes.data) + np.uint64(w) * table_size
        for i in range(size):
            add_groups(database[start + i, w], table, np.uint64(sums.ctypes.data) + np.uint64(i) * row)


@kernel
def scan(
    exact, rounded, middles, units, limits, sums, database, first, last, k, bounds, distances, indices, states, work
):
    """Do the same as `nearest_by_tables`, with the tables of `scan_tables` and codes of shape (n_items, n_words).

    `limits`, of shape (len(rounded), LANES), are the largest rounded sums of items that may be near enough, and `sums`,
    of shape (SCAN_BLOCK, LANES), is for work.
    """
    margin, row = database.shape[1] * GROUPS / 2 + 1, np.uint64(2 * LANES)  # bytes
    for start in range(first, last, SCAN_BLOCK):
        size = min(SCAN_BLOCK, last - start)
        for part in range(len(rounded)):
            _add_block(rounded[part], database, start, size, sums)
            limit = np.uint64(limits[part].ctypes.data)
            for i in range(size):
                near = lanes_at_most(np.uint64(sums.ctypes.data) + np.uint64(i) * row, limit)
                lane = 0
                while near != 0:
                    if near & np.uint64(1):
                        q, item = part * LANES + lane, start + i
                        distance = _exact_distance(exact[q], database[item])
                        if _add_candidate(distance, item, q, k, bounds, distances, indices, states, work):
                            largest = np.floor((bounds[q] - middles[q]) / units[q]) + margin
                            limits[part, lane] = np.int16(min(max(largest, -(2.0**15)), 2.0**15 - 1))
                    near >>= np.uint64(1)
                    lane += 1
    _finish(k, bounds, distances, indices, states, work)


@kernel
def scan_estimates(
    exact, rounded, lanes, units, slopes, offsets, constants, limits, sums, database, first, last, k, bounds, *found
):
    """Do the same as `nearest_by_estimates`, with the tables of `scan_tables`.

    `lanes`, of shape (2, len(rounded), LANES), are scales and starts: a score is at least ``start + scale * sum``.
    `limits` are the largest estimates without their constants.
    """
    distances, indices, states, work = found
    largest = 0.0
    for item in range(first, last):
        largest = max(largest, abs(offsets[item]))
    row = np.uint64(2 * LANES)  # bytes
    for start in range(first, last, SCAN_BLOCK):
        size = min(SCAN_BLOCK, last - start)
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
                        if _add_candidate(distance, item, q, k, bounds, distances, indices, states, work):
                            rounding = 1e-12 * (abs(bounds[q]) + abs(constants[q]) + largest)
                            limits[part, lane] = bounds[q] - constants[q] + rounding
                    near >>= np.uint64(1)
                    lane += 1
    _finish(k, bounds, distances, indices, states, work)
