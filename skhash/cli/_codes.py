"""The commands ``skhash encode``, ``skhash index`` and ``skhash export``."""

import argparse
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy
from sklearn.frozen import FrozenEstimator

from skhash import stores
from skhash._files import check_writable, write_atomically
from skhash._ids import as_plain, checked_ids, is_text
from skhash._libraries import library
from skhash._progress import progress
from skhash._slices import ENCODE_BATCH_SIZE, Source
from skhash.cli._pictures import load_model, open_for
from skhash.cli._samples import (
    IDS_ARE_PATHS,
    TRAINED_ON,
    ItemsOfFile,
    Samples,
    errors_of,
    fingerprint_of_codes,
    in_batches,
    notes_of,
    read_codes,
)
from skhash.codes import Codes
from skhash.codes.codes import are_other, check_same_nbits
from skhash.datasets.kinds import kind_of
from skhash.exceptions import InvalidFileError
from skhash.neighbors import HammingNeighbors
from skhash.persistence import read_notes, save_with_notes
from skhash.persistence.encodings import write_fingerprint
from skhash.persistence.fingerprint import known_fingerprint
from skhash.persistence.format import read_header
from skhash.unwrap import find_hasher, hasher_input, items_of, lacks_factors, makes_factors

#: stores with tables that have a name
_WITH_TABLES = ("lancedb", "pgvector", "sqlite-vec", "duckdb")
#: indexes whose identifiers are whole numbers
_WITHOUT_TEXT = ("faiss", "usearch")


# --- encode


def encode(options: argparse.Namespace) -> int:
    """Encode a file."""
    if not options.out.endswith(".npz"):
        raise ValueError(f"--out must be an .npz file. Got {options.out} instead.")
    model, samples = open_for(load_hasher(options), options.data, options)
    hasher = find_hasher(model)
    ids = None if samples.ids is None else as_plain(samples.ids, options.out)

    def batches(size: int) -> Iterator[Any]:
        for batch in samples.batches(size):
            with errors_of(options.data):
                checked = hasher._validate_samples(hasher_input(model, batch))
            yield checked

    maker = None if options.fresh else fingerprint_of_codes(options.out)
    if are_other(maker, hasher.fingerprint_):
        raise ValueError(
            f"--out must not be a file with the codes of another hasher. Got {options.out} with those of one with the "
            f"fingerprint {maker}, and {options.model} has {hasher.fingerprint_}. Choose another file, or replace it "
            "with --fresh."
        )

    nbits = int(hasher._n_features_out)
    n_bytes = -(-nbits // 8)
    width = n_bytes + 8 * makes_factors(hasher)

    def record(samples: Any) -> npt.NDArray[np.uint8]:
        """Codes of checked samples, followed by factors if the hasher has any."""
        with errors_of(options.data):
            codes = hasher._packed(samples)
            return codes if width == n_bytes else np.hstack([codes, hasher._factors(samples).view(np.uint8)])

    record(next(batches(1)))  # a wrong number of features is an error before any work
    source = Source(samples.n, batches, is_valid=True)
    with progress(f"Encoding {options.data}", samples.n) as show:
        records = hasher._write_records(
            *(source, record, width, options.out, ENCODE_BATCH_SIZE), lambda n_done, _, n_before: show(n_done, n_before)
        )
    with closing(records):
        content = records.records()
        arrays = {
            "codes": content[:, :n_bytes],
            "nbits": np.array(nbits),
            "fingerprint": np.array(hasher.fingerprint_),
        }
        if width > n_bytes:
            arrays["factors"] = np.ascontiguousarray(content[:, n_bytes:]).view(np.float32)
        if ids is not None:
            arrays["ids"] = ids
        if samples.names is not None:
            arrays["paths"] = np.array(samples.names)
        arrays |= _notes(samples, options)
        _write_codes(options.out, arrays)
        del content, arrays  # Windows does not remove a mapped file
        records.discard()
    print(f"{samples.n:,} codes of {nbits} bits: {options.out}")
    return 0


def _notes(samples: Samples, options: argparse.Namespace) -> dict[str, Any]:
    """Labels of pictures, and of other samples if they are asked for; and what the hasher has learned from."""
    y = None if samples.names is None and options.labels is None else samples.targets()
    return notes_of(y, None if y is None else samples.label_names, _trained(samples, options.model))


def _trained(samples: Samples, model: str) -> npt.NDArray[np.bool_] | None:
    """Whether the hasher in a file has learned from each picture; None if it is not known."""
    trained_on = None if samples.keys is None else read_notes(model).get(TRAINED_ON)
    return None if trained_on is None or samples.keys is None else np.isin(samples.keys(), trained_on)


def _write_codes(path: str, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write an .npz file whose bytes depend on the arrays alone."""
    with write_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def load_hasher(options: argparse.Namespace) -> Any:
    """Hasher of a file, or its Pipeline of a scaler and a hasher; it must not be the file of an index."""
    if kind_of(options.model).holds == "index":  # `load` may need vectors for an index
        kind = read_header(options.model)["class"]
        raise ValueError(f"MODEL must be the file of a hasher. Got {options.model}, a {kind}: save its hasher_.")
    return load_model(options)


# --- index


def index(options: argparse.Namespace) -> int:
    """Save an index of a hasher and items, with the paths and labels of pictures."""
    check_writable(options.out)
    model = load_hasher(options)
    samples, read_items = open_items(model, options)
    items = read_items()
    if lacks_factors(model, items.codes):
        raise ValueError(f"{options.data} must have factors, as {options.model} has. Write it with skhash encode.")
    found = HammingNeighbors(FrozenEstimator(model))
    fill(found, items, options)
    if samples is None:
        notes: dict[str, Any] = notes_of(items.labels, items.label_names, items.trained)
    else:
        notes = _notes(samples, options)
    if items.names is not None:
        with errors_of(options.data):
            found._items = found._items.with_ids(checked_ids(items.names, len(items.names)))
        notes[IDS_ARE_PATHS] = True
    save_with_notes(found, options.out, notes)
    print(f"{len(items.codes):,} codes of {items.codes.nbits} bits: {options.out}")
    return 0


def hold_codes(options: argparse.Namespace) -> bool:
    """Whether DATA holds codes and not samples."""
    return options.columns is None and kind_of(options.data).holds == "codes"


def open_items(model: Any, options: argparse.Namespace) -> tuple[Samples | None, Callable[[], ItemsOfFile]]:
    """The samples of DATA, unless it holds codes; and a function that returns its codes, factors and names."""
    if hold_codes(options):
        items = read_codes(options.data)
        if not len(items.codes):
            raise InvalidFileError(options.data, "has no codes.")
        return None, lambda: items
    hasher, samples = open_for(model, options.data, options)
    return samples, lambda: _encoded(hasher, samples, options)


def _encoded(hasher: Any, samples: Samples, options: argparse.Namespace) -> ItemsOfFile:
    """Codes, factors and names of the samples of DATA."""
    parts = []
    for batch in in_batches(samples, f"Encoding {options.data}"):
        with errors_of(options.data):
            parts.append(items_of(hasher, batch))
    fingerprint = find_hasher(hasher).fingerprint_
    return ItemsOfFile(Codes.of(Codes.joined(parts), ids=samples.ids, fingerprint=fingerprint), samples.names)


def fill(index: HammingNeighbors, items: ItemsOfFile, options: argparse.Namespace) -> None:
    """Fit an index of a fitted hasher to codes that this hasher has made."""
    codes, hasher = items.codes, find_hasher(index.hasher)
    check_same_nbits(codes.nbits, int(hasher._n_features_out), options.data, options.model)
    if codes.factors is not None and not makes_factors(hasher):
        raise ValueError(
            f"{options.data} must be codes of {options.model}. Got factors, which this hasher does not have."
        )
    if are_other(codes.fingerprint, found := known_fingerprint(hasher.function_)):
        raise ValueError(
            f"{options.data} must have the codes of {options.model}, which has the fingerprint {found}. Got those of a "
            f"hasher with {codes.fingerprint}. Encode the samples again: skhash encode {options.model} DATA --out "
            "CODES."
        )
    index._take_hasher(index.hasher)
    ids = np.arange(len(codes)) if codes.ids is None else codes.ids
    index._take_items(codes.blocks(), ids, codes.factors, codes.fingerprint, groups=codes.groups)


# --- export


def export(options: argparse.Namespace) -> int:
    """Write codes into a store."""
    if options.table is not None and options.to not in _WITH_TABLES:
        raise ValueError(f"--table must be used with {', '.join(_WITH_TABLES)}. Got it with {options.to}.")
    if options.if_exists is not None and options.to not in (*_WITH_TABLES, "parquet"):
        raise ValueError(
            f"--if-exists must be used with {', '.join(_WITH_TABLES)} or parquet. Got it with {options.to}, whose file "
            "is replaced."
        )
    if options.to == "pgvector" and "://" not in options.out and "=" not in options.out:
        raise ValueError(
            "--out must be the address of a database with --to pgvector, such as postgresql://user@host/name. "
            f"Got {options.out} instead."
        )
    codes, names, *_ = read_codes(options.codes)
    has_paths = names is not None and options.to not in _WITHOUT_TEXT
    stored = replace(codes, ids=checked_ids(names, len(codes)) if has_paths else codes.ids)
    if options.to in _WITHOUT_TEXT and stored.ids is not None and is_text(stored.ids):
        raise ValueError(
            f"--to must be a store with a column of text, such as parquet or duckdb, for the ids of {options.codes}. "
            f"Got {options.to}, which has whole numbers, and {stored.ids[0]!r}."
        )
    if options.to in _WITH_TABLES:
        table = "codes" if options.table is None else options.table
        _to_table(options.to, stored, options.out, table, options.if_exists or "fail")
    elif options.to == "parquet":
        stores.to_parquet(stored, options.out, if_exists=options.if_exists or "replace")
    else:
        check_writable(options.out)
        content = _content(options.to, stored)
        with write_atomically(options.out) as file:
            if isinstance(content, np.ndarray) and options.to in ("ubinary", "binary"):
                np.save(file, content)
            else:
                file.write(content)
    left = [name for name in ("factors", "groups") if getattr(stored, name) is not None]
    left_out = f", without their {' and '.join(left)}" if left else ""
    print(f"{len(stored):,} codes of {stored.nbits} bits{left_out}: {options.out}")
    if names is not None and options.to in _WITHOUT_TEXT:
        print(f"The ids are 0, 1, 2, ..., in the order of {options.codes}: {options.to} takes no text as ids.")
    if options.to in _WITHOUT_TEXT and (beside := write_fingerprint(options.out, stored.fingerprint)):
        print(f"Fingerprint of the hasher: {beside}")
    return 0


def _content(store: str, codes: Codes) -> Any:
    """What the file of a store holds."""
    if store == "faiss":
        return library("faiss", "faiss-cpu", "--to faiss").serialize_index_binary(stores.to_faiss(codes))
    if store == "usearch":
        return stores.to_usearch(codes).save()
    precision: Any = store
    return stores.to_sentence_transformers(codes, precision)


def _to_table(store: str, codes: Codes, place: str, table: str, if_exists: Any) -> None:
    """Write codes into a table."""
    if store == "lancedb":
        connection = library("lancedb", "lancedb", "--to lancedb").connect(place)
        stores.to_lancedb(codes, connection, table, if_exists=if_exists)
    elif store == "pgvector":
        psycopg = library("psycopg", "psycopg[binary]", "--to pgvector")
        with _errors_of("the database of --out", psycopg.Error), psycopg.connect(place) as connection:
            stores.to_pgvector(codes, connection, table, if_exists=if_exists)
    elif store == "duckdb":
        duckdb = library("duckdb", "duckdb", "--to duckdb")
        with _no_new_file(place), _errors_of(place, duckdb.Error), duckdb.connect(place) as connection:
            stores.to_duckdb(codes, connection, table, if_exists=if_exists)
    else:
        apsw = library("apsw", "apsw", "--to sqlite-vec")
        with _no_new_file(place), _errors_of(place, apsw.Error):
            connection = apsw.Connection(place)
            try:
                stores.to_sqlite_vec(codes, connection, table, if_exists=if_exists)
            finally:
                connection.close()


@contextmanager
def _errors_of(place: str, kind: type[Exception]) -> Iterator[None]:
    """Context manager that begins an error of a database with its place."""
    try:
        yield
    except kind as error:
        raise OSError(f"{place} cannot be written: {error}") from error


@contextmanager
def _no_new_file(path: str) -> Iterator[None]:
    """Context manager that removes a new database file if its body fails."""
    if not path or path.startswith(":memory:"):
        raise ValueError(f"--out must be a file, since memory is not kept. Got {path!r} instead.")
    check_writable(path)
    existed = Path(path).exists()
    try:
        yield
    except BaseException:
        if not existed:
            Path(path).unlink(missing_ok=True)
        raise
