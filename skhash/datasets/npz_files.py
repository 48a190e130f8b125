"""Read the arrays of a NumPy file without running code, with errors that name the file and what is wrong."""

import lzma
import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from skhash.exceptions import InvalidFileError

Slices: TypeAlias = Callable[[int], Iterator[npt.NDArray[Any]]]
_N_READ = 2**20  # bytes that are read at a time
_CONTENT = "an array named X, and y if there are labels"
_HOW = "Write it with numpy.savez(path, X=X, y=y)."
#: what zipfile and numpy raise for damaged bytes; RuntimeError is an encrypted member
_DAMAGE = (
    *(ValueError, TypeError, EOFError, OSError, RuntimeError, OverflowError, SyntaxError, KeyError, IndexError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError),
)


def read_npz(
    path: str | os.PathLike[str],
    known: Sequence[str] = ("X", "y", "scale", "test"),
    content: str = _CONTENT,
    how: str = _HOW,
    *,
    unread: Sequence[str] = (),
) -> dict[str, npt.NDArray[np.generic]]:
    """Arrays of an .npz file whose names are `known` and not `unread`; InvalidFileError if the file is damaged.

    The file must have the first known array; others with unknown names are ignored, with a warning.
    """
    try:
        archive = zipfile.ZipFile(path)
    except _DAMAGE as error:
        raise InvalidFileError(path, f"must be an .npz archive of arrays: {_reason(error)}. {how}") from error
    with archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if len(set(names)) < len(names):
            raise InvalidFileError(path, f"must have one array of each name. Got {', '.join(sorted(names))}.")
        arrays = {}
        for name, member in zip(names, archive.infolist(), strict=True):
            with _explained(path, name):
                if member.comment:  # numpy writes none: a damaged length hides the arrays after it
                    raise ValueError("it has a comment")
                if name in known and name not in unread:
                    arrays[name] = _read_member(archive, member)
                else:
                    archive.open(member).close()  # raises if its name is damaged, which hides an array
    if known[0] not in names:
        found = ", ".join(names) or "no array"
        raise InvalidFileError(path, f"must hold {content}. Got {found} instead. {how}")
    if ignored := [name for name in names if name not in known]:
        message = f"{path} has arrays that are ignored: {', '.join(ignored)}. Only {', '.join(known)} are read."
        warnings.warn(message, UserWarning, stacklevel=3)  # the caller of load_dataset
    return arrays


def read_npy(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[np.generic]]:
    """Array of an .npy file as X, mapped; InvalidFileError if the file is damaged or holds Python objects."""
    try:
        return {"X": np.load(path, mmap_mode="r", allow_pickle=False)}  # allocates nothing for a damaged shape
    except _DAMAGE as error:
        how = "Write it with numpy.save(path, X)."
        if "Python objects" in str(error):
            reason = "must hold a plain array. Got Python objects, which only pickle can load: write X.astype(str) if"
            raise InvalidFileError(path, f"{reason} X is text, or numbers, with numpy.save.") from error
        raise InvalidFileError(path, f"must be an .npy file of numbers: {_reason(error)}. {how}") from error


def npz_slices(path: str | os.PathLike[str], name: str) -> tuple[tuple[int, ...], np.dtype[Any], Slices] | None:
    """Shape, dtype and a function that yields slices of an array of an .npz file; None if it is in Fortran order.

    Damage raises InvalidFileError, also while the slices are read.
    """

    def slices(size: int) -> Iterator[npt.NDArray[Any]]:
        with _explained(path, name), zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            _read_header(file, archive.getinfo(f"{name}.npy"))
            for start in range(0, shape[0], size):
                part = np.empty((min(size, shape[0] - start), *shape[1:]), dtype)
                content = part.reshape(-1).view(np.uint8)
                for first in range(0, part.nbytes, _N_READ):
                    piece = content[first : first + _N_READ]
                    piece[:] = np.frombuffer(file.read(len(piece)), np.uint8)  # raises if the file ends early
                yield part

    with _explained(path, name), zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        shape, is_columns, dtype = _read_header(file, archive.getinfo(f"{name}.npy"))
    return None if is_columns else (shape, dtype, slices)


class _PickledError(Exception):
    """Error of an array that holds Python objects."""


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[np.generic]:
    """Array of a member. At its end, which the header must agree with, zipfile compares the checksum."""
    with archive.open(member) as file:
        _read_header(file, member)
    with archive.open(member) as file:
        array: npt.NDArray[np.generic] = npy.read_array(file, allow_pickle=False)
    return array


def _read_header(file: IO[bytes], member: zipfile.ZipInfo) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape of the array of a member, whether it is in Fortran order, and its dtype."""
    version = npy.read_magic(file)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, is_columns, dtype = read_header(file)
    if dtype.hasobject:
        raise _PickledError
    if min(shape, default=0) < 0 or file.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
        raise ValueError(f"it has {member.file_size:,} bytes, which is not the size of an array of shape {shape}")
    return shape, is_columns, dtype


@contextmanager
def _explained(path: str | os.PathLike[str], name: str) -> Iterator[None]:
    """Context manager that replaces an error of damaged bytes by one that names the file and the array."""
    try:
        yield
    except _DAMAGE as error:
        reason = f"cannot be read: its array {name} is damaged or encrypted ({_reason(error)})"
        raise InvalidFileError(path, f"{reason}. Get or write the file again.") from error
    except _PickledError:
        reason = f"must hold plain arrays. Got Python objects in {name}, which only pickle can load"
        raise InvalidFileError(path, f"{reason}: write {name}.astype(str), or numbers, instead.") from None


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".") or type(error).__name__
