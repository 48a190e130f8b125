"""Large tensors of a file as memory maps: the system reads them when they are used."""

import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.exceptions import InvalidFileError
from skhash.persistence._format import TEXT
from skhash.persistence._reading import parse

_DTYPES = {"U64": np.dtype("<u8"), "I64": np.dtype("<i8")}


def digest(array: npt.NDArray[Any]) -> str:
    """SHA-256 of the values of an array."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def map_tensors(
    path: str | os.PathLike[str], header: dict[str, Any], names: Iterable[str]
) -> dict[str, npt.NDArray[Any]]:
    """Mapped arrays of 64-bit integers by name; writing to them does not change the file."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
        if parse(entries["__metadata__"][TEXT]) != header:
            raise InvalidFileError(path, "was replaced while it was read. Load it again.")
        for name in names:
            entry = entries[name]
            dtype, offset = _DTYPES[entry["dtype"]], 8 + length + entry["data_offsets"][0]
            shape = tuple(entry["shape"])
            # a map of nothing is an error; copy on write, since kernels are compiled for arrays that can be written to
            array = np.memmap(file, dtype, "c", offset, shape) if 0 not in shape else np.empty(shape, dtype)
            arrays[name] = np.require(array.view(np.ndarray), requirements="A")
    return arrays
