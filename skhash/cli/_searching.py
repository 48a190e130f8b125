"""The command ``skhash search``."""

import argparse
import io
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.frozen import FrozenEstimator

from skhash._distances import item_words
from skhash._files import atomic_write
from skhash.cli._encoding import encode_batches
from skhash.cli._progress import in_batches
from skhash.cli._samples import Items, Samples, is_codes, open_samples, read_codes
from skhash.codes import check_same_nbits
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load
from skhash.stores._codes import check_codes

#: queries and items of the table that is printed
_SHOWN = 10


def run(options: argparse.Namespace) -> int:
    """Search, print a table, and write the results."""
    if options.out is not None and not options.out.endswith((".csv", ".npz")):
        raise ValueError(f"--out must be a .csv or .npz file. Got {options.out} instead.")
    queries = open_samples(options.queries, options.column)
    index = _open_index(options, queries)
    k = options.k or min(index.n_neighbors, index.n_samples_fit_)
    distances, ids = _search(index, queries, k, options.queries)
    print(_table(distances, ids))
    if options.out is not None:
        _write(options.out, distances, ids)
        print(f"\nFile: {options.out}")
    return 0


def _open_index(options: argparse.Namespace, queries: Samples) -> HammingNeighbors:
    """The index of a file, or one of the items in DATA."""
    loaded = load(options.model)
    if isinstance(loaded, HammingNeighbors):
        if options.data is not None:
            raise ValueError(f"DATA must not be given with an index, which has its own items. Got {options.data}.")
        return loaded if options.query is None else loaded.set_params(query=options.query)
    if options.data is None:
        raise ValueError(f"DATA must be given: {options.model} is a hasher, which has no items.")
    (codes, nbits, ids), factors = _items(loaded, options)
    check_same_nbits(nbits, int(loaded._n_features_out), options.data, options.model)
    index = HammingNeighbors(FrozenEstimator(loaded), query=options.query or "code")
    index.fit(next(queries.batches(1)))  # of the kind of the queries; the codes replace this item
    if index.factors_ is not None and factors is None and index.query == "real":
        raise ValueError(f"{options.data} must have factors for real queries. Write it with skhash encode.")
    index.codes_, index.ids_, index.n_samples_fit_ = item_words(codes), ids, len(ids)
    index.factors_ = factors
    return index


def _items(hasher: Any, options: argparse.Namespace) -> Items:
    """Codes and factors of the items."""
    if options.column is None and is_codes(options.data):
        return read_codes(options.data)
    samples = open_samples(options.data, options.column)
    codes, factors = zip(*encode_batches(hasher, samples, options.data), strict=True)
    stored = check_codes(np.concatenate(codes), int(hasher._n_features_out), None)
    return Items(stored, None if factors[0] is None else np.concatenate(factors))


def _search(
    index: HammingNeighbors, queries: Samples, k: int, name: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Distances and identifiers of the nearest items, with progress on stderr."""
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
