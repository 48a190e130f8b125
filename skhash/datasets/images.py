"""Pictures of a folder, a table or a list, read when they are needed."""

import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skhash._validation import as_count
from skhash.affinity._targets import as_targets
from skhash.datasets._labels import check_label_separator
from skhash.datasets._picture_table import PictureTable, read_picture_table
from skhash.exceptions import InvalidFileError

if TYPE_CHECKING:
    from skhash.datasets._image_files import ImageFiles

#: endings of the names of pictures, which Pillow reads
ENDINGS = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
#: endings of the names of tables
TABLES = frozenset({".csv", ".tsv"})


def load_images(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    labels: Any = None,
    encoding: str | None = None,
    separator: str | None = None,
    label_separator: str | None = "auto",
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
        at its folder. In the names of its columns, case and spaces around them do not count.
    labels : array-like of shape (n_images, ...), str or list of str, default=None
        Labels of the pictures. With a CSV file, a str is the column of the labels, and a list of str are
        columns of 0 and 1, one for each label; pass the labels themselves as an array. An empty list
        reads no labels. None takes the column ``label`` of the CSV file, or the names of the folders in the
        folder, if all pictures are in such folders. A blank cell is a missing label, and any other text is a
        label as it is written.
    encoding : str, default=None
        Encoding of the CSV file, such as "latin-1". None is UTF-8.
    separator : str, default=None
        Character between the cells of the CSV file. None is a comma, and a tab in a ``.tsv`` file.
    label_separator : str or None, default="auto"
        What stands between several labels in a cell of the CSV file, such as ";". None takes each cell as
        one label. "auto" does so, too, but raises an error if parts of a cell at ";" or "|" occur in
        other rows.
    size : int, default=224
        Height and width of an image, in pixels. The shorter side of a picture is resized to this,
        and the middle of the longer side is kept.
    channels : 1, 3 or 4, default=3
        Channels of an image: gray, RGB, or RGBA, whose last one is opacity.
    broken : "raise" or "skip", default="raise"
        What to do with files that cannot be read. "raise" raises an error, at the latest before a
        hasher or PretrainedFeatures learns or computes anything. "skip" reads all files now, and leaves
        these out with a warning.

    Returns
    -------
    ImageFiles
        A torch Dataset of uint8 arrays of shape (channels, size, size), upright, and white where a picture
        is transparent, unless there are 4 channels. ``paths`` are the paths of the pictures, ``names`` their
        paths in the folder, ``targets`` their labels (None without labels), ``skipped`` the paths of broken
        files. An array of indices picks some of the images, and so of ``names``. Several labels of a picture
        are a row of 0 and 1, for the labels in ``label_names``. A missing label is None in ``targets``, or a
        row of NaN: what learns or scores from labels refuses it.

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or no picture at a path of a list or a CSV file.
    ValueError
        If there is no picture, or a parameter is out of range.
    InvalidFileError
        If a CSV file has no column ``path``, a row with another number of cells, or a path twice. If a
        picture is damaged, when it is read.
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
    size = as_count(size, "size", "an int >= 1, the pixels of a side")
    if channels not in (1, 3, 4):
        raise ValueError(f"`channels` must be 1 (gray), 3 (RGB) or 4 (RGBA). Got {channels!r} instead.")
    if broken not in ("raise", "skip"):
        raise ValueError(f"`broken` must be 'raise' or 'skip'. Got {broken!r} instead.")
    from skhash.datasets._image_files import ImageFiles  # imports torch

    check_label_separator(label_separator)
    options = {"encoding": encoding, "separator": separator, "label_separator": label_separator}
    source = os.path.expanduser(source) if isinstance(source, str | os.PathLike) else source
    if not is_table(source):
        _check_no_table(options | {"labels": labels if isinstance(labels, str) else None})
    columns = labels if is_table(source) and _are_columns(labels) else None
    folder, (names, targets, label_names) = _find(source, columns, options)
    if labels is not None and columns is None:
        targets, label_names = as_targets(labels, "labels"), None
        if targets.shape[0] != len(names):
            raise ValueError(
                f"`labels` must have one label for each of the {len(names):,} pictures. Got {targets.shape[0]}."
            )
    images = ImageFiles(folder, names, size, targets, channels)
    images.label_names = label_names
    return without_broken(images) if broken == "skip" else images


def is_picture(path: str | os.PathLike[str]) -> bool:
    """Whether the name of a file ends as that of a picture."""
    return Path(path).suffix.lower() in ENDINGS


def is_table(source: Any) -> bool:
    """Whether this is a CSV file."""
    is_path = isinstance(source, str | os.PathLike)
    return is_path and Path(source).suffix.lower() in TABLES and not os.path.isdir(source)


def _check_no_table(options: dict[str, Any]) -> None:
    """Raise ValueError for parameters of a table if there is none."""
    for name, value in options.items():
        if value not in (None, "auto"):
            raise ValueError(f"`{name}` must be used with a CSV file. Got {value!r} with another source.")


def _are_columns(labels: Any) -> bool:
    """Whether these are names of columns."""
    return isinstance(labels, str) or (
        isinstance(labels, list | tuple) and all(isinstance(name, str) for name in labels)
    )


def _find(source: Any, columns: Any, options: dict[str, Any]) -> tuple[str, PictureTable]:
    """Folder of the pictures, and their names in it with their labels."""
    if not isinstance(source, str | os.PathLike):
        folder, found = "", PictureTable(_existing([os.path.expanduser(path) for path in source]))
    elif os.path.isdir(source):
        folder, found = os.fspath(source), PictureTable(*_in_folder(os.fspath(source)))
    elif not os.path.exists(source):
        raise FileNotFoundError(f"`source` must be a folder, a CSV file or a picture. There is no {os.fspath(source)}.")
    elif is_table(source):
        folder, found = os.path.dirname(source), read_picture_table(source, labels=columns, **options)
    else:
        folder, found = "", PictureTable([os.fspath(source)])
    if not found.names:
        endings = ", ".join(sorted(ENDINGS))
        raise ValueError(f"`source` must have pictures, files that end with {endings}. Got none in {source!r}.")
    return folder, found


def _existing(paths: list[str]) -> list[str]:
    """Paths of a list, if there are files at all of them."""
    if missing := [path for path in paths if not os.path.isfile(path)]:
        raise FileNotFoundError(
            f"{len(missing):,} of {len(paths):,} pictures of `source` are missing. The first is {missing[0]}."
        )
    return paths


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


def without_broken(images: "ImageFiles", indices: Iterable[int] | None = None) -> "ImageFiles":
    """Images without those that cannot be read, among all or some of them, after a warning that names them."""
    from skhash.datasets._image_files import TooLargeError, some_of

    failures = images.failures(indices)
    if not failures:
        images.are_checked = True
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
            text = f"{len(some):,} {kind} are left out: {some_of(some)}{'.' * bool(remedy)}{remedy}"
            warnings.warn(text, UserWarning, stacklevel=3)
    rest = images.part(np.setdiff1d(np.arange(len(images)), list(failures)))
    rest.skipped, rest.are_checked = skipped, True
    return rest
