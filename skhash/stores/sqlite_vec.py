"""sqlite-vec: a virtual table with a column of type bit[n], padded to whole bytes, through apsw."""

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
    columns_of,
    exists,
    fingerprint_note,
    is_hidden,
    no_such_table,
    noted_fingerprint,
    quoted,
    with_ids,
)

if TYPE_CHECKING:
    import apsw

_MAX_BITS = 8192  # the limit of a column of sqlite-vec
#: SQL of the tables of a name, a temporary one first, as it is read
_SQL = (
    "SELECT sql FROM temp.sqlite_schema WHERE name = :table COLLATE NOCASE UNION ALL "
    "SELECT sql FROM main.sqlite_schema WHERE name = :table COLLATE NOCASE"
)


def to_sqlite_vec(
    codes: Codes | npt.ArrayLike,
    connection: "apsw.Connection",
    table: str = "codes",
    *,
    nbits: int | None = None,
    ids: npt.ArrayLike | None = None,
    fingerprint: str | None = None,
    if_exists: IfExists = "fail",
) -> None:
    """Write codes to a sqlite-vec table, with the columns ``id`` and ``code bit[n]``, n a multiple of 8.

    Search it by ``code MATCH vec_bit(?) AND k = ?``, with the bytes of packed codes.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    connection : apsw.Connection
        A connection of apsw, because Python's sqlite3 often cannot load extensions. sqlite-vec is loaded into it. If a
        transaction is open, the table is part of it.
    table : str, default="codes"
        Name of the table in the main database.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), ints or text, default=None
        Identifiers, all different. None takes those of Codes, or numbers the codes from 0.
    fingerprint : str, default=None
        ``fingerprint_`` of the hasher that made the codes. It is kept in a comment in the SQL that creates the table.
    if_exists : {"fail", "replace", "append"}, default="fail"
        What happens if there is such a table: a ValueError, a new table in its place, or more rows in it. Codes are
        added only if they have the length of those in it, other identifiers, and no other fingerprint.

    Raises
    ------
    ImportError
        If sqlite-vec is not installed.
    TypeError
        If `connection` is not one of apsw.
    ValueError
        If `codes` or `ids` are not as described, the codes have more than 8,192 bits, the table exists, or codes cannot
        be added to it.

    Examples
    --------
    >>> import apsw
    >>> from skhash.codes import pack
    >>> from skhash.stores import to_sqlite_vec
    >>> connection = apsw.Connection(":memory:")
    >>> to_sqlite_vec([[0, 0, 1], [1, 1, 1]], connection, ids=[7, 8])
    >>> select = "SELECT id, distance FROM codes WHERE code MATCH vec_bit(?) AND k = ?"
    >>> query = pack([[0, 0, 0]])[0].tobytes()
    >>> connection.execute(select, (query, 1)).fetchall()
    [(7, 1.0)]
    """
    cursor = _cursor(connection)
    check_option("if_exists", if_exists, IF_EXISTS)
    stored = with_ids(codes, nbits, ids, fingerprint=fingerprint)
    name, width = quoted(table), 8 * stored.rows.shape[1]
    if width > _MAX_BITS:
        raise ValueError(f"`codes` must have at most {_MAX_BITS} bits in sqlite-vec. Got {stored.nbits} instead.")
    found = "SELECT schema FROM pragma_table_list WHERE name = ? COLLATE NOCASE AND schema IN ('main', 'temp')"
    schemas = {schema for (schema,) in cursor.execute(found, (table,))}
    if schemas and if_exists == "fail":
        raise exists("table", table)
    if "temp" in schemas and if_exists == "replace":
        raise is_hidden(table)
    with connection:  # a transaction
        if schemas and if_exists == "append":
            _check_added(stored, cursor, table)
        else:
            if schemas:
                cursor.execute(f"DROP TABLE {name}")
            kind = "TEXT" if is_text(stored.ids) else "INTEGER"
            note = fingerprint_note(stored)
            comment = f" /* {note} */" if note else ""  # SQLite keeps it, and hides it from sqlite-vec
            cursor.execute(f"CREATE VIRTUAL TABLE {name} USING vec0(id {kind} PRIMARY KEY, code bit[{width}]{comment})")
        rows = ((i, code.tobytes()) for i, code in zip(stored.ids.tolist(), stored.rows, strict=True))
        cursor.executemany(f"INSERT INTO {name} (id, code) VALUES (?, vec_bit(?))", rows)


def _check_added(stored: Codes, cursor: "apsw.Cursor", table: str) -> None:
    """Raise ValueError unless codes may be added to a table; its number of bits is known as whole bytes."""
    name = quoted(table)
    try:
        first = cursor.execute(f"SELECT typeof(id), length(code) FROM {name} LIMIT 1").fetchall()
    except library("apsw", "apsw", "to_sqlite_vec").SQLError as error:
        raise no_such_table(table, error) from error
    for kind, n_bytes in first:
        nbits = stored.nbits if n_bytes == stored.rows.shape[1] else 8 * n_bytes
        found = _fingerprint(cursor, table)
        check_appended(stored, table, nbits=nbits, has_text=kind == "text", fingerprint=found)
        for i in stored.ids.tolist():
            check_new_ids((i for _ in cursor.execute(f"SELECT 1 FROM {name} WHERE id = ?", (i,)).fetchall()), table)


def _fingerprint(cursor: "apsw.Cursor", table: str) -> str | None:
    """Fingerprint in the SQL of a table."""
    texts = cursor.execute(_SQL, {"table": table}).fetchall()
    return noted_fingerprint(texts[0][0] if texts else None)


def from_sqlite_vec(
    connection: "apsw.Connection", table: str = "codes", *, nbits: int | None = None, fingerprint: str | None = None
) -> Codes:
    """Codes of a sqlite-vec table.

    Parameters
    ----------
    connection : apsw.Connection
        A connection of apsw. sqlite-vec is loaded into it.
    table : str, default="codes"
        Name of a table with the columns ``id`` and ``code bit[n]``.
    nbits : int, default=None
        Number of bits of a code. None takes all bits of the column, a multiple of 8.
    fingerprint : str, default=None
        ``fingerprint_`` of a hasher, which refuses codes with another one. None takes any codes.

    Returns
    -------
    Codes
        Packed codes, number of bits and identifiers, sorted by identifier.

    Raises
    ------
    ImportError
        If sqlite-vec is not installed.
    TypeError
        If `connection` is not one of apsw.
    ValueError
        If there is no such table, it has no codes, or codes of several lengths or of another type than bit, its ids
        are neither ints nor text, `nbits` does not fit it, or the codes are those of a hasher with another
        `fingerprint`.

    Examples
    --------
    >>> import apsw
    >>> from skhash.stores import from_sqlite_vec, to_sqlite_vec
    >>> connection = apsw.Connection(":memory:")
    >>> to_sqlite_vec([[0, 0, 1], [1, 1, 1]], connection, ids=[7, 8])
    >>> from_sqlite_vec(connection, nbits=3)
    <Codes: 2 of 3 bits, with ids>
    """
    cursor, apsw = _cursor(connection), library("apsw", "apsw", "from_sqlite_vec")
    name = quoted(table)
    found = _fingerprint(cursor, table)
    check_same_hasher(found, fingerprint, table)
    try:
        rows = cursor.execute(f"SELECT id, code FROM {name} ORDER BY id").fetchall()
    except apsw.SQLError as error:
        raise no_such_table(table, error) from error
    hidden = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 1 ORDER BY name"
    if cursor.execute(hidden, (table,)).fetchall() == [("distance",), ("k",)]:  # only tables of sqlite-vec have both
        kinds = {kind for (kind,) in cursor.execute(f"SELECT vec_type(code) FROM {name}")}
        if kinds - {"bit"}:
            raise ValueError(f"`table` must have codes of type bit. Got {', '.join(sorted(kinds))} in {table!r}.")
    ids, codes = columns_of(rows, bytes, table)
    packed = np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(len(codes), -1)
    return with_ids(packed, 8 * packed.shape[1] if nbits is None else nbits, ids, table, found)


def _cursor(connection: "apsw.Connection") -> "apsw.Cursor":
    """Cursor with plain rows, on a connection into which sqlite-vec is loaded."""
    sqlite_vec = library("sqlite_vec", "sqlite-vec", "to_sqlite_vec and from_sqlite_vec")
    apsw = library("apsw", "apsw", "to_sqlite_vec and from_sqlite_vec")
    check_connection(connection, apsw.Connection, "apsw.Connection")
    cursor = apsw.Cursor(connection)
    cursor.row_trace = lambda _, row: row  # this cursor only: the connection keeps its own
    if not cursor.execute("SELECT 1 FROM pragma_function_list WHERE name = 'vec_version'").fetchall():
        was_allowed = connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, -1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        try:
            connection.load_extension(sqlite_vec.loadable_path())
        finally:
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, was_allowed)
    return cursor
