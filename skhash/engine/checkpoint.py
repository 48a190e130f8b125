"""Checkpoints: the complete state of a training in one file, with the identity of the training and a checksum."""

import errno
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from skhash._files import atomic_write
from skhash.engine._payload import payload_bytes, read_payload
from skhash.engine.identity import Identity
from skhash.exceptions import InvalidFileError

_MAGIC = b"skhash checkpoint 1\n"
_N_HASH_BYTES = 65  # hexadecimal digits, and the end of the line
_N_MAX_HEADER_BYTES = 2**20
REMEDY = "Delete the file, or fit without resume=True, which replaces it."


class Checkpoint:
    """One file in a folder, named by the identity of the training, which it holds, too.

    Several trainings can share a folder, as the clones of a grid search do: each finds its
    own file. A file begins with a line that tells the format, the SHA-256 of all that
    follows, and a line of JSON with the identity and the versions of the libraries.

    Parameters
    ----------
    folder : path-like
        Folder, created if it is missing.
    identity : Identity
        What the training is made of, see :func:`fingerprint`.

    Attributes
    ----------
    path : pathlib.Path
        The file.

    Raises
    ------
    OSError
        If the folder cannot be created or written to.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from skhash.engine import Checkpoint, fingerprint
    >>> checkpoint = Checkpoint(
    ...     tempfile.mkdtemp(), fingerprint({"nbits": 8}, np.eye(3), None)
    ... )
    >>> checkpoint.read() is None
    True
    >>> checkpoint.write({"n_epochs_done": 3})
    >>> checkpoint.read()
    {'n_epochs_done': 3}
    """

    def __init__(self, folder: str | os.PathLike[str], identity: Identity) -> None:
        self.identity = identity
        self.path = Path(folder) / f"{identity.name}.ckpt"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(error.errno, f"`checkpoint` must be a folder. {error.strerror}", str(folder)) from error
        if not os.access(folder, os.W_OK):
            raise PermissionError(
                errno.EACCES, "The folder of checkpoints is read-only. Choose another folder", str(folder)
            )

    def write(self, state: dict[str, Any]) -> None:
        """Write the state atomically: a kill at any moment leaves the old file or the new one.

        Parameters
        ----------
        state : dict
            Tensors, numbers, strings, None, and dicts, lists, tuples and sets of these.

        Raises
        ------
        OSError
            If the file cannot be written. The last one is unchanged.
        TypeError
            If the state holds anything else.
        """
        header = json.dumps({"identity": self.identity.entries, "versions": _versions()}).encode() + b"\n"
        payload, digest = payload_bytes(state), hashlib.sha256(header)
        digest.update(payload)
        with atomic_write(self.path) as file:
            file.write(_MAGIC + digest.hexdigest().encode() + b"\n" + header)
            file.write(payload)

    def read(self) -> dict[str, Any] | None:
        """State in the file. No code in it is run.

        Returns
        -------
        dict or None
            The state; None if there is no file.

        Raises
        ------
        skhash.exceptions.InvalidFileError
            If the file cannot be read, is damaged, or is of another training.

        Warns
        -----
        UserWarning
            If other versions of the libraries wrote it, which may round otherwise.
        """
        try:
            with open(self.path, "rb") as file:
                checksum, header = self._read_start(file)
                content = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidFileError(self.path, f"cannot be read: {error.strerror}. Check the folder.") from error
        computed = hashlib.sha256(header)
        computed.update(content)
        if checksum != computed.hexdigest().encode() + b"\n":
            raise InvalidFileError(self.path, f"is cut short or damaged: its checksum does not match. {REMEDY}")
        identity, versions = _parse_header(self.path, header)
        if differences := self.identity.differences(identity):
            raise InvalidFileError(
                self.path,
                f"is the checkpoint of another training: {'; '.join(differences)}. Set the same parameters and data, "
                "or move the file away to train from scratch.",
            )
        try:
            state: dict[str, Any] = read_payload(content)
        except Exception as error:  # the parsers may raise anything
            raise InvalidFileError(self.path, f"is not a checkpoint of skhash: {error}. {REMEDY}") from error
        _warn_of_versions(self.path, versions)
        return state

    def nearest(self) -> tuple[Path, list[str]] | None:
        """The checkpoint in the folder that differs least from this training.

        Returns
        -------
        (path, list of str) or None
            The file, and what differs; None if the folder has no checkpoints.
        """
        others = [(path, self.identity.differences(identity)) for path, identity in self._others()]
        return min(others, key=lambda other: len(other[1]), default=None)

    def _others(self) -> Iterator[tuple[Path, Identity]]:
        for path in sorted(self.path.parent.glob("*.ckpt")):
            try:
                with open(path, "rb") as file:
                    identity, _ = _parse_header(path, self._read_start(file)[1])
            except (OSError, InvalidFileError):
                continue
            yield path, identity

    def _read_start(self, file: BinaryIO) -> tuple[bytes, bytes]:
        """Checksum and header, if the file has this format."""
        if file.read(len(_MAGIC)) != _MAGIC:
            raise InvalidFileError(self.path, f"is not a checkpoint of this version of skhash. {REMEDY}")
        return file.read(_N_HASH_BYTES), file.readline(_N_MAX_HEADER_BYTES)


def _versions() -> dict[str, str]:
    package = sys.modules[__name__.partition(".")[0]]  # importing it here would be a cycle
    versions = {package.__name__: package.__version__, "torch": torch.__version__, "numpy": np.__version__}
    return {name: str(version).partition("+")[0] for name, version in versions.items()}  # not the kind of device


def _parse_header(path: Path, header: bytes) -> tuple[Identity, dict[str, str]]:
    try:
        fields = json.loads(header)
        entries = tuple((str(name), str(text), str(digest)) for name, text, digest in fields["identity"])
        return Identity(entries), {str(name): str(version) for name, version in fields["versions"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidFileError(path, f"has a damaged header. {REMEDY}") from error


def _warn_of_versions(path: Path, versions: dict[str, str]) -> None:
    changed = [
        f"{name} {versions.get(name)}, now {now}" for name, now in _versions().items() if versions.get(name) != now
    ]
    if changed:
        warnings.warn(
            f"{path} was written with {'; '.join(changed)}. The codes of the resumed training may differ from those of "
            "an unbroken one.",
            UserWarning,
            stacklevel=2,
        )
