"""Compiled kernel of codes that reconstruct vectors, imported at first use. It releases the GIL."""

import numpy as np

from skhash._compiler import kernel


@kernel
def descend_bits(gram, fields, bits, n_sweeps):
    """Minimize ``b @ gram @ b / 2 - b @ h`` over `bits` b of -1 and 1, in place; `fields` are ``h - bits @ gram``."""
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
