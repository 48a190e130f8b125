"""Partial files: the temporary files that a writer renames when they are complete.

A writer holds a lock on its partial file. The system drops the lock when the process ends,
however it ends. So a partial file without a lock was left by a kill, and can be removed.

Locks are not always seen by other machines that share a folder, and some folders have none.
The name of a partial file therefore names the machine that runs its writer. Partial files of
other machines, and those in folders without locks, are removed after a day.
"""

import io
import os
import platform
import re
import secrets
import stat
import time
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_ABANDONED_AFTER = 24 * 3600.0  # seconds since the last write
_NAME = re.compile(r"\.skhash-(?P<machine>[0-9a-f]{8})-[0-9a-f]{16}\.part")
# no link is followed, and opening a pipe does not wait for its other end
SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class PartialFile(io.FileIO):
    """A new temporary file, locked by its writer.

    It keeps the error of a failed write, since the library that writes may raise another one.
    """

    failure: OSError | None = None

    def __init__(self, folder: Path, mode: int) -> None:
        while True:
            self.path = folder / f".skhash-{_machine()}-{secrets.token_hex(8)}.part"
            # O_EXCL: never a file or link that is there already
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFELY, mode)
            super().__init__(descriptor, "wb")
            # another process may have removed the file before it was locked
            if lock(descriptor) is not False and os.path.lexists(self.path):
                return
            self.close()

    def write(self, content: Any) -> int:
        """Write bytes, and keep the error if this fails."""
        try:
            return super().write(content)
        except OSError as error:
            self.failure = error
            raise

    def move_to(self, target: Path, old: os.stat_result | None) -> None:
        """Rename the file to `target`, with the owner and the permissions of the old file."""
        if old is not None and fcntl is not None:
            keep_owner_and_mode(self.fileno(), old)
        os.fsync(self.fileno())
        if fcntl is None:
            self.close()  # Windows cannot rename an open file; elsewhere the lock is held until the end
        os.replace(self.path, target)
        sync_folder(target.parent)

    def remove(self) -> None:
        """Close the file, and remove it if it was not renamed."""
        self.close()
        self.path.unlink(missing_ok=True)


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove the partial files that killed writers left in a folder, as far as permissions allow."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        found = [
            entry.path for entry in entries if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]
    for path in found:
        with suppress(OSError):
            _remove_if_abandoned(path)


def _remove_if_abandoned(path: str) -> None:
    if fcntl is None:  # Windows removes no file that is open
        if _is_old(os.stat(path)):
            os.unlink(path)
        return
    descriptor = os.open(path, os.O_RDWR | SAFELY)
    try:
        locked = lock(descriptor)
        match = _NAME.fullmatch(os.path.basename(path))
        trusted = locked and match is not None and match["machine"] == _machine()
        if trusted or (locked is not False and _is_old(os.fstat(descriptor))):
            os.unlink(path)
    finally:
        os.close(descriptor)


def _is_old(status: os.stat_result) -> bool:
    return time.time() - status.st_mtime > _ABANDONED_AFTER


def lock(descriptor: int) -> bool | None:
    """Whether a file could be locked; None if the folder has no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network folders have no locks
        return None
    return True


@lru_cache(maxsize=1)
def _machine() -> str:
    """Eight digits that identify the running machine, the same in all of its containers."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")[:8]
    return sha256(platform.node().encode()).hexdigest()[:8]


def keep_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):  # only root can give a file to others
            os.fchown(descriptor, old.st_uid, old.st_gid)
    mode = stat.S_IMODE(old.st_mode)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        os.fchmod(descriptor, mode)


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to disk, so that a new name survives a crash of the system."""
    if fcntl is None:
        return
    with suppress(OSError):  # the file is in its place; some folders cannot be read or synchronized
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
