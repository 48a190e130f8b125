"""DuckDB: a column of type BIT, which takes any number of bits."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from skhash._ids import is_text
from skhash._libraries import library
from skhash._validation import check_option
from skhash.codes import Codes
from skhash.stores._common import (
    IF_EXISTS,
    IfExists,
    check_appended,
    check_connection,
    check_new_ids,
    check_same_hasher,
    exists,
    fingerprint_note,
    from_strings,
    is_hidden,
    no_such_table,
    noted_fingerprint,
    quoted,
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
    if_exists: IfExists = "fail",
) -> None:
    """Write codes to a DuckDB table, with the columns ``id BIGINT``, or ``id VARCHAR`` for text, and ``code BIT``.

    Search it by ``bit_count(xor(code, ?::BIT))``, with queries from :func:`bit_strings`.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    connection : duckdb.DuckDBPyConnection
        What ``duckdb.connect`` returns. If a transaction is open, the table is part of it. Rows of its last ``execute``
        that were not fetched are lost.
    table : str, default="codes"
        Name of the table, in the database and schema that ``USE`` names.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), ints or text, default=None
        Identifiers, all different. None takes those of Codes, or numbers the codes from 0.
    fingerprint : str, default=None
        ``fingerprint_`` of the hasher that made the codes. It is kept in the comment on the table.
    if_exists : {"fail", "replace", "append"}, default="fail"
        What happens if there is such a table: a ValueError, a new table in its place, or more rows in it. Codes are
        added only if they have the length of those in it, other identifiers, and no other fingerprint.

    Raises
    ------
    ImportError
        If duckdb is not installed.
    ValueError
        If `codes` or `ids` are not as described, the table exists, or codes cannot be added to it.

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
    check_connection(connection, library("duckdb", "duckdb", "to_duckdb").DuckDBPyConnection, "duckdb.connect")
    check_option("if_exists", if_exists, IF_EXISTS)
    stored = with_ids(codes, nbits, ids, fingerprint=fingerprint)
    name = quoted(table)
    is_read = bool(connection.execute(f"{_COLUMNS} AND {_IS_READ}", [table]).fetchall())
    is_added = if_exists == "append" and is_read
    if not is_added and if_exists != "replace":
        if connection.execute(f"{_COLUMNS} AND {_IS_WRITTEN}", [table]).fetchall():  # or a temporary one hides it
            raise exists("table", table)
    elif not is_added and connection.execute(f"{_COLUMNS} AND database_name = 'temp'", [table]).fetchall():
        raise is_hidden(table)
    packed = np.array([code.tobytes() for code in stored.rows], dtype=object)
    bits = f"(code::BLOB::BIT::VARCHAR)[1:{stored.nbits}]::BIT"
    kind = "VARCHAR" if is_text(stored.ids) else "BIGINT"
    rows = f"SELECT id::{kind} AS id, {bits} AS code FROM skhash_codes"
    connection.register("skhash_codes", {"id": stored.ids, "code": packed})
    try:  # one statement writes all rows or none
        if is_added:
            _check_added(stored, connection, table, kind)
            connection.execute(f"INSERT INTO {name} (id, code) {rows}")
            return
        connection.execute(f"CREATE {'OR REPLACE ' * (if_exists == 'replace')}TABLE {name} AS {rows}")
        if note := fingerprint_note(stored):
            connection.execute(f"COMMENT ON TABLE {name} IS '{note}'")
    finally:
        connection.unregister("skhash_codes")


def _check_added(stored: Codes, connection: "duckdb.DuckDBPyConnection", table: str, kind: str) -> None:
    """Raise ValueError unless the codes in ``skhash_codes`` may be added to a table."""
    name = quoted(table)
    types = dict(connection.execute(f"SELECT lower(column_name), column_type FROM (DESCRIBE {name})").fetchall())
    if types.get("code") != "BIT" or "id" not in types:
        raise no_such_table(table, f"its columns are {', '.join(f'{name} {kind}' for name, kind in types.items())}")
    lengths = connection.execute(f"SELECT DISTINCT bit_length(code) FROM {name}").fetchall() or [(stored.nbits,)]
    check_appended(
        stored,
        table,
        nbits=next((length for (length,) in lengths if length != stored.nbits), stored.nbits),
        has_text=types["id"] == "VARCHAR",
        fingerprint=_fingerprint(connection, table),
    )
    shared = f"SELECT id FROM {name} WHERE id IN (SELECT id::{kind} FROM skhash_codes) ORDER BY id LIMIT 1"
    check_new_ids((i for (i,) in connection.execute(shared).fetchall()), table)


def _fingerprint(connection: "duckdb.DuckDBPyConnection", table: str) -> str | None:
    """Fingerprint in the comment on a table."""
    comments = connection.execute(_COMMENTS, [table]).fetchall()
    return noted_fingerprint(comments[0][0] if comments else None)


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
    check_connection(connection, library("duckdb", "duckdb", "from_duckdb").DuckDBPyConnection, "duckdb.connect")
    name = quoted(table)
    columns = {column for (column,) in connection.execute(f"{_COLUMNS} AND {_IS_READ}", [table]).fetchall()}
    if missing := {"id", "code"} - columns:
        raise no_such_table(table, f'column "{max(missing)}" does not exist' if columns else "it does not exist")
    found = _fingerprint(connection, table)
    check_same_hasher(found, fingerprint, table)
    rows = connection.execute(f"SELECT id, code FROM {name} ORDER BY id").fetchall()
    return replace(from_strings(rows, table), fingerprint=found)
