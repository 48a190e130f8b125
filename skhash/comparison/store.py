"""Finished results and tuned candidates as files, so that a stopped comparison can continue.

    FOLDER/rows/<data set>_<protocol>_<method>_<nbits>_<seed>_<hash>.json     one per finished fit
    FOLDER/tuning/<...>.json                                                 the candidates of one tuning
    FOLDER/models/<...>.safetensors                                          the fitted hasher, if it is kept

Each write is atomic, and each file has a checksum. The hash is that of the settings, which are in
the file, too: everything that decides the metrics. A file is reused only for the same data, method,
parameters, tuning and versions. Code that changed under the same version number is not noticed: use
`fresh` then.

A comparison ignores a damaged file with a warning, computes its content again and replaces it. A
report, which computes nothing, raises an error that names the file.
"""

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from skhash.comparison._checks import check_fields, check_record
from skhash.comparison._sealed import read_sealed, write_sealed
from skhash.comparison._settings import Settings
from skhash.comparison.results import Result
from skhash.comparison.tuning import Candidate
from skhash.exceptions import InvalidFileError

_RECORD = frozenset({"settings", "command", "traceback", "finished", "row"})
_CANDIDATES = frozenset({"settings", "candidates"})
_REMEDY = " Delete it, or run the comparison again, which replaces it."
_Content = TypeVar("_Content")


@dataclass(frozen=True)
class Record:
    """A result with everything that led to it.

    Parameters
    ----------
    settings : Settings
        What decides the metrics.
    result : Result
        The result.
    finished : str
        Date and time, UTC.
    command : str, default=None
        The command line, if any.
    traceback : str, default=None
        Where the fit failed, if it failed.
    """

    settings: Settings
    result: Result
    finished: str
    command: str | None = None
    traceback: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Record for JSON."""
        values = {"settings": self.settings.to_dict(), "command": self.command}
        if self.traceback is not None:
            values["traceback"] = self.traceback
        return values | {"finished": self.finished, "row": self.result.to_dict(curves=True)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Record":
        """Record from JSON, of this or an earlier version; an error if something is missing or does not agree."""
        own = {"finished": values["finished"], "command": values["command"], "traceback": values.get("traceback")}
        check_fields(cls, own)
        record = cls(Settings.from_dict(values["settings"]), Result.from_dict(values["row"]), **own)
        check_record(record)
        return record


class Store:
    """Files of finished results and tuned candidates in a folder.

    Parameters
    ----------
    folder : str or Path, default=None
        The folder, which is created if necessary. None stores nothing.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare
    >>> from skhash.comparison.store import Store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results, description = compare(
    ...         methods=["pca"], nbits=[8], n_seeds=1, folder=folder
    ...     )
    ...     [record.result == results[0] for record in Store(folder).records()]
    [True]
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            if self.folder.is_file():
                raise NotADirectoryError(f"The folder of results must be a folder. Got the file {folder} instead.")
            for kind in ("rows", "tuning"):
                (self.folder / kind).mkdir(parents=True, exist_ok=True)

    def records(self) -> list[Record]:
        """Records of all finished fits.

        Returns
        -------
        list of Record
            In the order of their file names.

        Raises
        ------
        InvalidFileError
            If a file is damaged, or has the name of another one.
        """
        return [self._read_own(path) for path in self._paths()]

    def intact_records(self) -> list[Record]:
        """Records of all finished fits, without those of damaged files, which a warning names.

        Returns
        -------
        list of Record
            In the order of their file names.
        """
        read = (_read_or_warn(path, self._read_own, "It is left out") for path in self._paths())
        return [record for record in read if record is not None]

    def _paths(self) -> list[Path]:
        return sorted((self.folder / "rows").glob("*.json")) if self.folder else []

    def _read_own(self, path: Path) -> Record:
        record = read_record(path)
        expected = self._path("rows", record.settings.to_dict())
        if expected is not None and path.name != expected.name:
            raise InvalidFileError(path, f"is a copy of {expected.name}, or has its result. Delete the copy.")
        return record

    def read_result(self, settings: Settings) -> Result | None:
        """Stored result of these settings.

        Parameters
        ----------
        settings : Settings
            The settings.

        Returns
        -------
        Result or None
            None if there is none, or if the file is damaged, which a warning says.
        """
        path = self._path("rows", settings.to_dict())
        record = None if path is None else _read_or_warn(path, self._read_own)
        return None if record is None else record.result

    def write_record(self, record: Record) -> None:
        """Store a result, in place of an earlier one of the same settings.

        Parameters
        ----------
        record : Record
            The result with its settings.
        """
        path = self._path("rows", record.settings.to_dict())
        if path is not None:
            write_sealed(path, record.to_dict())

    def write_model(self, settings: Settings, hasher: Any) -> str | None:
        """Save the fitted hasher of a result, and return its path in the folder.

        Parameters
        ----------
        settings : Settings
            The settings of the result.
        hasher : BaseHasher
            The hasher.

        Returns
        -------
        str or None
            The path, with slashes. None without a folder.
        """
        from skhash.persistence import save  # imports safetensors

        path = self._path("models", settings.to_dict(), "safetensors")
        if self.folder is None or path is None:
            return None
        path.parent.mkdir(exist_ok=True)
        save(hasher, path)
        return path.relative_to(self.folder).as_posix()

    def has_model(self, settings: Settings) -> bool:
        """Whether the fitted hasher of these settings is kept.

        Parameters
        ----------
        settings : Settings
            The settings.

        Returns
        -------
        bool
            Whether the file exists.
        """
        path = self._path("models", settings.to_dict(), "safetensors")
        return path is not None and path.is_file()

    def read_candidates(self, settings: Settings) -> list[Candidate]:
        """Stored candidates of these settings, whatever their budget.

        Parameters
        ----------
        settings : Settings
            The settings.

        Returns
        -------
        list of Candidate
            Empty if there are none, or if the file is damaged, which a warning says.
        """
        values = settings.to_tuning_dict()
        path = self._path("tuning", values)
        if path is None:
            return []
        return _read_or_warn(path, lambda path: read_candidates(path, values)) or []

    def write_candidates(self, settings: Settings, candidates: Sequence[Candidate]) -> None:
        """Store the candidates of these settings, in place of earlier ones.

        Parameters
        ----------
        settings : Settings
            The settings.
        candidates : sequence of Candidate
            All candidates.
        """
        values = settings.to_tuning_dict()
        path = self._path("tuning", values)
        if path is not None:
            write_sealed(path, {"settings": values, "candidates": [candidate.to_dict() for candidate in candidates]})

    def discard(self, settings: Settings) -> None:
        """Remove the result, the candidates and the hasher of these settings, if there are any.

        Parameters
        ----------
        settings : Settings
            The settings.
        """
        own = settings.to_dict()
        paths = self._path("rows", own), self._path("tuning", settings.to_tuning_dict())
        for path in (*paths, self._path("models", own, "safetensors")):
            if path is not None:
                path.unlink(missing_ok=True)

    def _path(self, kind: str, settings: Mapping[str, Any], ending: str = "json") -> Path | None:
        if self.folder is None:
            return None
        name = "_".join(str(settings[key]) for key in ("dataset", "protocol", "method", "nbits", "seed"))
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        stem = re.sub(r"[^\w.-]", "-", name)
        return self.folder / kind / f"{stem}_{digest}.{ending}"


def read_record(path: str | os.PathLike[str]) -> Record:
    """Record of a file; InvalidFileError if the file is damaged."""
    return _read(Path(path), _RECORD, Record.from_dict)


def read_candidates(path: str | os.PathLike[str], settings: Mapping[str, Any] | None = None) -> list[Candidate]:
    """Candidates of a file; InvalidFileError if the file is damaged or has other settings.

    None for `settings` allows any.
    """

    def from_dict(values: Mapping[str, Any]) -> list[Candidate]:
        if settings is not None and values["settings"] != settings:
            raise ValueError("it is that of other settings")
        return [Candidate.from_dict(candidate) for candidate in values["candidates"]]

    return _read(Path(path), _CANDIDATES, from_dict)


def _read(path: Path, keys: frozenset[str], from_dict: Callable[[Mapping[str, Any]], _Content]) -> _Content:
    try:
        return from_dict(read_sealed(path, keys))
    except InvalidFileError:
        raise
    except KeyError as error:
        reason = f"the key {error} is missing"
        cause: Exception = error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        reason, cause = str(error).rstrip("."), error
    raise InvalidFileError(path, f"is damaged: {reason}.{_REMEDY}") from cause


def _read_or_warn(
    path: Path, read: Callable[[Path], _Content], consequence: str = "Its content is computed again"
) -> _Content | None:
    """Content of a file; None if there is no file, or with a warning if it is damaged and can be replaced."""
    if not path.exists():
        return None
    try:
        return read(path)
    except InvalidFileError as error:
        if not path.is_file():  # it cannot be replaced, so computing its content would be useless
            raise
        warnings.warn(f"{str(error).removesuffix(_REMEDY)} {consequence}.", UserWarning, stacklevel=4)
        return None
