"""Pictures of a folder, a table or a list, read when they are needed."""

import csv
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skhash._validation import is_count
from skhash.exceptions import InvalidFileError

if TYPE_CHECKING:
    from skhash.datasets._image_files import ImageFiles

#: endings of the names of pictures, which Pillow reads
ENDINGS = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_N_NAMED = 5  # broken files in a warning


def load_images(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    labels: Any = None,
    size: int = 224,
    channels: Literal[1, 3, 4] = 3,
    broken: Literal["raise", "skip"] = "raise",
) -> "ImageFiles":
    """Pictures as a torch Dataset, each of which is read when it is indexed.

    Parameters
    ----------
    source : path-like or list of path-like
        A folder, a CSV file with the columns ``path`` and, if there are labels, ``label``, a picture,
        or a list of pictures. The pictures of a folder are those in all folders inside it, in the
        order of their paths; names that begin with a dot are left out. Paths in a CSV file begin
        at its folder.
    labels : array-like of shape (n_images, ...), default=None
        Labels of the pictures. None takes those of the CSV file, or the names of the folders in
        the folder, if all pictures are in such folders.
    size : int, default=224
        Height and width of an image, in pixels. The shorter side of a picture is resized to this,
        and the middle of the longer side is kept.
    channels : 1, 3 or 4, default=3
        Channels of an image: gray, RGB, or RGBA, whose last one is opacity.
    broken : "raise" or "skip", default="raise"
        What to do with files that cannot be read. "raise" raises an error when such a file is
        read. "skip" reads all files now, and leaves these out with a warning.

    Returns
    -------
    ImageFiles
        A torch Dataset of uint8 arrays of shape (channels, size, size), upright, and white where a picture
        is transparent, unless there are 4 channels. ``paths`` are the paths of the pictures, ``names`` their
        paths in the folder, ``targets`` their labels (None without labels), ``skipped`` the paths of broken
        files. An array of indices picks some of the images, and so of ``names``.

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder.
    ValueError
        If there is no picture, a parameter is out of range, or a CSV file has no column ``path``.
    InvalidFileError
        If a picture is damaged, when it is read.
    ImportError
        If Pillow is not installed.

    See Also
    --------
    skhash.features.PretrainedFeatures : Features of images, from a pretrained network.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from skhash.datasets import load_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cats/1", "cats/2", "dogs/3"):
    ...         path = Path(folder, f"{name}.png")
    ...         path.parent.mkdir(exist_ok=True)
    ...         Image.new("RGB", (40, 30)).save(path)
    ...     images = load_images(folder, size=32)
    ...     images[0].shape, images.names, images.targets.tolist()
    ((3, 32, 32), ['cats/1.png', 'cats/2.png', 'dogs/3.png'], ['cats', 'cats', 'dogs'])
    """
    if not is_count(size):
        raise ValueError(f"`size` must be an int >= 1, the pixels of a side. Got {size!r} instead.")
    if channels not in (1, 3, 4):
        raise ValueError(f"`channels` must be 1 (gray), 3 (RGB) or 4 (RGBA). Got {channels!r} instead.")
    if broken not in ("raise", "skip"):
        raise ValueError(f"`broken` must be 'raise' or 'skip'. Got {broken!r} instead.")
    from skhash.datasets._image_files import ImageFiles  # imports torch

    folder, names, targets = _find(source)
    if labels is not None:
        if len(labels) != len(names):
            raise ValueError(
                f"`labels` must have one label for each of the {len(names):,} pictures. Got {len(labels)}."
            )
        targets = np.asarray(labels)
    images = ImageFiles(folder, names, size, targets, channels)
    return _without_broken(images) if broken == "skip" else images


def is_picture(path: str | os.PathLike[str]) -> bool:
    """Whether the name of a file ends as that of a picture."""
    return Path(path).suffix.lower() in ENDINGS


def _find(source: Any) -> tuple[str, list[str], Any]:
    """Folder of the pictures, their names in it, and their labels or None."""
    if not isinstance(source, str | os.PathLike):
        names = [os.fspath(path) for path in source]
        folder, targets = "", None
    elif os.path.isdir(source):
        folder, names, targets = os.fspath(source), *_in_folder(os.fspath(source))
    elif not os.path.exists(source):
        raise FileNotFoundError(f"`source` must be a folder, a CSV file or a picture. There is no {os.fspath(source)}.")
    elif Path(source).suffix.lower() == ".csv":
        folder, names, targets = os.path.dirname(source), *_in_table(os.fspath(source))
    else:
        folder, names, targets = "", [os.fspath(source)], None
    if not names:
        endings = ", ".join(sorted(ENDINGS))
        raise ValueError(f"`source` must have pictures, files that end with {endings}. Got none in {source!r}.")
    return folder, names, targets


def _in_folder(folder: str) -> tuple[list[str], Any]:
    """Names of the pictures in a folder, and the names of the folders in it that they are in."""
    names = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        names += [
            os.path.relpath(os.path.join(place, name), folder)
            for name in files
            if is_picture(name) and not name.startswith(".")
        ]
    names.sort()
    has_labels = all(os.path.dirname(name) for name in names)
    return names, np.array([name.split(os.sep)[0] for name in names]) if has_labels else None


def _in_table(path: str) -> tuple[list[str], Any]:
    """Paths and labels of a CSV file."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        columns = rows.fieldnames or []
        if "path" not in columns:
            raise InvalidFileError(path, f"must have a column named path. Got {', '.join(columns) or 'no column'}.")
        lines = list(rows)
    names = [line["path"] for line in lines]
    return names, np.array([line["label"] for line in lines]) if "label" in columns else None


def _without_broken(images: "ImageFiles") -> "ImageFiles":
    """Images without those that cannot be read, after a warning that names them."""
    from skhash.datasets._image_files import TooLargeError

    failures = images.failures()
    if not failures:
        return images
    paths = images.paths
    skipped = [paths[i] for i in failures]
    if len(failures) == len(images):
        raise InvalidFileError(skipped[0], f"and all other {len(images):,} files cannot be read as pictures.")
    large = [paths[i] for i, error in failures.items() if isinstance(error, TooLargeError)]
    broken = [path for path in skipped if path not in set(large)]
    for kind, some in (("broken pictures", broken), ("pictures that are too large", large)):
        if some:
            remedy = " Raise PIL.Image.MAX_IMAGE_PIXELS to read them." if some is large else ""
            text = f"{len(some):,} {kind} are left out: {named(some)}{'.' * bool(remedy)}{remedy}"
            warnings.warn(text, UserWarning, stacklevel=3)
    rest = images.part(np.setdiff1d(np.arange(len(images)), list(failures)))
    rest.skipped = skipped
    return rest


def named(names: Sequence[str]) -> str:
    """The first of some names."""
    return ", ".join(names[:_N_NAMED]) + ", ..." * (len(names) > _N_NAMED)
