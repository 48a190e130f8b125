"""LanceDB: lists of bytes, padded to whole bytes. The metadata of the schema has the number of bits."""

from typing import TYPE_CHECKING

import numpy.typing as npt

from skhash._libraries import library
from skhash.codes import Codes
from skhash.stores._arrow import as_table, fingerprint_of_schema, from_table
from skhash.stores._common import check_same_hasher, check_table, with_ids

if TYPE_CHECKING:
    import lancedb


def to_lancedb(
    codes: Codes | npt.ArrayLike,
    connection: "lancedb.DBConnection",
    table: str = "codes",
    *,
    nbits: int | None = None,
    ids: npt.ArrayLike | None = None,
    fingerprint: str | None = None,
) -> "lancedb.table.Table":
    """Create a LanceDB table of codes, with the columns ``id`` and ``code``.

    Search it with packed codes and ``distance_type("hamming")``.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    connection : lancedb.DBConnection
        What ``lancedb.connect`` returns.
    table : str, default="codes"
        Name of the new table.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), ints or text, default=None
        Identifiers, all different. None takes those of Codes, or numbers the codes from 0.
    fingerprint : str, default=None
        ``fingerprint_`` of the hasher that made the codes. It is kept in the metadata of the schema.

    Returns
    -------
    lancedb.table.Table
        The table.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If `codes` or `ids` are not as described, or the table exists.

    Examples
    --------
    >>> import tempfile
    >>> import lancedb
    >>> from skhash.codes import pack
    >>> from skhash.stores import to_lancedb
    >>> connection = lancedb.connect(tempfile.mkdtemp())
    >>> table = to_lancedb([[0, 0, 1], [1, 1, 1]], connection, ids=[7, 8])
    >>> query = pack([[0, 0, 0]])[0]
    >>> search = table.search(query, vector_column_name="code").distance_type("hamming")
    >>> [(item["id"], item["_distance"]) for item in search.limit(1).to_list()]
    [(7, 1.0)]
    """
    arrow = library("pyarrow", "pyarrow", "to_lancedb")
    stored = with_ids(codes, nbits, ids, fingerprint=fingerprint)
    column = arrow.FixedSizeListArray.from_arrays(arrow.array(stored.rows.ravel()), stored.rows.shape[1])
    return connection.create_table(check_table(table), as_table(stored, column))


def from_lancedb(connection: "lancedb.DBConnection", table: str = "codes", *, fingerprint: str | None = None) -> Codes:
    """Codes of a LanceDB table.

    Parameters
    ----------
    connection : lancedb.DBConnection
        What ``lancedb.connect`` returns.
    table : str, default="codes"
        Name of a table with a column ``code`` of bytes or of lists of integers from 0 to 255, all of one length, and
        optionally a column ``id``.
    fingerprint : str, default=None
        ``fingerprint_`` of a hasher, which refuses codes with another one. None takes any codes.

    Returns
    -------
    Codes
        Packed codes, number of bits and identifiers, in the order of the table. If another program wrote the table,
        all bits of the bytes count.

    Raises
    ------
    ValueError
        If there is no such table or column, or it holds nulls, other values or several lengths, or codes of a hasher
        with another `fingerprint`.

    Examples
    --------
    >>> import tempfile
    >>> import lancedb
    >>> from skhash.stores import from_lancedb, to_lancedb
    >>> connection = lancedb.connect(tempfile.mkdtemp())
    >>> table = to_lancedb([[0, 0, 1], [1, 1, 1]], connection, ids=[7, 8])
    >>> from_lancedb(connection)
    <Codes: 2 of 3 bits, with ids>
    """
    found = connection.open_table(table)
    check_same_hasher(fingerprint_of_schema(found.schema), fingerprint, table)
    return from_table(found.to_arrow())
