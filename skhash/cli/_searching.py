"""The command ``skhash search``."""

import argparse
import codecs
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from sklearn.frozen import FrozenEstimator

from skhash._files import check_writable, write_atomically
from skhash._ids import as_plain, is_text
from skhash._names import check_columns, find_names
from skhash.cli._codes import fill, hold_codes, open_items
from skhash.cli._pictures import feature_names, load_model, open_for
from skhash.cli._samples import (
    IDS_ARE_PATHS,
    READ_BATCH,
    Samples,
    check_exists,
    csv_writer,
    errors_of,
    in_batches,
    open_samples,
)
from skhash.datasets.kinds import kind_of
from skhash.datasets.npz_files import read_npy
from skhash.exceptions import InvalidFileError
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.among import chosen_places
from skhash.neighbors.checks import checked_vectors
from skhash.persistence import read_notes
from skhash.persistence.format import read_header
from skhash.persistence.indexes import LATER
from skhash.unwrap import codes_of, find_hasher, lacks_factors

#: queries and items of the table that is printed
_SHOWN = 10
_OF_VECTORS = {
    "cosine": "1 - cosine of the vectors",
    "euclidean": "Euclidean distance of the vectors",
    "inner": "minus the inner product of the vectors",
}
#: what factors estimate, by the `metric` of the hasher
_ESTIMATED = _OF_VECTORS | {"euclidean": "squared Euclidean distance of the vectors"}

#: follows the table if it has marks
_REMARK = (
    "\n= marks items at the same distance as another item: their order says nothing. more tied: how many "
    "further items are at the distance of the last one."
)


def search(options: argparse.Namespace) -> int:
    """Search, print a table, and write the results."""
    if options.out is not None:
        if not options.out.endswith((".csv", ".npz", ".run")):
            raise ValueError(f"--out must be a .csv, .npz or .run file. Got {options.out} instead.")
        check_writable(options.out)
    index, names, queries = _open(options)
    among = _among(index, names, options)
    k = _k(index, among, options)
    _check_run(options.out, index.ids_ if names is None else None)  # paths are quoted
    _check_run(options.out, queries.ids)
    ranks_all = index.candidates is None and index.rerank is None
    ranks_all &= among is not None or index.backend == "exact"
    with errors_of(options.queries):
        batches = in_batches(queries, f"Searching {options.queries}")
        found = [index.kneighbors(batch, k, return_ties=ranks_all, among=among) for batch in batches]
    distances, ids, *ties = (np.concatenate(parts) for parts in zip(*found, strict=True))
    paths = None if names is None else _paths(ids, index, names)
    table = _table(distances, ids if paths is None else paths, ties[0] if ties else None, queries.rows)
    print(f"{table}\nIn parentheses: {_meaning(index)}.{_REMARK if '=)' in table else ''}")
    if options.out is not None:
        _write_neighbors(options.out, distances, ids, paths, queries)
        print(f"\nFile: {options.out}")
    return 0


def _open(options: argparse.Namespace) -> tuple[HammingNeighbors, list[str] | None, Samples]:
    """The index of a file, or of the items in DATA; the names of its pictures; and the queries."""
    is_saved = kind_of(options.model).holds == "index"
    saved_rerank = is_saved and read_header(options.model)["params"].get("rerank") is not None
    reranks = options.rerank is not None or saved_rerank
    _check_inputs(options, is_saved, reranks)
    loaded = load_model(options, vectors=LATER) if saved_rerank else load_model(options)
    whole = loaded.hasher_ if is_saved else loaded
    names = samples = None
    if not is_saved:
        samples, read_items = open_items(whole, options)
        names = read_items().names if samples is None else samples.names
    elif read_notes(options.model).get(IDS_ARE_PATHS):
        names = loaded.ids_.tolist()
        loaded._items = loaded._items.with_ids(np.arange(loaded.n_samples_fit_))
    of_vectors = _open_vectors(whole, samples, names, options) if reranks else None
    model, queries = open_for(whole, options.queries, options, lenient=True)
    if queries.features is not None:  # of a model without names of features, columns are taken by position
        for other, of in ((samples, "DATA"), (of_vectors, "--vectors")):
            check_columns(queries.features, None if other is None else other.features, "QUERIES", of)
    index = loaded if is_saved else HammingNeighbors(FrozenEstimator(model))
    given = {name: getattr(options, name) for name in ("query", "candidates", "rerank")}
    index.set_params(**{name: value for name, value in given.items() if value is not None})
    _check_stages(index, options)
    query = next(queries.batches(1))
    if reranks and query.ndim > 2:
        raise ValueError(
            f"--rerank must be used with vectors. Got images, which {options.model} hashes without features."
        )
    if not is_saved:
        with errors_of(options.queries):
            codes_of(model, query)  # a wrong number of features is an error before any work
        items = read_items()
        if index.query == "real" and lacks_factors(model, items.codes):
            raise ValueError(f"{options.data} must have factors for real queries. Write it with skhash encode.")
        fill(index, items, options)
    elif model is not whole:  # the network of the index has turned the queries into features
        index.hasher_, index.n_features_in_ = FrozenEstimator(model), model.n_features_in_
    if index.groups_ is not None:
        raise ValueError(
            f"{options.data or options.model} must have no groups, which this command does not search for. Got some. "
            "Search in Python: skhash.persistence.load(INDEX).kneighbors(X)."
        )
    if of_vectors is not None:
        ids = None if options.vectors is None else index.ids_ if names is None else names
        vectors = of_vectors.in_order_of(ids, options.vectors, options.data or options.model)
        _check_finite(options.vectors or options.data, vectors)
        _check_shape(vectors, (index.n_samples_fit_, query.shape[1]), options)
        index._items = index._items.with_vectors(checked_vectors(vectors, len(vectors)), are_known=False)
    with errors_of(options.vectors or options.data):
        index._check_vectors()
    return index, names, queries


def _check_inputs(options: argparse.Namespace, is_saved: bool, reranks: bool) -> None:
    """Raise ValueError if the items or their vectors are missing, or given but not used."""
    if is_saved and options.data is not None:
        raise ValueError(f"DATA must not be given with an index, which has its own items. Got {options.data}.")
    if not is_saved and options.data is None:
        raise ValueError(f"DATA must be given: {options.model} is a hasher, which has no items.")
    if options.vectors is not None and not reranks:
        raise ValueError(f"--vectors must be used with --rerank. Got {options.vectors}.")
    if reranks and options.vectors is None and (is_saved or hold_codes(options)):
        raise ValueError(f"--vectors must be given to re-rank: {options.data or options.model} has only codes.")


def _open_vectors(model: Any, samples: Samples | None, names: list[str] | None, options: argparse.Namespace) -> Samples:
    """Original vectors of the items: those of --vectors, of pictures their features, or else the samples of DATA."""
    path = options.vectors
    if path is None:
        assert samples is not None  # `_check_inputs` has found that DATA does not hold codes
        return samples
    if kind_of(path).holds == "pictures":
        return open_for(model, path, options, names=names)[1]
    return open_samples(path, options, feature_names(model), lenient=True)


def _check_shape(vectors: npt.NDArray[Any], shape: tuple[int, ...], options: argparse.Namespace) -> None:
    """Raise ValueError unless there is a vector for each item, of the space of the queries."""
    if vectors.shape != shape:
        raise ValueError(
            f"--vectors must have shape {shape}, of the items and the queries. "
            f"Got {vectors.shape} in {options.vectors or options.data} instead."
        )


def _check_finite(path: str, vectors: npt.NDArray[Any]) -> None:
    """Raise InvalidFileError if a vector is not finite."""
    for start in range(0, len(vectors), READ_BATCH):
        if not np.isfinite(vectors[start : start + READ_BATCH]).all():
            raise InvalidFileError(path, "must have finite vectors. Got NaN or infinity. Replace them by numbers.")


def _among(index: HammingNeighbors, names: list[str] | None, options: argparse.Namespace) -> npt.NDArray[Any] | None:
    """Identifiers of the items in the file of --among."""
    path = options.among
    if path is None:
        return None
    check_exists(path)
    given = read_npy(path)["X"] if path.endswith(".npy") else _lines(path)
    ids = index._items.ids.values
    if given.ndim != 1 or not len(given):
        raise ValueError(
            f"--among must have ids of items, or a bool for each. Got shape {given.shape} in {path} instead."
        )
    if names is not None and given.dtype != bool:
        positions = find_names(given.astype(object), np.array(names, dtype=object))
        if (positions < 0).any():
            unknown = given[positions < 0].tolist()
            raise ValueError(f"--among must have paths of items. Got {unknown[0]!r} in {path}, which is not one.")
        given = index.ids_[positions]
    elif given.dtype == object and not is_text(ids):
        if wrong := [line for line in given if not line.strip().removeprefix("-").isdecimal()]:
            raise ValueError(
                f"--among must have a whole number in each line, as the ids are. Got {wrong[0]!r} in {path}."
            )
        given = np.array([int(line) for line in given])
    try:
        places = chosen_places(given, index._items, n_queries=1)
    except ValueError as error:
        raise ValueError(f"{str(error).replace('`among`', '--among')} The file is {path}.") from error
    assert isinstance(places, np.ndarray)  # of one filter
    if not len(places):
        raise ValueError(f"--among must have at least one item. Got none in {path}.")
    chosen: npt.NDArray[Any] = ids[places]
    return chosen


def _lines(path: str) -> npt.NDArray[np.object_]:
    """Lines of a text file that are not empty, in UTF-8 or in UTF-16; the name of a file need not be UTF-8."""
    with open(path, "rb") as file:
        start = file.read(4096)
    encoding = "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    if encoding != "utf-16" and b"\0" in start:
        raise InvalidFileError(path, "has NUL bytes. Save it as text in UTF-8, with an id in each line.")
    text = Path(path).read_text(encoding, errors="strict" if encoding == "utf-16" else "surrogateescape")
    return np.array([line for line in text.split("\n") if line], dtype=object)


def _k(index: HammingNeighbors, among: npt.NDArray[Any] | None, options: argparse.Namespace) -> int:
    """Number of items to find."""
    n_items, of = (index.n_samples_fit_, "") if among is None else (len(among), " in --among")
    if options.k is not None and options.k > n_items:
        raise ValueError(f"--k must be at most {n_items}, the number of items{of}. Got {options.k} instead.")
    return int(options.k or min(index.n_neighbors, index.candidates or n_items, n_items))


def _check_stages(index: HammingNeighbors, options: argparse.Namespace) -> None:
    """Raise ValueError if no stage of the search orders the candidates, or if there are too few of them."""
    if index.query == "code" and index.rerank is None:
        if options.candidates is not None:
            raise ValueError(
                f"--candidates must be used with --query real or --rerank, which order them. Got {options.candidates}."
            )
        index.set_params(candidates=None)  # a saved index has them for stages that this search does not use
    if options.k is not None and index.candidates is not None and options.k > index.candidates:
        raise ValueError(f"--k must be at most {index.candidates}, the number of candidates. Got {options.k} instead.")


def _check_run(out: str | None, ids: npt.NDArray[Any] | None) -> None:
    """Raise ValueError before the search if a run cannot hold identifiers of items or queries."""
    if out is None or not out.endswith(".run") or ids is None or ids.dtype.kind not in "OU":
        return
    if wrong := [text for text in ids.tolist() if text.split() != [text]]:
        raise ValueError(
            f"--out must be a .csv or .npz file for ids with spaces, or an empty one. Got {out}, and {wrong[0]!r}."
        )


def _paths(ids: npt.NDArray[Any], index: HammingNeighbors, names: list[str]) -> npt.NDArray[Any]:
    """Paths of the items with some identifiers, of their shape."""
    path = dict(zip(index.ids_.tolist(), names, strict=True))
    return np.array([[path[item] for item in of_query] for of_query in ids.tolist()], dtype=object)


def _table(
    distances: npt.NDArray[np.float64],
    items: npt.NDArray[Any],
    n_ties: npt.NDArray[np.int64] | None,
    queries: list[Any] | None,
) -> str:
    """The first items of the first queries, one line per query; pictures by their names, ties with a mark."""
    k = min(items.shape[1], _SHOWN)
    n_more = np.zeros(len(items), np.int64) if n_ties is None else n_ties - (distances == distances[:, -1:]).sum(axis=1)
    lines = [["query", *(f"item {rank + 1}" for rank in range(k)), "more tied"]]
    for query in range(min(len(items), _SHOWN)):
        found, line = distances[query], [str(query if queries is None else queries[query])]
        for item, distance in zip(items[query, :k], found, strict=False):
            is_tied = (found == distance).sum() > 1 or (distance == found[-1] and n_more[query])
            line.append(f"{item} ({distance:.4g}{'=' * bool(is_tied)})")
        lines.append([*line, str(n_more[query])])
    if not n_more[:_SHOWN].any():
        lines = [line[:-1] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    n_left = len(items) - _SHOWN
    return "\n".join([*text, f"... and {n_left:,} more queries"] if n_left > 0 else text)


def _meaning(index: HammingNeighbors) -> str:
    """Description of the distances that a search returns."""
    hasher = find_hasher(index.hasher_)
    if index.rerank is not None:
        return _OF_VECTORS[index.rerank]
    if index.query == "real":
        if index.factors_ is not None:
            return f"estimated {_ESTIMATED[hasher.metric]}"
        return "minus the score of the real query"
    return "Hamming distance" if getattr(hasher, "bit_weights_", None) is None else "weighted Hamming distance"


def _quoted(path: str) -> str:
    """A path as the name of a run, which has no spaces; the name of a file need not be UTF-8."""
    return quote(path, errors="surrogateescape")


def _write_neighbors(
    path: str,
    distances: npt.NDArray[np.float64],
    ids: npt.NDArray[Any],
    paths: npt.NDArray[Any] | None,
    queries: Samples,
) -> None:
    """Write all results, with the names of queries and items that are pictures; a run has them as identifiers."""
    rows = queries.rows
    if path.endswith(".run"):
        from skhash.trec import write_run  # imports all metrics

        query_ids = rows if queries.names is None else [_quoted(name) for name in queries.names]
        items = ids if paths is None else [[_quoted(name) for name in of_query] for of_query in paths]
        write_run(path, distances, items, query_ids=query_ids)
        return
    if path.endswith(".npz"):
        arrays: dict[str, Any] = {"distances": distances, "ids": as_plain(ids, path)}
        arrays |= {} if paths is None else {"paths": paths.astype(str)}
        arrays |= {} if rows is None else {"queries": as_plain(rows if queries.ids is None else queries.ids, path)}
        with write_atomically(path) as file:
            np.savez(file, **arrays)
        return
    with csv_writer(path) as table:
        table.writerow(["query", "rank", "id", "distance", *([] if paths is None else ["path"])])
        for query, (line, items) in enumerate(zip(distances.tolist(), ids.tolist(), strict=True)):
            name = query if rows is None else rows[query]
            for rank, (distance, item) in enumerate(zip(line, items, strict=True)):
                more = [] if paths is None else [paths[query, rank]]
                table.writerow([name, rank + 1, item, repr(distance), *more])
