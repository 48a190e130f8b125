"""Results of a comparison, in code and in files.

    FOLDER/rows/<data set>_<protocol>_<method>_<nbits>_<seed>_<hash>.json     one per finished fit, with what led to it
    FOLDER/rows/<...>.npz                                                    its values of each query
    FOLDER/tuning/<...>.json                                                 the candidates of one tuning
    FOLDER/models/<...>.safetensors                                          the fitted hasher, if it is kept

The hash is that of the settings: everything that decides the metrics. A file is reused only for the same data, method,
parameters, tuning and versions; of a method of the user, also for the same code. Other code that changed under the same
version number is not noticed: use `fresh`.
If a file is damaged, a comparison warns and computes its content again. A report computes nothing, and raises an error
that names the file.
"""

import hashlib
import json
import os
import re
import warnings
import zipfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from pathlib import Path
from platform import python_version
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from skhash import __version__
from skhash._files import write_atomically, write_json
from skhash.comparison.tuning import Candidate
from skhash.exceptions import InvalidFileError

_REMEDY = "Delete it, or run the comparison again, which replaces it."
_Content = TypeVar("_Content")


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(Mapping[str, Any]):
    """Result of one fit: what was fitted, the metrics, and how it was obtained.

    It can be read like an entry of ``results.json``, too, with the metrics beside the other values:
    ``result["ap"]``, ``dict(result)``. As a dict it has `bytes_per_item`, `single_query_ms`, `batch_query_ms`,
    `model` and `asked_seeds` only if they are given, `is_asked` only if it is False, and neither curves nor values of
    queries.

    Parameters
    ----------
    task : "relevance" or "neighbors", default="relevance"
        What was compared.
    source : str, default=None
        Name or file of the data set; None for samples in memory.
    dataset, protocol, description : str, default=""
        Names of data set and protocol, and the split in a sentence.
    method : str
        A key of ``VARIANTS``, or the name of a method of your own.
    nbits : int
        Number of bits.
    seed : int
        Seed of the split and of the method.
    metrics : dict of str to float, default={}
        Value by name of each metric. All are None if the fit failed or the method does not apply, and some if the
        method has no such value.
    bytes_per_item : int, default=None
        Bytes that the method stores of an item, factors included.
    fit_seconds, codes_per_second : float, default=None
        Time of the fit, and speed of encoding the database. For neighbors both are CPU time.
    single_query_ms, batch_query_ms : float, default=None
        For neighbors: milliseconds of CPU time to find the ten nearest items of a real query, alone and in a
        batch.
    codes_sha256 : str, default=None
        SHA-256 of the packed codes of the database, in hex digits.
    curves : dict of str to list, default=None
        See :func:`skhash.comparison.evaluate_hasher`.
    per_query : dict of str to ndarray of shape (n_queries,), default=None
        Value of each query by name of the metric; NaN for a query with nothing relevant.
    parameters : dict, default={}
        Parameters that differ from the defaults.
    n_candidates : int, default=1
        Number of candidates that tuning compared.
    tuning_seconds : float, default=0.0
        Time of tuning.
    model : str, default=None
        File of the fitted hasher, relative to the folder of the results, if it was kept.
    asked_seeds : int, default=None
        Number of seeds that the last comparison was asked for. A method that has fewer is marked in tables; it is not
        among the best, and it is not tested.
    is_asked : bool, default=True
        Whether the last comparison into the folder was asked for this method. Tables list the other methods apart.
    not_applicable, error : str, default=None
        Why there are no metrics.
    seconds : float, default=0.0
        Time of everything.

    Examples
    --------
    >>> from skhash.comparison import Result
    >>> result = Result(
    ...     dataset="digits", method="itq", nbits=16, seed=0, metrics={"ap": 0.5}
    ... )
    >>> result.metrics["ap"], result["ap"], Result.from_dict(dict(result)) == result
    (0.5, 0.5, True)
    """

    task: str = "relevance"
    source: str | None = None
    dataset: str = ""
    protocol: str = ""
    description: str = ""
    method: str
    nbits: int
    seed: int
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    bytes_per_item: int | None = None
    fit_seconds: float | None = None
    codes_per_second: float | None = None
    single_query_ms: float | None = None
    batch_query_ms: float | None = None
    codes_sha256: str | None = None
    curves: Mapping[str, list[float]] | None = field(default=None, repr=False)
    per_query: Mapping[str, npt.NDArray[np.float64]] | None = field(default=None, repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    n_candidates: int = 1
    tuning_seconds: float = 0.0
    model: str | None = None
    asked_seeds: int | None = None
    is_asked: bool = True
    not_applicable: str | None = None
    error: str | None = None
    seconds: float = 0.0

    def __getitem__(self, name: str) -> Any:
        if name in self.metrics:
            return self.metrics[name]
        if name not in _FLAT:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        for name in (own.name for own in fields(self)):
            if name == "metrics":
                yield from self.metrics
            elif name in _FLAT and (name not in _OPTIONAL or getattr(self, name) is not _OPTIONAL[name]):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def is_done(self) -> bool:
        """Whether the fit succeeded, so that there are metrics."""
        return any(value is not None for value in self.metrics.values())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Result":
        """Result from an entry of ``results.json``.

        Parameters
        ----------
        values : dict
            At least "method", "nbits" and "seed". A number, or None, under any other name is a metric.

        Returns
        -------
        Result
            The result.

        Raises
        ------
        ValueError
            If one of these is missing.
        """
        if missing := {"method", "nbits", "seed"} - values.keys():
            raise ValueError(
                f"A result must have the keys method, nbits and seed. {', '.join(sorted(missing))} is missing."
            )
        own = {name: values[name] for name in (*_FLAT, "curves", "per_query") if name in values}
        metrics: dict[str, Any] = {
            name: value
            for name, value in values.items()
            if name not in own and (value is None or (isinstance(value, Real) and not isinstance(value, bool)))
        }
        return cls(metrics=metrics, **own)


#: fields of the last comparison, which no fit depends on
_OF_COMPARISON = ("asked_seeds", "is_asked")
#: fields that are keys of a result only if they differ from these defaults
_OPTIONAL = {
    name: Result.__dataclass_fields__[name].default
    for name in ("bytes_per_item", "single_query_ms", "batch_query_ms", "model", *_OF_COMPARISON)
}
#: names of the fields that are keys of a result
_FLAT = tuple(f.name for f in fields(Result) if f.name not in ("metrics", "curves", "per_query"))


def as_results(results: Iterable[Mapping[str, Any]]) -> list[Result]:
    """Results from results or entries of a ``results.json``."""
    return [result if isinstance(result, Result) else Result.from_dict(result) for result in results]


@dataclass(frozen=True)
class Record:
    """A result with its settings, the time (UTC) at which it was finished, the command line, and the traceback."""

    settings: Mapping[str, Any]
    result: Result
    finished: str
    command: str | None = None
    traceback: str | None = None


class Store:
    """Files of finished results, tuned candidates and fitted hashers in a folder; with None nothing is stored."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = None if folder is None else Path(folder).expanduser()
        if self.folder is not None:
            if self.folder.is_file():
                raise NotADirectoryError(f"The folder of results must be a folder. Got the file {folder} instead.")
            (self.folder / "rows").mkdir(parents=True, exist_ok=True)

    def path(self, kind: str, settings: Mapping[str, Any], ending: str) -> Path | None:
        """File of settings in one of the folders rows, tuning and models; None without a folder."""
        if self.folder is None:
            return None
        name = "_".join(str(settings[key]) for key in ("dataset", "protocol", "method", "nbits", "seed"))
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        stem = re.sub(r"[^\w.-]", "-", name)
        return self.folder / kind / f"{stem}_{digest}.{ending}"

    def read(self, settings: Mapping[str, Any]) -> Result | None:
        """Stored result of these settings; None if there is none, or with a warning if its file is damaged."""
        record = _read_or_warn(self.path("rows", settings, "json"), _read_record)
        return None if record is None else record.result

    def write(self, record: Record) -> None:
        """Store a result, in place of an earlier one of the same settings."""
        path = self.path("rows", record.settings, "json")
        if path is None:
            return
        of_queries = path.with_suffix(".npz")
        of_queries.unlink(missing_ok=True)
        if record.result.per_query is not None:
            with write_atomically(of_queries) as file:
                of_metrics: dict[str, Any] = dict(record.result.per_query)
                np.savez_compressed(file, **of_metrics)
        row = dict(record.result) | {"curves": record.result.curves}
        write_json(path, dict(vars(record)) | {"result": row})

    def read_candidates(self, settings: Mapping[str, Any]) -> list[Candidate]:
        """Stored candidates of a tuning; empty if there are none, or with a warning if their file is damaged."""
        return _read_or_warn(self.path("tuning", settings, "json"), _read_candidates) or []

    def write_candidates(self, settings: Mapping[str, Any], candidates: Sequence[Candidate]) -> None:
        """Store all candidates of a tuning."""
        path = self.path("tuning", settings, "json")
        if path is not None:
            path.parent.mkdir(exist_ok=True)
            write_json(path, {"settings": settings, "candidates": [vars(candidate) for candidate in candidates]})


def write_list(folder: str | os.PathLike[str], results: Iterable[Result]) -> None:
    """Write the ``results.json`` of a folder: the results without their curves and values of queries."""
    write_json(Path(folder) / "results.json", [dict(result) for result in results])


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of Python, skhash and the libraries below it."""
    found = {"python": python_version(), "skhash": __version__}
    for name in ("numpy", "scipy", "scikit-learn", "torch", "numba", "cvxpy"):
        with suppress(PackageNotFoundError):  # torch and cvxpy may be missing
            found[name] = version(name)
    return found


def read_results(folder: str | os.PathLike[str]) -> list[Result]:
    """Results of ``results.json``, with their curves and the values of each query, which are stored beside it.

    Parameters
    ----------
    folder : str or Path
        The `folder` of :func:`compare`.

    Returns
    -------
    list of Result
        In the order of ``results.json``, which is that of the last comparison.

    Raises
    ------
    FileNotFoundError
        If there are no results.
    InvalidFileError
        If a file of results is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare, read_results
    >>> folder = tempfile.mkdtemp()
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1, folder=folder)
    >>> [len(result.per_query["ap"]) for result in read_results(folder)]
    [359]
    """
    listed = read_list(folder)
    if not listed:
        raise FileNotFoundError(f"{folder} has no results of a comparison (results.json).")
    stored = read_records(folder)
    return [
        replace(stored[key].result, metrics=result.metrics, **{name: result[name] for name in _OF_COMPARISON})
        if (key := key_of(result)) in stored
        else result
        for result in listed
    ]


def read_list(folder: str | os.PathLike[str]) -> list[Result]:
    """Results in the ``results.json`` of a folder, without curves and values of queries; empty if there is none."""
    path = Path(folder).expanduser() / "results.json"
    with _damage(path):
        return as_results(json.loads(path.read_bytes())) if path.exists() else []


def read_records(folder: str | os.PathLike[str], but: Container[Path | None] = ()) -> dict[str, Record]:
    """Records of all finished fits in a folder but those of some files, by the `key_of` their results."""
    records = [
        _read_record(path) for path in sorted((Path(folder).expanduser() / "rows").glob("*.json")) if path not in but
    ]
    return {key_of(record.result): record for record in records}


def key_of(result: Result) -> str:
    """What a list of results says about a fit, without the metrics: the list may have only some of those stored."""
    left_out = (*result.metrics, *_OF_COMPARISON)
    return json.dumps({name: value for name, value in result.items() if name not in left_out})


def _read_record(path: Path) -> Record:
    with _damage(path):
        values = json.loads(path.read_bytes())
        values["result"] = Result.from_dict(values["result"])
        record = Record(**values)
    of_queries = path.with_suffix(".npz")
    if not of_queries.exists():
        return record
    with _damage(of_queries), np.load(of_queries) as arrays:
        return replace(record, result=replace(record.result, per_query=dict(arrays)))


def _read_candidates(path: Path) -> list[Candidate]:
    with _damage(path):
        return [Candidate(**candidate) for candidate in json.loads(path.read_bytes())["candidates"]]


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Context manager that turns errors of reading a file into one that names it."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidFileError(path, f"is damaged: {str(error).rstrip('.')}. {_REMEDY}") from error


def _read_or_warn(path: Path | None, read: Callable[[Path], _Content]) -> _Content | None:
    """Content of a file; None if there is no file, or with a warning if it is damaged."""
    try:
        return None if path is None or not path.exists() else read(path)
    except InvalidFileError as error:
        warnings.warn(f"{str(error).removesuffix(_REMEDY)}Its content is computed again.", UserWarning, stacklevel=4)
        return None
