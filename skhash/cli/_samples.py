"""Samples and codes of files, for the command line, and progress of work on them."""

import argparse
import csv
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skhash._files import write_atomically
from skhash._ids import as_ids
from skhash._names import in_order_of
from skhash._progress import progress
from skhash._slices import ENCODE_BATCH_SIZE, array_source, iterator_source
from skhash.codes import Codes
from skhash.datasets.kinds import kind_of
from skhash.datasets.loading import ALIASES, fetch, find_file
from skhash.datasets.npz_files import npz_slices, read_npy, read_npz
from skhash.datasets.splitting import check_arrays
from skhash.datasets.tables import (
    ENDINGS,
    ChosenColumns,
    Table,
    choose_columns,
    ids_of,
    list_batches,
    listed,
    open_table,
    read_columns,
    read_table,
    targets_of,
)
from skhash.exceptions import InvalidFileError
from skhash.persistence import read_notes
from skhash.persistence.indexes import codes_of_index
from skhash.stores import from_parquet

_N_PRINTED = 30  # names of features
READ_BATCH = 10_000  # samples that are read at once
#: note in the file of a hasher: keys of the pictures that it has learned from, and no names, which may be private
TRAINED_ON = "trained_on"
#: note in the file of an index: whether the identifiers are the paths of pictures
IDS_ARE_PATHS = "ids_are_paths"
_OF_COLUMNS, _OF_CSV = ("columns", "labels", "ids", "drop"), ("encoding", "separator", "decimal")
OF_TABLES = (*_OF_COLUMNS, *_OF_CSV)  # options, which are also parameters of load_table
#: arrays of a file of codes
_OF_CODES = ("codes", "nbits", "fingerprint", "ids", "factors", "groups", "paths", "labels", "label_names", "trained")


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
    ids: npt.NDArray[Any] | None = None  # of tables: the column that --ids names
    features: list[str] | None = None  # of tables of numbers: the names of their columns

    @property
    def rows(self) -> list[Any] | None:
        """Paths or identifiers of all samples, or None."""
        return self.names if self.ids is None else self.ids.tolist()

    def in_order_of(self, ids: Any, path: str, items: str) -> npt.NDArray[Any]:
        """All samples, in the order of the ids of some items if both have ids."""
        if self.ids is None or ids is None:
            return self.array()
        rows = as_ids(self.ids, "ids")
        return in_order_of(as_ids(ids, "ids"), self.array(), f"{path} of --vectors", items, rows)  # type: ignore[no-any-return]

    def array(self) -> npt.NDArray[Any]:
        """All samples: those of an .npy file are mapped, others are read."""
        return np.concatenate(list(self.batches(READ_BATCH))) if self.mapped is None else self.mapped


class ItemsOfFile(NamedTuple):
    """Codes of a file, and what may be stored with them."""

    codes: Codes
    names: list[str] | None = None  # of pictures
    labels: npt.NDArray[Any] | None = None
    label_names: list[str] | None = None  # of the columns of a 0/1 matrix of labels
    trained: npt.NDArray[np.bool_] | None = None  # whether the hasher has learned from each picture


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """Context manager that puts the name of a file in front of an error about its samples."""
    try:
        yield
    except InvalidFileError:  # names it
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def open_samples(
    path: str,
    options: argparse.Namespace | None = None,
    features: Sequence[str] | None = None,
    *,
    lenient: bool = False,
) -> Samples:
    """Samples of a data set or a file.

    The columns of a table are those that options name, or the features of a model. With `lenient` options may name
    columns that this table lacks, because another one of the command has them.
    """
    samples = _open(path, options, features, lenient)
    if not samples.n:
        raise InvalidFileError(path, "has no samples.")
    return samples


def read_codes(path: str) -> ItemsOfFile:
    """Codes from ``skhash encode``, of a Parquet file, or of a saved index."""
    check_exists(path)
    if Path(path).suffix == ".parquet":
        return ItemsOfFile(from_parquet(path))
    if kind_of(path).holds == "index":
        items, notes = ItemsOfFile(codes_of_index(path)), read_notes(path)
        if notes.get(IDS_ARE_PATHS):
            notes["paths"] = np.array(items.codes.ids.tolist())
            items = ItemsOfFile(replace(items.codes, ids=None))
        what = "has codes with wrong notes"
        how = "Write it with skhash index."
    elif Path(path).suffix == ".npz":
        how = "Write it with skhash encode."
        notes = read_npz(path, _OF_CODES, "arrays named codes and nbits", how)
        what = "has no codes"
        with _invalid(path, what):
            items = _checked_codes(notes, how)
    else:
        raise ValueError(
            f"Files of codes must be .npz or .parquet, or an index. Got {path} instead. Write one with skhash encode."
        )
    with _invalid(path, what):
        return items._replace(**_checked_notes(notes, len(items.codes), how))


def fingerprint_of_codes(path: str) -> str | None:
    """Fingerprint in a file of ``skhash encode``; None if there is no such file, or none in it."""
    try:
        found = read_npz(path, _OF_CODES, unread=[name for name in _OF_CODES if name != "fingerprint"])
        return str(found["fingerprint"])
    except (InvalidFileError, KeyError):
        return None


@contextmanager
def _invalid(path: str, what: str) -> Iterator[None]:
    """Context manager that turns errors about the arrays of a file into one that names it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise InvalidFileError(path, f"{what}: {error}") from error


def _checked_codes(arrays: Mapping[str, Any], how: str) -> ItemsOfFile:
    """Codes and what belongs to them from the arrays of a file."""
    nbits = arrays.get("nbits", np.empty(0))
    given: dict[str, Any] = {name: arrays.get(name) for name in ("ids", "factors", "groups")}
    if nbits.shape != ():
        raise ValueError(f"`nbits` must be an int. {how}")
    fingerprint = arrays.get("fingerprint")
    fingerprint = None if fingerprint is None else fingerprint[()]  # a text, unless it is an array of some
    return ItemsOfFile(Codes.of(arrays["codes"], nbits.item(), **given, fingerprint=fingerprint))


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
    """What files of codes and of indexes hold beside the codes and paths; missing labels are empty text, or NaN."""
    if labels is not None and labels.dtype == object:
        labels = np.array(["" if label is None else label for label in labels])
    notes = {"labels": labels, "trained": trained}
    notes["label_names"] = None if label_names is None else np.array(label_names)
    return {name: value for name, value in notes.items() if value is not None}


def _open(
    path: str, options: argparse.Namespace | None, features: Sequence[str] | None, lenient: bool = False
) -> Samples:
    kind = kind_of(path)
    if kind.format == "name":
        check_no_table(path, options)
        return _open_name(path)
    check_exists(path)
    if kind.is_table:
        return _open_table(path, options, features, lenient)
    check_no_table(path, options)
    if features is not None:
        print(f"{path}: its columns have no names and are taken in the order of MODEL's features.", file=sys.stderr)
    if kind.format == "npz":
        return _open_npz(path)
    if kind.format != "npy":
        raise ValueError(f"Files of samples must be .npy, .npz, {', '.join(ENDINGS)}. Got {path} instead.")
    X = read_npy(path)["X"]
    if X.ndim < 2 or X.dtype.kind not in "biuf":
        raise InvalidFileError(path, f"must hold numbers of shape (n, n_features). Got {X.dtype} of shape {X.shape}.")
    return Samples(len(X), array_source(X).slices, X)


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


def _open_table(
    path: str, options: argparse.Namespace | None, features: Sequence[str] | None, lenient: bool
) -> Samples:
    table = open_table(path, **_given(options, _OF_CSV))
    given = _given(options, _OF_COLUMNS)
    if lenient:
        given |= {name: table.known(given[name]) for name in ("labels", "ids", "drop")}
    if features is not None:
        if given["columns"] is not None and sorted(given["columns"]) != sorted(features):
            raise ValueError(
                f"--columns must be the features of MODEL, {listed(features)}. Got {listed(given['columns'])} instead."
            )
        given["columns"] = features
    chosen, separator = choose_columns(table, **given), getattr(options, "label_separator", None)
    if chosen.are_lists:
        # batches of Arrow end with their row group; the source makes slices of one size from them
        samples = Samples(
            table.n_rows or 0,
            lambda size: iterator_source(list_batches(table, chosen.features[0])).slices(size),
            targets=lambda: targets_of(table, chosen.labels, separator, read_columns(table, chosen.labels))[0],
            ids=ids_of(table, chosen.ids, read_columns(table, [] if chosen.ids is None else [chosen.ids])),
        )
    else:
        bunch = read_table(table, chosen, separator)
        more = {"label_names": bunch.label_names, "ids": bunch.ids, "features": bunch.feature_names}
        samples = Samples(len(bunch.data), array_source(bunch.data).slices, bunch.data, lambda: bunch.target, **more)
    print(_description(table, chosen), file=sys.stderr)
    return samples


def _given(options: argparse.Namespace | None, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(options, name, None) for name in names}


def table_features(path: str, options: argparse.Namespace) -> list[str] | None:
    """Names of the features of a table, or None for a column of lists."""
    chosen = choose_columns(open_table(path, **_given(options, _OF_CSV)), **_given(options, _OF_COLUMNS))
    return None if chosen.are_lists else chosen.features


def check_no_table(path: str, options: argparse.Namespace | None, names: Sequence[str] = OF_TABLES) -> None:
    """Raise ValueError for options of tables if no file of a command is one."""
    paths = [getattr(options, name, None) for name in ("data", "queries", "vectors")] + getattr(options, "datasets", [])
    for name in names:
        if getattr(options, name, None) is not None and not any(
            other and kind_of(other).is_table for other in paths if other != path
        ):
            raise ValueError(f"--{name} must be used with a CSV or Parquet file of numbers. Got {path}.")


def _description(table: Table, chosen: ChosenColumns) -> str:
    """Line that says which columns are read, and which are not."""
    used = {*chosen.features, *chosen.labels, chosen.ids}
    kind = "column of lists" if chosen.are_lists else f"feature{'s' * (len(chosen.features) != 1)}"
    parts = [f"{len(chosen.features):,} {kind}: {listed(chosen.features, _N_PRINTED)}"]
    others = {
        "labels": chosen.labels,
        "ids": [] if chosen.ids is None else [chosen.ids],
        "left out": [name for name in table.types if name not in used],
    }
    return f"{table.name}: " + "; ".join(
        [*parts, *(f"{name}: {listed(found)}" for name, found in others.items() if found)]
    )


@contextmanager
def csv_writer(path: str) -> Iterator[Any]:
    """Context manager of the writer of a CSV file; names of files need not be UTF-8."""
    with write_atomically(path) as file:
        text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="", write_through=True)
        yield csv.writer(text, lineterminator="\n")
        text.detach()


def check_exists(path: str) -> None:
    """Raise FileNotFoundError unless there is a file."""
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
