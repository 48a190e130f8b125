"""Compiled kernel of codes that reconstruct vectors, imported at first use. It releases the GIL."""

import numba as nb
import numpy as np


@nb.njit(nogil=True, cache=True)
def descend_bits(gram, fields, bits, n_sweeps):
    """Minimize a quadratic function of the bits over one bit after another, each exactly, sample by sample.

    The function is ``bits @ gram @ bits / 2 - bits @ h``. A bit follows the sign of its own field.

    Parameters
    ----------
    gram : float32 array of shape (nbits, nbits)
        Symmetric matrix.
    fields : float32 array of shape (n_samples, nbits)
        ``h - bits @ gram``, changed in place.
    bits : float32 array of shape (n_samples, nbits)
        -1 and 1, changed in place.
    n_sweeps : int
        Largest number of passes over the bits. They end when no bit changes.
    """
    nbits = bits.shape[1]
    for k in range(len(bits)):
        field, bit = fields[k], bits[k]
        for _ in range(n_sweeps):
            changed = False
            for i in range(nbits):
                value = np.float32(1) if field[i] + bit[i] * gram[i, i] >= 0 else np.float32(-1)
                if value != bit[i]:
                    change, row = value - bit[i], gram[i]
                    for j in range(nbits):
                        field[j] -= change * row[j]
                    bit[i] = value
                    changed = True
            if not changed:
                break
