"""Binary codes: thresholding, packing into bytes, Hamming distances.

A code is a row of ``nbits`` zeros and ones. It is *stored* packed, eight bits to
a byte in the order of :func:`numpy.packbits` (the first bit is the highest),
with zeros in the unused tail, which leaves every Hamming distance unchanged.
All arithmetic on codes lives here: on ``uint8`` a plain subtraction wraps around.
"""

import math

import numpy as np

from skhash._threads import run_in_slices


def binarize(activations):
    """Threshold real activations into bits: 1 where ``activation >= 0``.

    Every code of the library comes from here; ``sign(0) = +1``, as in the signs that hashers train on.

    Parameters
    ----------
    activations : ndarray of shape (n, nbits)
        Real values.

    Returns
    -------
    ndarray of shape (n, nbits), dtype uint8
        Bits, 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.codes import binarize
    >>> binarize(np.array([[-0.5, 0.0, 2.0]]))
    array([[0, 1, 1]], dtype=uint8)
    """
    return (np.asarray(activations) >= 0).astype(np.uint8)


def signs(bits):
    """Turn bits into the signs that hashers compute with: -1 for 0.

    Parameters
    ----------
    bits : array-like of int
        Bits, 0 or 1.

    Returns
    -------
    float64 array
        Of -1 and 1, of the shape of `bits`.

    Examples
    --------
    >>> from skhash.codes import signs
    >>> signs([0, 1, 1])
    array([-1.,  1.,  1.])
    """
    return 2.0 * np.asarray(bits) - 1.0


def pack(codes):
    """Pack bits into bytes, first bit highest (``numpy.packbits`` order).

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
    return np.packbits(_check_bits(codes, "codes"), axis=1)


def unpack(packed, nbits):
    """Unpack bytes into bits; the inverse of :func:`pack`.

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
        If `packed` does not hold ``ceil(nbits / 8)`` bytes a row.

    Examples
    --------
    >>> from skhash.codes import pack, unpack
    >>> unpack(pack([[1, 0, 1]]), nbits=3)
    array([[1, 0, 1]], dtype=uint8)
    """
    return np.unpackbits(_check_packed(packed, nbits, "packed"), axis=1, count=nbits)


def as_packed(codes, nbits=None, name="codes"):
    """Accept codes as bits or packed, and return them packed with their length.

    Parameters
    ----------
    codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Bits as a hasher's ``transform`` returns them, or bytes as ``encode`` does.
    nbits : int, default=None
        Length of a code. Needed for packed codes; None means that `codes` are bits.
    name : str, default="codes"
        How error messages call the argument.

    Returns
    -------
    packed : ndarray of shape (n, ceil(nbits / 8)), dtype uint8
        The packed codes.
    nbits : int
        Length of a code.

    Raises
    ------
    ValueError
        If `codes` are neither bits nor packed codes of `nbits` bits.

    Examples
    --------
    >>> from skhash.codes import as_packed
    >>> as_packed([[0, 1, 1]])
    (array([[96]], dtype=uint8), 3)
    """
    codes = np.asarray(codes)
    if nbits is None or (codes.ndim == 2 and codes.shape[1] == nbits and codes.max(initial=0) <= 1):
        codes = _check_bits(codes, name)
        return np.packbits(codes, axis=1), codes.shape[1]
    return _check_packed(codes, nbits, name), nbits


def as_words(packed):
    """Pad packed codes to whole 64-bit words, word-major for the kernels.

    Parameters
    ----------
    packed : ndarray of shape (n, n_bytes), dtype uint8
        Packed codes.

    Returns
    -------
    ndarray of shape (ceil(n_bytes / 8), n), dtype uint64
        Words; the order of bits inside a word is of no meaning to a distance.

    Examples
    --------
    >>> from skhash.codes import as_words, pack
    >>> as_words(pack([[1] * 70])).shape
    (2, 1)
    """
    n, n_bytes = packed.shape
    padded = np.zeros((n, -(-n_bytes // 8) * 8), dtype=np.uint8)
    padded[:, :n_bytes] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)


def quantize_weights(bit_weights, nbits):
    """Round bit weights to integers on a power-of-two grid.

    Sums of the rounded weights are exact whatever the order of summation, so
    that equal weighted distances *are* equal and histograms merge exactly.

    Parameters
    ----------
    bit_weights : array-like of shape (nbits,)
        Non-negative weights of the bits.
    nbits : int
        Length of a code.

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
    >>> from skhash.codes import quantize_weights
    >>> weights, unit = quantize_weights([0.5, 0.25], nbits=2)
    >>> weights * unit
    array([0.5 , 0.25])
    """
    weights = np.asarray(bit_weights, dtype=np.float64)
    if weights.shape != (nbits,):
        raise ValueError(f"bit_weights has shape {weights.shape}; one weight a bit is wanted, shape ({nbits},).")
    if not np.isfinite(weights.sum()) or (weights < 0).any() or not weights.any():
        raise ValueError(
            f"bit_weights={bit_weights}; weights >= 0 with a finite sum, and at least one above zero, are wanted."
        )
    unit = 2.0 ** max(np.ceil(np.log2(weights.sum()) - 51), -1074)  # the least power of two of a float64
    return np.rint(weights / unit).astype(np.int64), unit


def hamming_distances(codes_a, codes_b, *, bit_weights=None, nbits=None):
    """Compute all pairwise Hamming distances, plain or weighted.

    Parameters
    ----------
    codes_a : array-like of shape (n_a, nbits) or (n_a, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given.
    codes_b : array-like of shape (n_b, nbits) or (n_b, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given.
    bit_weights : array-like of shape (nbits,), default=None
        Weight of each differing bit; None counts them.
    nbits : int, default=None
        Length of a code, needed for packed codes.

    Returns
    -------
    ndarray of shape (n_a, n_b), dtype int64 or float64
        Number of differing bits in [0, nbits], or the sum of their weights
        (float64, on the grid of :func:`quantize_weights`).

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
    check_same_length(nbits_a, nbits_b, "codes_a", "codes_b")
    if bit_weights is None:
        return _table_distances(packed_a, packed_b, np.ones(nbits_a, dtype=np.int64))
    weights, unit = quantize_weights(bit_weights, nbits_a)
    return _table_distances(packed_a, packed_b, weights) * unit


def bit_balance(codes, *, nbits=None):
    """Share of ones of each bit; 1/2 is balanced.

    Parameters
    ----------
    codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given; n >= 1.
    nbits : int, default=None
        Length of a code, needed for packed codes.

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
    return _some_bits(codes, nbits).mean(axis=0)


def bit_correlation(codes, *, nbits=None):
    """Pearson correlation of all pairs of bits; a code spends none of them twice where it is 0.

    Parameters
    ----------
    codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given; n >= 1.
    nbits : int, default=None
        Length of a code, needed for packed codes.

    Returns
    -------
    ndarray of shape (nbits, nbits), float64
        Symmetric, in [-1, 1], with ones on the diagonal. A constant bit, whose
        correlation is not defined, tells nothing about the others: 0 with each of them.

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
    # whole numbers up to here: a constant bit has a spread of exactly 0
    covariance = len(bits) * (bits.T @ bits) - np.outer(ones, ones)
    spread = np.sqrt(ones * (len(bits) - ones))
    scale = np.outer(spread, spread)
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0).clip(-1, 1)
    np.fill_diagonal(correlation, 1.0)
    return correlation


def check_same_length(nbits_a, nbits_b, name_a, name_b):
    """Raise ValueError if two sets of codes differ in length.

    Parameters
    ----------
    nbits_a, nbits_b : int
        Lengths of the codes.
    name_a, name_b : str
        How the message calls them.

    Raises
    ------
    ValueError
        If the lengths differ.

    Examples
    --------
    >>> from skhash.codes import check_same_length
    >>> check_same_length(8, 8, "query_codes", "database_codes")
    """
    if nbits_a != nbits_b:
        raise ValueError(f"{name_a} have {nbits_a} bits and {name_b} {nbits_b}; codes of one length are wanted.")


def is_count(value, most=math.inf):
    """Tell whether an argument is an integer from 1 to `most`; True is not, for all that Python says.

    Parameters
    ----------
    value : object
        What came.
    most : int, default=inf
        The largest one.

    Returns
    -------
    bool
        Whether it is.

    Examples
    --------
    >>> from skhash.codes import is_count
    >>> [is_count(value, 64) for value in (64, 65, 0, 8.0, True)]
    [True, False, False, False, False]
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= value <= most


def _some_bits(codes, nbits):
    """Bits of one code at least, given as bits or packed."""
    bits = unpack(*as_packed(codes, nbits))
    if not len(bits):
        raise ValueError("codes has no rows; at least one code is wanted.")
    return bits


def _table_distances(packed_a, packed_b, weights):
    """Sum of the integer weights of the differing bits of all pairs, (n_a, n_b)."""
    from skhash._kernels import byte_table_distances

    table = _byte_table(weights)
    distances = np.empty((len(packed_a), len(packed_b)), dtype=np.int64)
    run_in_slices(lambda part: byte_table_distances(packed_a[part], packed_b, table, distances[part]), len(packed_a))
    return distances


def _byte_table(weights):
    """Weight of every pattern of differing bits of every byte, (n_bytes, 256)."""
    patterns = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    n_bytes = -(-len(weights) // 8)
    padded = np.zeros(n_bytes * 8, dtype=np.int64)
    padded[: len(weights)] = weights
    return np.ascontiguousarray(padded.reshape(n_bytes, 8) @ patterns.T)


def _check_bits(codes, name):
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] == 0:
        raise ValueError(f"{name} has shape {codes.shape}; a matrix (n, nbits) of bits is wanted.")
    if not ((codes == 0) | (codes == 1)).all():
        raise ValueError(
            f"{name} holds values other than 0 and 1 (dtype {codes.dtype}). Pass the bits that transform returns, "
            "or the packed bytes that encode returns together with nbits=."
        )
    return codes.astype(np.uint8, copy=False)


def _check_packed(packed, nbits, name):
    packed = np.asarray(packed)
    if not is_count(nbits):
        raise ValueError(f"nbits={nbits!r}; an integer of at least 1 is wanted.")
    n_bytes = -(-nbits // 8)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != n_bytes:
        raise ValueError(
            f"{name} has dtype {packed.dtype} and shape {packed.shape}; packed codes of {nbits} bits "
            f"are uint8 of shape (n, {n_bytes})."
        )
    if nbits % 8 and (packed[:, -1] & (0xFF >> nbits % 8)).any():
        raise ValueError(f"{name} has ones beyond bit {nbits}; the unused tail of the last byte must be zero.")
    return packed
