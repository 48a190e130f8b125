"""Packed codes of activations, and how compiled kernels find floats that are out of range."""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._validation.values import check_activations
from skhash.codes import threshold

Codes = npt.NDArray[np.uint8]


def binarize_and_pack(activations: npt.NDArray[np.floating]) -> Codes:
    """Packed codes of checked activations."""
    bits = threshold(activations)
    if bits.shape[1] % 8 == 0:  # whole bytes: several times as fast as with axis=1
        return np.packbits(bits).reshape(len(bits), bits.shape[1] // 8)
    return np.packbits(bits, axis=1)


def check_and_pack(activations: npt.NDArray[np.floating], hasher: Any) -> Codes:
    """Packed codes of the activations of many samples, checked and packed in one pass."""
    terms = range_terms(activations.dtype)
    if terms is None:
        return binarize_and_pack(check_activations(activations, hasher))
    from skhash._encoding import _kernels

    bits, sign, mask, limit = terms
    activations = np.ascontiguousarray(activations)
    codes = np.empty((len(activations), -(-activations.shape[1] // 8)), dtype=np.uint8)
    if _kernels.pack_signs(activations, activations.view(bits), mask, limit, codes) & sign:
        check_activations(activations, hasher)
    return codes


@cache
def range_terms(dtype: np.dtype[Any], largest: float | None = None) -> tuple[np.dtype[Any], Any, Any, Any] | None:
    """Type of the integers, sign bit, mask and limit with which a kernel finds floats beyond `largest`, or not finite.

    Without its sign a float is ordered as an integer: ``(word & mask) + limit`` has the sign bit if the float is out of
    range. None for other dtypes.
    """
    if dtype not in (np.float32, np.float64):
        return None
    bits = np.dtype(f"u{dtype.itemsize}")
    last = np.array(np.finfo(dtype).max if largest is None else largest, dtype=dtype).view(bits)[()]
    sign = bits.type(1 << (8 * dtype.itemsize - 1))
    mask = ~sign
    return bits, sign, mask, mask - last
