"""Atomic writes: the old file or the complete new one, whatever happens in between."""

import errno
import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from skhash._files._partial import PartialFile, sweep

_REMEDIES = {
    "Free some space, or choose another folder": (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    "Choose a file and a folder that you may write to": (errno.EACCES, errno.EPERM, errno.EROFS),
    "Create the folder first": (errno.ENOENT, errno.ENOTDIR),
}


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` only if the body succeeds.

    After a kill at any moment, `path` is the old file or the complete new one. A symbolic link stays, and permissions
    stay.
    """
    target = Path(os.path.realpath(path))
    try:
        old = status_of(path)
        sweep(target.parent)
        partial = PartialFile(target.parent, 0o666 if old is None else 0o600)  # not more open than the old file
    except OSError as error:
        raise explain(error, path) from error
    try:
        file = io.BufferedWriter(partial)
        yield file
        try:
            file.flush()
            partial.move_to(target, old)
        except OSError as error:
            raise explain(error, path) from error
    except BaseException as error:
        if partial.failure is not None and error.__cause__ is not partial.failure:
            raise explain(partial.failure, path) from error
        raise
    finally:
        partial.remove()


def status_of(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Status of the file to replace, or None if there is none; an error if it must not be replaced."""
    try:
        status = os.stat(path)  # by the link, not by its target: the system refuses links of other users in /tmp
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file")
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "The file is read-only")
    return status


def explain(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """OSError with the path and what to do, and with the number of `error`."""
    remedy = next((text for text, numbers in _REMEDIES.items() if error.errno in numbers), "Choose another file")
    reason = error.strerror or str(error)
    return OSError(error.errno, f"{reason}. Nothing was changed. {remedy}", os.fspath(path))


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write an object to a JSON file atomically."""
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())
