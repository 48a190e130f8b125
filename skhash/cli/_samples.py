"""Samples and codes of files, for the command line, and progress of work on them."""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skhash._encoding import ENCODE_BATCH_SIZE, array_source, iterator_source
from skhash._libraries import library
from skhash._validation import as_array
from skhash.comparison.progress import progress
from skhash.datasets._npz import npz_slices, read_npy, read_npz
from skhash.datasets.loading import ALIASES, DEFAULT_PROTOCOLS, fetch, find_file
from skhash.datasets.splitting import check_arrays
from skhash.exceptions import InvalidFileError
from skhash.persistence import read_notes
from skhash.persistence._format import read_header
from skhash.persistence._indexes import INDEXES, codes_of_index
from skhash.stores import StoredCodes, from_parquet
from skhash.stores._codes import check_codes

READ_BATCH = 10_000  # samples that are read at once
#: note in the file of a hasher: keys of the pictures that it has learned from, and no names, which may be private
TRAINED_ON = "trained_on"
#: note in the file of an index: whether the identifiers are the paths of pictures
IDS_ARE_PATHS = "ids_are_paths"
_KINDS = ".npy, .npz or .parquet"


@dataclass(frozen=True)
class Samples:
    """Samples of a file, read batch by batch."""

    n: int
    batches: Callable[[int], Iterator[npt.NDArray[Any]]]  # by the size of a batch, of shape (n_batch, n_features, ...)
    mapped: npt.NDArray[Any] | None = None  # all samples, if they are mapped or in memory
    targets: Callable[[], Any] = lambda: None  # returns the labels of all samples, or None
    names: list[str] | None = None  # of pictures: their paths in the folder
    label_names: list[str] | None = None  # of the columns of a 0/1 matrix of labels
    keys: Callable[[], npt.NDArray[np.uint64]] | None = None  # returns numbers that name the content of pictures

    def array(self) -> npt.NDArray[Any]:
        """All samples: those of an .npy file are mapped, others are read."""
        return np.concatenate(list(self.batches(READ_BATCH))) if self.mapped is None else self.mapped


class Items(NamedTuple):
    """Codes of a file, and what may be stored with them."""

    stored: StoredCodes
    factors: npt.NDArray[Any] | None = None  # float32 of shape (n, 2)
    names: list[str] | None = None  # of pictures
    labels: npt.NDArray[Any] | None = None
    label_names: list[str] | None = None  # of the columns of a 0/1 matrix of labels
    trained: npt.NDArray[np.bool_] | None = None  # whether the hasher has learned from each picture


def stored_labels(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels for a file: those that are missing are empty text, or NaN in a matrix."""
    return np.array(["" if label is None else label for label in labels]) if labels.dtype == object else labels


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """Context manager that puts the name of a file in front of an error about its samples."""
    try:
        yield
    except InvalidFileError:  # names it
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def open_samples(path: str, column: str | None = None, labels: str | None = None) -> Samples:
    """Samples of a data set or a file, and of a column of Parquet: by default the only one of lists, with labels y."""
    samples = _open(path, column, labels)
    if not samples.n:
        raise InvalidFileError(path, "has no samples.")
    return samples


def read_codes(path: str) -> Items:
    """Codes from ``skhash encode``, of a Parquet file, or of a saved index."""
    _check_exists(path)
    if Path(path).suffix == ".parquet":
        return Items(from_parquet(path))
    if is_index(path):
        codes, nbits, ids = codes_of_index(path)
        items, notes = Items(StoredCodes(np.ascontiguousarray(codes), nbits, ids)), read_notes(path)
        if notes.get(IDS_ARE_PATHS):
            items = Items(items.stored._replace(ids=np.arange(len(ids))))
            notes["paths"] = np.array(ids.tolist())
        what = "has codes with wrong notes"
        how = "Write it with skhash index."
    elif Path(path).suffix == ".npz":
        how = "Write it with skhash encode."
        known = ("codes", "nbits", "factors", "paths", "labels", "label_names", "trained")
        notes = read_npz(path, known, "arrays named codes and nbits", how)
        what = "has no codes"
        with _invalid(path, what):
            items = _checked_codes(notes, how)
    else:
        raise ValueError(
            f"Files of codes must be .npz or .parquet, or an index. Got {path} instead. Write one with skhash encode."
        )
    with _invalid(path, what):
        return items._replace(**_checked_notes(notes, len(items.stored.codes), how))


@contextmanager
def _invalid(path: str, what: str) -> Iterator[None]:
    """Context manager that turns errors about the arrays of a file into one that names it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise InvalidFileError(path, f"{what}: {error}") from error


def _checked_codes(arrays: Mapping[str, Any], how: str) -> Items:
    """Codes and factors from the arrays of a file."""
    nbits, factors = arrays.get("nbits", np.empty(0)), arrays.get("factors")
    if nbits.shape != ():
        raise ValueError(f"`nbits` must be an int. {how}")
    stored = check_codes(arrays["codes"], nbits.item(), None)
    if factors is not None:
        if factors.shape != (len(stored.codes), 2) or factors.dtype != np.float32:
            raise ValueError(f"`factors` must be float32 of shape ({len(stored.codes)}, 2). {how}")
        if not np.isfinite(factors).all():
            raise ValueError(f"`factors` must be finite. {how}")
    return Items(stored, factors)


def _checked_notes(notes: Mapping[str, Any], n: int, how: str) -> dict[str, Any]:
    """Names, labels and training pictures among n items from the arrays of a file."""
    names, labels, label_names, trained = map(notes.get, ("paths", "labels", "label_names", "trained"))
    if names is not None and (np.shape(names) != (n,) or names.dtype.kind != "U"):
        raise ValueError(f"`paths` must be text of shape ({n},). {how}")
    if labels is not None and np.shape(labels)[:1] != (n,):
        raise ValueError(f"`labels` must have a label for each code. {how}")
    if trained is not None and (np.shape(trained) != (n,) or trained.dtype != np.bool_):
        raise ValueError(f"`trained` must be bools of shape ({n},). {how}")
    if label_names is not None and (labels is None or np.shape(label_names) != np.shape(labels)[1:]):
        raise ValueError(f"`label_names` must have a name for each column of `labels`. {how}")
    texts = {"names": names, "label_names": label_names}
    return {"labels": labels, "trained": trained} | {
        name: None if text is None else text.tolist() for name, text in texts.items()
    }


def notes_of(labels: Any, label_names: list[str] | None, trained: Any) -> dict[str, Any]:
    """What files of codes and of indexes hold beside the codes and paths."""
    notes = {"labels": None if labels is None else stored_labels(labels), "trained": trained}
    notes["label_names"] = None if label_names is None else np.array(label_names)
    return {name: value for name, value in notes.items() if value is not None}


def is_index(path: str) -> bool:
    """Whether a file holds a saved index."""
    try:
        return read_header(path).get("class") in INDEXES
    except InvalidFileError:  # it is another file, or the reader that follows says what is wrong
        return False


def is_codes(path: str) -> bool:
    """Whether a file holds codes and not samples."""
    if _is_name(path):
        return False
    _check_exists(path)
    if Path(path).suffix == ".parquet":
        return "code" in _arrow("pyarrow.parquet").read_schema(path).names
    names: list[str] = []
    if Path(path).suffix == ".npz":
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:  # the reader reports what is wrong
            names = archive.namelist()
    return "codes.npy" in names


def _open(path: str, column: str | None, labels: str | None) -> Samples:
    for option, given in (("--column", column), ("--labels", labels)):
        if given is not None and Path(path).suffix != ".parquet":
            raise ValueError(f"{option} must be used with a Parquet file. Got {path}.")
    if _is_name(path):
        return _open_name(path)
    _check_exists(path)
    kind = Path(path).suffix
    if kind == ".parquet":
        return _open_parquet(path, column, labels)
    if kind == ".npz":
        return _open_npz(path)
    if kind != ".npy":
        raise ValueError(f"Files of samples must be {_KINDS}. Got {path} instead.")
    X = read_npy(path)["X"]
    if X.ndim < 2 or X.dtype.kind not in "biuf":
        raise InvalidFileError(path, f"must hold numbers of shape (n, n_features). Got {X.dtype} of shape {X.shape}.")
    return Samples(len(X), array_source(X).slices, X)


def _is_name(path: str) -> bool:
    """Whether this names a data set, or a file in the folder of data sets, and no file here."""
    is_known = path in DEFAULT_PROTOCOLS or path in ALIASES
    return not Path(path).is_file() and (is_known or find_file(path, None) is not None)


def _open_name(name: str) -> Samples:
    name = ALIASES.get(name, name)
    path = find_file(name, None)
    if path is not None:
        return _open(str(path), None, None)
    arrays = fetch(name, None)
    return Samples(len(arrays["X"]), array_source(arrays["X"]).slices, arrays["X"], lambda: arrays["y"])


def _open_npz(path: str) -> Samples:
    arrays, sliced = read_npz(path, unread=("X", "y", "test")), npz_slices(path, "X")
    if sliced is None:
        X = read_npz(path)["X"]
        sliced = X.shape, X.dtype, array_source(X).slices
    shape, dtype, slices = sliced
    try:  # one sample is enough for shapes and dtypes; a hasher checks the values
        _, scale = check_arrays(np.zeros((1, *shape[1:]), dtype), None, arrays.get("scale", 1.0))
    except (ValueError, TypeError) as error:
        raise InvalidFileError(path, f"cannot be used: {error}") from error

    def targets() -> Any:
        y = read_npz(path, ("X", "y", "scale", "test"), unread=("X", "scale", "test")).get("y")
        try:
            check_arrays(np.zeros((shape[0], 1)), y, 1.0)
        except (ValueError, TypeError) as error:
            raise InvalidFileError(path, f"cannot be used: {error}") from error
        return y

    if "scale" not in arrays:
        return Samples(shape[0], slices, targets=targets)
    return Samples(shape[0], lambda size: (batch * scale for batch in slices(size)), targets=targets)


def _open_parquet(path: str, column: str | None, labels: str | None) -> Samples:
    arrow, parquet, compute = _arrow("pyarrow"), _arrow("pyarrow.parquet"), _arrow("pyarrow.compute")
    try:
        schema = parquet.read_schema(path)
        n = parquet.read_metadata(path).num_rows
    except arrow.ArrowException as error:
        raise InvalidFileError(path, f"cannot be read: {' '.join(str(error).split())}") from error
    if labels is not None and labels not in schema.names:
        raise ValueError(f"--labels must be a column of {path}, {_some(schema.names)}. Got {labels!r} instead.")
    lists = [field.name for field in schema if _has_numbers(field.type)]
    label = labels or ("y" if "y" in schema.names and "y" not in lists else None)
    lists = [name for name in lists if name != label]
    if not lists:
        raise InvalidFileError(
            path, f"must have a column of lists of numbers. Got the columns {_some(schema.names)} instead."
        )
    if column is None and len(lists) != 1:
        raise ValueError(f"--column must name the column of {path}. Got none, and it has {', '.join(lists)}.")
    if column is not None and column not in lists:
        raise ValueError(f"--column must be a column of lists of numbers, {', '.join(lists)}. Got {column!r} instead.")
    name = lists[0] if column is None else column
    kind = schema.field(name).type  # Arrow stores a tensor as a list of its values, with a shape
    if (axes := getattr(kind, "permutation", None)) is not None and axes != sorted(axes):
        how = "Write them with FixedShapeTensorArray.from_numpy_ndarray(numpy.ascontiguousarray(X))."
        raise InvalidFileError(
            path, f"must have tensors in {name} whose axes are in order. Got the order {axes}. {how}"
        )

    def targets() -> Any:
        if label is None:
            return None
        values = parquet.read_table(path, columns=[label]).column(label)
        if values.null_count:
            raise InvalidFileError(path, f"must have labels without gaps in {label}.")
        return as_array(values.to_pylist(), label)

    def batches(size: int) -> Iterator[npt.NDArray[Any]]:
        width = None
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(size, columns=[name]):
                column = batch.column(0)
                values = getattr(column, "storage", column)
                flat = values.flatten()
                lengths = compute.list_value_length(values).unique().to_pylist()
                width = lengths[0] if width is None else width
                if flat.null_count or lengths != [width] or not width:
                    raise InvalidFileError(path, f"must have lists of one length without gaps in {name}.")
                yield flat.to_numpy(zero_copy_only=False).reshape(len(values), *getattr(kind, "shape", (width,)))

    # batches of Arrow end with their row group; the source makes slices of one size from them
    return Samples(n, lambda size: iterator_source(batches(size)).slices(size), targets=targets)


def _some(names: Sequence[str]) -> str:
    """The first names."""
    return ", ".join(names[:5]) + ", ..." * (len(names) > 5)


def _has_numbers(kind: Any) -> bool:
    """Whether a column of a type has lists or tensors of numbers."""
    types, value_type = _arrow("pyarrow").types, getattr(kind, "value_type", None)
    if value_type is None or types.is_dictionary(kind):
        return False
    return bool(types.is_floating(value_type) or types.is_integer(value_type))


def _arrow(module: str) -> Any:
    return library(module, "pyarrow", "Parquet files")


def _check_exists(path: str) -> None:
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")


def in_batches(samples: Samples, label: str) -> Iterator[npt.NDArray[Any]]:
    """Samples in the batches of ``encode``, with progress on stderr after each."""
    n_done = 0
    with progress(label, samples.n) as show:
        for batch in samples.batches(ENCODE_BATCH_SIZE):
            yield batch
            n_done += len(batch)
            show(n_done)
