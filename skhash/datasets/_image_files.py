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


class ImageFiles(Dataset[npt.NDArray[np.uint8]]):
    """Images of a folder, all of one size; only those that are indexed are in memory.

    The shorter side becomes `size` pixels, and the middle of the longer side is kept.

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
                return _cropped(image, self.size)
        except FileNotFoundError:
            raise
        except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
            reason = f"must be an image: {' '.join(str(error).split()).removesuffix('.')}. Get the file again."
            raise InvalidFileError(path, reason) from error


def check_pillow() -> None:
    """Raise ImportError with the remedy if Pillow is not installed."""
    library("PIL.Image", "pillow", "images of a folder")


def _cropped(image: Any, size: int) -> npt.NDArray[np.uint8]:
    shorter = min(image.size)
    left, top = (image.width - shorter) / 2, (image.height - shorter) / 2
    box = (left, top, left + shorter, top + shorter)
    pixels = np.asarray(image.convert("RGB").resize((size, size), box=box))
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
