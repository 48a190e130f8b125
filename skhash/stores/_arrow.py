"""Codes as Arrow tables, for Parquet and LanceDB. The number of bits is metadata of the schema."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._libraries import library
from skhash.stores._codes import StoredCodes, check_codes

_NBITS = b"skhash.nbits"


def as_table(stored: StoredCodes, column: Any) -> Any:
    """Table of the identifiers and a column of the codes."""
    arrow = library("pyarrow", "pyarrow", "Arrow tables")
    return arrow.table({"id": stored.ids, "code": column}).replace_schema_metadata({_NBITS: str(stored.nbits)})


def from_table(table: Any) -> StoredCodes:
    """Codes of a table with a column of bytes, or of lists of bytes; ValueError if it has none."""
    if "code" not in table.column_names:
        raise ValueError(f"a column `code` is needed. Got {', '.join(table.column_names)} instead.")
    codes = _bytes_of(table.column("code").combine_chunks())
    nbits = int((table.schema.metadata or {}).get(_NBITS, 8 * codes.shape[1]))
    ids = table.column("id").to_numpy() if "id" in table.column_names else None
    return check_codes(codes, nbits, ids)


def _bytes_of(column: Any) -> npt.NDArray[np.uint8]:
    """Bytes of the codes of a column, shape (n, n_bytes)."""
    arrow = library("pyarrow", "pyarrow", "Arrow tables")
    if column.null_count:
        raise ValueError(f"every item must have a code. Got {column.null_count} without one.")
    if arrow.types.is_fixed_size_list(column.type):
        values = column.flatten()
        if values.type != arrow.uint8() or values.null_count:
            raise ValueError(f"lists of codes must hold uint8. Got {values.type} instead.")
        return np.asarray(values.to_numpy()).reshape(len(column), column.type.list_size)
    if not arrow.types.is_fixed_size_binary(column.type):
        if not (arrow.types.is_binary(column.type) or arrow.types.is_large_binary(column.type)) or not len(column):
            raise ValueError(f"codes must be bytes of one length. Got {len(column)} of type {column.type} instead.")
        column = column.cast(arrow.binary(len(column[0].as_py())))
    width = column.type.byte_width
    content = np.frombuffer(
        column.buffers()[1], dtype=np.uint8, count=len(column) * width, offset=column.offset * width
    )
    return content.reshape(len(column), width)
