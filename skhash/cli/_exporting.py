"""The command ``skhash export``."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from skhash import stores
from skhash._libraries import library
from skhash.cli._samples import read_codes
from skhash.persistence._writing import check_writable, write_atomically

_WITH_TABLES = ("lancedb", "pgvector", "sqlite-vec", "duckdb")


def run(options: argparse.Namespace) -> int:
    """Write codes into a store."""
    if options.table is not None and options.to not in _WITH_TABLES:
        raise ValueError(f"--table must be used with {', '.join(_WITH_TABLES)}. Got it with {options.to}.")
    if options.to == "pgvector" and "://" not in options.out and "=" not in options.out:
        raise ValueError(
            "--out must be the address of a database with --to pgvector, such as postgresql://user@host/name. "
            f"Got {options.out} instead."
        )
    stored, factors = read_codes(options.codes)
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
