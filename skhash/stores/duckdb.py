"""DuckDB: a column of type BIT, which takes any number of bits."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from skhash._libraries import library
from skhash.stores._codes import (
    StoredCodes,
    bit_strings,
    check_codes,
    from_strings,
    no_such_table,
    quoted,
    slices,
    table_exists,
)

if TYPE_CHECKING:
    import duckdb


def to_duckdb(
    codes: npt.ArrayLike,
    connection: "duckdb.DuckDBPyConnection",
    table: str = "codes",
    *,
    nbits: int | None = None,
    ids: npt.ArrayLike | None = None,
) -> None:
    """Create a DuckDB table of codes, with the columns ``id BIGINT`` and ``code BIT``.

    Search it by ``bit_count(xor(code, ?::BIT))``, with queries from :func:`bit_strings`.

    Parameters
    ----------
    codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given.
    connection : duckdb.DuckDBPyConnection
        What ``duckdb.connect`` returns.
    table : str, default="codes"
        Name of the new table.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), dtype int, default=None
        Identifiers. None numbers the codes from 0.

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
    duckdb = library("duckdb", "duckdb", "to_duckdb")
    stored = check_codes(codes, nbits, ids)
    name = quoted(table)
    cursor = connection.cursor()  # a transaction of its own
    cursor.begin()
    try:
        try:
            cursor.execute(f"CREATE TABLE {name} (id BIGINT, code BIT)")
        except duckdb.CatalogException as error:
            raise table_exists(table) from error
        for part in slices(len(stored.codes)):
            strings = np.array(bit_strings(stored.codes[part], nbits=stored.nbits), dtype=object)
            cursor.register("skhash_part", {"id": stored.ids[part], "code": strings})
            cursor.execute(f"INSERT INTO {name} SELECT id, code::BIT FROM skhash_part")
            cursor.unregister("skhash_part")
        cursor.commit()
    except BaseException:
        cursor.rollback()
        raise
    finally:
        cursor.close()


def from_duckdb(connection: "duckdb.DuckDBPyConnection", table: str = "codes") -> StoredCodes:
    """Codes of a DuckDB table.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What ``duckdb.connect`` returns.
    table : str, default="codes"
        Name of a table with the columns ``id`` and ``code BIT``, all codes of one length.

    Returns
    -------
    StoredCodes
        Packed codes, number of bits and identifiers, sorted by identifier.

    Raises
    ------
    ImportError
        If duckdb is not installed.
    ValueError
        If there is no such table, it has no codes, or codes of several lengths, or its ids are not ints.

    Examples
    --------
    >>> import duckdb
    >>> from skhash.stores import from_duckdb, to_duckdb
    >>> connection = duckdb.connect()
    >>> to_duckdb([[0, 0, 1], [1, 1, 1]], connection, ids=[7, 8])
    >>> from_duckdb(connection)
    StoredCodes(codes=array([[ 32], [224]], dtype=uint8), nbits=3, ids=array([7, 8]))
    """
    duckdb = library("duckdb", "duckdb", "from_duckdb")
    name = quoted(table)
    try:
        rows = connection.execute(f"SELECT id, code::VARCHAR FROM {name} ORDER BY id").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        raise no_such_table(table, error) from error
    return from_strings(rows, table)
