"""Compiled kernels for all near pairs of codes."""

import numpy as np

from skhash._compiler import kernel
from skhash.codes._kernels import BLOCK, CODE_BLOCK, FAR, block_distances


@kernel
def near_codes(codes, first, second, radius, left, right, distances):
    """Pairs of a code of the block that begins at `first` and a later code of the block at `second`, and their number.

    The pairs are written as positions and distances while there is room for them. `codes` has the shape (n_items,
    n_words), a block has BLOCK codes or those up to the last one.
    """
    n_items, n_words = codes.shape
    size = min(BLOCK, n_items - second)
    words = np.empty((n_words, BLOCK), np.uint64)  # of this kernel alone, so that the copy is vectorized
    for j in range(size):
        for w in range(n_words):
            words[w, j] = codes[second + j, w]
    block = np.empty(CODE_BLOCK, np.int32)
    n_found = 0
    for i in range(first, min(first + BLOCK, n_items)):
        for part in range(0, size, CODE_BLOCK):
            if second + part + CODE_BLOCK <= i + 1:
                continue  # no later code
            block_distances(words, part, CODE_BLOCK, codes[i], block)
            for j in range(size - part, CODE_BLOCK):
                block[j] = FAR  # after the last item
            lowest = block[0]
            for j in range(CODE_BLOCK):  # from the first on, so that the loop is vectorized
                lowest = min(lowest, block[j])
            if lowest > radius:
                continue
            for j in range(max(0, i + 1 - second - part), CODE_BLOCK):
                if block[j] <= radius:
                    if n_found < len(left):
                        left[n_found], right[n_found], distances[n_found] = i, second + part + j, block[j]
                    n_found += 1
    return n_found
