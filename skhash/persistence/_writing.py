"""The one way in which skhash writes a file: the old file or the complete new one, whatever happens in between."""

import errno
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

_REMEDIES = {
    "Free some space, or choose another folder": (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    "Choose a file and a folder that you may write to": (errno.EACCES, errno.EPERM, errno.EROFS),
    "Create the folder first": (errno.ENOENT, errno.ENOTDIR),
}
_DAY = 24 * 3600.0


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path`, or the target of this link, once the body has succeeded."""
    check_writable(path)
    target = Path(os.path.realpath(os.path.expanduser(path)))
    partial = target.with_name(f".skhash-{secrets.token_hex(8)}.part")
    _remove_abandoned(target.parent)
    try:
        with open(partial, "xb") as file:
            if target.exists():
                shutil.copymode(target, partial)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except OSError as error:
        if error.filename in (None, str(partial)):  # another name is that of a file which the body reads
            raise explained(error, path) from error
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write an object to a JSON file atomically."""
    with write_atomically(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError, before any work, if a file cannot be written: its folder is missing, or it is a folder itself."""
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        error = OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    elif os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe must not be replaced by a file
        error = OSError(errno.EINVAL, "Not a regular file")
    elif not os.path.isdir(os.path.dirname(os.path.realpath(path))):
        error = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    elif os.path.exists(path) and not os.access(path, os.W_OK):
        error = OSError(errno.EACCES, "The file is read-only")
    else:
        return
    raise explained(error, path)


def explained(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """OSError with the path and what to do, and with the number of `error`."""
    remedy = next((text for text, numbers in _REMEDIES.items() if error.errno in numbers), "Choose another file")
    reason = error.strerror or str(error)
    return OSError(error.errno, f"{reason}. Nothing was changed. {remedy}", os.fspath(path))


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed writers left in a folder more than a day ago."""
    for partial in folder.glob(".skhash-*.part"):
        with suppress(OSError):  # another writer may have removed it
            if time.time() - partial.stat().st_mtime > _DAY:
                partial.unlink()
