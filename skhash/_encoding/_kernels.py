"""Compiled kernels of an encoding: one that reads the samples, and one that reads their activations."""

import numba as nb
import numpy as np

#: odd constants of xxHash
_FIRST, _SECOND = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)

#: powers of 2 that move the lowest bits of 8 bytes, first byte first, into the highest byte
_COLLECT = np.uint64(0x8040201008040201)


@nb.njit(nogil=True, cache=True)
def mix_words(words, mask, limit, mixed):
    """Mix the words of each sample into `mixed`, and return the bitwise or of all ``(word & mask) + limit``.

    The products of the halves of words plus keys are the hash NH of UMAC; a second sum changes with each single word.
    The length of `mixed` is a power of 2.
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
        place = i & (len(mixed) - 1)
        mixed[place] = (mixed[place] ^ total ^ total >> half) * _SECOND
    return found


@nb.njit(nogil=True, cache=True)
def pack_signs(activations, words, mask, limit, codes):
    """Pack the signs of activations into `codes`, and return the bitwise or of all ``(word & mask) + limit``.

    `words` are the activations as integers. A product collects the lowest bits of the 8 bytes of a word in its highest
    byte.
    """
    bits = np.zeros(8 * codes.shape[1], dtype=np.uint8)
    found = np.zeros_like(words[0])
    eights, last = bits.view(np.uint64), np.uint64(56)
    for i in range(activations.shape[0]):
        for j in range(activations.shape[1]):
            found[j] |= (words[i, j] & mask) + limit
        for j in range(activations.shape[1]):
            bits[j] = activations[i, j] >= 0
        for j in range(codes.shape[1]):
            codes[i, j] = eights[j] * _COLLECT >> last
    for word in found[1:]:
        found[0] |= word
    return found[0]
