"""A file of records that grows slice by slice, and goes on where a killed writer stopped.

Until PATH is complete, there are `PATH.part` with the records, and `PATH.journal`. The journal is text. Its first line
is JSON with all that determines the records. Then there is a line for each finished slice: its number of records, the
checksum of the samples, and that of the records. The line is written after the records, so that a kill at any moment
leaves whole slices. A finished slice is compared with its samples and checksum, and is not computed again.
"""

import errno
import io
import json
import os
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from skhash._files._partial import SAFELY, keep_owner_and_mode, lock, sync_folder
from skhash._files._writing import check_writable, explained


class ResumableRecords:
    """Records of `width` bytes that are written to one .npy file, slice by slice.

    Raises ValueError for an unfinished file of another `identity`, which holds all that determines the records except
    the samples.
    """

    def __init__(self, path: str | os.PathLike[str], width: int, identity: Mapping[str, str]) -> None:
        self.width, self.n_records = width, 0
        self._target = Path(os.path.realpath(path))
        self._part, self._journal = (
            self._target.with_name(f"{self._target.name}{end}") for end in (".part", ".journal")
        )
        self._slices: list[tuple[int, str, int, int]] = []  # n, checksums of samples and records, end in journal
        self._n_seen = 0
        check_writable(path)
        try:
            self._old = os.stat(path) if self._target.exists() else None
            self._open_journal()
        except OSError as error:
            raise explained(error, path) from error
        try:
            self._read_journal(dict(identity))
            self._open_part()
        except OSError as error:
            self._log.close()
            raise explained(error, path) from error
        except BaseException:
            self._log.close()
            raise

    def holds(self, n: int, checksum: str) -> bool:
        """Whether the records of the next slice of n samples are in the file; ValueError if its samples were others."""
        if self._n_seen >= len(self._slices):
            return False
        n_there, checksum_there, records_there, _ = self._slices[self._n_seen]
        if (n, checksum) != (n_there, checksum_there):
            first = self.n_records
            raise ValueError(self._refusal(f"the samples from {first:,} to {first + n - 1:,} have other values"))
        if zlib.crc32(self._file.read(n * self.width)) != records_there:  # the system crashed before they were on disk
            del self._slices[self._n_seen :]
            self._truncate()
            return False
        self._n_seen += 1
        self.n_records += n
        return True

    def append(self, records: npt.NDArray[np.uint8], checksum: str) -> None:
        """Write the records of the next slice, of shape (n, width), and then its line in the journal."""
        content = np.ascontiguousarray(records).reshape(-1).data
        line = f'[{len(records)}, "{checksum}", {zlib.crc32(content)}]\n'.encode()
        try:
            _write(self._file, content)
            _write(self._log, line)
        except OSError as error:
            raise explained(error, self._target) from error
        self._n_seen += 1
        self.n_records += len(records)

    def records(self) -> npt.NDArray[np.uint8]:
        """All records as a memmap of shape (n, width)."""
        shape = (self.n_records, self.width)
        return np.memmap(self._part, np.uint8, "r", offset=len(_header(0, self.width)), shape=shape)

    def finish(self) -> None:
        """Rename the file to its final name, and remove the journal."""
        try:
            self._file.seek(0)
            _write(self._file, _header(self.n_records, self.width))
            if self._old is not None:
                keep_owner_and_mode(self._file.fileno(), self._old)
            os.fsync(self._file.fileno())
            self._file.close()  # Windows cannot rename an open file
            os.replace(self._part, self._target)
            sync_folder(self._target.parent)
        except OSError as error:
            raise explained(error, self._target) from error
        self.discard()

    def discard(self) -> None:
        """Remove the records and the journal."""
        self._file.close()
        self._part.unlink(missing_ok=True)
        if os.name == "nt":
            self._log.close()
        self._journal.unlink(missing_ok=True)
        self._log.close()

    def close(self) -> None:
        """Close the files, and keep them for the next run if a slice is finished."""
        if not self._log.closed and not self._slices and not self._n_seen:
            self.discard()
        self._file.close()
        self._log.close()

    def _open_journal(self) -> None:
        while True:
            descriptor = os.open(self._journal, os.O_RDWR | os.O_CREAT | SAFELY, 0o666)
            self._log = os.fdopen(descriptor, "r+b", buffering=0)
            if lock(descriptor) is False:
                self._log.close()
                raise BlockingIOError(errno.EAGAIN, "Another process writes the file")
            if self._journal.exists():  # otherwise its writer has just finished
                return
            self._log.close()

    def _read_journal(self, identity: dict[str, str]) -> None:
        first, *lines = self._log.read().split(b"\n")
        end = len(first) + 1
        if not lines:  # a new journal, or one without a whole line
            self._log.seek(0)
            self._log.truncate()
            _write(self._log, json.dumps(identity).encode() + b"\n")
            return
        there = _parsed(first)
        if not isinstance(there, dict):
            raise ValueError(self._refusal("its journal cannot be read"))
        names = [name for name in there | identity if there.get(name) != identity.get(name)]
        if names:
            clauses = [f"{name} is {there.get(name)} there and {identity.get(name)} here" for name in names]
            raise ValueError(self._refusal(" and ".join(clauses)))
        for line in lines[:-1]:  # after a kill the last line may be incomplete
            entry = _parsed(line)
            if not isinstance(entry, list) or [type(value) for value in entry] != [int, str, int] or entry[0] < 1:
                break
            end += len(line) + 1
            self._slices.append((entry[0], entry[1], entry[2], end))

    def _open_part(self) -> None:
        if self._slices and not self._part.exists() and self._target.is_file():
            shutil.copyfile(self._target, self._part)  # killed after the file was renamed
        descriptor = os.open(self._part, os.O_RDWR | os.O_CREAT | SAFELY, 0o666 if self._old is None else 0o600)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        if not self._slices:
            self._file.truncate(0)
            _write(self._file, _header(0, self.width))
        self._truncate()
        self._file.seek(len(_header(0, self.width)))

    def _truncate(self) -> None:
        """Cut both files after the last finished slice."""
        end = self._slices[-1][3] if self._slices else None
        if end is None:
            self._log.seek(0)
            end = len(self._log.readline())
        self._log.truncate(end)
        self._log.seek(end)
        end = len(_header(0, self.width)) + self.width * sum(n for n, *_ in self._slices)
        self._file.seek(0, io.SEEK_END)
        if self._file.tell() > end:
            self._file.truncate(end)
        self._file.seek(end)

    def _refusal(self, reason: str) -> str:
        return (
            f"`out` has an unfinished part of another encoding: {reason}. Remove {self._part} and {self._journal} to "
            "begin again, or choose another file."
        )


def _write(file: io.FileIO, content: bytes | memoryview) -> None:
    """Write all bytes; one write to a file without a buffer may take only a part."""
    while content:
        content = content[file.write(content) :]


def _header(n: int, width: int) -> bytes:
    """Header of an .npy file, with the same length for any n."""
    head = io.BytesIO()
    npy.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (n, width)})
    return head.getvalue()


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
