"""The commands ``skhash encode``, ``skhash search`` and ``skhash export``."""

import argparse
import csv
import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy
from sklearn.frozen import FrozenEstimator

from skhash import stores
from skhash._encoding import ENCODE_BATCH_SIZE, Converter, Source, into_file
from skhash._estimators import find_hasher, hasher_input, item_factors, packed_codes
from skhash._libraries import library
from skhash.cli._pictures import are_pictures, open_for
from skhash.cli._samples import (
    READ_BATCH,
    Items,
    Samples,
    errors_of,
    in_batches,
    is_codes,
    open_samples,
    read_codes,
)
from skhash.codes import check_same_nbits
from skhash.codes._bits import item_words
from skhash.comparison.progress import progress
from skhash.exceptions import InvalidFileError
from skhash.neighbors import HammingNeighbors
from skhash.neighbors._checks import checked_vectors
from skhash.persistence import load
from skhash.persistence._format import read_header
from skhash.persistence._indexes import INDEXES
from skhash.persistence._writing import check_writable, write_atomically
from skhash.stores._codes import check_codes
from skhash.trec import write_run

#: queries and items of the table that is printed
_SHOWN = 10
_OF_VECTORS = {
    "cosine": "1 - cosine of the vectors",
    "euclidean": "Euclidean distance of the vectors",
    "inner": "minus the inner product of the vectors",
}
#: what factors estimate, by the `metric` of the hasher
_ESTIMATED = _OF_VECTORS | {"euclidean": "squared Euclidean distance of the vectors"}
#: stores with tables that have a name
_WITH_TABLES = ("lancedb", "pgvector", "sqlite-vec", "duckdb")


# --- encode


def encode(options: argparse.Namespace) -> int:
    """Encode a file."""
    if not options.out.endswith(".npz"):
        raise ValueError(f"--out must be an .npz file. Got {options.out} instead.")
    model, samples = open_for(_load_hasher(options.model), options.data, options)
    hasher = find_hasher(model)

    def batches(size: int) -> Iterator[Any]:
        return (hasher_input(model, batch) for batch in samples.batches(size))

    with errors_of(options.data):
        hasher.encode(next(batches(1)))  # a wrong number of features is an error before any work
    nbits = int(hasher._n_features_out)
    n_bytes = -(-nbits // 8)
    function, width = _record_of(hasher, n_bytes, options.data)
    source, size = Source(samples.n, batches), ENCODE_BATCH_SIZE
    with progress(f"Encoding {options.data}", samples.n) as show:
        records = into_file(hasher, source, function, width, options.out, size, lambda n_done, _: show(n_done))
    with closing(records):
        content = records.records()
        arrays = {"codes": content[:, :n_bytes], "nbits": np.array(nbits)}
        if width > n_bytes:
            arrays["factors"] = np.ascontiguousarray(content[:, n_bytes:]).view(np.float32)
        if samples.names is not None:
            arrays["paths"] = np.array(samples.names)
            if (y := samples.targets()) is not None:
                arrays["labels"] = y
        _write_codes(options.out, arrays)
        del content, arrays  # Windows does not remove a mapped file
        records.discard()
    print(f"{samples.n:,} codes of {nbits} bits: {options.out}")
    return 0


def _record_of(hasher: Any, n_bytes: int, name: str) -> tuple[Callable[[Any, bool], npt.NDArray[np.uint8]], int]:
    """Function of a slice that returns its codes, followed by their factors if there are any, and bytes of a record."""
    convert, has_factors = Converter(hasher), getattr(hasher, "factors", False)

    def record(samples: Any, is_only: bool) -> npt.NDArray[np.uint8]:
        with errors_of(name):
            codes = convert.codes(samples, is_only)
            if not has_factors:
                return codes
            return np.hstack([codes, np.ascontiguousarray(item_factors(hasher, samples)).view(np.uint8)])

    return record, n_bytes + 8 * has_factors


def _write_codes(path: str, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write an .npz file whose bytes depend on the arrays alone."""
    with write_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def _load_hasher(path: str) -> Any:
    """Hasher of a file, or its Pipeline of a scaler and a hasher; it must not be the file of an index."""
    kind = read_header(path).get("class")
    if kind in INDEXES:  # `load` may need vectors for an index
        raise ValueError(f"MODEL must be the file of a hasher. Got {path}, a {kind}: save its hasher_.")
    return load(path)


# --- search


def search(options: argparse.Namespace) -> int:
    """Search, print a table, and write the results."""
    if options.out is not None:
        if not options.out.endswith((".csv", ".npz", ".run")):
            raise ValueError(f"--out must be a .csv, .npz or .run file. Got {options.out} instead.")
        check_writable(options.out)
    index, queries, names = _open_index(options)
    k = _k(index, options)
    with errors_of(options.queries):
        found = [index.kneighbors(batch, k) for batch in in_batches(queries, f"Searching {options.queries}")]
    distances, ids = (np.concatenate(parts) for parts in zip(*found, strict=True))
    print(_table(distances, ids, queries.names, names))
    print(f"In parentheses: {_meaning(index)}.")
    if options.out is not None:
        _write_neighbors(options.out, distances, ids, names, queries.names)
        print(f"\nFile: {options.out}")
    return 0


def _open_index(options: argparse.Namespace) -> tuple[HammingNeighbors, Samples, list[str] | None]:
    """The index of a file or of the items in DATA, the queries, and the names of the items if they are pictures."""
    is_index, saved_rerank = _saved_index(options.model)
    if is_index and options.data is not None:
        raise ValueError(f"DATA must not be given with an index, which has its own items. Got {options.data}.")
    if not is_index and options.data is None:
        raise ValueError(f"DATA must be given: {options.model} is a hasher, which has no items.")
    has_codes = is_index or (options.column is None and not are_pictures(options.data) and is_codes(options.data))
    vectors, names = None, None
    if options.rerank is not None or saved_rerank:
        vectors = _original_vectors(options, has_codes)
    elif options.vectors is not None:
        raise ValueError(f"--vectors must be used with --rerank. Got {options.vectors}.")
    if is_index:
        index = load(options.model, vectors=vectors if saved_rerank else None)
        model, queries = open_for(index.hasher_, options.queries, options, whole=True)
    else:
        model = load(options.model)
        inner, queries = open_for(model, options.queries, options)
        index = HammingNeighbors(FrozenEstimator(inner))
    given = {name: getattr(options, name) for name in ("query", "candidates", "rerank")}
    index.set_params(**{name: value for name, value in given.items() if value is not None})
    _check_stages(index, options)
    query = next(queries.batches(1))
    if not is_index:
        names = _fill(index, model, options, query, has_codes)
    if vectors is not None:
        shape = (index.n_samples_fit_, *query.shape[1:])
        if vectors.shape != shape:
            raise ValueError(
                f"--vectors must have shape {shape}, of the items and the queries. "
                f"Got {vectors.shape} in {options.vectors or options.data} instead."
            )
        index.vectors_ = checked_vectors(vectors, len(vectors))
    return index, queries, names


def _saved_index(path: str) -> tuple[bool, bool]:
    """Whether a file holds an index, and whether this index re-ranks."""
    header = read_header(path)
    params, is_index = header.get("params"), header.get("class") in INDEXES
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
    return int(options.k or min(index.n_neighbors, index.candidates or n_items, n_items))


def _check_stages(index: HammingNeighbors, options: argparse.Namespace) -> None:
    """Raise ValueError if no stage of the search orders the candidates, or if there are too few of them."""
    if index.query == "code" and index.rerank is None:
        if options.candidates is not None:
            raise ValueError(
                "--candidates must be used with --query real or --rerank, which put them in order. "
                f"Got {options.candidates}."
            )
        index.set_params(candidates=None)  # a saved index has them for stages that this search does not use
    if options.k is not None and index.candidates is not None and options.k > index.candidates:
        raise ValueError(f"--k must be at most {index.candidates}, the number of candidates. Got {options.k} instead.")


def _fill(
    index: HammingNeighbors, model: Any, options: argparse.Namespace, query: npt.NDArray[Any], has_codes: bool
) -> list[str] | None:
    """Fit an index to the items in DATA, and return the names of pictures."""
    (codes, nbits, ids), factors, names, _ = _items(model, options, has_codes)
    check_same_nbits(nbits, int(find_hasher(model)._n_features_out), options.data, options.model)
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
    return names


def _items(model: Any, options: argparse.Namespace, has_codes: bool) -> Items:
    """Codes, factors and names of the items."""
    if has_codes:
        items = read_codes(options.data)
        if not len(items.stored.codes):
            raise InvalidFileError(options.data, "has no codes.")
        return items
    codes, factors = [], []
    hasher, samples = open_for(model, options.data, options)
    for batch in in_batches(samples, f"Encoding {options.data}"):
        with errors_of(options.data):
            codes.append(packed_codes(hasher, batch)[0])
            factors.append(item_factors(hasher, batch))
    stored = check_codes(np.concatenate(codes), int(find_hasher(hasher)._n_features_out), None)
    return Items(stored, None if factors[0] is None else np.concatenate(factors), samples.names)


def _table(
    distances: npt.NDArray[np.float64], ids: npt.NDArray[np.int64], queries: list[str] | None, items: list[str] | None
) -> str:
    """The first items of the first queries, one line per query; pictures by their names."""
    k = min(ids.shape[1], _SHOWN)
    lines = [["query", *(f"item {rank + 1}" for rank in range(k))]]
    for query in range(min(len(ids), _SHOWN)):
        pairs = zip(ids[query, :k], distances[query, :k], strict=True)
        name = str(query) if queries is None else queries[query]
        lines.append([name, *(f"{items[item] if items else item} ({distance:.4g})" for item, distance in pairs)])
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


def _write_neighbors(
    path: str,
    distances: npt.NDArray[np.float64],
    ids: npt.NDArray[np.int64],
    names: list[str] | None,
    queries: list[str] | None,
) -> None:
    """Write all results, with the names of items that are pictures; a run has them as identifiers."""
    if path.endswith(".run"):
        item_ids, query_ids = (found and [quote(name) for name in found] for found in (names, queries))
        write_run(path, distances, ids, query_ids=query_ids, item_ids=item_ids)
        return
    with write_atomically(path) as file:
        if path.endswith(".npz"):
            arrays = {"distances": distances, "ids": ids}
            np.savez(file, **(arrays if names is None else arrays | {"paths": np.array(names)[ids]}))
            return
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["query", "rank", "id", "distance", *([] if names is None else ["path"])])
        for query, (line, items) in enumerate(zip(distances.tolist(), ids.tolist(), strict=True)):
            for rank, (distance, item) in enumerate(zip(line, items, strict=True)):
                table.writerow([query, rank + 1, item, repr(distance), *([] if names is None else [names[item]])])
        text.detach()


# --- export


def export(options: argparse.Namespace) -> int:
    """Write codes into a store."""
    if options.table is not None and options.to not in _WITH_TABLES:
        raise ValueError(f"--table must be used with {', '.join(_WITH_TABLES)}. Got it with {options.to}.")
    if options.to == "pgvector" and "://" not in options.out and "=" not in options.out:
        raise ValueError(
            "--out must be the address of a database with --to pgvector, such as postgresql://user@host/name. "
            f"Got {options.out} instead."
        )
    stored, factors, *_ = read_codes(options.codes)
    more: dict[str, Any] = {"nbits": stored.nbits, "ids": stored.ids}
    if options.to in _WITH_TABLES:
        _to_table(options.to, stored.codes, options.out, "codes" if options.table is None else options.table, more)
    elif options.to == "parquet":
        stores.to_parquet(stored.codes, options.out, **more)
    else:
        check_writable(options.out)
        content = _content(options.to, stored.codes, more)
        with write_atomically(options.out) as file:
            if isinstance(content, np.ndarray) and options.to in ("ubinary", "binary"):
                np.save(file, content)
            else:
                file.write(content)
    left_out = "" if factors is None else ", without their factors"
    print(f"{len(stored.codes):,} codes of {stored.nbits} bits{left_out}: {options.out}")
    return 0


def _content(store: str, codes: Any, more: dict[str, Any]) -> Any:
    """What the file of a store holds."""
    if store == "faiss":
        return library("faiss", "faiss-cpu", "--to faiss").serialize_index_binary(stores.to_faiss(codes, **more))
    if store == "usearch":
        return stores.to_usearch(codes, **more).save()
    precision: Any = store
    return stores.to_sentence_transformers(codes, precision, nbits=more["nbits"])


def _to_table(store: str, codes: Any, place: str, table: str, more: dict[str, Any]) -> None:
    """Write codes into a new table."""
    if store == "lancedb":
        stores.to_lancedb(codes, library("lancedb", "lancedb", "--to lancedb").connect(place), table, **more)
    elif store == "pgvector":
        psycopg = library("psycopg", "psycopg[binary]", "--to pgvector")
        with _errors_of("the database of --out", psycopg.Error), psycopg.connect(place) as connection:
            stores.to_pgvector(codes, connection, table, **more)
    elif store == "duckdb":
        duckdb = library("duckdb", "duckdb", "--to duckdb")
        with _no_new_file(place), _errors_of(place, duckdb.Error), duckdb.connect(place) as connection:
            stores.to_duckdb(codes, connection, table, **more)
    else:
        apsw = library("apsw", "apsw", "--to sqlite-vec")
        with _no_new_file(place), _errors_of(place, apsw.Error):
            connection = apsw.Connection(place)
            try:
                stores.to_sqlite_vec(codes, connection, table, **more)
            finally:
                connection.close()


@contextmanager
def _errors_of(place: str, kind: type[Exception]) -> Iterator[None]:
    """Context manager in which an error of a database begins with its place."""
    try:
        yield
    except kind as error:
        raise OSError(f"{place} cannot be written: {error}") from error


@contextmanager
def _no_new_file(path: str) -> Iterator[None]:
    """Context manager that removes a new database file if its body fails."""
    if not path or path.startswith(":memory:"):
        raise ValueError(f"--out must be a file, which stays. Got {path!r} instead.")
    check_writable(path)
    existed = Path(path).exists()
    try:
        yield
    except BaseException:
        if not existed:
            Path(path).unlink(missing_ok=True)
        raise
