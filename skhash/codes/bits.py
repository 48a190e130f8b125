"""Bits and packed codes: thresholds, weights of bits, distances of all pairs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn

from skhash._threads import run_in_slices
from skhash._validation import as_count, numeric, sum_of_squares
from skhash.codes.blocks import read_only
from skhash.codes.codes import Codes, check_packed

#: largest number of bits of a hasher; a larger one is a mistake, and takes all memory before it fails
MAX_NBITS = 65536
MAX_WORKING_MEMORY = 128  # MiB; larger chunks are faster only if a few items fill one


def binarize(activations: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Bits of real activations: 1 where ``activation >= 0``.

    This is the only threshold of the library; ``sign(0) = +1``, as in the signs that hashers train on.

    Parameters
    ----------
    activations : array-like of shape (n, nbits)
        Real values.

    Returns
    -------
    ndarray of shape (n, nbits), dtype uint8
        Bits, 0 or 1.

    Raises
    ------
    ValueError
        If an activation is NaN, which has no sign.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.codes import binarize
    >>> binarize(np.array([[-0.5, 0.0, 2.0]]))
    array([[0, 1, 1]], dtype=uint8)
    """
    activations = numeric(activations, "activations")
    if ((total := sum_of_squares(activations)) is None or np.isnan(total)) and np.isnan(activations).any():
        raise ValueError(f"`activations` must not have NaN. Got {np.isnan(activations).sum()} instead.")
    return threshold(activations)


def threshold(activations: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Bits of activations that are known to be numbers, as :func:`binarize` returns them.

    Parameters
    ----------
    activations : ndarray of shape (n, nbits)
        Real values without NaN.

    Returns
    -------
    ndarray of shape (n, nbits), dtype uint8
        Bits, 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.codes import threshold
    >>> threshold(np.array([[-0.5, 0.0, 2.0]]))
    array([[0, 1, 1]], dtype=uint8)
    """
    bits: npt.NDArray[np.uint8] = (activations >= 0).view(np.uint8)
    return bits


def signs(bits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Signs of bits, with which hashers compute: -1 for 0, 1 for 1.

    Parameters
    ----------
    bits : array-like of int
        Bits, 0 or 1.

    Returns
    -------
    float64 array
        Signs, of the shape of `bits`.

    Examples
    --------
    >>> from skhash.codes import signs
    >>> signs([0, 1, 1])
    array([-1.,  1.,  1.])
    """
    return np.asarray(2.0 * numeric(bits, "bits") - 1.0)


def pack(codes: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Packed codes: eight bits per byte, first bit highest (``numpy.packbits`` order).

    Parameters
    ----------
    codes : array-like of shape (n, nbits)
        Bits, 0 or 1.

    Returns
    -------
    ndarray of shape (n, ceil(nbits / 8)), dtype uint8
        Packed codes; the tail of the last byte is zero.

    Raises
    ------
    ValueError
        If `codes` is not a matrix of zeros and ones.

    Examples
    --------
    >>> from skhash.codes import pack
    >>> pack([[1, 0, 0, 0, 0, 0, 0, 1, 1]])
    array([[129, 128]], dtype=uint8)
    """
    return Codes.of(codes).rows


def unpack(packed: npt.ArrayLike, nbits: int) -> npt.NDArray[np.uint8]:
    """Bits of packed codes; the inverse of :func:`pack`.

    Parameters
    ----------
    packed : array-like of shape (n, ceil(nbits / 8)), dtype uint8
        Packed codes.
    nbits : int
        Number of bits of a code.

    Returns
    -------
    ndarray of shape (n, nbits), dtype uint8
        Bits, 0 or 1.

    Raises
    ------
    ValueError
        If `packed` does not hold ``ceil(nbits / 8)`` bytes per code.

    Examples
    --------
    >>> from skhash.codes import pack, unpack
    >>> unpack(pack([[1, 0, 1]]), nbits=3)
    array([[1, 0, 1]], dtype=uint8)
    """
    nbits = as_count(nbits, "nbits")
    return Codes(check_packed(numeric(packed, "packed"), nbits, "packed"), nbits).bits()


def quantize_weights(bit_weights: npt.ArrayLike, nbits: int) -> tuple[npt.NDArray[np.int64], float]:
    """Bit weights rounded to integers on a power-of-two grid.

    Sums of the rounded weights are exact in any order of summation, so that
    equal weighted distances *are* equal and histograms merge exactly.

    Parameters
    ----------
    bit_weights : array-like of shape (nbits,)
        Non-negative weights of the bits.
    nbits : int
        Number of bits of a code.

    Returns
    -------
    weights : ndarray of shape (nbits,), dtype int64
        Integer weights with a sum below 2**52.
    unit : float
        The power of two that turns an integer distance into a real one.

    Raises
    ------
    ValueError
        If the weights are not `nbits` finite non-negative numbers, not all zero.

    Examples
    --------
    >>> from skhash.codes.bits import quantize_weights
    >>> weights, unit = quantize_weights([0.5, 0.25], nbits=2)
    >>> weights * unit
    array([0.5 , 0.25])
    """
    nbits = as_count(nbits, "nbits")
    weights = numeric(bit_weights, "bit_weights").astype(np.float64)
    if weights.shape != (nbits,):
        raise ValueError(f"`bit_weights` must have one weight per bit, shape ({nbits},). Got shape {weights.shape}.")
    if not np.isfinite(weights.sum()) or (weights < 0).any() or not weights.any():
        raise ValueError(
            f"`bit_weights` must be >= 0 with a finite sum, and at least one above 0. Got {bit_weights!r} instead."
        )
    unit = 2.0 ** float(max(np.ceil(np.log2(weights.sum()) - 51), -1074))  # 2**-1074 is the smallest float64
    return np.rint(weights / unit).astype(np.int64), unit


def hamming_distances(
    codes_a: Codes | npt.ArrayLike,
    codes_b: Codes | npt.ArrayLike,
    *,
    bit_weights: npt.ArrayLike | None = None,
    nbits: int | None = None,
) -> npt.NDArray[Any]:
    """Hamming distances of all pairs of codes, plain or weighted.

    Parameters
    ----------
    codes_a : Codes, or array-like of shape (n_a, nbits) or (n_a, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    codes_b : Codes, or array-like of shape (n_b, nbits) or (n_b, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    bit_weights : array-like of shape (nbits,), default=None
        Weight of each differing bit; None counts them.
    nbits : int, default=None
        Number of bits of packed codes; None means that the codes are bits.

    Returns
    -------
    ndarray of shape (n_a, n_b), dtype int64 or float64
        Number of differing bits in [0, nbits], or the sum of their weights
        (float64; the weights are multiples of a power of two).

    Raises
    ------
    ValueError
        If codes or weights are not as described.

    Examples
    --------
    >>> from skhash.codes import hamming_distances
    >>> hamming_distances([[0, 1, 1]], [[0, 1, 0], [1, 0, 0]])
    array([[1, 3]])
    >>> hamming_distances([[0, 1, 1]], [[0, 1, 0]], bit_weights=[1, 2, 0.5])
    array([[0.5]])
    """
    of_a, of_b = Codes.of(codes_a, nbits, name="codes_a"), Codes.of(codes_b, nbits, name="codes_b")
    of_a.check_same(of_b, "codes_a", "codes_b")
    from skhash.codes.bit_kernels import byte_table_distances, byte_tables

    weights, unit = np.ones(of_a.nbits, dtype=np.int64), None
    if bit_weights is not None:
        weights, unit = quantize_weights(bit_weights, of_a.nbits)
    a, b, table = read_only(of_a.rows), read_only(of_b.rows), byte_tables(0 * weights[None], weights[None])[0]
    distances = np.empty((len(a), len(b)), dtype=np.int64)
    run_in_slices(lambda part: byte_table_distances(a[part], b, table, distances[part]), len(a))
    return distances if unit is None else distances * unit


def bit_balance(codes: Codes | npt.ArrayLike, *, nbits: int | None = None) -> npt.NDArray[np.float64]:
    """Share of ones of each bit; 1/2 is balanced.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given; n >= 1.
    nbits : int, default=None
        Number of bits of packed codes; None means that the codes are bits.

    Returns
    -------
    ndarray of shape (nbits,), float64
        In [0, 1].

    Raises
    ------
    ValueError
        If there are no codes, or they are not as described.

    Examples
    --------
    >>> from skhash.codes import bit_balance
    >>> bit_balance([[0, 1, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]])
    array([0.5 , 1.  , 0.75])
    """
    return np.asarray(_some_bits(codes, nbits).mean(axis=0))


def bit_correlation(codes: Codes | npt.ArrayLike, *, nbits: int | None = None) -> npt.NDArray[np.float64]:
    """Pearson correlation of all pairs of bits; 0 for bits that do not repeat each other.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given; n >= 1.
    nbits : int, default=None
        Number of bits of packed codes; None means that the codes are bits.

    Returns
    -------
    ndarray of shape (nbits, nbits), float64
        Symmetric, in [-1, 1], with ones on the diagonal. A constant bit, whose
        correlation is not defined, has 0 with each of the others.

    Raises
    ------
    ValueError
        If there are no codes, or they are not as described.

    Examples
    --------
    >>> from skhash.codes import bit_correlation
    >>> bit_correlation([[0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 0, 1]])
    array([[ 1., -1.,  0.],
           [-1.,  1.,  0.],
           [ 0.,  0.,  1.]])
    """
    bits = _some_bits(codes, nbits).astype(np.float64)
    ones = bits.sum(axis=0)
    # sums of integers are exact, so that the spread of a constant bit is 0
    covariance = len(bits) * (bits.T @ bits) - np.outer(ones, ones)
    spread = np.sqrt(ones * (len(bits) - ones))
    scale = np.outer(spread, spread)
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0).clip(-1, 1)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def memory_chunks(n: int, bytes_per_item: int) -> Iterator[slice]:
    """Successive slices of n items, each as large as fits into 128 MiB and scikit-learn's `working_memory`."""
    memory = min(sklearn.get_config()["working_memory"], MAX_WORKING_MEMORY) * 2**20
    size = max(1, int(memory // max(1, bytes_per_item)))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))  # gen_batches takes as long as a search


def _some_bits(codes: Any, nbits: int | None) -> npt.NDArray[np.uint8]:
    """Bits of at least one code."""
    bits = Codes.of(codes, nbits).bits()
    if not len(bits):
        raise ValueError("`codes` must hold at least one code. Got none.")
    return bits
