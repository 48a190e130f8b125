"""usearch: an index of single bits ("b1"). It takes any number of bits, and searches exactly or by its graph."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash._ids import MAX_ID, as_ids
from skhash._libraries import library
from skhash.codes import Codes
from skhash.stores._common import check_whole, with_ids

if TYPE_CHECKING:
    from usearch.index import Index

_MAX_KEY = 2**64 - 2  # the next one marks a free slot of the graph


def to_usearch(codes: Codes | npt.ArrayLike, *, nbits: int | None = None, ids: npt.ArrayLike | None = None) -> "Index":
    """Build a usearch index of codes.

    Search it with packed codes, as ``encode`` returns them.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), dtype int, default=None
        Keys from 0 to 2**64 - 2 that searches return, all different. None numbers the codes from 0. Text cannot
        be a key.

    Returns
    -------
    usearch.index.Index
        The index, with ``dtype="b1"`` and ``metric="hamming"``. It searches its graph, which can miss a neighbor,
        unless ``search`` has ``exact=True``.

    Raises
    ------
    ImportError
        If usearch is not installed.
    ValueError
        If `codes` or `ids` are not as described.

    Examples
    --------
    >>> from skhash.codes import pack
    >>> from skhash.stores import to_usearch
    >>> index = to_usearch([[0, 0, 1], [1, 1, 1]], ids=[7, 8])
    >>> matches = index.search(pack([[0, 0, 0], [1, 1, 1]]), 1, exact=True)
    >>> matches.distances.tolist(), matches.keys.tolist()
    ([[1.0], [0.0]], [[7], [8]])
    """
    usearch = library("usearch.index", "usearch", "to_usearch")
    ids = codes.ids if ids is None and isinstance(codes, Codes) else ids
    given: Any = None if ids is None else as_ids(ids, "ids")
    is_unsigned = getattr(given, "dtype", None) == np.uint64
    stored = with_ids(codes, nbits, given.view(np.int64) if is_unsigned else given)  # ids are checked as int64
    check_whole(stored.ids, "usearch")
    if not is_unsigned and (stored.ids < 0).any():
        raise ValueError(f"`ids` must be >= 0 in usearch. Got {stored.ids.min()} instead.")
    keys = stored.ids.astype(np.uint64)
    if (keys > _MAX_KEY).any():
        raise ValueError(f"`ids` must be at most {_MAX_KEY} in usearch. Got {keys.max()} instead.")
    index = usearch.Index(ndim=stored.nbits, metric="hamming", dtype="b1")
    if len(keys):
        index.add(keys, stored.rows)
    return index


def from_usearch(index: "Index") -> Codes:
    """Codes of a usearch index of bits.

    Parameters
    ----------
    index : usearch.index.Index
        The index, with ``dtype="b1"``.

    Returns
    -------
    Codes
        Packed codes, number of bits and identifiers, sorted by identifier. The identifiers are uint64 if one is
        larger than an int64 can be.

    Raises
    ------
    ImportError
        If usearch is not installed.
    TypeError
        If `index` does not hold bits.
    ValueError
        If several codes have one key.

    Examples
    --------
    >>> from skhash.stores import from_usearch, to_usearch
    >>> from_usearch(to_usearch([[0, 0, 1], [1, 1, 1]]))
    <Codes: 2 of 3 bits, with ids>
    """
    usearch = library("usearch.index", "usearch", "from_usearch")
    if not isinstance(index, usearch.Index) or index.dtype != usearch.ScalarKind.B1:
        kind = index.dtype if isinstance(index, usearch.Index) else type(index).__name__
        raise TypeError(f"`index` must be a usearch index with dtype='b1'. Got {kind} instead.")
    keys = np.sort(np.asarray(index.keys, dtype=np.uint64))
    if (keys[1:] == keys[:-1]).any():
        raise ValueError("`index` must have different keys. Got repeated ones.")
    n_bytes = -(-index.ndim // 8)
    codes = np.asarray(index.get(keys)) if len(keys) else np.empty((0, n_bytes), dtype=np.uint8)
    stored = with_ids(codes.reshape(len(keys), n_bytes), index.ndim, keys.view(np.int64), "index")
    return replace(stored, ids=keys) if (keys > MAX_ID).any() else stored
