"""Read the lists of images and labels in the folders of NUS-WIDE, MS-COCO and ImageNet100."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.exceptions import InvalidFileError

Labels = npt.NDArray[Any]
_ENDINGS = (".jpg", ".jpeg", ".png")


def missing_file(folder: str | os.PathLike[str], name: str) -> FileNotFoundError:
    """Error that says what a folder lacks."""
    return FileNotFoundError(
        f"`folder` must hold {name}. There is none in {os.fspath(folder)}. The documentation shows the layout."
    )


def visible_in(folder: str | os.PathLike[str], name: str) -> list[Path]:
    """Paths in a folder of `folder`, without names that begin with a dot, which Jupyter and macOS add."""
    path = Path(folder, name)
    if not path.is_dir():
        raise missing_file(folder, f"the folder {name}")
    return [entry for entry in path.iterdir() if not entry.name.startswith(".")]


def _file(folder: str | os.PathLike[str], name: str) -> Path:
    path = Path(folder, name)
    if not path.is_file():
        raise missing_file(folder, name)
    return path


def images_in(folder: str | os.PathLike[str], name: str) -> list[str]:
    """Sorted paths of the images in a folder, relative to `folder`."""
    names = sorted(f"{name}/{path.name}" for path in visible_in(folder, name) if path.suffix.lower() in _ENDINGS)
    if not names:
        raise missing_file(folder, f"images (.jpg, .jpeg, .png) in {name}")
    return names


def read_lines(folder: str | os.PathLike[str], name: str) -> list[str]:
    """Lines of a text file that are not empty."""
    path = _file(folder, name)
    lines = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        raise InvalidFileError(path, "must have a name per line. Got an empty file. Get it again.")
    return lines


def read_bits(folder: str | os.PathLike[str], name: str, n: int) -> npt.NDArray[np.uint8]:
    """Zeros and ones of a file of labels, of shape (n,)."""
    path = _file(folder, name)
    characters = np.frombuffer(b"".join(path.read_bytes().split()), dtype=np.uint8)
    if len(characters) != n or not np.isin(characters, (48, 49)).all():
        raise InvalidFileError(
            path, f"must have 0 or 1 for each of the {n:,} images. Got {len(characters):,} values. Get the file again."
        )
    return characters - np.uint8(48)


def with_label(names: list[str], y: Labels) -> tuple[list[str], Labels]:
    """Names and labels of the images that have a label."""
    has_label: npt.NDArray[np.bool_] = y.max(axis=1) > 0
    return [name for name, has in zip(names, has_label, strict=True) if has], y[has_label]


def read_coco(folder: str | os.PathLike[str], part: str) -> tuple[list[str], Labels, list[tuple[int, str]]]:
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
    """Entry of a file of annotations without the outline of the object, which is most of the file."""
    entry.pop("segmentation", None)
    return entry
