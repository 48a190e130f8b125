"""sqlite-vec: a virtual table with a column of type bit[n], padded to whole bytes, through apsw."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from skhash._ids import is_text
from skhash._libraries import library
from skhash.codes import Codes
from skhash.stores._common import (
    check_same_hasher,
    columns_of,
    fingerprint_note,
    no_such_table,
    noted_fingerprint,
    quoted,
    table_exists,
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
) -> None:
    """Create a sqlite-vec table of codes, with the columns ``id`` and ``code bit[n]``, n a multiple of 8.

    Search it by ``code MATCH vec_bit(?) AND k = ?``, with the bytes of packed codes.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    connection : apsw.Connection
        A connection of apsw, because Python's sqlite3 often cannot load extensions. sqlite-vec is loaded into it. If a
        transaction is open, the table is part of it.
    table : str, default="codes"
        Name of the new table in the main database.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), ints or text, default=None
        Identifiers, all different. None takes those of Codes, or numbers the codes from 0.
    fingerprint : str, default=None
        ``fingerprint_`` of the hasher that made the codes. It is kept in a comment in the SQL that creates the table.

    Raises
    ------
    ImportError
        If sqlite-vec is not installed.
    TypeError
        If `connection` is not one of apsw.
    ValueError
        If `codes` or `ids` are not as described, the codes have more than 8,192 bits, or the table exists.

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
    stored = with_ids(codes, nbits, ids, fingerprint=fingerprint)
    name, width = quoted(table), 8 * stored.rows.shape[1]
    if width > _MAX_BITS:
        raise ValueError(f"`codes` must have at most {_MAX_BITS} bits in sqlite-vec. Got {stored.nbits} instead.")
    hides = "SELECT 1 FROM pragma_table_list WHERE name = ? COLLATE NOCASE AND schema IN ('main', 'temp')"
    if cursor.execute(hides, (table,)).fetchall():
        raise table_exists(table)
    with connection:  # a transaction
        kind = "TEXT" if is_text(stored.ids) else "INTEGER"
        note = fingerprint_note(stored)
        comment = f" /* {note} */" if note else ""  # SQLite keeps it, and hides it from sqlite-vec
        cursor.execute(f"CREATE VIRTUAL TABLE {name} USING vec0(id {kind} PRIMARY KEY, code bit[{width}]{comment})")
        rows = ((i, code.tobytes()) for i, code in zip(stored.ids.tolist(), stored.rows, strict=True))
        cursor.executemany(f"INSERT INTO {name} (id, code) VALUES (?, vec_bit(?))", rows)


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
    texts = cursor.execute(_SQL, {"table": table}).fetchall()
    found = noted_fingerprint(texts[0][0] if texts else None)
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
    if not isinstance(connection, apsw.Connection):
        name = f"{type(connection).__module__}.{type(connection).__name__}"
        raise TypeError(f"`connection` must be an apsw.Connection, which opens the same files. Got {name} instead.")
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
