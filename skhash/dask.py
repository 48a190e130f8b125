"""Codes, histograms and neighbors of dask collections: lazy, block by block, and never gathered.

The functions are thin: an encoding maps a function over blocks, histograms of shards add, and neighbors of shards
merge. dask must be installed (``pip install dask``).
"""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._validation import as_count
from skhash.affinity import Relevance
from skhash.codes import Codes
from skhash.metrics.shards import (
    SPLIT_EVERY,
    blocks_of,
    codes_of_block,
    count_blocks,
    pairs_of_blocks,
    reduce_tree,
)
from skhash.neighbors import HammingNeighbors, merge_neighbors
from skhash.unwrap import find_hasher

__all__ = ["encode", "kneighbors", "relevance_histogram"]


def encode(hasher: Any, X: Any) -> Any:
    """Packed codes of a dask array or data frame.

    Each block is encoded in batches of 4,096 samples. The chunks of `X` can change the rounding of activations.
    So they change only bits whose activations are 0 up to rounding.

    Parameters
    ----------
    hasher : estimator
        A fitted hasher, or a fitted Pipeline or search that ends in one.
    X : dask array or data frame of shape (n_samples, n_features)
        Samples. Numbers of samples may be unknown.

    Returns
    -------
    dask array of shape (n_samples, ceil(nbits / 8)), dtype uint8
        The codes, with the chunks of `X`; nothing is computed yet.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the hasher is not fitted.
    TypeError
        If `X` is not a dask array or data frame.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_digits
    >>> import skhash.dask
    >>> from skhash import ITQHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = ITQHasher(16, random_state=0).fit(X)
    >>> codes = skhash.dask.encode(hasher, da.from_array(X, chunks=(500, 64)))
    >>> codes.shape, bool((codes.compute() == hasher.encode(X)).all())
    ((1797, 2), True)
    """
    import dask.array as da
    from dask import delayed
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(find_hasher(hasher))
    nbits = int(find_hasher(hasher)._n_features_out)
    blocks = blocks_of(X, "X")
    sizes = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(blocks)
    model = delayed(hasher, traverse=False)
    codes = [
        da.from_delayed(delayed(codes_of_block)(model, block, nbits), (size, -(-nbits // 8)), np.uint8)
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return da.concatenate(codes, allow_unknown_chunksizes=True)


def relevance_histogram(
    query_codes: Codes | npt.ArrayLike,
    database_codes: Any,
    query_y: Any,
    database_y: Any,
    affinity: Any = "auto",
    *,
    bit_weights: npt.ArrayLike | None = None,
    nbits: int | None = None,
    split_every: int = SPLIT_EVERY,
) -> Any:
    """Histogram of a database in shards, as :func:`skhash.metrics.relevance_histogram` of all of it.

    Parameters
    ----------
    query_codes : Codes, or array-like of shape (n_queries, nbits) or (n_queries, ceil(nbits / 8))
        Codes, bits, or packed codes with `nbits`.
    database_codes : dask array of shape (n_items, nbits) or (n_items, ceil(nbits / 8))
        Bits if the queries are bits, or packed codes, as :func:`encode` returns them.
    query_y : array-like of shape (n_queries, ...)
        Targets of the queries.
    database_y : dask array, data frame or series of shape (n_items, ...)
        Targets of the database, with the chunks of `database_codes`.
    affinity : "auto" or callable, default="auto"
        Which items are relevant. "auto" chooses by `query_y`. One that learns must be fitted.
    bit_weights : array-like of shape (nbits,), default=None
        Weights of the Hamming distance. The result then has nearly one tie per item.
    nbits : int, default=None
        Number of bits of packed codes; None means that the codes are bits.
    split_every : int, default=8
        How many histograms are added in one task.

    Returns
    -------
    dask Delayed
        Its ``compute()`` returns the RelevanceHistogram.

    Raises
    ------
    ValueError
        If the chunks of the database and its targets differ in number, or the affinity ranks all items.
    TypeError
        If the database is not a dask collection.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import skhash.dask
    >>> codes, y = np.array([[0, 0], [0, 1], [1, 1]]), np.array([0, 0, 1])
    >>> shards = da.from_array(codes, chunks=(2, 2)), da.from_array(y, chunks=2)
    >>> H = skhash.dask.relevance_histogram(codes, shards[0], y, shards[1])
    >>> H.compute().counts[0].tolist()
    [[0, 1], [0, 1], [1, 0]]
    """
    split_every = _checked_split(split_every)
    pairs = pairs_of_blocks(database_codes, database_y, query_y)
    queries = Codes.of(query_codes, nbits, name="query_codes")
    are_packed = nbits is not None or isinstance(query_codes, Codes)
    of_queries = Relevance.between(query_y, query_y, affinity)
    return count_blocks(queries, pairs, of_queries, bit_weights, split_every, are_packed=are_packed)


def kneighbors(
    query_codes: Codes | npt.ArrayLike,
    database_codes: Any,
    n_neighbors: int = 10,
    *,
    nbits: int | None = None,
    split_every: int = SPLIT_EVERY,
) -> Any:
    """Nearest items of a database in shards by Hamming distance, as one search over all of it finds them.

    Parameters
    ----------
    query_codes : Codes, or array-like of shape (n_queries, nbits) or (n_queries, ceil(nbits / 8))
        Codes, bits, or packed codes with `nbits`.
    database_codes : dask array of shape (n_items, nbits) or (n_items, ceil(nbits / 8))
        Bits if the queries are bits, or packed codes, as :func:`encode` returns them.
    n_neighbors : int, default=10
        Number of neighbors of each query.
    nbits : int, default=None
        Number of bits of packed codes; None means that the codes are bits.
    split_every : int, default=8
        How many lists are merged in one task.

    Returns
    -------
    dask Delayed
        Its ``compute()`` returns distances and indices into the whole database, both of shape
        (n_queries, min(n_neighbors, n_items)); of equal distances the lowest index first.

    Raises
    ------
    ValueError
        If `n_neighbors` is not an int >= 1, or the queries are neither bits nor codes.
    TypeError
        If the database is not a dask array.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import skhash.dask
    >>> codes = da.from_array(np.array([[0, 0], [0, 1], [1, 1]]), chunks=(2, 2))
    >>> skhash.dask.kneighbors([[1, 1]], codes, 2).compute()
    (array([[0., 1.]]), array([[2, 1]]))
    """
    from dask import delayed

    split_every = _checked_split(split_every)
    n_neighbors = as_count(n_neighbors, "n_neighbors")
    blocks = blocks_of(database_codes, "database_codes")
    of_queries = Codes.of(query_codes, nbits, name="query_codes")
    are_packed = nbits is not None or isinstance(query_codes, Codes)
    queries = delayed(of_queries, pure=False)
    ends = delayed(np.cumsum)([delayed(len)(block) for block in blocks])
    parts = [
        delayed(_search)(queries, block, ends[place], n_neighbors, are_packed) for place, block in enumerate(blocks)
    ]
    return reduce_tree(parts, functools.partial(merge_neighbors, n_neighbors=n_neighbors), split_every)


def _search(queries: Codes, block: Any, end: int, n_neighbors: int, are_packed: bool) -> Any:
    """Distances and indices of the nearest items of a block, whose last item has the index `end` - 1."""
    if not len(block):
        return np.empty((len(queries), 0)), np.empty((len(queries), 0), dtype=np.int64)
    codes = Codes.of(block, queries.nbits if are_packed else None, name="database_codes")
    queries.check_same(codes, "query_codes", "database_codes")
    index = HammingNeighbors().fit(codes, ids=np.arange(end - len(codes), end))
    distances, indices = index.kneighbors(queries, min(n_neighbors, len(codes)))
    return distances, indices


def _checked_split(split_every: int) -> int:
    return as_count(split_every, "split_every", least=2)
