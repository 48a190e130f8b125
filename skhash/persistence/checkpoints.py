"""Checkpoints: the complete state of a training in one file, named by the identity of the training."""

import errno
import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from skhash import __version__
from skhash._files import as_arrays, as_tensors
from skhash.exceptions import InvalidFileError
from skhash.persistence._checking import errors_name
from skhash.persistence.format import ValueDecoder, ValueEncoder, read_file, read_header, write_file
from skhash.persistence.identity import Identity, differences

REMEDY = "Delete the file, or fit without resume=True, which replaces it."


class Checkpoint:
    """One file in a folder. Several trainings can share a folder, as the clones of a grid search do."""

    def __init__(self, folder: str | os.PathLike[str], identity: Identity) -> None:
        self.identity, folder = identity, os.path.expanduser(folder)
        digests = [(name, value) for name, (_, value) in identity.items()]
        self.path = Path(folder) / f"{hashlib.sha256(repr(digests).encode()).hexdigest()[:16]}.ckpt"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(error.errno, f"`checkpoint` must be a folder. {error.strerror}", folder) from error
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, "The folder of checkpoints is read-only. Choose another folder", folder)

    def write(self, state: dict[str, Any]) -> None:
        """Write a state of tensors, numbers, strings, None, and dicts, lists and tuples of these, atomically."""
        encoder = ValueEncoder(self.path)
        encoded = encoder.encode(as_arrays(state), "state")
        header = {"class": "checkpoint", "identity": self.identity, "versions": _versions(), "state": encoded}
        write_file(self.path, header, encoder.tensors)

    def read(self) -> dict[str, Any] | None:
        """State in the file, or None if there is no file; InvalidFileError if it is damaged or of another training."""
        if not self.path.exists():
            return None
        with errors_name(self.path, "cannot be read"):
            try:
                header, tensors = read_file(self.path)
            except InvalidFileError as error:
                raise InvalidFileError(self.path, f"{error.reason} {REMEDY}") from error
            changes = differences(self.identity, _identity(header))
            if changes:
                raise InvalidFileError(
                    self.path,
                    f"is the checkpoint of another training: {'; '.join(changes)}. Set the same parameters and data, "
                    "or move the file away to train from scratch.",
                )
            state: dict[str, Any] = as_tensors(ValueDecoder(self.path, tensors).decode(header["state"]))
            _warn_of_versions(self.path, header["versions"])
        return state

    def nearest(self) -> tuple[Path, list[str]] | None:
        """The checkpoint in the folder that differs least from this training, and in what; None if there is none."""
        others = []
        for path in sorted(self.path.parent.glob("*.ckpt")):
            try:
                others.append((path, differences(self.identity, _identity(read_header(path)))))
            except (OSError, ValueError, TypeError, KeyError, AttributeError):  # a damaged file, or another one
                continue
        return min(others, key=lambda other: len(other[1]), default=None)


def _identity(header: dict[str, Any]) -> Identity:
    return {name: (text, value) for name, (text, value) in header["identity"].items()}


def _versions() -> dict[str, str]:
    import torch

    versions = {"skhash": __version__, "torch": torch.__version__, "numpy": np.__version__}
    return {name: version.partition("+")[0] for name, version in versions.items()}  # not the kind of device


def _warn_of_versions(path: Path, versions: dict[str, str]) -> None:
    changed = [
        f"{name} {versions.get(name)}, now {now}" for name, now in _versions().items() if versions.get(name) != now
    ]
    if changed:
        warnings.warn(
            f"{path} was written with {'; '.join(changed)}. The codes of the resumed training may differ from those of "
            "one without a break.",
            UserWarning,
            stacklevel=2,
        )
