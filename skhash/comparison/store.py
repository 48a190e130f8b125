"""Finished rows and tuned candidates as files, so that a stopped comparison goes on where it was.

    FOLDER/rows/<data set>_<protocol>_<method>_<nbits>_<seed>_<hash>.json     one a finished fit
    FOLDER/tuning/<...>.json                                                 the candidates of one tuning

Each file appears whole or not at all. The hash is that of the settings, which stand in
the file, too: everything that decides the figures, so that a file is used again only for
the same data, method, parameters, tuning and versions. Code that was changed under the same version
number is not noticed; start such runs afresh.
"""

import hashlib
import json
import re
from pathlib import Path

from skhash._files import atomic_write


def write_json(path, content):
    """Write a JSON file, whole or not at all.

    Parameters
    ----------
    path : Path
        The file; its folder is there.
    content : dict or list
        What JSON can hold.
    """
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())


class Store:
    """Files of finished work below a folder.

    Parameters
    ----------
    folder : str or Path, default=None
        The folder, created if need be; None keeps nothing.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison.store import Store
    >>> settings = {"dataset": "digits", "protocol": "5k", "method": "itq", "nbits": 8, "seed": 0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.write("rows", settings, {"row": {"ap": 0.5}})
    ...     store.read("rows", settings)["row"], store.read("rows", settings | {"seed": 1})
    ({'ap': 0.5}, None)
    """

    def __init__(self, folder=None):
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            if self.folder.is_file():
                raise NotADirectoryError(f"out={str(folder)!r} is a file; a folder is wanted.")
            for kind in ("rows", "tuning"):
                (self.folder / kind).mkdir(parents=True, exist_ok=True)

    def read(self, kind, settings):
        """Read what was written for these settings.

        Parameters
        ----------
        kind : "rows" or "tuning"
            What.
        settings : dict
            Settings.

        Returns
        -------
        dict or None
            The record; None if there is none.
        """
        path = self._path(kind, settings)
        return _read(path) if path is not None and path.is_file() else None

    def write(self, kind, settings, record):
        """Write a record, in place of an earlier one of these settings.

        Parameters
        ----------
        kind : "rows" or "tuning"
            What.
        settings : dict
            Settings.
        record : dict
            The record; the settings are added to it.
        """
        path = self._path(kind, settings)
        if path is not None:
            write_json(path, {"settings": settings} | record)

    def discard(self, kind, settings):
        """Remove the record of these settings, if there is one.

        Parameters
        ----------
        kind : "rows" or "tuning"
            What.
        settings : dict
            Settings.
        """
        path = self._path(kind, settings)
        if path is not None:
            path.unlink(missing_ok=True)

    def records(self):
        """Read all rows that are there.

        Returns
        -------
        list of dict
            The records.
        """
        return [_read(path) for path in sorted((self.folder / "rows").glob("*.json"))] if self.folder else []

    def _path(self, kind, settings):
        if self.folder is None:
            return None
        name = "_".join(str(settings[key]) for key in ("dataset", "protocol", "method", "nbits", "seed"))
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        stem = re.sub(r"[^\w.-]", "-", name)
        return self.folder / kind / f"{stem}_{digest}.json"


def _read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}); remove it, and its row is made anew.") from error
