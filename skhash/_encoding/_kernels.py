"""Compiled kernel that reads samples: their checksum, and whether their values are in range."""

import numba as nb
import numpy as np

#: odd constants of xxHash
_FIRST, _SECOND = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)


@nb.njit(nogil=True, cache=True)
def mix_words(words, mask, limit, mixed):
    """Mix the words of each sample into one, and return the or of all ``(word & mask) + limit``.

    It reads each word once, and as fast as memory delivers it. The products of the halves of words plus keys are the
    hash NH of UMAC; a second sum changes with each single word.
    """
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    found = np.uint64(0)
    for i in range(words.shape[0]):
        products, total, key = np.uint64(0), np.uint64(0), _SECOND
        for j in range(words.shape[1]):
            word = words[i, j]
            keyed = word ^ key
            products += (keyed & low) * (keyed >> half)
            total += word
            key += _FIRST
            found |= (word & mask) + limit
        products = (products ^ products >> half) * _SECOND
        total = (total ^ products) * _FIRST
        mixed[i] = total ^ total >> half
    return found
