"""sentence-transformers: the formats of its ``quantize_embeddings``.

"ubinary" holds packed bits as uint8, like `encode`. "binary" holds the same bytes minus 128, as int8.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skhash.codes import Codes
from skhash.stores._common import with_ids


def to_sentence_transformers(
    codes: Codes | npt.ArrayLike, precision: Literal["ubinary", "binary"] = "ubinary", *, nbits: int | None = None
) -> npt.NDArray[Any]:
    """Codes in the form of binary embeddings of sentence-transformers.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    precision : "ubinary" or "binary", default="ubinary"
        The format.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.

    Returns
    -------
    ndarray of shape (n, ceil(nbits / 8)), dtype uint8 or int8
        Packed codes: uint8 for "ubinary", int8 for "binary".

    Raises
    ------
    ValueError
        If `codes` or `precision` are not as described.

    Examples
    --------
    >>> from skhash.stores import to_sentence_transformers
    >>> to_sentence_transformers([[0, 0, 1], [1, 1, 1]], "binary")
    array([[-96], [ 96]], dtype=int8)
    """
    if precision not in ("ubinary", "binary"):
        raise ValueError(f"`precision` must be 'ubinary' or 'binary'. Got {precision!r} instead.")
    packed = Codes.of(codes, nbits).rows
    return packed if precision == "ubinary" else (packed.astype(np.int16) - 128).astype(np.int8)


def from_sentence_transformers(embeddings: npt.ArrayLike, *, nbits: int | None = None) -> Codes:
    """Codes of binary embeddings of sentence-transformers.

    Parameters
    ----------
    embeddings : array-like of shape (n, n_bytes), dtype uint8 or int8
        "ubinary" or "binary" embeddings; the dtype tells which.
    nbits : int, default=None
        Number of bits of a code. None takes all bits of the bytes, a multiple of 8.

    Returns
    -------
    Codes
        Packed codes, number of bits, and identifiers from 0.

    Raises
    ------
    ValueError
        If `embeddings` are not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.stores import from_sentence_transformers
    >>> from_sentence_transformers(
    ...     np.array([[-96], [96]], dtype=np.int8), nbits=3
    ... ).rows.tolist()
    [[32], [224]]
    """
    array = np.asarray(embeddings)
    if array.ndim != 2 or array.dtype not in (np.uint8, np.int8):
        raise ValueError(
            "`embeddings` must be uint8 ('ubinary') or int8 ('binary') of shape (n, n_bytes). "
            f"Got {array.dtype} of shape {array.shape} instead."
        )
    packed = array if array.dtype == np.uint8 else (array.astype(np.int16) + 128).astype(np.uint8)
    return with_ids(packed, 8 * array.shape[1] if nbits is None else nbits, None, "embeddings")
