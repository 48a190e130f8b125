"""Atomic writes, which leave the old file or the complete new one, whatever happens; arrays as bytes and tensors."""

import errno
import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

_REMEDIES = {
    "Free some space, or choose another folder": (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    "Choose a file and a folder that you may write to": (errno.EACCES, errno.EPERM, errno.EROFS),
    "Create the folder first": (errno.ENOENT, errno.ENOTDIR),
}
_DAY = 24 * 3600.0

Tensors = dict[str, npt.NDArray[Any]]
#: key of a text of skhash in the metadata of a safetensors file
TEXT = "skhash"


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


# --- arrays as bytes


def arrays_to_bytes(kind: str, arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Bytes of a safetensors file with arrays and their kind; equal arrays give equal bytes."""
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {TEXT: kind})


def arrays_from_bytes(content: bytes, kind: str, layouts: Collection[Collection[str]]) -> Tensors:
    """Arrays of :func:`arrays_to_bytes`; ValueError for damaged bytes, another kind, or arrays of no layout."""
    from safetensors.numpy import load

    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"`content` must be bytes. Got {type(content).__name__} instead.")
    content = bytes(content)
    try:
        arrays: Tensors = load(content)
        length = int.from_bytes(content[:8], "little")
        found = json.loads(content[8 : 8 + length])["__metadata__"][TEXT]
    except Exception as error:  # safetensors' own error derives from Exception alone
        raise ValueError(f"`content` must be bytes of a {kind}. Got others, or damaged ones: {error!r}.") from error
    if found != kind:
        raise ValueError(f"`content` must be bytes of a {kind}. Got those of a {found} instead.")
    if not any(set(arrays) == set(names) for names in layouts):
        raise ValueError(f"`content` must be bytes of a {kind}. Got the arrays {', '.join(sorted(arrays))} instead.")
    return arrays


def arrays_of_text(texts: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Bytes of all texts of an array of objects, and where each of them ends; file names may not be UTF-8."""
    parts = [text.encode("utf-8", "surrogatepass") for text in texts.flat]
    return np.frombuffer(b"".join(parts), np.uint8), np.cumsum([len(part) for part in parts], dtype=np.int64)


def text_of_arrays(content: Any, ends: Any, shape: Any) -> npt.NDArray[np.object_]:
    """Texts from the arrays of :func:`arrays_of_text`; ValueError for others."""
    are_arrays = content.dtype == np.uint8 and ends.dtype == np.int64 and content.ndim == ends.ndim == 1
    if not are_arrays or (np.diff(ends, prepend=0) < 0).any() or ends[-1:].sum() != len(content):
        raise ValueError("text must be bytes, and where each of its parts ends.")
    whole = content.tobytes()
    texts = [whole[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise([0, *ends.tolist()])]
    return with_shape(np.fromiter(texts, dtype=object, count=len(texts)), shape)


def with_shape(values: npt.NDArray[Any], shape: Sequence[Any]) -> npt.NDArray[Any]:
    """Flat values in a shape that a file names; ValueError unless it has their number."""
    if not all(type(length) is int and length >= 0 for length in shape) or math.prod(shape) != len(values):
        raise ValueError(f"an array of shape {shape} does not have {len(values)} values.")
    return values.reshape(shape)


# --- arrays as tensors


def as_arrays(state: Any) -> Any:
    """Copy of a nested state with arrays in place of tensors, which any version of torch can read."""
    import torch

    return _map(state, torch.Tensor, lambda tensor: tensor.detach().cpu().numpy().copy())


def as_tensors(state: Any) -> Any:
    """Copy of a nested state with tensors in place of arrays."""
    import torch

    return _map(state, np.ndarray, torch.tensor)


def _map(state: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    if isinstance(state, dict):
        return {name: _map(value, kind, function) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return (list if isinstance(state, list) else tuple)(_map(value, kind, function) for value in state)
    return function(state) if isinstance(state, kind) else state
