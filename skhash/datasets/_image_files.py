"""Images of a folder as a torch Dataset that reads each file when it is indexed."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from skhash._libraries import library
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


class ImageFiles(Dataset[npt.NDArray[np.uint8]]):
    """Dataset of the images of a folder as uint8 arrays of shape (3, size, size), each read when it is indexed.

    Images are upright by their EXIF orientation, white where they are transparent, and cropped to a square.
    """

    def __init__(
        self, folder: str | os.PathLike[str], names: Sequence[str], size: int, targets: npt.NDArray[Any] | None = None
    ) -> None:
        library("PIL.Image", "pillow", "images of a folder")  # raises ImportError with the remedy
        self.folder, self.names, self.size, self.targets = os.fspath(folder), list(names), size, targets
        self.skipped: list[str] = []

    def __len__(self) -> int:
        return len(self.names)

    @property
    def paths(self) -> list[str]:
        """Paths of the images."""
        return [os.path.join(self.folder, name) for name in self.names]

    def part(self, indices: "slice | Sequence[int]") -> "ImageFiles":
        """Some of the images."""
        chosen = range(len(self))[indices] if isinstance(indices, slice) else indices
        targets = None if self.targets is None else self.targets[list(chosen)]
        return ImageFiles(self.folder, [self.names[i] for i in chosen], self.size, targets)

    def resized(self, size: int) -> "ImageFiles":
        """The images at another size."""
        return ImageFiles(self.folder, self.names, size, self.targets)

    def file_keys(self) -> list[bytes]:
        """Keys of 32 bytes, one per image: they change if the file, its place or the size of images changes."""
        keys = []
        for path in self.paths:
            state = os.stat(path)
            text = f"{os.path.realpath(path)}\0{state.st_size}\0{state.st_mtime_ns}\0{self.size}"
            keys.append(hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest())
        return keys

    def __getitem__(self, index: int) -> npt.NDArray[np.uint8]:
        """Image as uint8 array of shape (3, size, size)."""
        from PIL import Image

        path = Path(self.folder, self.names[index])
        try:
            with Image.open(path) as image:
                image.draft(None, (2 * self.size, 2 * self.size))  # a large JPEG is decoded at a fraction of its size
                return _cropped(_as_rgb(image), self.size)
        except (FileNotFoundError, PermissionError, MemoryError, InvalidFileError):
            raise
        except Exception as error:  # each format raises its own errors for a damaged file
            reason = f"must be an image: {' '.join(str(error).split()).removesuffix('.')}. Get the file again."
            raise InvalidFileError(path, reason) from error


def _as_rgb(image: Any) -> Any:
    """RGB image as a viewer shows it: upright, with 8 bits per channel, and white where it is transparent."""
    from PIL import Image

    image.load()
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):  # all of 16 bits
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
    # ImageOps.exif_transpose would also write the other EXIF entries, and fails if one is damaged
    turn = _TURNS.get(image.getexif().get(0x0112))
    return rgb if turn is None else rgb.transpose(Image.Transpose[turn])


def _cropped(image: Any, size: int) -> npt.NDArray[np.uint8]:
    shorter = min(image.size)
    left, top = (image.width - shorter) / 2, (image.height - shorter) / 2
    box = (left, top, left + shorter, top + shorter)
    pixels = np.asarray(image.resize((size, size), box=box))
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
