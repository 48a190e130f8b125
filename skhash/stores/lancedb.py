"""LanceDB: lists of bytes, padded to whole bytes. The metadata of the schema has the number of bits."""

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy.typing as npt

from skhash._libraries import library
from skhash._validation import check_option
from skhash.codes import Codes
from skhash.stores._arrow import as_table, fingerprint_of_schema, from_table, nbits_of_schema
from skhash.stores._common import (
    IF_EXISTS,
    IfExists,
    check_appended,
    check_connection,
    check_new_ids,
    check_same_hasher,
    check_table,
    exists,
    no_such_table,
    with_ids,
)

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
    if_exists: IfExists = "fail",
) -> "lancedb.table.Table":
    """Write codes to a LanceDB table, with the columns ``id`` and ``code``.

    Search it with packed codes and ``distance_type("hamming")``.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    connection : lancedb.DBConnection
        What ``lancedb.connect`` returns.
    table : str, default="codes"
        Name of the table.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), ints or text, default=None
        Identifiers, all different. None takes those of Codes, or numbers the codes from 0.
    fingerprint : str, default=None
        ``fingerprint_`` of the hasher that made the codes. It is kept in the metadata of the schema.
    if_exists : {"fail", "replace", "append"}, default="fail"
        What happens if there is such a table: a ValueError, a new table in its place, or more rows in it. Codes are
        added only if they have the length of those in it, other identifiers, and no other fingerprint.

    Returns
    -------
    lancedb.table.Table
        The table.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If `codes` or `ids` are not as described, the table exists, or codes cannot be added to it.

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
    compute = library("pyarrow.compute", "pyarrow", "to_lancedb")
    check_connection(connection, library("lancedb", "lancedb", "to_lancedb").DBConnection, "lancedb.connect")
    check_option("if_exists", if_exists, IF_EXISTS)
    stored = with_ids(codes, nbits, ids, fingerprint=fingerprint)
    column = arrow.FixedSizeListArray.from_arrays(arrow.array(stored.rows.ravel()), stored.rows.shape[1])
    rows, name, found = as_table(stored, column), check_table(table), None
    if if_exists == "replace":
        return connection.create_table(name, rows, mode="overwrite")
    with suppress(ValueError):  # there is no such table
        found = connection.open_table(name)
    if found is None:
        return connection.create_table(name, rows)
    if if_exists == "fail":
        raise exists("table", table)
    if "id" not in found.schema.names:
        raise no_such_table(table, "it has no column id")
    kind, fingerprint = found.schema.field("id").type, fingerprint_of_schema(found.schema)
    has_text = not arrow.types.is_integer(kind)
    check_appended(stored, table, nbits=nbits_of_schema(found.schema), has_text=has_text, fingerprint=fingerprint)
    new = rows.column("id").cast(kind)
    for batch in found.search().select(["id"]).to_batches():
        present = batch.column("id")
        check_new_ids(present.filter(compute.is_in(present, new)).to_pylist(), table)
    found.add(rows)
    return found


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
    check_connection(connection, library("lancedb", "lancedb", "from_lancedb").DBConnection, "lancedb.connect")
    found = connection.open_table(table)
    check_same_hasher(fingerprint_of_schema(found.schema), fingerprint, table)
    return from_table(found.to_arrow())
