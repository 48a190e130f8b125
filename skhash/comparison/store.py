"""Finished results and tuned candidates as files, so that a stopped comparison can continue.

    FOLDER/rows/<data set>_<protocol>_<method>_<nbits>_<seed>_<hash>.json     one per finished fit
    FOLDER/tuning/<...>.json                                                 the candidates of one tuning

Each write is atomic. The hash is that of the settings, which are in the file, too: everything
that decides the metrics. A file is reused only for the same data, method, parameters, tuning
and versions. Code that changed under the same version number is not noticed: use `fresh` then.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skhash._files import write_json
from skhash.comparison._settings import Settings
from skhash.comparison.results import Result
from skhash.comparison.tuning import Candidate


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
        """Record from JSON, of this or an earlier version."""
        return cls(
            Settings.from_dict(values["settings"]),
            Result.from_dict(values["row"]),
            values["finished"],
            values["command"],
            values.get("traceback"),
        )


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
    ...     results, description = compare(methods=["pca"], nbits=[8], n_seeds=1, folder=folder)
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
        """
        paths = sorted((self.folder / "rows").glob("*.json")) if self.folder else []
        return [Record.from_dict(_read(path)) for path in paths]

    def read_result(self, settings: Settings) -> Result | None:
        """Stored result of these settings.

        Parameters
        ----------
        settings : Settings
            The settings.

        Returns
        -------
        Result or None
            None if there is none.
        """
        path = self._path("rows", settings.to_dict())
        return Record.from_dict(_read(path)).result if path is not None and path.is_file() else None

    def write_record(self, record: Record) -> None:
        """Store a result, in place of an earlier one of the same settings.

        Parameters
        ----------
        record : Record
            The result with its settings.
        """
        path = self._path("rows", record.settings.to_dict())
        if path is not None:
            write_json(path, record.to_dict())

    def read_candidates(self, settings: Settings) -> list[Candidate]:
        """Stored candidates of these settings, whatever their budget.

        Parameters
        ----------
        settings : Settings
            The settings.

        Returns
        -------
        list of Candidate
            Empty if there are none.
        """
        path = self._path("tuning", settings.to_tuning_dict())
        if path is None or not path.is_file():
            return []
        return [Candidate.from_dict(values) for values in _read(path)["candidates"]]

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
            write_json(path, {"settings": values, "candidates": [candidate.to_dict() for candidate in candidates]})

    def discard(self, settings: Settings) -> None:
        """Remove the result and the candidates of these settings, if there are any.

        Parameters
        ----------
        settings : Settings
            The settings.
        """
        for kind, values in (("rows", settings.to_dict()), ("tuning", settings.to_tuning_dict())):
            path = self._path(kind, values)
            if path is not None:
                path.unlink(missing_ok=True)

    def _path(self, kind: str, settings: Mapping[str, Any]) -> Path | None:
        if self.folder is None:
            return None
        name = "_".join(str(settings[key]) for key in ("dataset", "protocol", "method", "nbits", "seed"))
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        stem = re.sub(r"[^\w.-]", "-", name)
        return self.folder / kind / f"{stem}_{digest}.json"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON ({error}). Remove it, and its result is computed again.") from error
