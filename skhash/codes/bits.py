"""Bits and packed codes: thresholds, weights of bits, distances of all pairs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn

from skhash._threads import run_in_slices
from skhash._validation import as_count, numeric, on_host, sum_of_squares

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
    return as_packed(codes)[0]


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
    return np.unpackbits(_check_packed(numeric(packed, "packed"), nbits, "packed"), axis=1, count=nbits)


def as_packed(codes: npt.ArrayLike, nbits: int | None = None, name: str = "codes") -> tuple[npt.NDArray[np.uint8], int]:
    """Packed codes and their number of bits, from bits or from packed codes.

    Parameters
    ----------
    codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Bits as a hasher's ``transform`` returns them, or bytes as ``encode`` does.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    name : str, default="codes"
        Name of the argument in error messages.

    Returns
    -------
    packed : ndarray of shape (n, ceil(nbits / 8)), dtype uint8
        The packed codes.
    nbits : int
        Number of bits of a code.

    Raises
    ------
    ValueError
        If `codes` are neither bits nor packed codes of `nbits` bits.

    Examples
    --------
    >>> from skhash.codes.bits import as_packed
    >>> as_packed([[0, 1, 1]])
    (array([[96]], dtype=uint8), 3)
    """
    codes = numeric(on_host(codes), name)
    nbits = None if nbits is None else as_count(nbits, "nbits")
    if nbits is None or (codes.ndim == 2 and codes.shape[1] == nbits and codes.max(initial=0) <= 1):
        return np.packbits(_check_bits(codes, name), axis=1), codes.shape[1]
    return _check_packed(codes, nbits, name), nbits


def as_words(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Packed codes as whole 64-bit words, padded, word-major for the kernels.

    Parameters
    ----------
    packed : ndarray of shape (n, n_bytes), dtype uint8
        Packed codes.

    Returns
    -------
    ndarray of shape (ceil(n_bytes / 8), n), dtype uint64
        Words; the order of bits inside a word does not matter for a distance.

    Examples
    --------
    >>> from skhash.codes.bits import as_words, pack
    >>> as_words(pack([[1] * 70])).shape
    (2, 1)
    """
    return np.ascontiguousarray(item_words(packed).T)


def first_bits(packed: npt.NDArray[np.uint8], nbits: int) -> npt.NDArray[np.uint8]:
    """Packed codes of the first bits of packed codes."""
    codes = packed[:, : -(-nbits // 8)].copy()
    codes[:, -1] &= 0xFF << -nbits % 8 & 0xFF
    return codes


def item_words(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Packed codes as 64-bit words of shape (n, n_words), padded with zeros."""
    n, n_bytes = packed.shape
    padded = np.zeros((n, -(-n_bytes // 8) * 8), dtype=np.uint8)
    padded[:, :n_bytes].view(f"V{n_bytes}")[:] = np.ascontiguousarray(packed).view(f"V{n_bytes}")  # faster than bytes
    return padded.view(np.uint64)


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
    codes_a: npt.ArrayLike,
    codes_b: npt.ArrayLike,
    *,
    bit_weights: npt.ArrayLike | None = None,
    nbits: int | None = None,
) -> npt.NDArray[Any]:
    """Hamming distances of all pairs of codes, plain or weighted.

    Parameters
    ----------
    codes_a : array-like of shape (n_a, nbits) or (n_a, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given.
    codes_b : array-like of shape (n_b, nbits) or (n_b, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given.
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
    packed_a, nbits_a = as_packed(codes_a, nbits, "codes_a")
    packed_b, nbits_b = as_packed(codes_b, nbits, "codes_b")
    check_same_nbits(nbits_a, nbits_b, "codes_a", "codes_b")
    from skhash.codes.bit_kernels import byte_table_distances, byte_tables

    weights, unit = np.ones(nbits_a, dtype=np.int64), None
    if bit_weights is not None:
        weights, unit = quantize_weights(bit_weights, nbits_a)
    a, b, table = read_only(packed_a), read_only(packed_b), byte_tables(0 * weights[None], weights[None])[0]
    distances = np.empty((len(a), len(b)), dtype=np.int64)
    run_in_slices(lambda part: byte_table_distances(a[part], b, table, distances[part]), len(a))
    return distances if unit is None else distances * unit


def bit_balance(codes: npt.ArrayLike, *, nbits: int | None = None) -> npt.NDArray[np.float64]:
    """Share of ones of each bit; 1/2 is balanced.

    Parameters
    ----------
    codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given; n >= 1.
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
    return np.asarray(_bits(codes, nbits).mean(axis=0))


def bit_correlation(codes: npt.ArrayLike, *, nbits: int | None = None) -> npt.NDArray[np.float64]:
    """Pearson correlation of all pairs of bits; 0 for bits that do not repeat each other.

    Parameters
    ----------
    codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given; n >= 1.
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
    bits = _bits(codes, nbits).astype(np.float64)
    ones = bits.sum(axis=0)
    # sums of integers are exact, so that the spread of a constant bit is 0
    covariance = len(bits) * (bits.T @ bits) - np.outer(ones, ones)
    spread = np.sqrt(ones * (len(bits) - ones))
    scale = np.outer(spread, spread)
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0).clip(-1, 1)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def check_same_nbits(nbits_a: int, nbits_b: int, name_a: str, name_b: str) -> None:
    """Raise ValueError if two sets of codes have different numbers of bits.

    Parameters
    ----------
    nbits_a, nbits_b : int
        Numbers of bits.
    name_a, name_b : str
        Names of the codes in the message.

    Raises
    ------
    ValueError
        If the numbers differ.

    Examples
    --------
    >>> from skhash.codes.bits import check_same_nbits
    >>> check_same_nbits(8, 8, "query_codes", "database_codes")
    """
    if nbits_a != nbits_b:
        raise ValueError(
            f"`{name_a}` and `{name_b}` must have the same number of bits. Got {nbits_a} and {nbits_b} instead."
        )


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Read-only view of an array, contiguous, so that numba compiles each kernel once."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


def memory_chunks(n: int, bytes_per_item: int) -> Iterator[slice]:
    """Successive slices of n items, each as large as fits into 128 MiB and scikit-learn's `working_memory`."""
    memory = min(sklearn.get_config()["working_memory"], MAX_WORKING_MEMORY) * 2**20
    size = max(1, int(memory // max(1, bytes_per_item)))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))  # gen_batches takes as long as a search


def _bits(codes: npt.ArrayLike, nbits: int | None) -> npt.NDArray[np.uint8]:
    """Bits of at least one code, from bits or from packed codes."""
    bits = unpack(*as_packed(codes, nbits))
    if not len(bits):
        raise ValueError("`codes` must hold at least one code. Got none.")
    return bits


def _check_bits(bits: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    if bits.ndim != 2 or bits.shape[1] == 0:
        raise ValueError(f"`{name}` must be a matrix of bits, shape (n, nbits). Got shape {bits.shape} instead.")
    if not ((bits == 0) | (bits == 1)).all():
        raise ValueError(
            f"`{name}` must hold only 0 and 1. Got other values of dtype {bits.dtype}. Pass the bits that `transform` "
            "returns, or the packed codes that `encode` returns together with `nbits`."
        )
    return bits.astype(np.uint8, copy=False)


def are_packed(codes: Any, nbits: int) -> bool:
    """Whether codes are an array of packed codes of `nbits` bits, and not of one bit, which could be both."""
    is_plain = type(codes) is np.ndarray and codes.dtype == np.uint8 and codes.ndim == 2 and len(codes) > 0
    return is_plain and nbits % 8 == 0 and codes.shape[1] == nbits // 8


def _check_packed(packed: npt.NDArray[Any], nbits: int, name: str) -> npt.NDArray[np.uint8]:
    n_bytes = -(-nbits // 8)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != n_bytes:
        raise ValueError(
            f"`{name}` must hold packed codes of {nbits} bits, uint8 of shape (n, {n_bytes}). "
            f"Got {packed.dtype} of shape {packed.shape} instead."
        )
    if nbits % 8 and (packed[:, -1] & (0xFF >> nbits % 8)).any():
        raise ValueError(f"`{name}` must have zeros after bit {nbits}, in the tail of the last byte. Got ones there.")
    return packed
