"""Images of a folder as a torch Dataset that reads each file when it is indexed."""

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
    """Images of a folder, all of one size; only those that are indexed are in memory.

    The shorter side becomes `size` pixels, and the middle of the longer side is kept. Images are upright by their EXIF
    orientation, and white where they are transparent. 16 bits become 8. Of an animation the first image is read.

    Parameters
    ----------
    folder : path-like
        The folder.
    names : sequence of str
        Path of each image inside of the folder.
    size : int
        Height and width of the images, in pixels.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> from skhash.datasets._image_files import ImageFiles
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (60, 40)).save(f"{folder}/one.png")
    ...     ImageFiles(folder, ["one.png"], 32)[0].shape
    (3, 32, 32)
    """

    def __init__(self, folder: str | os.PathLike[str], names: Sequence[str], size: int) -> None:
        check_pillow()
        self.folder, self.names, self.size = os.fspath(folder), list(names), size

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> npt.NDArray[np.uint8]:
        """Image as uint8 array of shape (3, size, size)."""
        from PIL import Image

        path = Path(self.folder, self.names[index])
        try:
            with Image.open(path) as image:
                return _cropped(_as_rgb(image), self.size)
        except (FileNotFoundError, PermissionError, MemoryError, InvalidFileError):
            raise
        except Exception as error:  # each format has its own for a damaged file
            reason = f"must be an image: {' '.join(str(error).split()).removesuffix('.')}. Get the file again."
            raise InvalidFileError(path, reason) from error


def check_pillow() -> None:
    """Raise ImportError with the remedy if Pillow is not installed."""
    library("PIL.Image", "pillow", "images of a folder")


def _as_rgb(image: Any) -> Any:
    """An opened image as a viewer shows it: upright, with 8 bits per channel, and white where it is transparent."""
    from PIL import Image

    image.load()
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):  # which have 16 bits
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
    # not ImageOps.exif_transpose, which fails to write other entries of EXIF that are damaged
    turn = _TURNS.get(image.getexif().get(0x0112))
    return rgb if turn is None else rgb.transpose(Image.Transpose[turn])


def _cropped(image: Any, size: int) -> npt.NDArray[np.uint8]:
    shorter = min(image.size)
    left, top = (image.width - shorter) / 2, (image.height - shorter) / 2
    box = (left, top, left + shorter, top + shorter)
    pixels = np.asarray(image.resize((size, size), box=box))
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
