"""Neighbors found in shards of a database, merged into those of the whole."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._files import arrays_from_bytes, arrays_of_text, arrays_to_bytes, text_of_arrays
from skhash._ids import MAX_ID, as_ids, is_text, ranks
from skhash._validation import as_count, numeric

_KIND = "list of neighbors"


def merge_neighbors(
    shards: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]], n_neighbors: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Nearest items of a whole database, from those of its shards.

    The result is that of one search over all shards, if each shard returns at least `n_neighbors` items or all that it
    has.

    Parameters
    ----------
    shards : iterable of (distances, indices)
        Arrays of shape (n_queries, k_shard) as ``kneighbors`` returns them, with indices into the whole
        database, or with identifiers, ints or text, that differ between shards. A shard with fewer items than
        `n_neighbors` has fewer columns, perhaps none.
    n_neighbors : int
        Number of neighbors to return; >= 1.

    Returns
    -------
    distances : ndarray of shape (n_queries, min(n_neighbors, items))
        Distances, ascending; of the dtype of the shards that are not empty.
    indices : ndarray of the same shape, int64, or object for text
        Items; of equal distances the lowest index first, and of text the first one in the order of Python.

    Raises
    ------
    ValueError
        If there is no shard, the shards have different numbers of queries, indices are neither all ints nor all text,
        or `n_neighbors` is not an int >= 1.

    See Also
    --------
    neighbors_to_bytes : Bytes of the neighbors of a shard, to send or to store.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.neighbors import merge_neighbors
    >>> first = np.array([[0, 3]]), np.array([[4, 1]])
    >>> second = np.array([[0, 2]]), np.array([[9, 7]])
    >>> merge_neighbors([first, second], n_neighbors=3)
    (array([[0, 0, 2]]), array([[4, 9, 7]]))
    """
    n_neighbors = as_count(n_neighbors, "n_neighbors")
    pairs = [(numeric(distances, "distances"), _checked_indices(indices)) for distances, indices in shards]
    if not pairs or any(d.ndim != 2 or d.shape != i.shape or len(d) != len(pairs[0][0]) for d, i in pairs):
        raise ValueError(
            "`shards` must be pairs of distances and indices of equal shapes (n_queries, k), for the same queries. "
            f"Got shapes {[(d.shape, i.shape) for d, i in pairs]} instead."
        )
    pairs = [pair for pair in pairs if pair[0].shape[1]] or pairs[:1]  # an empty shard may have another dtype
    kinds = {is_text(indices) for _, indices in pairs if indices.size}
    if len(kinds) > 1:
        raise ValueError("`shards` must have indices that are all ints or all text. Got both.")
    return smallest(np.hstack([d for d, _ in pairs]), np.hstack([i for _, i in pairs]), n_neighbors)


def neighbors_to_bytes(distances: npt.ArrayLike, indices: npt.ArrayLike) -> bytes:
    """Bytes of neighbors, for another process or a file; reading them runs no code.

    Parameters
    ----------
    distances : array-like of shape (n_queries, k)
        Distances of the neighbors, as ``kneighbors`` or :func:`merge_neighbors` returns them.
    indices : array-like of shape (n_queries, k), ints or text
        The neighbors.

    Returns
    -------
    bytes
        A safetensors file with a version. Equal neighbors have equal bytes.

    Raises
    ------
    ValueError
        If the arrays do not have one shape (n_queries, k), or hold something else.

    Examples
    --------
    >>> from skhash.neighbors import neighbors_from_bytes, neighbors_to_bytes
    >>> neighbors_from_bytes(neighbors_to_bytes([[0, 3]], [[4, 1]]))
    (array([[0, 3]]), array([[4, 1]]))
    """
    arrays = {"distances": numeric(distances, "distances"), "indices": _checked_indices(indices)}
    _check_shapes(arrays["distances"], arrays["indices"])
    if is_text(arrays["indices"]):
        arrays["text"], arrays["ends"] = arrays_of_text(arrays.pop("indices"))
    return arrays_to_bytes(_KIND, arrays)


def neighbors_from_bytes(content: bytes) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Neighbors from the bytes of :func:`neighbors_to_bytes`.

    Parameters
    ----------
    content : bytes
        The bytes.

    Returns
    -------
    distances : ndarray of shape (n_queries, k)
        Distances of the neighbors.
    indices : ndarray of shape (n_queries, k), int64, or object for text
        The neighbors.

    Raises
    ------
    ValueError
        If the bytes are damaged, are not those of neighbors, or have a newer version.

    Examples
    --------
    >>> from skhash.neighbors import neighbors_from_bytes
    >>> neighbors_from_bytes(b"")
    Traceback (most recent call last):
    ...
    ValueError: `content` must be bytes of a list of neighbors. Got ...
    """
    arrays = arrays_from_bytes(content, _KIND, [("distances", "indices"), ("distances", "text", "ends")])
    distances = arrays["distances"]
    if "text" in arrays:
        return distances, text_of_arrays(arrays["text"], arrays["ends"], distances.shape)
    _check_shapes(distances, arrays["indices"])
    return distances, arrays["indices"].astype(np.int64, copy=False)


def smallest(
    distances: npt.NDArray[Any], indices: npt.NDArray[Any], k: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Distances and indices of the k smallest distances of each query, sorted by distance and index."""
    order = np.lexsort((ranks(indices), distances), axis=1)[:, :k]
    rows = np.arange(len(order))[:, None]
    return distances[rows, order], indices[rows, order]


def _checked_indices(indices: npt.ArrayLike) -> npt.NDArray[Any]:
    """Indices as int64, or text of dtype object; those of an empty shard may have another dtype."""
    try:
        checked = as_ids(indices, "indices")
    except ValueError as error:
        raise ValueError(f"`indices` must be ints of at most {MAX_ID}, or text. Got others: {error}") from error
    if checked.dtype == np.uint64:
        raise ValueError(f"`indices` must be ints of at most {MAX_ID}, or text. Got {checked.max()} instead.")
    return checked


def _check_shapes(distances: npt.NDArray[Any], indices: npt.NDArray[Any]) -> None:
    if distances.ndim != 2 or distances.shape != indices.shape:
        raise ValueError(
            "`distances` and `indices` must have one shape, (n_queries, k). "
            f"Got {distances.shape} and {indices.shape} instead."
        )
