"""DuckDB: a column of type BIT, which takes any number of bits."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from skhash._ids import is_text
from skhash._libraries import library
from skhash.codes import Codes
from skhash.stores._common import (
    check_same_hasher,
    fingerprint_note,
    from_strings,
    no_such_table,
    noted_fingerprint,
    quoted,
    table_exists,
    with_ids,
)

if TYPE_CHECKING:
    import duckdb

#: columns of a table: checked before any other statement, because an error aborts the caller's transaction
_COLUMNS = "SELECT lower(column_name) FROM duckdb_columns() WHERE lower(table_name) = lower(?)"
_IS_READ = "in_search_path(database_name, schema_name)"
#: comments on the tables of a name, that of the table which is read first
_COMMENTS = (
    f"SELECT comment FROM duckdb_tables() WHERE lower(table_name) = lower(?) AND {_IS_READ}"
    " ORDER BY database_name != 'temp', list_position(current_schemas(false), schema_name),"
    " database_name != current_database()"
)
_IS_WRITTEN = (
    "(database_name = 'temp' OR (lower(database_name), lower(schema_name))"
    " = (lower(current_database()), lower(current_schema())))"
)


def to_duckdb(
    codes: Codes | npt.ArrayLike,
    connection: "duckdb.DuckDBPyConnection",
    table: str = "codes",
    *,
    nbits: int | None = None,
    ids: npt.ArrayLike | None = None,
    fingerprint: str | None = None,
) -> None:
    """Create a DuckDB table of codes, with the columns ``id BIGINT``, or ``id VARCHAR`` for text, and ``code BIT``.

    Search it by ``bit_count(xor(code, ?::BIT))``, with queries from :func:`bit_strings`.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    connection : duckdb.DuckDBPyConnection
        What ``duckdb.connect`` returns. If a transaction is open, the table is part of it. Rows of its last ``execute``
        that were not fetched are lost.
    table : str, default="codes"
        Name of the new table, in the database and schema that ``USE`` names.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), ints or text, default=None
        Identifiers, all different. None takes those of Codes, or numbers the codes from 0.
    fingerprint : str, default=None
        ``fingerprint_`` of the hasher that made the codes. It is kept in the comment on the table.

    Raises
    ------
    ImportError
        If duckdb is not installed.
    ValueError
        If `codes` or `ids` are not as described, or the table exists.

    Examples
    --------
    >>> import duckdb
    >>> from skhash.stores import bit_strings, to_duckdb
    >>> connection = duckdb.connect()
    >>> to_duckdb([[0, 0, 1], [1, 1, 1]], connection, ids=[7, 8])
    >>> select = "SELECT id, bit_count(xor(code, ?::BIT)) AS distance FROM codes"
    >>> query = bit_strings([[0, 0, 0]])
    >>> connection.execute(f"{select} ORDER BY distance, id LIMIT 1", query).fetchall()
    [(7, 1)]
    """
    library("duckdb", "duckdb", "to_duckdb")
    stored = with_ids(codes, nbits, ids, fingerprint=fingerprint)
    name = quoted(table)
    if connection.execute(f"{_COLUMNS} AND {_IS_WRITTEN}", [table]).fetchall():  # or a temporary one hides it
        raise table_exists(table)
    packed = np.array([code.tobytes() for code in stored.rows], dtype=object)
    connection.register("skhash_codes", {"id": stored.ids, "code": packed})
    try:  # one statement writes all rows or none
        bits = f"(code::BLOB::BIT::VARCHAR)[1:{stored.nbits}]::BIT"
        kind = "VARCHAR" if is_text(stored.ids) else "BIGINT"
        connection.execute(f"CREATE TABLE {name} AS SELECT id::{kind} AS id, {bits} AS code FROM skhash_codes")
        if note := fingerprint_note(stored):
            connection.execute(f"COMMENT ON TABLE {name} IS '{note}'")
    finally:
        connection.unregister("skhash_codes")


def from_duckdb(
    connection: "duckdb.DuckDBPyConnection", table: str = "codes", *, fingerprint: str | None = None
) -> Codes:
    """Codes of a DuckDB table.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What ``duckdb.connect`` returns. Rows of its last ``execute`` that were not fetched are lost.
    table : str, default="codes"
        Name of a table with the columns ``id`` and ``code BIT``, all codes of one length. Where codes are lists of
        bytes, write them by ``COPY codes TO 'codes.parquet'``, and read them by :func:`from_parquet`.
    fingerprint : str, default=None
        ``fingerprint_`` of a hasher, which refuses codes with another one. None takes any codes.

    Returns
    -------
    Codes
        Packed codes, number of bits and identifiers, sorted by identifier.

    Raises
    ------
    ImportError
        If duckdb is not installed.
    ValueError
        If there is no such table, it has no codes, or codes of several lengths or of a hasher with another
        `fingerprint`, or its ids are neither ints nor text.

    Examples
    --------
    >>> import duckdb
    >>> from skhash.stores import from_duckdb, to_duckdb
    >>> connection = duckdb.connect()
    >>> to_duckdb([[0, 0, 1], [1, 1, 1]], connection, ids=[7, 8])
    >>> from_duckdb(connection)
    <Codes: 2 of 3 bits, with ids>
    """
    library("duckdb", "duckdb", "from_duckdb")
    name = quoted(table)
    columns = {column for (column,) in connection.execute(f"{_COLUMNS} AND {_IS_READ}", [table]).fetchall()}
    if missing := {"id", "code"} - columns:
        raise no_such_table(table, f'column "{max(missing)}" does not exist' if columns else "it does not exist")
    comments = connection.execute(_COMMENTS, [table]).fetchall()
    found = noted_fingerprint(comments[0][0] if comments else None)
    check_same_hasher(found, fingerprint, table)
    rows = connection.execute(f"SELECT id, code FROM {name} ORDER BY id").fetchall()
    return replace(from_strings(rows, table), fingerprint=found)
