"""Rankings and relevance of search engines: TREC runs and qrels, which other tools of retrieval read and write, too.

    run      query Q0 item rank score name      one line for each item that was found, score = -distance
    qrels    query 0 item level                 one line for each relevant item

trec_eval, pytrec_eval, ranx and ir_measures read both. They know no ties: items of equal score get an order of the
tool's own, by their identifiers. So their average precision is one value of our tie range, and not the mean over all
orders. :func:`histogram_of_run` makes the histogram of a run, with its ties, for all metrics of skhash.
"""

import functools
import gzip
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise, repeat
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash._files import check_writable, write_atomically
from skhash._ids import as_ids, as_names, first_repeated, is_text, with_mask
from skhash._libraries import library
from skhash._names import names_of
from skhash._validation import as_array, check_option, numeric
from skhash.affinity import Relevance
from skhash.exceptions import InvalidFileError
from skhash.metrics import Metric, RelevanceHistogram

__all__ = ["histogram_of_run", "provider", "read_qrels", "read_run", "write_qrels", "write_run"]

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


def read_run(run: Any) -> dict[str, dict[str, float]]:
    """Scores of the items that a search engine found, by query.

    Parameters
    ----------
    run : path, dict, data frame or iterable
        A TREC run, also one that gzip has compressed; a dict of dicts, as pytrec_eval takes it; a data frame of pandas
        or polars with the columns `query_id`, `doc_id` and `score` of ir_measures, or `qid`, `docno` and `score`
        of PyTerrier; or an iterable of ``ir_measures.ScoredDoc``. Identifiers are text or whole numbers.

    Returns
    -------
    dict of str to dict of str to float
        Score of each item by its identifier, of each query. The ranks in a file are not read: as for trec_eval, the
        scores decide.

    Raises
    ------
    ValueError
        If `run` is none of these, or a query has an item twice. An :class:`~skhash.exceptions.InvalidFileError` names
        the line of a file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skhash.trec import read_run
    >>> path = Path(tempfile.mkdtemp(), "engine.run")
    >>> _ = path.write_text("7 Q0 fox 1 0.9 engine")
    >>> read_run(path)
    {'7': {'fox': 0.9}}
    """
    return _by_query(run, "run", "query Q0 item rank score name", float, "ScoredDoc", ("score", "score"))


def read_qrels(qrels: Any) -> dict[str, dict[str, Any]]:
    """Levels of the items that were judged, by query.

    Parameters
    ----------
    qrels : path, dict, data frame or iterable
        TREC qrels, also if gzip has compressed them; a dict of dicts; a data frame with the columns `query_id`,
        `doc_id` and `relevance`, or `qid`, `docno` and `label`; or an iterable of ``ir_measures.Qrel``.

    Returns
    -------
    dict of str to dict of str to int
        Level of each judged item by its identifier, of each query.

    Raises
    ------
    ValueError
        As in :func:`read_run`.

    Examples
    --------
    >>> from skhash.trec import read_qrels
    >>> read_qrels({7: {"cat": 2, "dog": -1}})
    {'7': {'cat': 2, 'dog': -1}}
    """
    return _by_query(qrels, "qrels", "query 0 item level", int, "Qrel", ("relevance", "label"))


def _by_query(
    source: Any, name: str, columns: str, convert: Callable[[str], Any], kind: str, values: tuple[str, str]
) -> dict[str, dict[str, Any]]:
    """Values of items by query, both as text, from whatever holds a run or qrels."""
    names = [("query_id", "doc_id", values[0]), ("qid", "docno", values[1])]
    if isinstance(source, Mapping) and all(isinstance(of_query, Mapping) for of_query in source.values()):
        found = source
    else:
        rows: Iterable[Any]
        if isinstance(source, str | os.PathLike):
            rows = _lines(os.path.expanduser(source), columns.split(), convert)
        elif known := [some for some in names if {*some} <= {*(names_of(source).columns or ())}]:
            rows = zip(*(as_array(source[column], name).tolist() for column in known[0]), strict=True)
        elif isinstance(source, Iterable):
            rows = map(attrgetter(*names[0]), source)
        else:
            rows = [source]  # refused below
        found = defaultdict(dict)
        try:
            for query, item, value in rows:
                of_query = found[query]
                if item in of_query:
                    raise ValueError(
                        f"`{name}` must have an item once for a query, since trec_eval refuses others. "
                        f"Got {item!r} more than once for query {query!r}."
                    )
                of_query[item] = value
        except (AttributeError, TypeError) as error:
            raise ValueError(
                f"`{name}` must be the path of a file, a dict of dicts, a data frame with the columns "
                f"{', '.join(names[0])}, or an iterable of ir_measures.{kind}. Got a {type(source).__name__} instead."
            ) from error
    if set(map(type, chain(found, *found.values()))) <= {str}:
        return dict(found)
    queries = zip(as_names(list(found), name), found.values(), strict=True)
    return {query: dict(zip(as_names(list(items), name), items.values(), strict=True)) for query, items in queries}


def _lines(path: str, columns: list[str], convert: Callable[[str], Any]) -> Iterator[tuple[str, str, Any]]:
    """Query, item and value of each line of a file."""
    value_at = columns.index("score" if "score" in columns else "level")
    with open(path, "rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if is_compressed else open)(path, "rt", encoding="utf-8-sig", errors="surrogateescape") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if not (fields := line.split()):
                    continue
                try:
                    if len(fields) != len(columns):
                        raise ValueError(f"{len(fields)} columns")
                    value = convert(fields[value_at])
                except ValueError as error:
                    raise InvalidFileError(
                        path, f"must have the columns {' '.join(columns)} in each line. Got in line {number}: {error}."
                    ) from error
                yield fields[0], fields[2], value
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InvalidFileError(path, f"is damaged or cut short: {error}.") from error


def histogram_of_run(run: Any, qrels: Any, *, empty: str = "zero") -> RelevanceHistogram:
    """Numbers of items by score and level, in which items of equal score are one tie.

    All metrics of :mod:`skhash.metrics` take it but ``roc_auc``: the mean over the orders of the ties, the best and the
    worst order. Without ties they are equal to those of trec_eval; its NDCG is ``ndcg(H, gain="linear")``.

    Parameters
    ----------
    run : path, dict, data frame or iterable
        What an engine found, as for :func:`read_run`.
    qrels : path, dict, data frame or iterable
        What is relevant, as for :func:`read_qrels`. A level below 0 is level 0, and so is an item that was not judged.
    empty : "zero" or "skip", default="zero"
        A query for which the run has no items counts 0 in the metrics, as in ir_measures, or is left out, as
        in trec_eval and pytrec_eval.

    Returns
    -------
    RelevanceHistogram
        Ragged, with one row for each query of `qrels` in their order; the distance is ``-score``. Relevant items that
        were not retrieved are its `unretrieved`. The histograms of the parts of a collection add up if each has the
        qrels of its own items.

    Raises
    ------
    ValueError
        If the run has no query of the qrels, or a score or a level is no number.

    Examples
    --------
    >>> from skhash.metrics import average_precision
    >>> from skhash.trec import histogram_of_run
    >>> run = {"7": {"fox": 2.0, "cat": 1.0, "dog": 1.0}}
    >>> H = histogram_of_run(run, {"7": {"cat": 1, "cow": 1}})
    >>> H.counts.tolist(), H.unretrieved.tolist()
    ([[1, 0], [1, 1]], [[0, 1]])
    >>> # cat has rank 2 or 3, and cow none: (1/2 + 1/3) / 2 / 2
    >>> round(average_precision(H), 4)
    0.2083
    """
    check_option("empty", empty, ("zero", "skip"))
    run, qrels = read_run(run), read_qrels(qrels)
    queries = [query for query in qrels if empty == "zero" or run.get(query)]
    if not any(run.get(query) for query in queries):
        raise ValueError(
            f"`run` must have queries of `qrels`. Got no common one: {', '.join(map(repr, [*run][:3]))} in the run, "
            f"{', '.join(map(repr, [*qrels][:3]))} in the qrels."
        )
    levels = np.unique(numeric([0, *{level for of_query in qrels.values() for level in of_query.values()}], "qrels"))
    if np.isnan(levels[-1]):
        raise ValueError("`qrels` must have levels that are numbers. Got NaN.")
    levels = levels[levels >= 0]
    place = {level: i for i, level in enumerate(levels.tolist())}
    counts, distances = [], []
    unretrieved = np.zeros((len(queries), len(levels)), dtype=np.int64)
    for row, query in enumerate(queries):
        items = run.get(query, {})
        judged = {item: place.get(level, 0) for item, level in qrels[query].items()}
        scores = numeric([*items.values()], "run").astype(np.float64)
        of_ties, tie = np.unique(-scores, return_inverse=True)
        if np.isnan(of_ties[-1:]).any():
            raise ValueError(f"`run` must have scores that are numbers. Got NaN for query {query!r}.")
        level = np.fromiter(map(judged.get, items, repeat(0)), np.int64, len(items))
        cells = np.bincount(tie * len(levels) + level, minlength=len(of_ties) * len(levels))
        counts.append(cells.reshape(-1, len(levels)).astype(np.int32))
        distances.append(of_ties)
        unretrieved[row] = np.bincount([*judged.values()], minlength=len(levels)) - counts[row].sum(axis=0)
    unretrieved[:, 0] = 0  # nobody knows how many other items there are
    indptr = np.cumsum([0, *map(len, distances)])
    return RelevanceHistogram(np.concatenate(counts), levels, np.concatenate(distances), indptr, unretrieved)


#: metric by the name of a measure of ir_measures
_MEASURES = {
    "AP": "ap",
    "nDCG": "ndcg",
    "P": "precision",
    "R": "recall",
    "RR": "reciprocal_rank",
    "Rprec": "r_precision",
}


@functools.cache
def provider() -> Any:
    """Provider of ir_measures whose measures are means over all orders of items of equal score.

    Its measures are ``AP``, ``nDCG``, ``P``, ``R``, ``RR`` and ``Rprec``, with a cutoff where ir_measures has one
    (none for ``RR``), ``rel=``, and ``dcg="exp-log2"``. Each has a range: ``AP_worst`` and ``AP_best`` are the values
    of the worst and the best order, and so are ``nDCG_worst@10`` and the others. ``ir_measures.parse_measure`` reads
    these names after the first call. A query that the run lacks counts 0, as always in ir_measures.

    Returns
    -------
    ir_measures.providers.Provider
        The provider, which is also ``ir_measures.providers.registry["skhash"]``. Functions such as
        ``ir_measures.calc_aggregate`` ask other providers: call those of this one.

    Raises
    ------
    ImportError
        If ir_measures is not installed.

    Examples
    --------
    >>> import ir_measures
    >>> from skhash.trec import provider
    >>> run = {"7": {"fox": 2.0, "cat": 1.0, "dog": 1.0}}
    >>> names = ["AP", "AP_worst", "AP_best"]
    >>> averaged = provider()
    >>> measures = [ir_measures.parse_measure(name) for name in names]
    >>> values = averaged.calc_aggregate(measures, {"7": {"cat": 1}}, run)
    >>> [round(values[measure], 4) for measure in measures]
    [0.4167, 0.3333, 0.5]
    """
    ir_measures: Any = library("ir_measures", "ir-measures", "its provider")
    registry, specs = ir_measures.measures.registry, ir_measures.providers.base
    anything, nothing = specs.Any(), specs.Choices(specs.NOT_PROVIDED)
    supported = []
    BaseEvaluator: Any = ir_measures.Evaluator
    BaseProvider: Any = ir_measures.Provider
    for name, stem in _MEASURES.items():
        base = type(registry[name])
        for ties in ("", "_worst", "_best"):
            if ties:
                names = {"__name__": name + ties, "NAME": name + ties}
                ir_measures.measures.register(type(f"_{name}{ties}", (base,), names)())
            limits = {"judged_only": specs.Choices(False), "gains": nothing}
            limits |= {"cutoff": nothing} if stem == "reciprocal_rank" else {}
            some = type(registry[name + ties])
            supported.append(some(**{option: limits.get(option, anything) for option in some.SUPPORTED_PARAMS}))

    class Evaluator(BaseEvaluator):
        def __init__(self, measures: Iterable[Any], qrels: Any) -> None:
            self.qrels = read_qrels(qrels)
            super().__init__(list(measures), list(self.qrels))

        def _iter_calc(self, run: Any) -> Iterator[Any]:
            run, histograms = read_run(run), {}
            for measure in self.measures:
                least = measure["rel"] if "rel" in measure.SUPPORTED_PARAMS else 1
                if least not in histograms:  # a relevant item has a level of `rel` or more
                    qrels = {
                        query: {item: level - least + 1 for item, level in of_query.items()}
                        for query, of_query in self.qrels.items()
                    }
                    histograms[least] = histogram_of_run(run, qrels).by_ranks()
                values = _metric_of(measure)(histograms[least], empty="zero", average=False)
                for query, value in zip(self.qrels, values.tolist(), strict=True):
                    yield ir_measures.Metric(query_id=query, measure=measure, value=value)

    class Provider(BaseProvider):
        NAME = "skhash"
        SUPPORTED_MEASURES = supported

        def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Evaluator:
            measures = list(measures)
            if others := [measure for measure in measures if not self.supports(measure)]:
                raise ValueError(f"`measures` must be among {', '.join(_MEASURES)}, _worst and _best. Got {others[0]}.")
            return Evaluator(measures, qrels)

    return ir_measures.providers.register(Provider())


def _metric_of(measure: Any) -> Metric:
    """Metric of skhash that a measure of ir_measures names."""
    name, _, ties = measure.NAME.partition("_")
    cutoff = f"_at_{measure.params['cutoff']}" if "cutoff" in measure.params else ""
    gain = "_linear" if name == "nDCG" and measure["dcg"] == "log2" else ""
    return Metric.parse("".join([_MEASURES[name], cutoff, f"_{ties}" if ties else "", gain]))
