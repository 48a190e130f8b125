"""The items that a store returned for queries, put in order by real queries or by vectors."""

from collections.abc import Sequence
from itertools import chain, compress
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._compat import n_samples
from skhash._ids import as_ids, is_text, joined_elements, ranks, with_mask
from skhash._names import check_columns, in_order_of, names_of
from skhash._validation import VECTOR_METRICS, VectorMetric, check_not_1d, check_option, numeric
from skhash.codes import Codes
from skhash.neighbors.search import vector_distances
from skhash.unwrap import check_has_real_queries, find_hasher, makes_factors, real_queries

_NO_ITEM = -1  # as in FAISS


def order_shortlist(
    queries: Any,
    ids: Any,
    *,
    missing: Any = None,
    codes: Any = None,
    vectors: Any = None,
    hasher: Any = None,
    factors: Any = None,
    metric: VectorMetric | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
    """Put the items that a store returned for each query in a better order.

    A store ranks codes by Hamming distance. Take more items from it than you need, with their codes or their vectors,
    and order them here as the last stage of :class:`HammingNeighbors` does: with `codes` as ``query="real"``, with
    `vectors` as ``rerank=metric``.

    Parameters
    ----------
    queries : array-like of shape (n_queries, n_features)
        Queries, as the hasher takes them; for `vectors`, of the same space as these.
    ids : array-like of shape (n_queries, n_candidates), ints or text
        Identifiers of the items that the store returned for each query, in any order. Lists of different lengths are
        taken as well.
    missing : array-like of bool of shape (n_queries, n_candidates), default=None
        Places where there is no item. With None a place is empty where `ids` is a masked array that masks it. In other
        `ids`, -1 is an empty place, as in FAISS, if a query has it more than once or has nothing else. It is an item
        if there are smaller ids. If neither or both hold, `missing` must be given.
    codes : array-like of shape (n_queries, n_candidates, ceil(nbits / 8)) or (n_queries, n_candidates, nbits)
        Packed codes of these items, or their bits. In place of an array of its numbers, a code can be ``bytes``, or a
        string of zeros and ones, as SQL returns it.
    vectors : array-like of shape (n_queries, n_candidates, n_features)
        Original vectors of these items, in place of `codes`.
    hasher : estimator, default=None
        The fitted hasher of the codes, or a Pipeline that ends in one; needed with `codes`.
    factors : array-like of shape (n_queries, n_candidates, 2), default=None
        What ``encode_factors`` of the hasher returned for these items. None orders them by the score alone.
    metric : "cosine", "euclidean" or "inner", default=None
        Distance of the vectors; needed with `vectors`.

    Returns
    -------
    distances : ndarray of shape (n_queries, n_longest), float64
        Distances in ascending order, as ``kneighbors`` returns them: minus the score of the real query, with factors
        the estimated distance, or the distance of the vectors. `n_longest` is the largest number of items of a query;
        queries with fewer items have infinity at the end.
    ids : ndarray of shape (n_queries, n_longest), int64, or object for text
        Identifiers in this order, of equal distances the smallest first; -1 where there is no item. Text, and numbers
        of uint64 that int64 cannot hold, are in a masked array if there are such places.

    Raises
    ------
    ValueError
        If the arguments do not fit each other or the hasher, or vectors are not finite.

    See Also
    --------
    skhash.neighbors.HammingNeighbors : An index that does both stages.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash.neighbors import HammingNeighbors, order_shortlist
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = ITQHasher(32, random_state=0).fit(X[1:])
    >>> codes = hasher.encode(X[1:])
    >>> store = HammingNeighbors(nbits=32).fit(codes)
    >>> ids = store.kneighbors(hasher.encode(X[:1]), 50, return_distance=False)
    >>> distances, ids = order_shortlist(X[:1], ids, codes=codes[ids], hasher=hasher)
    >>> distances[:, :3].round(1), ids[:, :3]
    (array([[-165.1, -163.2, -162.6]]), array([[1166,  876,  463]]))
    >>> distances, ids = order_shortlist(X[:1], ids, vectors=X[1:][ids], metric="euclidean")
    >>> distances[:, :3].round(1), ids[:, :3]
    (array([[11. , 12.8, 13.1]]), array([[ 876, 1364, 1540]]))
    """
    if (codes is None) == (vectors is None):
        raise ValueError(
            f"Either `codes` or `vectors` must be given. Got {'neither' if codes is None else 'both'} instead."
        )
    if codes is not None:
        _check_hasher(hasher, factors)
    else:
        check_option("metric", metric, VECTOR_METRICS)
    check_not_1d(queries, "queries")
    found, counts, is_item = _items(ids, missing, n_samples(queries))
    n_items = np.bincount(np.repeat(np.arange(len(counts)), counts)[is_item], minlength=len(counts))
    has_item = np.arange(n_items.max(initial=0)) < n_items[:, None]
    distances = np.full(has_item.shape, np.inf)
    if not is_item.any():
        return distances, np.empty(has_item.shape, np.int64)
    places = np.zeros(has_item.shape, np.int64)  # of each item among those of all queries
    places[has_item] = np.arange(len(found))
    if codes is not None:
        nbits = int(find_hasher(hasher)._n_features_out)
        items = _joined_codes(_of_items(codes, "codes", counts, is_item, ids), nbits).blocks()
        of_items = None
        if factors is not None:
            of_items = _joined(_of_items(factors, "factors", counts, is_item, ids), "factors", 2)
        real = real_queries(hasher, queries, of_items)
        distances[has_item] = (real.to_items(items, places) * real.units)[has_item]
    else:
        points = numeric(queries, "queries")
        for row in vectors if isinstance(vectors, list | tuple) else ():
            check_columns(row, names_of(queries).columns, "`vectors`", "`queries`")
        joined = _joined(_of_items(vectors, "vectors", counts, is_item, ids), "vectors", points.shape[1])
        for query, (chosen, n) in enumerate(zip(places, n_items, strict=True)):
            distances[query, :n] = vector_distances(points[query], joined[chosen[:n]], str(metric))
        if np.isnan(distances).any():
            raise ValueError("`queries` and `vectors` must be finite. Got NaN as a distance. Replace missing values.")
    return _sorted(distances, found[places], has_item)


def _sorted(
    distances: npt.NDArray[np.float64], ids: npt.NDArray[Any], has_item: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
    """Distances and identifiers by distance and identifier; places without an item stay at the end."""
    order = np.lexsort((ranks(ids), ~has_item, distances), axis=1)
    distances, ids = (np.take_along_axis(array, order, axis=1) for array in (distances, ids))
    if has_item.all():
        return distances, ids
    is_empty = np.take_along_axis(~has_item, order, axis=1)
    if ids.dtype == np.int64:
        return distances, np.where(is_empty, _NO_ITEM, ids)
    return distances, np.ma.array(ids, mask=is_empty)


def _items(ids: Any, missing: Any, n_queries: int) -> tuple[npt.NDArray[Any], list[int], npt.NDArray[np.bool_]]:
    """Identifiers of the items of all queries, the number of places of each, and which of all places have an item."""
    rows = _rows(ids, "ids", n_queries)
    counts = [len(row) for row in rows]
    masks = [None] * n_queries if missing is None else _rows(missing, "missing", counts)
    pairs = [with_mask(row, mask) for row, mask in zip(rows, masks, strict=True)]
    if any(given.ndim != 1 for given, _ in pairs):
        raise ValueError("`ids` must be a list of ints or text for each query. Got lists of lists instead.")
    is_item = ~np.concatenate([np.empty(0, bool), *(is_empty for _, is_empty in pairs)])
    found = as_ids(joined_elements(given for given, _ in pairs)[is_item], "ids")
    is_masked = missing is not None or any(isinstance(row, np.ma.MaskedArray) for row in rows)
    if is_masked or is_text(found) or not _has_empty_places(found, counts):
        return found, counts, is_item
    is_item = found != _NO_ITEM
    return found[is_item], counts, is_item


def _has_empty_places(ids: npt.NDArray[Any], counts: list[int]) -> bool:
    """Whether -1 is an empty place; ValueError if it can be an item as well."""
    is_minus = ids == _NO_ITEM
    if not is_minus.any():
        return False
    n_minus = np.bincount(np.repeat(np.arange(len(counts)), counts)[is_minus], minlength=len(counts))
    are_repeated = bool(((n_minus > 1) | ((n_minus == 1) & (np.array(counts) == 1))).any())
    if are_repeated == bool((ids < _NO_ITEM).any()):
        raise ValueError(
            "`missing` must be given for ids with -1, which may be an item or an empty place. Got None instead. Pass "
            "missing=(ids == -1) if it is empty, as in FAISS, or missing=numpy.zeros(ids.shape, bool) if it is an item."
        )
    return are_repeated


def _check_hasher(hasher: Any, factors: Any) -> None:
    """Raise ValueError unless a hasher has real queries, and factors if there are any."""
    if hasher is None:
        raise ValueError("`hasher` must be given with `codes`, for the real queries. Got None.")
    check_has_real_queries(hasher)
    if factors is not None and not makes_factors(hasher):
        raise ValueError("`factors` must be None for a hasher without factors. Got some.")


def _rows(values: Any, name: str, counts: int | Sequence[int]) -> list[Any]:
    """List with the values of each query. `counts` is the number of queries, or of the items of each query."""
    n_queries = counts if isinstance(counts, int) else len(counts)
    rows = list(values) if hasattr(values, "__len__") else []
    if len(rows) != n_queries or not all(hasattr(row, "__len__") and not isinstance(row, str) for row in rows):
        raise ValueError(
            f"`{name}` must have a list of items for each of the {n_queries} queries. "
            f"Got {len(rows)} rows instead. For a single query pass [{name}]."
        )
    lengths = [len(row) for row in rows]
    if not isinstance(counts, int) and lengths != list(counts):
        query = next(i for i, (length, n) in enumerate(zip(lengths, counts, strict=True)) if length != n)
        raise ValueError(
            f"`{name}` must have as many items as `ids` for each query. "
            f"Got {lengths[query]} and {counts[query]} for query {query} instead."
        )
    return rows


def _of_items(values: Any, name: str, counts: list[int], is_item: npt.NDArray[np.bool_], ids: Any) -> list[Any]:
    """Values of the items of each query, in the order of its ids, without those of empty places."""
    rows = _rows(values, name, counts)
    if any(hasattr(row, "iloc") for row in rows):  # frames, whose index may hold the ids
        rows = [
            numeric(in_order_of(as_ids(of_query, "ids"), row, f"`{name}`", "`ids`"), name)
            for of_query, row in zip(list(ids), rows, strict=True)
        ]
    if is_item.all():
        return rows
    kept = np.split(is_item, np.cumsum(counts)[:-1])
    return [
        row[chosen] if isinstance(row, np.ndarray) else list(compress(row, chosen))
        for row, chosen in zip(rows, kept, strict=True)
    ]


def _joined(rows: list[Any], name: str, width: int | None = None) -> npt.NDArray[Any]:
    """Numbers of the items of all queries, of shape (n, width)."""
    arrays = [numeric(row, name) for row in rows if len(row)]
    shapes = sorted({array.shape[1:] for array in arrays})
    if len(shapes) > 1 or len(shapes[0]) != 1 or width not in (None, *shapes[0]):
        raise ValueError(
            f"`{name}` must have {width or 'equally many'} numbers for each item. "
            f"Got items of the shapes {', '.join(map(str, shapes))} instead."
        )
    return np.concatenate(arrays)


def _joined_codes(rows: list[Any], nbits: int) -> Codes:
    """Codes of the items of all queries, from any form in which stores return them."""
    codes = list(chain.from_iterable(rows)) if isinstance(next(chain.from_iterable(rows)), str | bytes) else []
    if not codes:
        joined = _joined(rows, "codes")
        is_byte = joined.dtype.kind in "iu" and joined.min() >= 0 and joined.max() <= 255
        return Codes.of(joined.astype(np.uint8) if is_byte else joined, nbits)
    lengths = {len(code) for code in codes}
    if len(lengths) > 1:
        raise ValueError(f"`codes` must have one length. Got the lengths {sorted(lengths)} instead.")
    is_text = isinstance(codes[0], str)
    content = "".join(codes).encode() if is_text else b"".join(codes)
    values = np.frombuffer(content, np.uint8).reshape(len(codes), -1)
    return Codes.of(values - np.uint8(ord("0")) if is_text else values, nbits)
