"""Atomic writes, and the names of classes and parameters in saved files."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

#: parameters that were renamed since a file may have been written: old name to new name
_RENAMED = {"n_labelled": "n_labeled", "max_rows": "max_samples"}


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` only if the body succeeds.

    After a kill at any moment, `path` is the old file or the complete new one.

    Parameters
    ----------
    path : path-like
        The file. An existing file is replaced.

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


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write a JSON file atomically.

    Parameters
    ----------
    path : path-like
        The file. Its folder must exist.
    content : dict or list
        Anything that JSON can hold.
    """
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())


def qualified_name(value: Any) -> str:
    """Name of a class or function, or of the class of an object, with its module."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def with_current_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a saved file under their current names."""
    return {_RENAMED.get(name, name): value for name, value in parameters.items()}
