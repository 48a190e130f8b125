"""Binary codes: thresholding, packing into bytes, Hamming distances, the search for the nearest.

A code has ``nbits`` zeros and ones. It is *stored* packed, eight bits per byte in the
order of :func:`numpy.packbits` (the first bit is the highest), and the unused tail is
0. So no Hamming distance changes. All arithmetic on codes lives here: on ``uint8`` a
plain subtraction wraps around.
"""

from skhash.codes.bits import binarize, bit_balance, bit_correlation, hamming_distances, pack, signs, threshold, unpack
from skhash.codes.codes import Codes

__all__ = [
    "Codes",
    "binarize",
    "bit_balance",
    "bit_correlation",
    "hamming_distances",
    "pack",
    "signs",
    "threshold",
    "unpack",
]
