"""The command ``skhash search``."""

import argparse
import io
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.frozen import FrozenEstimator

from skhash._estimators import find_hasher
from skhash._files import atomic_write
from skhash._files._resumable import check_writable
from skhash.cli._encoding import encode_batches
from skhash.cli._progress import in_batches
from skhash.cli._samples import READ_BATCH, Items, Samples, errors_of, is_codes, open_samples, read_codes
from skhash.codes import check_same_nbits
from skhash.codes._bits import item_words
from skhash.exceptions import InvalidFileError
from skhash.neighbors import HammingNeighbors
from skhash.neighbors._checks import checked_vectors
from skhash.persistence import load
from skhash.persistence._format import INDEXES
from skhash.persistence._reading import read
from skhash.stores._codes import check_codes

#: queries and items of the table that is printed
_SHOWN = 10
_OF_VECTORS = {
    "cosine": "1 - cosine of the vectors",
    "euclidean": "Euclidean distance of the vectors",
    "inner": "minus the inner product of the vectors",
}
#: what factors estimate, by the `metric` of the hasher
_ESTIMATED = _OF_VECTORS | {"euclidean": "squared Euclidean distance of the vectors"}


def run(options: argparse.Namespace) -> int:
    """Search, print a table, and write the results."""
    if options.out is not None:
        if not options.out.endswith((".csv", ".npz")):
            raise ValueError(f"--out must be a .csv or .npz file. Got {options.out} instead.")
        check_writable(options.out)
    queries = open_samples(options.queries, options.column)
    index = _open_index(options, queries)
    distances, ids = _search(index, queries, _k(index, options), options.queries)
    print(_table(distances, ids))
    print(f"In parentheses: {_meaning(index)}.")
    if options.out is not None:
        _write(options.out, distances, ids)
        print(f"\nFile: {options.out}")
    return 0


def _open_index(options: argparse.Namespace, queries: Samples) -> HammingNeighbors:
    """The index of a file, or one of the items in DATA."""
    is_index, saved_rerank = _saved_index(options.model)
    if is_index and options.data is not None:
        raise ValueError(f"DATA must not be given with an index, which has its own items. Got {options.data}.")
    if not is_index and options.data is None:
        raise ValueError(f"DATA must be given: {options.model} is a hasher, which has no items.")
    has_codes = is_index or (options.column is None and is_codes(options.data))
    vectors = None
    if options.rerank is not None or saved_rerank:
        vectors = _original_vectors(options, has_codes)
    elif options.vectors is not None:
        raise ValueError(f"--vectors must be used with --rerank. Got {options.vectors}.")
    loaded = load(options.model, vectors=vectors if saved_rerank else None)
    index = loaded if is_index else HammingNeighbors(FrozenEstimator(loaded))
    given = {name: getattr(options, name) for name in ("query", "candidates", "rerank")}
    index.set_params(**{name: value for name, value in given.items() if value is not None})
    _check_stages(index, options, has_codes)
    query = next(queries.batches(1))
    if not is_index:
        _fill(index, loaded, options, query, has_codes)
    if vectors is not None:
        shape = (index.n_samples_fit_, *query.shape[1:])
        if vectors.shape != shape:
            raise ValueError(
                f"--vectors must have shape {shape}, of the items and the queries. "
                f"Got {vectors.shape} in {options.vectors or options.data} instead."
            )
        index.vectors_ = checked_vectors(vectors, len(vectors))
    return index


def _saved_index(path: str) -> tuple[bool, bool]:
    """Whether a file holds an index, and whether this index re-ranks."""
    header, _ = read(path)
    params = header.get("params")
    is_index = header["class"] in INDEXES
    return is_index, is_index and isinstance(params, dict) and params.get("rerank") is not None


def _original_vectors(options: argparse.Namespace, has_codes: bool) -> npt.NDArray[Any]:
    """Vectors of the items, for `rerank`."""
    path = options.vectors if has_codes else options.vectors or options.data
    if path is None:
        raise ValueError(f"--vectors must be given to re-rank: {options.data or options.model} has only codes.")
    vectors = open_samples(path, options.column).array()
    for start in range(0, len(vectors), READ_BATCH):
        if not np.isfinite(vectors[start : start + READ_BATCH]).all():
            raise InvalidFileError(path, "must have finite vectors. Got NaN or infinity. Replace them by numbers.")
    return vectors


def _k(index: HammingNeighbors, options: argparse.Namespace) -> int:
    """Number of items to find."""
    n_items = index.n_samples_fit_
    if options.k is not None and options.k > n_items:
        raise ValueError(f"--k must be at most {n_items}, the number of items. Got {options.k} instead.")
    return int(options.k or min(index.n_neighbors, n_items))


def _check_stages(index: HammingNeighbors, options: argparse.Namespace, has_codes: bool) -> None:
    """Raise ValueError if no stage of the search orders the candidates, or if there are too few of them."""
    if index.query == "code" and index.rerank is None:
        if options.candidates is not None:
            raise ValueError(
                "--candidates must be used with --query real or --rerank, which put them in order. "
                f"Got {options.candidates}."
            )
        index.set_params(candidates=None)  # a saved index has them for stages that this search does not use
    k = options.k or index.n_neighbors
    if options.k is None and index.candidates is not None and index.candidates < k:
        k = min(k, _n_items(index, options, has_codes))
    if index.candidates is not None and index.candidates < k:
        if options.candidates is None:
            raise ValueError(f"--k must be at most {index.candidates}, the candidates of {options.model}. Got {k}.")
        raise ValueError(f"--candidates must be at least {k}, the number of items to find. Got {options.candidates}.")


def _n_items(index: HammingNeighbors, options: argparse.Namespace, has_codes: bool) -> int:
    """Number of items of a saved index, or in DATA."""
    if hasattr(index, "n_samples_fit_"):
        return int(index.n_samples_fit_)
    return len(read_codes(options.data).stored.codes) if has_codes else open_samples(options.data, options.column).n


def _fill(
    index: HammingNeighbors, hasher: Any, options: argparse.Namespace, query: npt.NDArray[Any], has_codes: bool
) -> None:
    """Fit an index to the items in DATA."""
    (codes, nbits, ids), factors = _items(hasher, options, has_codes)
    check_same_nbits(nbits, int(find_hasher(hasher)._n_features_out), options.data, options.model)
    with errors_of(options.queries):
        index.fit(query)  # sets the features; the codes of DATA then replace this one item
    if index.factors_ is not None and factors is None and index.query == "real":
        raise ValueError(f"{options.data} must have factors for real queries. Write it with skhash encode.")
    if index.factors_ is None and factors is not None:
        raise ValueError(
            f"{options.data} must be codes of {options.model}. Got factors, which this hasher does not have."
        )
    index.codes_, index.ids_, index.n_samples_fit_ = item_words(codes), ids, len(ids)
    index.factors_ = factors


def _items(hasher: Any, options: argparse.Namespace, has_codes: bool) -> Items:
    """Codes and factors of the items."""
    if has_codes:
        items = read_codes(options.data)
        if not len(items.stored.codes):
            raise InvalidFileError(options.data, "has no codes.")
        return items
    samples = open_samples(options.data, options.column)
    codes, factors = zip(*encode_batches(hasher, samples, options.data), strict=True)
    stored = check_codes(np.concatenate(codes), int(find_hasher(hasher)._n_features_out), None)
    return Items(stored, None if factors[0] is None else np.concatenate(factors))


def _search(
    index: HammingNeighbors, queries: Samples, k: int, name: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Distances and identifiers of the nearest items, with progress on stderr."""
    with errors_of(name):
        found = [index.kneighbors(batch, k) for batch in in_batches(queries, f"Searching {name}")]
    distances, ids = zip(*found, strict=True)
    return np.concatenate(distances), np.concatenate(ids)


def _table(distances: npt.NDArray[np.float64], ids: npt.NDArray[np.int64]) -> str:
    """The first items of the first queries, one line per query."""
    k = min(ids.shape[1], _SHOWN)
    lines = [["query", *(f"item {rank + 1}" for rank in range(k))]]
    for query in range(min(len(ids), _SHOWN)):
        pairs = zip(ids[query, :k], distances[query, :k], strict=True)
        lines.append([str(query), *(f"{item} ({distance:.4g})" for item, distance in pairs)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    n_more = len(ids) - _SHOWN
    return "\n".join([*text, f"... and {n_more:,} more queries"] if n_more > 0 else text)


def _meaning(index: HammingNeighbors) -> str:
    """Description of the distances that a search returns."""
    hasher = find_hasher(index.hasher_)
    if index.rerank is not None:
        return _OF_VECTORS[index.rerank]
    if index.query == "real":
        has_factors = index.factors_ is not None
        return f"estimated {_ESTIMATED[hasher.metric]}" if has_factors else "minus the score of the real query"
    return "Hamming distance" if getattr(hasher, "bit_weights_", None) is None else "weighted Hamming distance"


def _write(path: str, distances: npt.NDArray[np.float64], ids: npt.NDArray[np.int64]) -> None:
    """Write all results."""
    with atomic_write(path) as file:
        if path.endswith(".npz"):
            np.savez(file, distances=distances, ids=ids)
            return
        text = io.TextIOWrapper(file, "ascii", newline="", write_through=True)
        text.write("query,rank,id,distance\n")
        for query, (line, items) in enumerate(zip(distances.tolist(), ids.tolist(), strict=True)):
            for rank, (distance, item) in enumerate(zip(line, items, strict=True)):
                text.write(f"{query},{rank + 1},{item},{distance!r}\n")
        text.detach()
