"""JSON files with a checksum of their content, under the key "sha256"."""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skhash.exceptions import InvalidFileError
from skhash.persistence._writing import write_json

MAX_BYTES = 1 << 23  # of a file that is read; the results of one fit take less than 2 MB


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object as JSON, atomically, with its checksum."""
    plain = json.loads(json.dumps(dict(content)))  # as it will be read: tuples are lists
    write_json(path, plain | {"sha256": _checksum(plain)})


def read_sealed(path: Path, known: frozenset[str]) -> dict[str, Any]:
    """Content of a file of :func:`write_sealed` without its checksum; ValueError says why it is damaged.

    A file of an earlier version has no checksum. Such a file may have `known` keys only, so that a damaged checksum is
    noticed.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InvalidFileError(path, "must be a regular file. Move what is there to another place.")
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON ({error})") from error
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    checksum = content.pop("sha256", None)
    if checksum is None and (unknown := content.keys() - known):
        raise ValueError(f"it has the unknown keys {', '.join(sorted(unknown))}")
    if checksum not in (None, _checksum(content)):
        raise ValueError("its content does not agree with its checksum")
    return content


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()  # raises for half of a surrogate pair
