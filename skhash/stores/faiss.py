"""FAISS: a flat binary index, searched exactly. Codes are padded to whole bytes.

FAISS reads the bits of a byte from the lowest one, which changes no Hamming distance.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash._libraries import library
from skhash.codes import Codes
from skhash.stores._common import check_whole, with_ids

if TYPE_CHECKING:
    import faiss


def to_faiss(
    codes: Codes | npt.ArrayLike, *, nbits: int | None = None, ids: npt.ArrayLike | None = None
) -> "faiss.IndexBinary":
    """Build a FAISS index of codes.

    Search it with packed codes, as ``encode`` returns them.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), dtype int, default=None
        Identifiers that searches return, all different. None numbers the codes from 0. FAISS takes no text.

    Returns
    -------
    faiss.IndexBinaryFlat or faiss.IndexBinaryIDMap
        The index, with identifiers if `ids` are given.

    Raises
    ------
    ImportError
        If faiss is not installed.
    ValueError
        If `codes` or `ids` are not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.codes import pack
    >>> from skhash.stores import to_faiss
    >>> index = to_faiss([[0, 0, 1], [1, 1, 1]], ids=[7, 8])
    >>> distances, found = index.search(pack([[0, 1, 1], [1, 1, 1]]), 1)
    >>> distances.tolist(), found.tolist()
    ([[1], [0]], [[7], [8]])
    """
    faiss = library("faiss", "faiss-cpu", "to_faiss")
    stored = with_ids(codes, nbits, ids)
    check_whole(stored.ids, "FAISS")
    index = faiss.IndexBinaryFlat(8 * stored.rows.shape[1])
    if ids is None and getattr(codes, "ids", None) is None:
        index.add(stored.rows)
        return index
    index = faiss.IndexBinaryIDMap(index)
    index.add_with_ids(stored.rows, stored.ids)
    return index


def from_faiss(index: "faiss.IndexBinary", *, nbits: int | None = None) -> Codes:
    """Codes of a binary FAISS index.

    Parameters
    ----------
    index : faiss.IndexBinary
        The index; with identifiers an ``IndexBinaryIDMap``, ``IndexBinaryIDMap2`` or ``IndexBinaryIVF``.
    nbits : int, default=None
        Number of bits of a code. None takes all bits of the index, a multiple of 8.

    Returns
    -------
    Codes
        Packed codes, number of bits and identifiers, in the order of the index; those of an ``IndexBinaryIVF`` sorted
        by identifier.

    Raises
    ------
    ImportError
        If faiss is not installed.
    TypeError
        If `index` is not a binary index, or one that cannot read its codes again, such as ``IndexBinaryHash``.
    ValueError
        If `nbits` does not fit the index.

    Examples
    --------
    >>> from skhash.stores import from_faiss, to_faiss
    >>> from_faiss(to_faiss([[0, 0, 1], [1, 1, 1]]), nbits=3).rows.tolist()
    [[32], [224]]
    """
    faiss = library("faiss", "faiss-cpu", "from_faiss")
    if not isinstance(index, faiss.IndexBinary):
        raise TypeError(f"`index` must be a binary FAISS index. Got {type(index).__name__} instead.")
    plain, given = faiss.downcast_IndexBinary(index), None
    if hasattr(plain, "id_map"):
        given = faiss.vector_to_array(plain.id_map)
        plain = faiss.downcast_IndexBinary(plain.index)
    codes, ids = _codes_of(faiss, plain)
    if given is not None:
        ids = given if ids is None else given[ids]
    return with_ids(codes, index.d if nbits is None else nbits, ids, "index")


def _codes_of(faiss: Any, index: Any) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64] | None]:
    """Codes of an index, and their identifiers, ascending; None if the index has no identifiers."""
    if not index.ntotal:
        return np.empty((0, index.d // 8), dtype=np.uint8), None
    if not isinstance(index, faiss.IndexBinaryIVF):
        try:
            return index.reconstruct_n(0, index.ntotal), None
        except RuntimeError as error:
            raise TypeError(
                f"`index` must be an index from which FAISS reads codes again. Got {type(index).__name__} instead."
            ) from error
    lists = index.invlists  # FAISS reconstructs only the identifiers below ntotal, and leaves other rows as they are
    sizes = [(i, lists.list_size(i)) for i in range(lists.nlist) if lists.list_size(i)]
    ids = np.concatenate([faiss.rev_swig_ptr(lists.get_ids(i), n) for i, n in sizes])
    codes = [faiss.rev_swig_ptr(lists.get_codes(i), n * lists.code_size).reshape(n, -1) for i, n in sizes]
    order = np.argsort(ids, kind="stable")
    return np.concatenate(codes)[order], ids[order]
