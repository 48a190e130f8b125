"""Read NUS-WIDE, MS-COCO and ImageNet100 from folders of images, for users who have the files."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash._libraries import import_torch
from skhash._validation import as_count, as_count_or_none
from skhash.datasets.protocols import Protocol, check_protocol
from skhash.datasets.splitting import as_bunch, draw
from skhash.exceptions import InvalidFileError

if TYPE_CHECKING:
    from sklearn.utils import Bunch

Labels = npt.NDArray[Any]
_ENDINGS = (".jpg", ".jpeg", ".png")


def load_nus_wide(
    folder: str | os.PathLike[str],
    *,
    protocol: str | Protocol = "nus-wide",
    random_state: int | np.random.RandomState | None = 0,
    n_concepts: int | None = 21,
    size: int = 224,
    checksum: str | None = None,
) -> "Bunch":
    r"""Read the images of NUS-WIDE that have one of the most frequent concepts, split by a protocol.

    The folder has the files of the authors (Chua et al., CIVR 2009)::

        ConceptsList/Concepts81.txt               one concept per line
        ImageList/Imagelist.txt                   one image per line: actor\0001_2124494179.jpg
        Groundtruth/AllLabels/Labels_airport.txt  0 or 1 per image, a file for each concept
        Flickr/actor/0001_2124494179.jpg          the images

    Parameters
    ----------
    folder : path-like
        The folder. Nothing is downloaded.
    protocol : str or Protocol, default="nus-wide"
        As in :func:`load_dataset`. A protocol whose relevance is the distance of samples is refused.
    random_state : int, RandomState instance or None, default=0
        Decides the split.
    n_concepts : int or None, default=21
        Number of concepts, the most frequent ones; images without any of them are left out.
        None takes all concepts.
    size : int, default=224
        Height and width of an image, in pixels. Its shorter side is resized to this, and the
        middle of the longer side is kept.
    checksum : str, default=None
        SHA-256 that the names, sizes and labels of all images must have: ``checksum`` of an
        earlier result. None takes any.

    Returns
    -------
    Bunch
        The result of :func:`split`. X of queries, database and training samples are torch
        Datasets of uint8 arrays of shape (3, size, size), which read an image when it is
        indexed. y is a 0/1 matrix. ``label_names`` are the concepts, and ``checksum`` is the SHA-256.

    Raises
    ------
    FileNotFoundError
        If a list or an image is missing.
    InvalidFileError
        If a list is damaged, or the checksum differs. An image that is damaged raises it when it is read.
    ImportError
        If Pillow is not installed.
    ValueError
        If a parameter is out of range, or the data do not suit the protocol.

    Examples
    --------
    >>> from skhash.datasets import load_nus_wide
    >>> load_nus_wide("NUS-WIDE")
    Traceback (most recent call last):
    ...
    FileNotFoundError: `folder` must hold ImageList/Imagelist.txt. There is none ...
    """
    n_concepts = as_count_or_none(n_concepts, "n_concepts")
    folder, protocol, size = _checked_options(folder, protocol, size)
    lines = _read_lines(folder, "ImageList/Imagelist.txt")
    names = ["Flickr/" + line.replace("\\", "/") for line in lines]
    concepts = _read_lines(folder, "ConceptsList/Concepts81.txt")
    columns = [_read_bits(folder, f"Groundtruth/AllLabels/Labels_{concept}.txt", len(names)) for concept in concepts]
    frequent = np.sort(np.argsort([-int(column.sum()) for column in columns], kind="stable")[:n_concepts])
    y = np.stack([columns[i] for i in frequent], axis=1)
    names, y = _with_label(names, y)
    data = _split_images("nus_wide", folder, names, y, protocol, random_state, size, checksum)
    data.label_names = [concepts[i] for i in frequent]
    return data


def load_ms_coco(
    folder: str | os.PathLike[str],
    *,
    protocol: str | Protocol = "ms-coco",
    random_state: int | np.random.RandomState | None = 0,
    size: int = 224,
    checksum: str | None = None,
) -> "Bunch":
    """Read the images of MS-COCO that have a category, split by a protocol.

    The folder has the files of 2014, as the authors distribute them (Lin et al., ECCV 2014)::

        annotations/instances_train2014.json            images, annotations and categories
        annotations/instances_val2014.json              the same for val2014
        train2014/COCO_train2014_000000000009.jpg       images
        val2014/COCO_val2014_000000000042.jpg           images

    Parameters
    ----------
    folder : path-like
        The folder. Nothing is downloaded.
    protocol : str or Protocol, default="ms-coco"
        As in :func:`load_dataset`, for the images of both parts together. A protocol whose
        relevance is the distance of samples is refused.
    random_state : int, RandomState instance or None, default=0
        Decides the split.
    size : int, default=224
        Height and width of an image, in pixels. Its shorter side is resized to this, and the
        middle of the longer side is kept.
    checksum : str, default=None
        SHA-256 that the names, sizes and labels of all images must have: ``checksum`` of an
        earlier result. None takes any.

    Returns
    -------
    Bunch
        The result of :func:`split`. X of queries, database and training samples are torch
        Datasets of uint8 arrays of shape (3, size, size), which read an image when it is
        indexed. y is a 0/1 matrix. ``label_names`` are the categories in the order of their
        ids, and ``checksum`` is the SHA-256.

    Raises
    ------
    FileNotFoundError
        If a file of annotations or an image is missing.
    InvalidFileError
        If a file of annotations is damaged, if the two have different categories, or if the
        checksum differs. An image that is damaged raises it when it is read.
    ImportError
        If Pillow is not installed.
    ValueError
        If a parameter is out of range, or the data do not suit the protocol.

    Notes
    -----
    Images without any of the 80 categories are left out. HashNet has 122,218 images in this way:
    5,000 queries and a database of 117,218.

    Examples
    --------
    >>> from skhash.datasets import load_ms_coco
    >>> load_ms_coco("MS-COCO")
    Traceback (most recent call last):
    ...
    FileNotFoundError: `folder` must hold annotations/instances_train2014.json. There ...
    """
    folder, protocol, size = _checked_options(folder, protocol, size)
    names, y, categories = _read_coco(folder, "train2014")
    more_names, more_y, others = _read_coco(folder, "val2014")
    if others != categories:
        raise InvalidFileError(
            Path(folder, "annotations/instances_val2014.json"),
            f"must have the {len(categories)} categories of instances_train2014.json. Got {len(others)} that are not "
            "the same. Get both files again.",
        )
    names, y = _with_label(names + more_names, np.concatenate([y, more_y]))
    data = _split_images("ms_coco", folder, names, y, protocol, random_state, size, checksum)
    data.label_names = [name for _, name in categories]
    return data


def load_imagenet100(
    folder: str | os.PathLike[str],
    *,
    protocol: str | Protocol = "imagenet100",
    random_state: int | np.random.RandomState | None = 0,
    classes: Sequence[str] | None = None,
    size: int = 224,
    checksum: str | None = None,
) -> "Bunch":
    """Read ImageNet100, or other folders with one folder of images per class, split by a protocol.

    The folder has the same classes twice, as copies of ImageNet mostly do::

        train/n01440764/n01440764_10026.JPEG         database and training images
        val/n01440764/ILSVRC2012_val_00000293.JPEG   queries

    Parameters
    ----------
    folder : path-like
        The folder. Nothing is downloaded.
    protocol : str or Protocol, default="imagenet100"
        As in :func:`load_dataset`; the images of ``val`` are the test samples. A protocol whose
        relevance is the distance of samples is refused.
    random_state : int, RandomState instance or None, default=0
        Decides the training samples.
    classes : sequence of str, default=None
        Names of the folders of the classes that are read. None reads all.
    size : int, default=224
        Height and width of an image, in pixels. Its shorter side is resized to this, and the
        middle of the longer side is kept.
    checksum : str, default=None
        SHA-256 that the names, sizes and labels of all images must have: ``checksum`` of an
        earlier result. None takes any.

    Returns
    -------
    Bunch
        The result of :func:`split`. X of queries, database and training samples are torch
        Datasets of uint8 arrays of shape (3, size, size), which read an image when it is
        indexed. y has the index of each class, and ``label_names`` are the names of the
        folders. ``checksum`` is the SHA-256.

    Raises
    ------
    FileNotFoundError
        If the folder of a class is missing, or has no image.
    InvalidFileError
        If the checksum differs. An image that is damaged raises it when it is read.
    ImportError
        If Pillow is not installed.
    ValueError
        If a parameter is out of range, or the data do not suit the protocol.

    Notes
    -----
    The papers choose 100 of the 1,000 classes at random: put their folders into the folder, or pass
    their names as `classes`. With 1,300 images per class in ``train`` and 50 in ``val``, there are
    5,000 queries, 130,000 database images and 13,000 training images.

    Examples
    --------
    A miniature of two classes:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from skhash.datasets import load_imagenet100
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("train/a/1", "train/a/2", "train/b/3", "val/a/4", "val/b/5"):
    ...         path = Path(folder, f"{name}.png")
    ...         path.parent.mkdir(parents=True, exist_ok=True)
    ...         Image.new("RGB", (40, 30)).save(path)
    ...     data = load_imagenet100(folder, protocol="s2", size=32)
    ...     data.X_query[0].shape, data.y_query, len(data.X_train)
    ((3, 32, 32), array([0, 1]), 3)
    """
    folder, protocol, size = _checked_options(folder, protocol, size)
    if classes is None:
        entries = _visible_in(folder, "train") + _visible_in(folder, "val")
        classes = sorted({entry.name for entry in entries if entry.is_dir()})
        if not classes:
            raise _missing_file(folder, "a folder for each class in train and val")
    elif isinstance(classes, str) or not 0 < len(classes) == len(set(classes)):
        raise ValueError(f"`classes` must be None or a list of names that differ. Got {classes!r} instead.")
    names: list[str] = []
    targets: list[int] = []
    for part in ("train", "val"):
        for index, label in enumerate(classes):
            images = _images_in(folder, f"{part}/{label}")
            names += images
            targets += [index] * len(images)
    test = np.array([name.startswith("val/") for name in names], dtype=bool)
    y = np.array(targets, dtype=np.int64)
    data = _split_images("imagenet100", folder, names, y, protocol, random_state, size, checksum, test)
    data.label_names = list(classes)
    return data


def _checked_options(folder: str | os.PathLike[str], protocol: str | Protocol, size: int) -> tuple[str, Protocol, int]:
    size = as_count(size, "size", "an int >= 1, the pixels of a side")
    protocol = check_protocol(protocol)
    if not protocol.requires_y or protocol.unit_length or protocol.normalize:
        raise ValueError(
            "`protocol` must be one with labels, which leaves the samples as they are, for images of a folder. "
            f"Got {protocol.name!r} instead."
        )
    return os.path.expanduser(folder), protocol, size


def _split_images(
    title: str,
    folder: str | os.PathLike[str],
    names: list[str],
    y: Labels,
    protocol: Protocol,
    random_state: int | np.random.RandomState | None,
    size: int,
    checksum: str | None,
    test: npt.NDArray[np.bool_] | None = None,
) -> "Bunch":
    import_torch("images")
    from skhash.datasets.image_files import ImageFiles

    digest = _checksum(folder, names, y)
    if checksum not in (None, digest):
        raise InvalidFileError(
            folder,
            f"must hold images and labels with `checksum` {checksum}. Got {digest} instead. Get the files again, or "
            "pass checksum=None to use these.",
        )
    drawn = draw(len(names), y, protocol, random_state, test)
    query, database, train = (ImageFiles(folder, [names[i] for i in part], size) for part in drawn[:3])
    data = as_bunch((query, database, train), y, drawn, protocol, title)
    data.checksum = digest
    return data


def _checksum(folder: str | os.PathLike[str], names: list[str], y: Labels) -> str:
    """SHA-256 of the names, sizes and labels of images; FileNotFoundError counts missing images."""
    digest, missing = hashlib.sha256(), []
    for name, target in zip(names, y.reshape(len(y), -1).tolist(), strict=True):
        try:
            entry = f"{name}\t{Path(folder, name).stat().st_size}\t{target}\n"
            digest.update(entry.encode("utf-8", "surrogateescape"))  # a name may have another encoding
        except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: no file can have this name
            missing.append(name)
    if missing:
        raise FileNotFoundError(
            f"`folder` must hold all {len(names):,} images. {os.fspath(folder)} has no {missing[0]} and lacks "
            f"{len(missing):,} in all. Unpack the images again."
        )
    return digest.hexdigest()


def _missing_file(folder: str | os.PathLike[str], name: str) -> FileNotFoundError:
    """Error that says what a folder lacks."""
    return FileNotFoundError(
        f"`folder` must hold {name}. There is none in {os.fspath(folder)}. The documentation shows the layout."
    )


def _visible_in(folder: str | os.PathLike[str], name: str) -> list[Path]:
    """Paths in a folder of `folder`, without names that begin with a dot, which Jupyter and macOS add."""
    path = Path(folder, name)
    if not path.is_dir():
        raise _missing_file(folder, f"the folder {name}")
    return [entry for entry in path.iterdir() if not entry.name.startswith(".")]


def _file(folder: str | os.PathLike[str], name: str) -> Path:
    path = Path(folder, name)
    if not path.is_file():
        raise _missing_file(folder, name)
    return path


def _images_in(folder: str | os.PathLike[str], name: str) -> list[str]:
    """Sorted paths of the images in a folder, relative to `folder`."""
    names = sorted(f"{name}/{path.name}" for path in _visible_in(folder, name) if path.suffix.lower() in _ENDINGS)
    if not names:
        raise _missing_file(folder, f"images (.jpg, .jpeg, .png) in {name}")
    return names


def _read_lines(folder: str | os.PathLike[str], name: str) -> list[str]:
    """Lines of a text file that are not empty."""
    path = _file(folder, name)
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise InvalidFileError(path, "must have a name per line. Got an empty file. Get it again.")
    return lines


def _read_bits(folder: str | os.PathLike[str], name: str, n: int) -> npt.NDArray[np.uint8]:
    """Zeros and ones of a file of labels, of shape (n,)."""
    path = _file(folder, name)
    characters = np.frombuffer(b"".join(path.read_bytes().split()), dtype=np.uint8)
    if len(characters) != n or not np.isin(characters, (48, 49)).all():
        raise InvalidFileError(
            path, f"must have 0 or 1 for each of the {n:,} images. Got {len(characters):,} values. Get the file again."
        )
    return characters - np.uint8(48)


def _with_label(names: list[str], y: Labels) -> tuple[list[str], Labels]:
    """Names and labels of the images that have a label."""
    has_label: npt.NDArray[np.bool_] = y.max(axis=1) > 0
    return [name for name, has in zip(names, has_label, strict=True) if has], y[has_label]


def _read_coco(folder: str | os.PathLike[str], part: str) -> tuple[list[str], Labels, list[tuple[int, str]]]:
    """Paths of the images of a part of MS-COCO, 0/1 labels of shape (n, n_categories), and ids and names of these."""
    path = _file(folder, f"annotations/instances_{part}.json")
    try:
        content = json.loads(path.read_bytes(), object_hook=_without_outline)
        categories = sorted((category["id"], category["name"]) for category in content["categories"])
        column = {number: i for i, (number, _) in enumerate(categories)}
        row = {image["id"]: i for i, image in enumerate(content["images"])}
        names = [f"{part}/" + image["file_name"] for image in content["images"]]
        labels = [(row[label["image_id"]], column[label["category_id"]]) for label in content["annotations"]]
        if not labels or len(row) < len(names) or len(column) < len(categories):
            raise ValueError("no annotation, or an id twice")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidFileError(
            path,
            "must be JSON with images, annotations and categories whose ids fit each other. "
            f"Got {type(error).__name__}: {error}. Get the file again.",
        ) from error
    y = np.zeros((len(names), len(categories)), np.uint8)
    y[tuple(np.transpose(labels))] = 1
    return names, y, categories


def _without_outline(entry: dict[str, Any]) -> dict[str, Any]:
    """Entry of a file of annotations without the outline of the object: a third of the memory to read the file."""
    entry.pop("segmentation", None)
    return entry
