"""Compiled kernel of the checksum of samples."""

import numba as nb
import numpy as np

#: odd constants of xxHash
_FIRST, _SECOND = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)


@nb.njit(nogil=True, cache=True)
def mix_words(words, mixed):
    """Mix the words of each sample into one, one after the other in four lanes, as xxHash does."""
    right, left = np.uint64(33), np.uint64(31)
    n_words = words.shape[1]
    n_whole = n_words - n_words % 4
    for i in range(words.shape[0]):
        a, b, c, d = _FIRST, _SECOND, np.uint64(0), ~_FIRST
        for j in range(0, n_whole, 4):
            a += words[i, j] * _SECOND
            b += words[i, j + 1] * _SECOND
            c += words[i, j + 2] * _SECOND
            d += words[i, j + 3] * _SECOND
            a = (a << left | a >> right) * _FIRST
            b = (b << left | b >> right) * _FIRST
            c = (c << left | c >> right) * _FIRST
            d = (d << left | d >> right) * _FIRST
        for j in range(n_whole, n_words):
            a += words[i, j] * _SECOND
            a = (a << left | a >> right) * _FIRST
        for other in (b, c, d):
            a = ((a << left | a >> right) ^ other) * _FIRST
        mixed[i] = a
