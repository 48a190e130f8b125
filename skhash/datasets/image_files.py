"""The torch Dataset of pictures, each of which is read when it is indexed."""

import copy
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from skhash._libraries import library
from skhash.affinity.targets import missing_targets
from skhash.exceptions import InvalidFileError

#: how images are turned upright, by their EXIF orientation
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_N_NAMED = 5  # files in a message
#: modes of Pillow, by the number of channels
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class Names(list[str]):
    """List of names. An array of indices, or a mask, picks an array of names of the shape of the indices."""

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, list | np.ndarray) or np.ndim(key) == 0:
            return super().__getitem__(key)
        indices = as_indices(key, len(self))
        return np.array([super(Names, self).__getitem__(i) for i in indices.flat], dtype=str).reshape(indices.shape)


class TooLargeError(InvalidFileError):
    """A picture has more pixels than Pillow reads, and is not damaged."""


class ImageFiles(Dataset[npt.NDArray[np.uint8]]):
    """Dataset of the images of a folder as uint8 arrays of shape (channels, size, size), each read when it is indexed.

    Images are upright by their EXIF orientation, and cropped to a square. With 4 channels the last one is opacity; with
    fewer, transparent pixels are white. A slice, an array of indices or a mask picks some of the images, unread, as
    scikit-learn does to split samples.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        names: Sequence[str],
        size: int,
        targets: npt.NDArray[Any] | None = None,
        channels: int = 3,
    ) -> None:
        library("PIL.Image", "pillow", "images of a folder")  # raises ImportError with the remedy
        self.folder, self.names, self.size, self.targets = os.fspath(folder), Names(names), size, targets
        self.channels = channels
        self.skipped: list[str] = []
        self.label_names: list[str] | None = None  # of the columns of a 0/1 matrix of labels
        self.are_checked = False  # whether all files can be read

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Number of images, and the shape of each."""
        return len(self), self.channels, self.size, self.size

    @property
    def paths(self) -> list[str]:
        """Paths of the images."""
        return [os.path.join(self.folder, name) for name in self.names]

    def complete_targets(self) -> Any:
        """Targets of all images, for what learns or scores from them; ValueError if one is missing."""
        if self.targets is not None and (missing := np.flatnonzero(missing_targets(self.targets))).size:
            raise ValueError(
                f"All pictures must have labels. Got none for {len(missing):,} of {len(self):,}, the first of which is "
                f"{self.names[missing[0]]}. Add the labels, or leave these pictures out."
            )
        return self.targets

    def part(self, indices: "slice | npt.ArrayLike") -> "ImageFiles":
        """Some of the images."""
        chosen = np.arange(len(self))[indices] if isinstance(indices, slice) else as_indices(indices, len(self))
        part = copy.copy(self)
        part.names, part.skipped = Names(self.names[chosen].tolist()), []
        part.targets = None if self.targets is None else self.targets[chosen]
        return part

    def resized(self, size: int) -> "ImageFiles":
        """The images at another size."""
        resized = copy.copy(self)
        resized.size = size
        return resized

    def file_keys(self) -> list[bytes]:
        """Keys of 32 bytes, one per image: they change if the file, its place, or size or channels of images change."""
        keys = []
        for path in self.paths:
            state = os.stat(path)
            text = f"{os.path.realpath(path)}\0{state.st_size}\0{state.st_mtime_ns}\0{self.size}\0{self.channels}"
            keys.append(hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest())
        return keys

    def content_keys(self) -> npt.NDArray[np.uint64]:
        """Numbers that identify the content of each file, wherever it lies: the first 64 bits of its SHA-256."""
        keys = np.empty(len(self), np.uint64)
        for i, path in enumerate(self.paths):
            with open(path, "rb") as file:
                keys[i] = int.from_bytes(hashlib.file_digest(file, "sha256").digest()[:8], "little")
        return keys

    def failures(self, indices: Iterable[int] | None = None) -> dict[int, Exception]:
        """Errors of the images that cannot be read, by their indices."""
        found: dict[int, Exception] = {}
        for i in range(len(self)) if indices is None else indices:
            try:
                self[i]
            except (InvalidFileError, OSError) as error:
                found[i] = error.with_traceback(None)  # which holds an image
        return found

    def check_files(self, indices: Iterable[int] | None = None) -> None:
        """Raise InvalidFileError with the number and the first paths of images that cannot be read, before any work."""
        if self.are_checked:
            return
        failures = self.failures(indices)
        self.are_checked = indices is None and not failures
        for first, error in failures.items():
            if not isinstance(error, InvalidFileError):
                raise error
            paths = self.paths
            reason = (
                f"{error.reason} In all {len(failures):,} of {len(self):,} pictures cannot be read: "
                f"{some_of([paths[i] for i in failures])}. Leave them out: load_images(..., broken='skip')."
            )
            raise type(error)(paths[first], reason) from error

    def __getitem__(self, index: Any) -> Any:
        """Image as uint8 array of shape (channels, size, size), or some of the images."""
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:  # of scikit-learn
            index = index[0]
        if isinstance(index, slice) or np.ndim(index):
            return self.part(index)
        return self._read(Path(self.folder, self.names[index]))

    def _read(self, path: Path) -> npt.NDArray[np.uint8]:
        from PIL import Image

        try:
            with Image.open(path) as image:
                image.draft(None, (2 * self.size, 2 * self.size))  # a large JPEG is decoded at a fraction of its size
                return _cropped(_upright(image, self.channels), self.size)
        except (FileNotFoundError, PermissionError, MemoryError, InvalidFileError):
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            reason = (
                f"is too large: {' '.join(str(error).split()).removesuffix('.')}. Save it with fewer pixels, or raise "
                "PIL.Image.MAX_IMAGE_PIXELS in Python if you trust it."
            )
            raise TooLargeError(path, reason) from error
        except Exception as error:  # each format raises its own errors for a damaged file
            reason = f"must be an image: {' '.join(str(error).split()).removesuffix('.')}. Get the file again."
            raise InvalidFileError(path, reason) from error


def some_of(names: Sequence[str]) -> str:
    """The first of some names."""
    return ", ".join(names[:_N_NAMED]) + ", ..." * (len(names) > _N_NAMED)


def as_indices(key: Any, n: int) -> npt.NDArray[np.int64]:
    """Indices of some of n items, from indices or a mask."""
    indices = np.asarray(key)
    if indices.dtype == bool:
        if indices.shape != (n,):
            raise IndexError(f"A mask must have shape ({n},). Got {indices.shape} instead.")
        return np.flatnonzero(indices)
    return indices.astype(np.int64) if indices.size == 0 else indices


def _upright(image: Any, channels: int) -> Any:
    """Image as a viewer shows it: upright, with 8 bits per channel, gray, RGB or RGBA."""
    from PIL import Image

    image.load()
    # ImageOps.exif_transpose would also write the other EXIF entries, and fails if one is damaged
    turn = _TURNS.get(image.getexif().get(0x0112))
    if channels == 4 and image.has_transparency_data and not _is_deep(image):
        converted = image.convert("RGBA")
    else:
        converted = _as_rgb(image).convert(_MODES[channels])
    return converted if turn is None else converted.transpose(Image.Transpose[turn])


def _is_deep(image: Any) -> bool:
    """Whether a gray image has 16 bits per pixel."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))


def _as_rgb(image: Any) -> Any:
    """RGB image with 8 bits per channel, white where it is transparent."""
    from PIL import Image

    if _is_deep(image):
        values = np.asarray(image)
        values = np.where(values == image.info.get("transparency", -1), 65535, values)
        rgb = Image.fromarray(np.rint(values / 257).astype(np.uint8)).convert("RGB")
    elif image.mode[0] in "IF":
        reason = f"must have at most 16 bits per channel. Got Pillow's mode {image.mode}. Save it with 8 bits."
        raise InvalidFileError(image.filename, reason)
    elif image.has_transparency_data:
        rgba = image.convert("RGBA")
        rgb = Image.new("RGB", image.size, "white")
        rgb.paste(rgba, mask=rgba)
    else:
        rgb = image.convert("RGB")
    return rgb


def _cropped(image: Any, size: int) -> npt.NDArray[np.uint8]:
    shorter = min(image.size)
    left, top = (image.width - shorter) / 2, (image.height - shorter) / 2
    box = (left, top, left + shorter, top + shorter)
    pixels = np.asarray(image.resize((size, size), box=box))
    return np.ascontiguousarray(np.atleast_3d(pixels).transpose(2, 0, 1))
