"""Files that appear whole or not at all, and the names that they keep."""

import os
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path):
    """Open a file for bytes that takes its name in one step, when the body has succeeded.

    A kill at any moment leaves the old file or the new one.

    Parameters
    ----------
    path : path-like
        The file; one that is there is replaced.

    Yields
    ------
    file object
        To write bytes to.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(partial, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def qualified_name(value):
    """Name a class or a function, or the class of an object, as files keep it: with its module."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
