"""Codes as Arrow tables, for Parquet and LanceDB. The number of bits and the fingerprint are metadata of the schema."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._ids import is_text
from skhash._libraries import library
from skhash.codes import Codes
from skhash.codes.codes import checked_fingerprint
from skhash.stores._common import with_ids

_NBITS, _FINGERPRINT = b"skhash.nbits", b"skhash.fingerprint"


def as_table(stored: Codes, column: Any) -> Any:
    """Table of the identifiers and a column of the codes."""
    arrow = library("pyarrow", "pyarrow", "Arrow tables")
    ids = arrow.array(stored.ids, arrow.string() if is_text(stored.ids) else arrow.int64())
    metadata = {_NBITS: str(stored.nbits)}
    if stored.fingerprint is not None:
        metadata[_FINGERPRINT] = stored.fingerprint
    return arrow.table({"id": ids, "code": column}).replace_schema_metadata(metadata)


def fingerprint_of_schema(schema: Any) -> str | None:
    """Fingerprint in the metadata of a schema; ValueError for another text."""
    found = (schema.metadata or {}).get(_FINGERPRINT)
    return checked_fingerprint(None if found is None else found.decode(errors="replace"))


def nbits_of_schema(schema: Any) -> int:
    """Number of bits of the codes of a schema; ValueError if they may have several lengths."""
    types = library("pyarrow", "pyarrow", "Arrow tables").types
    kind = schema.field("code").type if "code" in schema.names else None
    if kind is None or not (types.is_fixed_size_list(kind) or types.is_fixed_size_binary(kind)):
        raise ValueError(f"a column `code` of lists of one length is needed to add codes. Got {kind} instead.")
    width = kind.list_size if types.is_fixed_size_list(kind) else kind.byte_width
    return int((schema.metadata or {}).get(_NBITS, 8 * width))


def from_table(table: Any) -> Codes:
    """Codes of a table with a column of bytes, or of lists of bytes; ValueError if it has none."""
    if "code" not in table.column_names:
        raise ValueError(f"a column `code` is needed. Got {', '.join(table.column_names)} instead.")
    codes = _bytes_of(table.column("code").combine_chunks())
    nbits = int((table.schema.metadata or {}).get(_NBITS, 8 * codes.shape[1]))
    ids = table.column("id") if "id" in table.column_names else None
    return with_ids(codes, nbits, ids, fingerprint=fingerprint_of_schema(table.schema))


def _bytes_of(column: Any) -> npt.NDArray[np.uint8]:
    """Bytes of the codes of a column, of shape (n, n_bytes); ValueError if it holds anything else."""
    arrow = library("pyarrow", "pyarrow", "Arrow tables")
    if isinstance(column.type, arrow.BaseExtensionType):  # the storage of tensors is lists of one length
        column = column.storage
    n, kind, types = len(column), column.type, arrow.types
    is_fixed = types.is_fixed_size_list(kind) or types.is_fixed_size_binary(kind)
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if is_list:
        is_right = types.is_integer(kind.value_type)
    else:
        is_right = is_fixed or types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    need = "column `code` must hold bytes, or lists of integers from 0 to 255, without nulls and all of one length."
    if not is_right or column.null_count or not (n or is_fixed):
        raise ValueError(f"{need} Got {n} of type {kind}, of which {column.null_count} are null.")
    width = len(column[0].as_py()) if n else kind.list_size if is_list else kind.byte_width
    try:
        column = column.cast(arrow.list_(arrow.uint8(), width) if is_list else arrow.binary(width))
    except arrow.ArrowException as error:
        raise ValueError(f"{need} Got {kind}: {error}") from error
    if not is_list:
        data = np.frombuffer(column.buffers()[1], dtype=np.uint8, count=n * width, offset=column.offset * width)
        return data.reshape(n, width)
    values = column.flatten()
    if values.null_count:
        raise ValueError(f"{need} Got lists with {values.null_count} nulls.")
    return np.asarray(values.to_numpy()).reshape(n, width)
