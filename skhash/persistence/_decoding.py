"""Turn the JSON of a file back into values."""

import ast
import io
import json
import math
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._files import with_current_names
from skhash._validation.limits import check_generator
from skhash.persistence._format import AFFINITIES, MAX_COLUMNS, SPARSE
from skhash.persistence._reading import ArgumentError, Tensors, parse

MAX_NPY_HEADER = 10000


class Decoder:
    """Turns JSON back into values, with the arrays of `tensors`.

    An array of objects may not hold another one, so the work is bounded by the size of the file.
    """

    def __init__(self, path: str | os.PathLike[str], tensors: Tensors, given: dict[str, Any]) -> None:
        self.path, self.tensors, self.given = path, tensors, given
        self.used: set[str] = set()
        self._affinities: dict[str, Any] = {}  # equal affinities become one object
        self._arrays: dict[str, npt.NDArray[Any]] = {}  # arrays that are not plain tensors, by the name of their tensor
        self._in_objects = False

    def decode(self, value: Any) -> Any:
        """Value of parsed JSON."""
        if type(value) not in (list, dict):  # most values; `match` is slow
            return value
        match value:
            case list():
                return [self.decode(item) for item in value]
            case dict() if not any(key[:1] == "$" for key in value):
                return {key: self.decode(item) for key, item in value.items()}
            case {"$array": name, "order": "C" | "F" as order, **rest} if not rest:
                return self.tensors[name].T if order == "F" else self.tensors[name]
            case {"$npy": name, **rest} if not rest:
                if name not in self._arrays:
                    self._arrays[name] = _read_npy(self.tensors[name].tobytes())
                return self._arrays[name]
            case {"$objects": name, "shape": shape, **rest} if not rest and not self._in_objects:
                if name not in self._arrays:
                    self._arrays[name] = self._decode_objects(name, shape)
                return self._arrays[name]
            case {"$sparse": kind, "shape": [int(n_rows), int(n_columns)], "parts": parts, **rest} if not rest:
                return self._decode_sparse(kind, (n_rows, n_columns), parts)
            case {"$scalar": item, "dtype": dtype, **rest} if not rest:
                kind = np.dtype(dtype)
                if kind.kind not in "biufU" or isinstance(item, list | dict):
                    raise ValueError(f"a value of dtype {dtype!r} cannot be in a file.")
                return np.str_(item) if kind.kind == "U" else np.array(item, dtype=kind)[()]
            case {"$tuple": list(items), **rest} if not rest:
                return tuple(self.decode(items))
            case {"$dict": list(pairs), **rest} if not rest:
                return dict(self.decode(pairs))
            case {"$affinity": kind, "fields": dict(fields), **rest} if kind in AFFINITIES and not rest:
                return self._decode_affinity(kind, fields, json.dumps(value))
            case {"$random_state": dict(state), **rest} if not rest:
                state = self.decode(state)
                check_generator(state)
                generator = np.random.RandomState()
                generator.set_state(state)
                return generator
            case {"$given": kind, "name": name, **rest} if not rest:
                return self._take_given(kind, name)
            case dict():
                raise ValueError(f"there is no value of {sorted(value)}.")

    def _decode_objects(self, name: str, shape: Any) -> npt.NDArray[Any]:
        self._in_objects = True
        values = self.decode(parse(self.tensors[name].tobytes()))
        self._in_objects = False
        if type(values) is not list or not all(map(is_length, shape)) or math.prod(shape) != len(values):
            raise ValueError(f"`{name}` must be a list of {shape} values.")
        return np.fromiter(values, dtype=object, count=len(values)).reshape(shape)

    def _decode_sparse(self, kind: str, shape: tuple[int, int], parts: Any) -> Any:
        if shape[1] > MAX_COLUMNS:
            raise ValueError(f"a sparse matrix must have at most {MAX_COLUMNS:,} columns. Got {shape[1]:,} instead.")
        data, indices, indptr = self.decode(parts)
        if not all(type(part) is np.ndarray and part.ndim == 1 for part in (data, indices, indptr)):
            raise ValueError("a sparse matrix must have three arrays.")
        if data.dtype.kind not in "biuf" or not np.isfinite(data).all():
            raise ValueError("a sparse matrix must have finite values.")
        matrix = SPARSE[kind]((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)  # scipy would read outside its memory with indices beyond the shape
        return matrix

    def _decode_affinity(self, kind: str, fields: dict[str, Any], key: str) -> Any:
        values = self.decode(with_current_names(fields))
        numbers = [values.get(name) for name in ("percentiles", "levels", "thresholds") if values.get(name) is not None]
        if not all(np.isfinite(np.asarray(number, dtype=float)).all() for number in numbers):
            raise ValueError(f"the values of {kind} must be finite.")
        if not isinstance(values.get("binary", False), bool):
            raise ValueError(f"`binary` must be a bool. Got {values['binary']!r} instead.")
        if isinstance(values.get("matrix"), list | tuple | dict):
            raise ValueError("`matrix` must be an array.")
        return self._affinities.setdefault(key, AFFINITIES[kind](**values))

    def _take_given(self, kind: Any, name: Any) -> Any:
        """Module or affinity that was passed to `load`."""
        if name not in self.given or not isinstance(kind, str):
            raise ValueError(f"{name!r} cannot be given.")
        if not callable(self.given[name]):
            raise ArgumentError(
                f"`{name}` must be given, as load(path, {name}=...): the one in {self.path}, a {kind}, is code and "
                f"was not saved. Got {self.given[name]!r} instead."
            )
        self.used.add(name)
        return self.given[name]


def _read_npy(data: bytes) -> npt.NDArray[Any]:
    """Array of the bytes of an .npy file; numpy itself would allocate whatever size the header states."""
    version = np.lib.format.read_magic(io.BytesIO(data))
    start = 10 if version == (1, 0) else 12
    end = start + int.from_bytes(data[8:start], "little")
    if end > min(len(data), start + MAX_NPY_HEADER):
        raise ValueError("the header of an array is too long.")
    header = ast.literal_eval(data[start:end].decode("utf-8" if version == (3, 0) else "latin1"))
    dtype, shape = np.lib.format.descr_to_dtype(header["descr"]), header["shape"]
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: they are code.")
    if not all(is_length(length) for length in shape):
        raise ValueError(f"an array cannot have the shape {shape}.")
    if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != len(data) - end:
        raise ValueError(f"an array of {dtype} and shape {shape} does not have {len(data) - end} bytes.")
    values = np.frombuffer(data, dtype, offset=end) if end < len(data) else np.zeros(0, dtype)
    return values.reshape(shape, order="F" if header["fortran_order"] else "C").copy(order="K")


def is_length(value: Any) -> bool:
    """Whether a value is the length of an axis."""
    return type(value) is int and value >= 0
