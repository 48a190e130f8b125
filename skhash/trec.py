"""Rankings and relevance as files that other tools of retrieval read: TREC runs and qrels.

    run      query Q0 item rank score name      one line for each item that was found, score = -distance
    qrels    query 0 item level                 one line for each relevant item

trec_eval, pytrec_eval, ranx and ir_measures read both. They know no ties: items of equal score get an order of the
tool's own, by their identifiers. So their average precision is one value of our tie range, and not the mean over all
orders. It is inside the range if the run holds all items.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash._files import check_writable, write_atomically
from skhash._ids import as_ids, as_names, first_repeated, is_text, with_mask
from skhash.affinity import Relevance

__all__ = ["write_qrels", "write_run"]

_MAX_PAIRS = 10_000_000  # levels in memory at a time
#: absolute distances of places where FAISS finds nothing: of codes, of codes by HNSW, and of vectors
_OF_NOTHING = (np.inf, 2.0**31 - 1, 2.0**31, float(np.finfo(np.float32).max))


def write_run(
    path: str | os.PathLike[str],
    distances: npt.ArrayLike,
    ids: npt.ArrayLike,
    *,
    missing: npt.ArrayLike | None = None,
    query_ids: Sequence[object] | None = None,
    item_ids: Sequence[object] | None = None,
    name: str = "skhash",
) -> None:
    """Write what a search found as a TREC run.

    Parameters
    ----------
    path : str or Path
        The file, which is replaced.
    distances : array-like of shape (n_queries, k)
        Distances in ascending order.
    ids : array-like of shape (n_queries, k), ints or text
        Items, as :meth:`HammingNeighbors.kneighbors <skhash.neighbors.HammingNeighbors.kneighbors>` returns them, all
        different for a query. The rank of an item is its place in the line: among equal distances the first item comes
        first. Negative numbers are items like others.
    missing : array-like of bool of shape (n_queries, k), default=None
        Places where there is no item, which are left out. With None a place is empty where a masked array masks `ids`,
        or where the id is -1 and the distance is infinite, or one that FAISS gives to empty places, as 2147483647.
    query_ids : sequence of length n_queries, ints or text, default=None
        Identifiers of the queries in the file, all different. None counts them from 0.
    item_ids : sequence of ints or text, default=None
        Identifier of item i in the file, all different. None writes `ids`.
    name : str, default="skhash"
        Name of the run.

    Raises
    ------
    ValueError
        If the shapes differ, or a distance is NaN. If an identifier is neither a whole number nor text, occurs twice
        (trec_eval refuses such a file), or has a space, which separates the columns.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skhash.neighbors import HammingNeighbors
    >>> from skhash.trec import write_run
    >>> index = HammingNeighbors().fit([[0, 0], [0, 1], [1, 1]])
    >>> path = Path(tempfile.mkdtemp(), "codes.run")
    >>> write_run(path, *index.kneighbors([[1, 1]], 2), item_ids=["cat", "dog", "fox"])
    >>> print(path.read_text(), end="")
    0 Q0 fox 1 -0.0 skhash
    0 Q0 dog 2 -1.0 skhash
    """
    check_writable(path)
    distances = np.ma.filled(np.ma.asarray(distances, dtype=np.float64), np.nan)
    rows, items, found = _found(distances, ids, missing)
    if np.isnan(found).any():
        raise ValueError("`distances` must be numbers. Got NaN.")
    queries = _names(query_ids, len(distances), "query_ids")
    names = None if item_ids is None else _names(item_ids, None, "item_ids")
    bounds = list(pairwise(np.searchsorted(rows, np.arange(len(queries) + 1)).tolist()))
    _check_items(items, bounds, names)
    (name,) = _names([name], 1, "name")
    with write_atomically(path) as file:
        for query, (start, end) in zip(queries, bounds, strict=True):
            pairs = zip(items[start:end].tolist(), found[start:end].tolist(), strict=True)
            lines = [
                f"{query} Q0 {names[item] if names else item} {rank} {-distance!r} {name}\n"
                for rank, (item, distance) in enumerate(pairs, 1)
            ]
            file.write("".join(lines).encode(errors="surrogateescape"))


def _found(
    distances: npt.NDArray[np.float64], ids: Any, missing: Any
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Query, item and distance of each place that is not empty, query by query."""
    given, is_empty = with_mask(ids, missing)
    if distances.ndim != 2 or distances.shape != given.shape:
        raise ValueError(
            "`distances` and `ids` must have the same shape (n_queries, k). "
            f"Got {distances.shape} and {given.shape} instead."
        )
    rows, columns = np.nonzero(~is_empty)
    items, found = as_ids(given[rows, columns], "ids"), distances[rows, columns]
    if missing is None and not is_text(items):
        kept = (items != -1) | ~np.isin(np.abs(found), _OF_NOTHING)
        rows, items, found = rows[kept], items[kept], found[kept]
    return rows, items, found


def _check_items(items: npt.NDArray[Any], bounds: list[tuple[int, int]], names: list[str] | None) -> None:
    """Raise ValueError unless a query has an item once, and the items have names that a run can hold."""
    for query, (start, end) in enumerate(bounds):
        of_query = items[start:end].tolist()
        if len(set(of_query)) < len(of_query):
            raise ValueError(
                f"`ids` must have an item once for a query, since trec_eval refuses others. Got "
                f"{first_repeated(of_query)!r} more than once for query {query}. Keep the first place of each."
            )
    if is_text(items):
        if names is not None:
            raise ValueError("`item_ids` must be None if `ids` are text, which are written. Got names.")
        _names(list(set(items.tolist())), None, "ids")
    elif names is not None and items.size and not (items.min() >= 0 and items.max() < len(names)):
        item = items.min() if items.min() < 0 else items.max()
        raise ValueError(f"`item_ids` must name all items. Got {len(names)} names, and item {item}.")


def write_qrels(
    path: str | os.PathLike[str],
    query_y: Any,
    database_y: Any,
    affinity: Any = "auto",
    *,
    query_ids: Sequence[object] | None = None,
    item_ids: Sequence[object] | None = None,
) -> None:
    """Write which items are relevant to which queries as TREC qrels.

    Parameters
    ----------
    path : str or Path
        The file, which is replaced.
    query_y, database_y : array-like of shape (n_queries, ...) and (n_items, ...)
        Targets.
    affinity : "auto" or callable, default="auto"
        Which items are relevant, see :mod:`skhash.affinity`. Its levels must be whole numbers.
    query_ids, item_ids : sequence, default=None
        Identifiers as in :func:`write_run`.

    Raises
    ------
    ValueError
        If a level is not a whole number. If an identifier is neither a whole number nor text, occurs twice, or has a
        space.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skhash.trec import write_qrels
    >>> path = Path(tempfile.mkdtemp(), "classes.qrels")
    >>> write_qrels(path, [7], [7, 5, 7], item_ids=["cat", "dog", "fox"])
    >>> print(path.read_text(), end="")
    0 0 cat 1
    0 0 fox 1
    """
    check_writable(path)
    relevance = Relevance.between(query_y, database_y, affinity)
    n_queries, n_items = relevance.shape
    queries, items = _names(query_ids, n_queries, "query_ids"), _names(item_ids, n_items, "item_ids")
    with write_atomically(path) as file:
        for batch, levels in _levels(relevance, max(1, _MAX_PAIRS // max(1, n_items))):
            for query, of_query in zip(queries[batch], levels, strict=True):
                lines = [f"{query} 0 {items[item]} {of_query[item]}\n" for item in np.flatnonzero(of_query)]
                file.write("".join(lines).encode(errors="surrogateescape"))


def _levels(relevance: Relevance, n: int) -> Iterator[tuple[slice, npt.NDArray[np.int64]]]:
    """Whole levels of n queries at a time."""
    for batch in gen_batches(relevance.shape[0], n):
        indices, levels = relevance.levels(batch)
        whole = np.asarray(levels).astype(np.int64)
        if (whole != levels).any():
            raise ValueError(
                f"`affinity` must have levels that are whole numbers, as qrels have. Got {levels[whole != levels][0]}."
            )
        yield batch, whole[indices]


def _names(given: Any, n: int | None, parameter: str) -> list[str]:
    """Different identifiers as text without spaces; None for `n` takes any number of them."""
    names = as_names(range(n or 0) if given is None else given, parameter)
    if n is not None and len(names) != n:
        raise ValueError(f"`{parameter}` must have {n} identifiers. Got {len(names)} instead.")
    if wrong := [name for name in names if name.split() != [name] or "\0" in name]:
        raise ValueError(f"`{parameter}` must have no empty text and no spaces. Got {wrong[0]!r}. Replace them.")
    if (repeated := first_repeated(names)) is not None:
        raise ValueError(
            f"`{parameter}` must differ from each other, since trec_eval refuses others. Got {repeated!r} more than "
            "once. Of several items with one name, keep the nearest."
        )
    return names
