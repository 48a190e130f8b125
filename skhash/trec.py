"""Rankings and relevance as files that other tools of retrieval read: TREC runs and qrels.

    run      query Q0 item rank score name      one line for each item that was found, score = -distance
    qrels    query 0 item level                 one line for each relevant item

trec_eval, pytrec_eval, ranx and ir_measures read both. They know no ties: items of equal score get an order of the
tool's own, by their identifiers. So their average precision is one value of our tie range, and not the mean over all
orders. It is inside the range if the run holds all items.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash.affinity import level_indices, resolve_affinity
from skhash.affinity._targets import as_targets
from skhash.persistence._writing import write_atomically

__all__ = ["write_qrels", "write_run"]

_MAX_PAIRS = 10_000_000  # levels in memory at a time


def write_run(
    path: str | os.PathLike[str],
    distances: npt.ArrayLike,
    ids: npt.ArrayLike,
    *,
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
    ids : array-like of int of shape (n_queries, k)
        Items, as :meth:`HammingNeighbors.kneighbors <skhash.neighbors.HammingNeighbors.kneighbors>` returns them. The
        rank of an item is its place in the line: among equal distances the first item comes first. A negative one is
        an empty place, as FAISS returns it, and is left out.
    query_ids : sequence of length n_queries, default=None
        Identifiers of the queries in the file. None counts them from 0.
    item_ids : sequence, default=None
        Identifier of item i in the file. None writes `ids`.
    name : str, default="skhash"
        Name of the run.

    Raises
    ------
    ValueError
        If the shapes differ, a distance is NaN, or an identifier has a space, which separates the columns.

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
    distances, ids = np.asarray(distances, dtype=np.float64), np.asarray(ids)
    if distances.ndim != 2 or distances.shape != ids.shape or ids.dtype.kind not in "iu":
        raise ValueError(
            "`distances` and `ids` must have the same shape (n_queries, k), and `ids` must be ints. "
            f"Got {distances.shape} and {ids.shape} of {ids.dtype} instead."
        )
    if np.isnan(distances).any():
        raise ValueError("`distances` must be numbers. Got NaN.")
    queries = _names(query_ids, len(distances), "query_ids")
    items = None if item_ids is None else _names(item_ids, len(item_ids), "item_ids")
    if items is not None and ids.max(initial=-1) >= len(items):
        raise ValueError(f"`item_ids` must name all items. Got {len(items)} names, and item {ids.max()}.")
    (name,) = _names([name], 1, "name")
    with write_atomically(path) as file:
        for query, of_query, found in zip(queries, distances.tolist(), ids.tolist(), strict=True):
            pairs = [(item, distance) for item, distance in zip(found, of_query, strict=True) if item >= 0]
            lines = [
                f"{query} Q0 {items[item] if items else item} {rank} {-distance!r} {name}\n"
                for rank, (item, distance) in enumerate(pairs, 1)
            ]
            file.write("".join(lines).encode())


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
        If a level is not a whole number, or an identifier has a space.

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
    query_y, database_y = as_targets(query_y, "query_y"), as_targets(database_y, "database_y")
    affinity = resolve_affinity(affinity, database_y)
    n_queries, n_items = query_y.shape[0], database_y.shape[0]
    queries, items = _names(query_ids, n_queries, "query_ids"), _names(item_ids, n_items, "item_ids")
    with write_atomically(path) as file:
        for batch, levels in _levels(affinity, query_y, database_y, max(1, _MAX_PAIRS // max(1, n_items))):
            for query, of_query in zip(queries[batch], levels, strict=True):
                lines = [f"{query} 0 {items[item]} {of_query[item]}\n" for item in np.flatnonzero(of_query)]
                file.write("".join(lines).encode())


def _levels(affinity: Any, query_y: Any, database_y: Any, n: int) -> Iterator[tuple[slice, npt.NDArray[np.int64]]]:
    """Whole levels of n queries at a time."""
    for batch in gen_batches(query_y.shape[0], n):
        indices, levels = level_indices(affinity, query_y[batch], database_y)
        whole = np.asarray(levels).astype(np.int64)
        if (whole != levels).any():
            raise ValueError(
                f"`affinity` must have levels that are whole numbers, as qrels have. Got {levels[whole != levels][0]}."
            )
        yield batch, whole[indices]


def _names(given: Sequence[object] | None, n: int, parameter: str) -> list[str]:
    """Identifiers as text without spaces."""
    names = list(map(str, range(n) if given is None else given))
    if len(names) != n:
        raise ValueError(f"`{parameter}` must have {n} identifiers. Got {len(names)} instead.")
    if wrong := [name for name in names if not name or name.split() != [name]]:
        raise ValueError(f"`{parameter}` must have no empty text and no spaces. Got {wrong[0]!r}. Replace them.")
    return names
