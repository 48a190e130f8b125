"""The file format: values become JSON and tensors, which are written to one safetensors file with a checksum."""

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash import __version__
from skhash._files import TEXT, Tensors, arrays_of_text, text_of_arrays, with_shape, write_atomically
from skhash._validation import qualified_name
from skhash.exceptions import InvalidFileError
from skhash.persistence._checking import ArgumentError, errors_name, require, short
from skhash.registry import AFFINITIES, FUNCTIONS, import_class

FilePath = str | os.PathLike[str]

FORMAT = 2
#: key of the checksum in the JSON
CHECKSUM = "sha256"
#: bytes of the JSON, and columns of a sparse matrix
MAX_TEXT, MAX_COLUMNS = 2**26, 2**24
#: parameters that may hold code, which must be passed to `load`
GIVEN = ("affinity", "backbone")
SPARSE: dict[str, Any] = {"csr_matrix": sparse.csr_matrix, "csr_array": sparse.csr_array}
_MAPPED_DTYPES: dict[str, np.dtype[Any]] = {"U64": np.dtype("<u8"), "I64": np.dtype("<i8"), "I32": np.dtype("<i4")}


class ValueEncoder:
    """Turns values into JSON, and collects their arrays in `tensors` by their path, such as ``params.name.0``."""

    def __init__(self, path: FilePath) -> None:
        self.path = path
        self.tensors: Tensors = {}
        # by id, so that a matrix that is used twice is stored once; the array is kept, so that its id stays its own
        self._arrays: dict[int, tuple[Any, Any]] = {}

    def encode(self, value: Any, where: str) -> Any:
        """JSON of a value; TypeError for what is not data."""
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]
        if kind is tuple:
            return {"$tuple": self.encode(list(value), where)}
        if kind is dict:
            if all(type(key) is str and key[:1] != "$" for key in value):
                return {key: self.encode(item, f"{where}.{key}") for key, item in value.items()}
            return {"$dict": [self.encode(list(pair), f"{where}.{i}") for i, pair in enumerate(value.items())]}
        if kind in (np.ndarray, np.memmap):
            if id(value) not in self._arrays:
                self._arrays[id(value)] = (self._encode_array(value, where), value)
            return self._arrays[id(value)][0]
        if isinstance(value, os.PathLike) or qualified_name(value) == "torch.device":
            return str(value)
        if isinstance(value, np.generic) and isinstance(value.item(), bool | int | float | str):
            return {"$scalar": value.item(), "dtype": value.dtype.str}
        return self._encode_object(value, where)

    def _encode_object(self, value: Any, where: str) -> Any:
        name = type(value).__name__
        if SPARSE.get(name) is type(value):
            parts = [self.encode(getattr(value, part), f"{where}.{part}") for part in ("data", "indices", "indptr")]
            return {"$sparse": name, "shape": list(value.shape), "parts": parts}
        if AFFINITIES.get(name) == qualified_name(type(value)):
            fields = {name: field for name, field in vars(value).items() if name[0] != "_"}
            return {"$affinity": name, "fields": self.encode(fields, where)}
        if FUNCTIONS.get(name) == qualified_name(type(value)):
            arrays, given = self.encode(value.arrays(), where), self.encode(value.given(), where)
            return {"$function": name, "arrays": arrays} | ({"given": given} if given else {})
        parameter = where.split(".")[-1].rstrip("_")
        if callable(value) and parameter in GIVEN:
            return {"$given": qualified_name(value), "name": parameter}
        raise TypeError(
            f"{where} is a {qualified_name(value)}, which cannot be saved without code in {self.path}: use skops or "
            "joblib."
        )

    def _encode_array(self, array: npt.NDArray[Any], where: str) -> Any:
        dtype = array.dtype
        if dtype.kind == "O" and array.size and all(type(item) is str for item in array.flat):
            return self._encode_text(array, where)
        if dtype.kind == "O":
            return {"$objects": self.encode(array.ravel().tolist(), where), "shape": list(array.shape)}
        if dtype.kind not in "biufcUSMm":
            raise TypeError(f"{where} is an array of dtype {dtype}, which cannot be saved without code in {self.path}.")
        while where in self.tensors:
            where += "'"
        # column order stays, since the rounding of products depends on it
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        tensor = np.asarray(array.T if order == "F" else array, order="C")
        if dtype.kind in "biuf" and dtype.isnative and dtype.itemsize <= 8:
            self.tensors[where] = tensor
            return {"$array": where, "order": order}
        self.tensors[where] = np.frombuffer(tensor.tobytes(), np.uint8)
        return {"$array": where, "order": order, "dtype": dtype.str, "shape": list(tensor.shape)}

    def _encode_text(self, array: npt.NDArray[Any], where: str) -> Any:
        while where in self.tensors:
            where += "'"
        self.tensors[where], self.tensors[f"{where}.ends"] = arrays_of_text(array)
        return {"$text": where, "shape": list(array.shape)}


class ValueDecoder:
    """Turns JSON back into values, with the arrays of `tensors` and what was `given` to `load`; runs no code."""

    def __init__(self, path: FilePath, tensors: Tensors, given: Mapping[str, Any] | None = None) -> None:
        self.path, self.tensors, self.given = path, tensors, given or {}
        self.used: set[str] = set()
        self._affinities: dict[str, Any] = {}  # equal affinities become one object

    def decode(self, value: Any) -> Any:
        """Value of parsed JSON."""
        if type(value) is list:
            return [self.decode(item) for item in value]
        if type(value) is not dict:
            return value
        if not any(key[:1] == "$" for key in value):
            return {key: self.decode(item) for key, item in value.items()}
        match value:
            case {"$array": name, "order": "C" | "F" as order, **rest}:
                array = _viewed(self.tensors[name], **rest) if rest else self.tensors[name]
                return array.T if order == "F" else array
            case {"$objects": list(items), "shape": list(shape), **rest} if not rest:
                return with_shape(np.fromiter(self.decode(items), dtype=object, count=len(items)), shape)
            case {"$text": str(name), "shape": list(shape), **rest} if not rest:
                return text_of_arrays(self.tensors[name], self.tensors[f"{name}.ends"], shape)
            case {"$sparse": kind, "shape": [int(n_rows), int(n_columns)], "parts": parts, **rest} if not rest:
                return _sparse_matrix(SPARSE[kind], (n_rows, n_columns), self.decode(parts))
            case {"$scalar": bool() | int() | float() | str() as item, "dtype": str(dtype), **rest} if not rest:
                if np.dtype(dtype).kind not in "biufU":
                    raise ValueError(f"a value of dtype {dtype!r} cannot be in a file.")
                return np.str_(item) if np.dtype(dtype).kind == "U" else np.array(item, dtype=dtype)[()]
            case {"$tuple": list(items), **rest} if not rest:
                return tuple(self.decode(items))
            case {"$dict": list(pairs), **rest} if not rest:
                return dict(self.decode(pairs))
            case {"$affinity": kind, "fields": dict(fields), **rest} if kind in AFFINITIES and not rest:
                return self._affinities.setdefault(json.dumps(value), _affinity(kind, self.decode(fields)))
            case {"$function": kind, "arrays": dict(arrays), **rest} if kind in FUNCTIONS and rest.keys() <= {"given"}:
                return _function(kind, self.decode(arrays), self.decode(rest.get("given", {})))
            case {"$given": str(kind), "name": str(name), **rest} if not rest:
                return self._take_given(kind, name)
        raise ValueError(f"there is no value of {sorted(value)}.")

    def _take_given(self, kind: str, name: str) -> Any:
        """Module or affinity that was passed to `load`."""
        if name not in self.given:
            raise ValueError(f"{name!r} cannot be given.")
        if not callable(self.given[name]):
            raise ArgumentError(
                f"`{name}` must be given, as load(path, {name}=...): the one in {self.path}, a {kind}, is code and "
                f"was not saved. Got {self.given[name]!r} instead."
            )
        self.used.add(name)
        return self.given[name]


def _viewed(content: npt.NDArray[Any], dtype: str, shape: list[Any]) -> npt.NDArray[Any]:
    """Array of a dtype that safetensors lacks, from its bytes."""
    kind = np.dtype(dtype)
    if kind.kind not in "biufcUSMm" or not kind.itemsize or content.dtype != np.uint8:
        raise ValueError(f"an array of dtype {dtype!r} cannot be in a file.")
    return with_shape(np.frombuffer(content.tobytes(), kind), shape).copy()


def _function(kind: str, arrays: dict[str, Any], given: dict[str, Any]) -> Any:
    """Function of a hasher, which checks its arrays."""
    for key, array in arrays.items():
        require(type(array) is np.ndarray, f"function_.{key}", "an array", array)
    return import_class(FUNCTIONS[kind]).from_arrays(arrays, **given)


def _sparse_matrix(kind: Any, shape: tuple[int, int], parts: Any) -> Any:
    if shape[1] > MAX_COLUMNS:
        raise ValueError(f"a sparse matrix must have at most {MAX_COLUMNS:,} columns. Got {shape[1]:,} instead.")
    data, indices, indptr = parts
    if not all(type(part) is np.ndarray and part.ndim == 1 for part in parts):
        raise ValueError("a sparse matrix must have three arrays.")
    if data.dtype.kind not in "biuf" or not np.isfinite(data).all():
        raise ValueError("a sparse matrix must have finite values.")
    matrix = kind((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)  # scipy would read outside its memory with indices beyond the shape
    return matrix


def _affinity(kind: str, fields: dict[str, Any]) -> Any:
    numbers = [fields.get(name) for name in ("percentiles", "levels", "thresholds") if fields.get(name) is not None]
    if not all(np.isfinite(np.asarray(number, dtype=float)).all() for number in numbers):
        raise ValueError(f"the values of {kind} must be finite.")
    if not isinstance(fields.get("binary", False), bool):
        raise ValueError(f"`binary` must be a bool. Got {fields['binary']!r} instead.")
    if isinstance(fields.get("matrix"), list | tuple | dict):
        raise ValueError("`matrix` must be an array.")
    return import_class(AFFINITIES[kind])(**fields)


# --- files


def write_file(path: FilePath, header: Mapping[str, Any], tensors: Tensors, mapped: Tensors | None = None) -> None:
    """Write JSON and tensors with their checksum; `mapped` tensors have checksums of their own, in the JSON."""
    from safetensors.numpy import save

    header = {"format": FORMAT, "version": __version__, **header}
    text = json.dumps(header | {CHECKSUM: checksum(header, tensors)})
    if len(text) > MAX_TEXT:
        raise ValueError(f"its JSON has {len(text):,} bytes, more than {MAX_TEXT:,}.")
    with write_atomically(path) as file:
        file.write(save(tensors | (mapped or {}), {TEXT: text}))


def read_header(path: FilePath) -> dict[str, Any]:
    """JSON of a file, which may hold anything: only its format is checked."""
    with _opened(path) as file:
        return _header(path, file)


def read_file(path: FilePath, mapped: Collection[str] = ()) -> tuple[dict[str, Any], Tensors]:
    """JSON and tensors of a file, after a check of its checksum; `mapped` tensors of an index are not read."""
    with _opened(path) as file:
        header = _header(path, file)
        skipped = set(mapped) if "mapped" in header else set()
        # copies, so that fitted arrays do not change with the file
        tensors = {name: np.array(file.get_tensor(name)) for name in set(file.keys()) - skipped}
    if header.get(CHECKSUM) != checksum(header, tensors):
        raise InvalidFileError(path, "is damaged: its checksum is not that of its content. Save it again.")
    return header, tensors


#: what reads other files, which users take for those of `save`
_READERS = {".npy": "numpy.load", ".npz": "numpy.load"} | dict.fromkeys(
    (".csv", ".parquet"), "skhash.datasets.load_table"
)


@contextmanager
def _opened(path: FilePath) -> Iterator[Any]:
    from safetensors import safe_open

    path = os.path.expanduser(path)
    if Path(path).exists() and not Path(path).is_file():
        raise InvalidFileError(path, "is not a file.")
    reader = _READERS.get(Path(path).suffix)
    what = "cannot be read as a file of skhash" + (f", but with {reader}" if reader else "")
    with errors_name(path, what), safe_open(path, framework="numpy") as file:
        yield file


def _header(path: FilePath, file: Any) -> dict[str, Any]:
    text = (file.metadata() or {}).get(TEXT, "null")
    if len(text) > MAX_TEXT:
        raise ValueError(f"its JSON has {len(text):,} bytes, more than {MAX_TEXT:,}.")
    header = json.loads(text)
    if not isinstance(header, dict) or "format" not in header:
        raise InvalidFileError(path, "must be a file of skhash. Got another safetensors file instead.")
    if header["format"] != FORMAT:
        here, there = __version__, short(header.get("version"))
        raise InvalidFileError(
            path,
            f"must have format {FORMAT} for skhash {here}. Got format {short(header['format'])}, written by skhash "
            f"{there}, instead.",
        )
    return header


def map_tensors(path: FilePath, header: Mapping[str, Any], names: Iterable[str]) -> Tensors:
    """Mapped arrays of integers by name; writing to them does not change the file."""
    arrays: Tensors = {}
    with open(os.path.expanduser(path), "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
        if json.loads(entries["__metadata__"][TEXT]) != header:
            raise InvalidFileError(path, "was replaced while it was read. Load it again.")
        for name in names:
            entry = entries[name]
            dtype, offset = _MAPPED_DTYPES[entry["dtype"]], 8 + length + entry["data_offsets"][0]
            shape = tuple(entry["shape"])
            # a map of nothing is an error; copy on write, since kernels are compiled for arrays that can be written to
            array = np.memmap(file, dtype, "c", offset, shape) if 0 not in shape else np.empty(shape, dtype)
            arrays[name] = np.require(array.view(np.ndarray), requirements="A")
    return arrays


def checksum(header: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> str:
    """SHA-256 of the JSON without its checksum, and of all tensors: names, dtypes, shapes and values."""
    total = hashlib.sha256(json.dumps({name: value for name, value in header.items() if name != CHECKSUM}).encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"\0{name}\0{tensor.dtype.str}{tensor.shape}\0".encode())
        total.update(np.ascontiguousarray(tensor).data)
    return total.hexdigest()


def digest(array: npt.NDArray[Any]) -> str:
    """SHA-256 of the values of a mapped array."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
