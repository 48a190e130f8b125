"""An encoding into a file. Calling again resumes an interrupted write.

Until PATH is complete, its records are in `PATH.part`, batch by batch. A line at the head of the part, as long as the
header of the .npy file that takes its place, tells what is encoded. The length of the part tells which batches are
whole. The last of them is encoded again, and must be equal. This covers kills, not a loss of power: nothing tells
whether the other batches have reached the disk. An .npy file has no room for the fingerprint of the hasher, which is in
`PATH.fingerprint`.
"""

import errno
import hashlib
import io
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from skhash._files import check_writable, explained, write_atomically
from skhash.codes.codes import N_DIGITS

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class RecordFile:
    """Records of `width` bytes, written to an .npy file in batches; ValueError for a part of another `identity`."""

    def __init__(self, path: str | os.PathLike[str], width: int, batch_size: int, identity: Mapping[str, str]) -> None:
        check_writable(path)
        self.width, self.n_records = width, 0
        self._target = Path(os.path.realpath(os.path.expanduser(path)))
        self._part = self._target.with_name(f"{self._target.name}.part")
        try:
            self._file = _open_alone(self._part)
        except OSError as error:
            raise explained(error, path) from error
        try:
            self._check_line(_line({**identity, "`batch_size`": str(batch_size)}))
            n_bytes = os.fstat(self._file.fileno()).st_size - _N_HEADER
            self.n_finished = n_bytes // (width * batch_size) * batch_size  #: records that an earlier run has written
            self._file.truncate(_N_HEADER + self.n_finished * width)
        except BaseException:
            self._file.close()
            raise

    def add(self, records: npt.NDArray[np.uint8] | None, n: int) -> None:
        """Write the next n records, or compare them with those that are there; None if they need no comparison."""
        first, self.n_records = self.n_records, self.n_records + n
        if records is None:
            return
        content = np.ascontiguousarray(records).tobytes()
        self._file.seek(_N_HEADER + first * self.width)
        if first < self.n_finished:
            if self._file.read(len(content)) != content:
                raise ValueError(self._refusal(f"the samples from {first:,} to {first + n - 1:,} have other codes"))
            return
        try:
            self._file.write(content)
            self._file.flush()
        except OSError as error:
            raise explained(error, self._target) from error

    def needs(self, n: int) -> bool:
        """Whether the next n records are not there yet, or are the last ones there, which are compared."""
        return self.n_records + n >= self.n_finished

    def records(self) -> npt.NDArray[np.uint8]:
        """All records as a memmap of shape (n, width)."""
        return np.memmap(self._part, np.uint8, "r", offset=_N_HEADER, shape=(self.n_records, self.width))

    def finish(self) -> None:
        """Give the file its header and its name."""
        try:
            self._file.truncate(_N_HEADER + self.n_records * self.width)
            self._file.seek(0)
            self._file.write(_header(self.n_records, self.width))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()  # Windows cannot rename an open file
            if self._target.exists():
                shutil.copymode(self._target, self._part)
            os.replace(self._part, self._target)
        except OSError as error:
            raise explained(error, self._target) from error

    def discard(self) -> None:
        """Remove the records."""
        self._file.close()
        self._part.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file, and keep it for the next run if a batch is finished."""
        if not self._file.closed and os.fstat(self._file.fileno()).st_size == _N_HEADER:
            self.discard()
        self._file.close()

    def _check_line(self, line: bytes) -> None:
        there = self._file.read(_N_HEADER)
        if len(there) < _N_HEADER:  # a new file, or one without a whole line
            self._file.seek(0)
            self._file.write(line)
            self._file.flush()
        elif not there.startswith(line[:7]):
            raise ValueError(self._refusal("it is a file of another program"))
        elif there != line:
            names = [here for here, other in zip(line.split(), there.split(), strict=False) if here != other]
            differing = ", ".join(name.partition(b"=")[0].decode().replace("-", " ") for name in names)
            raise ValueError(self._refusal(f"it has another {differing}"))

    def _refusal(self, reason: str) -> str:
        return (
            f"`out` has an unfinished part of another encoding: {reason}. Remove {self._part} to begin again, or "
            "choose another file."
        )


def fingerprint_beside(path: str | os.PathLike[str]) -> str | None:
    """Fingerprint of the hasher that made the codes of a file, if the file is there and the fingerprint beside it."""
    beside = _beside(path)
    return beside.read_text("utf-8", "replace")[:N_DIGITS] if os.path.exists(path) and beside.exists() else None


def write_fingerprint(path: str | os.PathLike[str], fingerprint: str | None) -> Path | None:
    """Write a fingerprint beside a file of codes, and return its path; None removes that of earlier codes."""
    beside = _beside(path)
    if fingerprint is None:
        beside.unlink(missing_ok=True)
        return None
    with write_atomically(beside) as file:
        file.write(fingerprint.encode())
    return beside


def _beside(path: str | os.PathLike[str]) -> Path:
    target = Path(os.path.realpath(os.path.expanduser(path)))
    return target.with_name(f"{target.name}.fingerprint")


def _open_alone(path: Path) -> BinaryIO:
    """Open a file that no other process writes, or make it."""
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b")
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise BlockingIOError(errno.EAGAIN, "Another process writes the file") from error
        except OSError:  # some network folders have no locks
            return file
        if path.exists():  # otherwise its writer has just finished
            return file
        file.close()


def _header(n: int, width: int) -> bytes:
    """Header of an .npy file, with the same length for any n."""
    head = io.BytesIO()
    npy.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (n, width)})
    return head.getvalue()


_N_HEADER = len(_header(0, 1))


def _line(identity: Mapping[str, str]) -> bytes:
    """Line at the head of a part: the name and a digest of each thing that decides the records."""
    words = [f"{name}={hashlib.sha256(text.encode()).hexdigest()[:12]}" for name, text in identity.items()]
    return f"skhash {' '.join(words)}".ljust(_N_HEADER - 1).encode() + b"\n"
