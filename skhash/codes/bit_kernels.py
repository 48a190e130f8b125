"""Compiled kernels on codes: counts of bits, and sums of tables.

Kernels are imported at first use, and release the GIL: `run_in_slices` spreads them over threads. Without numba's cache
the first call waits until its kernel is compiled. numba compiles functions of numpy slowly, and again in each kernel,
so that kernels are loops over single values.
"""

from typing import Any

import numba as nb
import numpy as np
from numba.extending import intrinsic

from skhash._compiler import kernel

BLOCK = 1024  # items whose distances stay in the first-level cache


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
    _fill_tables(np.ascontiguousarray(zeros), np.ascontiguousarray(ones), 8, tables)
    return tables


def half_byte_tables(zeros, ones):
    """The same sums for the high and the low half of each byte, as int64 of shape (n, 2 * n_bytes, 16)."""
    n, nbits = ones.shape
    tables = np.empty((n, 2 * -(-nbits // 8), 16), np.int64)
    _fill_tables(np.ascontiguousarray(zeros, np.int64), np.ascontiguousarray(ones, np.int64), 4, tables)
    return tables


@kernel
def _fill_tables(zeros, ones, width, tables):
    """Fill tables of `width` bits each."""
    n, nbits = ones.shape
    for q in range(n):
        for part in range(tables.shape[1]):
            table, start = tables[q, part], width * part
            table[0] = 0
            for bit in range(start, min(start + width, nbits)):
                table[0] += zeros[q, bit]
            for place in range(width):  # values whose highest bit is this one, from those without it
                bit, n_values = start + width - 1 - place, 1 << place
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
