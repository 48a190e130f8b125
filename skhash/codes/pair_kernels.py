"""Compiled kernels for all near pairs of codes: by parts that must agree, and by blocks.

Codes that agree in the bits of a mask come into one run: they are sorted by a hash of these bits, in two passes that
write to few places at a time. Then each code is compared with the later ones of its run.

Codes have the shape (n_items, n_words). A pair that is found differs in at most `nbits` bits, and has a distance up to
`radius`. `weights`, of shape (n_bytes, 256), has the weight of the bits that differ for each value of a byte, in units
of `unit`; without a row a distance is the number of these bits. Pairs are written as positions and distances. A kernel
without room for more of them writes into `state` where it continues.
"""

import numba as nb
import numpy as np

from skhash._compiler import kernel
from skhash.codes.bit_kernels import block_distances, popcount

BLOCK = 1024  # codes that are compared with each other; their words stay in the first-level cache
SUB_BLOCK = 256  # codes of a block that are skipped together if none is near enough; divides BLOCK
FAR = np.int32(2**30)  # larger than any Hamming distance
MAX_COMPARED = 2**28  # pairs of codes between two looks at an interruption by the user

# -- distances ---------------------------------------------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy")
def _distance(codes, i, j, n_bits, weights, unit):
    """Distance of two codes that differ in `n_bits` bits."""
    if len(weights) == 0:
        return float(n_bits)
    total = np.int64(0)
    for w in range(codes.shape[1]):
        differing, byte = codes[i, w] ^ codes[j, w], 8 * w
        while differing != 0:
            total += weights[byte, differing & np.uint64(255)]
            differing >>= np.uint64(8)
            byte += 1
    return total * unit


# -- runs of codes that agree in the bits of a mask --------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy")
def _hash(codes, i, mask, factors):
    """Hash of the bits of a mask, whose upper bits are the best."""
    total = np.uint64(0)
    for w in range(codes.shape[1]):
        total += (codes[i, w] & mask[w]) * factors[w]
    return total


@kernel
def count_parts(codes, first, last, mask, factors, shift, counts):
    """Count the items of each part: those with the same upper bits of the hash."""
    for i in range(first, last):
        counts[_hash(codes, i, mask, factors) >> shift] += 1


@kernel
def fill_parts(codes, first, last, mask, factors, shift, places, part_codes, part_positions):
    """Write each item to the next place of its part, and its position."""
    for i in range(first, last):
        part = _hash(codes, i, mask, factors) >> shift
        place = places[part]
        places[part] = place + 1
        part_positions[place] = i
        for w in range(codes.shape[1]):
            part_codes[place, w] = codes[i, w]


@kernel
def sort_parts(part_codes, part_positions, starts, first, last, mask, factors, n_used, codes, positions, ends):
    """Sort the items of some parts by the bits of the hash after the `n_used` upper ones; `ends` are those of runs."""
    used, largest = np.uint64(n_used), 2
    for part in range(first, last):
        largest = max(largest, starts[part + 1] - starts[part])
    places = np.empty(largest, np.int64)
    for part in range(first, last):
        start, stop = starts[part], starts[part + 1]
        n_bits = 1
        while 2 << n_bits < stop - start:
            n_bits += 1
        shift = np.uint64(64 - n_bits)
        for run in range(1 << n_bits):
            places[run] = 0
        for i in range(start, stop):
            places[(_hash(part_codes, i, mask, factors) << used) >> shift] += 1
        place = start
        for run in range(1 << n_bits):
            places[run], place = place, place + places[run]
        for i in range(start, stop):
            run = (_hash(part_codes, i, mask, factors) << used) >> shift
            place = places[run]
            places[run] = place + 1  # after the last item of a run, its end
            positions[place] = part_positions[i]
            for w in range(part_codes.shape[1]):
                codes[place, w] = part_codes[i, w]
        for i in range(start, stop):
            ends[i] = places[(_hash(codes, i, mask, factors) << used) >> shift]


@nb.njit(nogil=True, error_model="numpy")
def _is_first_key(codes, i, j, parts, key):
    """Whether the parts of a key are the first ones in which two codes agree, so that no other key finds this pair."""
    n_left = 0
    for part in range(len(key)):
        n_left += key[part]
    for part in range(len(key)):
        agree = True
        for w in range(codes.shape[1]):
            agree = agree and (codes[i, w] ^ codes[j, w]) & parts[part, w] == 0
        if agree != key[part]:
            return False
        n_left -= agree
        if n_left == 0:
            break
    return True


@kernel
def near_in_runs(codes, positions, ends, parts, key, nbits, weights, unit, radius, last, state, left, right, distances):
    """Pairs of a code from ``state[0]`` to `last` and a later one of its run, and their number.

    They are those that this key finds first: `parts`, of shape (n_parts, n_words), are masks, and `key` says for each
    part whether the codes of a run agree in it.
    """
    n_found, n_compared = 0, 0
    for i in range(state[0], last):
        begin = max(i + 1, state[1])
        state[1] = 0
        for j in range(begin, ends[i]):
            n_bits = popcount(codes[i, 0] ^ codes[j, 0])
            if n_bits > nbits:
                continue  # before the other words are read
            for w in range(1, codes.shape[1]):
                n_bits += popcount(codes[i, w] ^ codes[j, w])
            if n_bits > nbits or not _is_first_key(codes, i, j, parts, key):
                continue
            distance = _distance(codes, i, j, n_bits, weights, unit)
            if distance > radius:
                continue
            if n_found == len(left):
                state[0], state[1] = i, j
                return n_found
            left[n_found], right[n_found], distances[n_found] = positions[i], positions[j], distance
            n_found += 1
        n_compared += ends[i] - begin
        if n_compared > MAX_COMPARED:
            state[0] = i + 1
            return n_found
    state[0] = last
    return n_found


# -- blocks of codes ---------------------------------------------------------------------------------------------------


@kernel
def near_in_blocks(codes, second, nbits, weights, unit, radius, last, state, left, right, distances):
    """Pairs of a code from ``state[0]`` to `last` and a later one of the block at `second`, and their number.

    There must be room for BLOCK pairs.
    """
    n_items, n_words = codes.shape
    size = min(BLOCK, n_items - second)
    words = np.empty((n_words, BLOCK), np.uint64)  # of this kernel alone, so that the copy is vectorized
    for j in range(size):
        for w in range(n_words):
            words[w, j] = codes[second + j, w]
    block = np.empty(SUB_BLOCK, np.int32)
    n_found = 0
    for i in range(state[0], last):
        if n_found + size > len(left):
            state[0] = i
            return n_found
        for start in range(second, second + size, SUB_BLOCK):
            if start + SUB_BLOCK <= i + 1:
                continue  # no later code
            block_distances(words, start - second, SUB_BLOCK, codes[i], block)
            for j in range(second + size - start, SUB_BLOCK):
                block[j] = FAR  # after the last item
            lowest = block[0]
            for j in range(SUB_BLOCK):  # from the first on, so that the loop is vectorized
                lowest = min(lowest, block[j])
            if lowest > nbits:
                continue
            for j in range(max(start, i + 1), start + SUB_BLOCK):
                if block[j - start] > nbits:
                    continue
                distance = _distance(codes, i, j, block[j - start], weights, unit)
                if distance <= radius:
                    left[n_found], right[n_found], distances[n_found] = i, j, distance
                    n_found += 1
    state[0] = last
    return n_found


# -- groups ------------------------------------------------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy")
def _root(roots, i):
    """Root of the group of an item, whose way to it is made shorter."""
    while roots[i] != i:
        roots[i] = roots[roots[i]]
        i = roots[i]
    return i


@kernel
def join_groups(roots, left, right):
    """Join the groups of the items of each pair. The root of a group is its first item, and each item leads to it."""
    for pair in range(len(left)):
        a, b = _root(roots, left[pair]), _root(roots, right[pair])
        roots[max(a, b)] = min(a, b)


@kernel
def _find_roots(roots, items, found):
    """Write the roots of the groups of some items."""
    for place in range(len(items)):
        found[place] = _root(roots, items[place])


def roots_of(roots, items):
    """Roots of the groups of some items."""
    found = np.empty(len(items), np.int64)
    _find_roots(roots, items, found)
    return found
