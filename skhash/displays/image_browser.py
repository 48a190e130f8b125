"""A page to look at: choose a picture, and see what its code finds."""

from __future__ import annotations

import base64
import html
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from skhash._files import check_writable, write_atomically
from skhash.codes import Codes

if TYPE_CHECKING:
    from skhash.datasets.image_files import ImageFiles

_SIZE, _QUALITY = 64, 75  # pixels of a thumbnail, and quality of its JPEG


def write_image_browser(
    path: str | os.PathLike[str],
    images: ImageFiles,
    codes: Mapping[str, Any],
    *,
    labels: Any = None,
    trained: Mapping[str, Any] | None = None,
    link: bool = False,
    title: str = "Pictures by Hamming distance",
    watch: Callable[[int], object] | None = None,
) -> None:
    """Write a page of HTML that searches pictures by their codes.

    The page is one file, which needs nothing else: it holds the packed codes and small pictures, and
    its script ranks them by the number of bits that differ. Right and wrong results are marked if
    there are labels: two pictures are right for each other if they share one. Pictures that the
    hasher has learned from are marked, too, and the number of right results leaves them out, since it
    knows their labels. A tile with the distance stands in front of the pictures that have it, since
    their order says nothing.

    Parameters
    ----------
    path : path-like
        The file to write, usually ``*.html``. An existing file is replaced.
    images : ImageFiles
        The pictures, from :func:`skhash.datasets.load_images`.
    codes : dict of str to Codes, or array-like of shape (n_images, nbits)
        For each name in the menu of the page, such as "TALR, 32 bits", codes or bits of the pictures.
    labels : array-like of shape (n_images,) or (n_images, n_labels), default=None
        Classes, or a 0/1 matrix of labels. An empty class, None, NaN and a row of zeros are unknown,
        and are not marked. None takes the labels of the pictures, if they have any.
    trained : dict of str to array-like of shape (n_images,), bool, default=None
        For names of `codes`, which of the pictures the hasher has learned from. Names that are
        missing have no such marks.
    link : bool, default=False
        Whether the page refers to the files of the pictures, which must stay at their places. Otherwise it
        holds thumbnails of at most 64 pixels.
    title : str, default="Pictures by Hamming distance"
        Title of the page.
    watch : callable, default=None
        Function that is called with the number of thumbnails that are done, after each of them.

    Raises
    ------
    ValueError
        If there are no codes, or not one code, label and mark for each picture.
    InvalidFileError
        If a picture is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from PIL import Image
    >>> from skhash.datasets import load_images
    >>> from skhash.displays import write_image_browser
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(4):
    ...         Image.new("RGB", (40, 30), (60 * i, 0, 0)).save(Path(folder, f"{i}.png"))
    ...     codes = np.tri(4, 4, -1, dtype=int)
    ...     images = load_images(folder)
    ...     write_image_browser(Path(folder, "page.html"), images, {"4 bits": codes})
    ...     Path(folder, "page.html").stat().st_size < 25_000
    True
    """
    path = os.path.expanduser(path)
    check_writable(path)
    codes = {name: Codes.of(value, name=f"codes[{name!r}]") for name, value in codes.items()}
    labels, label_names = (images.targets, images.label_names) if labels is None else (labels, None)
    marks = {name: np.asarray(values) for name, values in (trained or {}).items()}
    _check(images, codes, labels, marks)
    content = {
        "names": [name.replace(os.sep, "/") for name in images.names],
        "labels": None if labels is None else _label_lists(np.asarray(labels), label_names),
        "images": [address_of_file(file, path) for file in images.paths] if link else _thumbnails(images, watch),
        "methods": [
            {
                "name": name,
                "nbits": of_images.nbits,
                "codes": base64.b64encode(of_images.rows.tobytes()).decode(),
                "trained": np.flatnonzero(marks[name]).tolist() if name in marks else None,
            }
            for name, of_images in codes.items()
        ],
    }
    data = json.dumps(content, ensure_ascii=True).replace("<", "\\u003c")  # a name must not end the script
    template = Template(files("skhash.displays").joinpath("image_browser.html").read_text(encoding="utf-8"))
    with write_atomically(path) as file:
        file.write(template.substitute(title=html.escape(title), data=data).encode())


def _check(images: ImageFiles, codes: Mapping[str, Codes], labels: Any, marks: Mapping[str, npt.NDArray[Any]]) -> None:
    if not codes:
        raise ValueError("`codes` must have codes for at least one name. Got none.")
    for name, of_images in codes.items():
        if len(of_images) != len(images):
            raise ValueError(
                f"`codes[{name!r}]` must have a code for each of the {len(images):,} pictures. Got {len(of_images):,}."
            )
    if labels is not None and len(labels) != len(images):
        raise ValueError(f"`labels` must have one label for each of the {len(images):,} pictures. Got {len(labels):,}.")
    if unknown := marks.keys() - codes.keys():
        raise ValueError(f"`trained` must have names of `codes`. Got {min(unknown)!r} instead.")
    for name, values in marks.items():
        if values.shape != (len(images),) or values.dtype != np.bool_:
            raise ValueError(
                f"`trained[{name!r}]` must be bools of shape ({len(images)},), one for each picture. "
                f"Got {values.dtype} of shape {values.shape} instead."
            )


def _label_lists(labels: Any, names: Sequence[str] | None) -> list[list[str]]:
    """Labels of each picture as text; none if they are unknown."""
    if labels.ndim == 1:
        return [[] if label in ("", None) or label != label else [str(label)] for label in labels.tolist()]
    names = list(map(str, range(labels.shape[1]))) if names is None else names
    return [[names[column] for column in np.flatnonzero(np.nan_to_num(row)).tolist()] for row in labels]


def _thumbnails(images: ImageFiles, watch: Callable[[int], object] | None) -> list[str]:
    """Small pictures as addresses that hold them."""
    small, addresses = images.resized(min(_SIZE, images.size)), []
    for i in range(len(small)):
        addresses.append(address_of_pixels(small[i]))
        if watch is not None:
            watch(i + 1)
    return addresses


def address_of_pixels(pixels: npt.NDArray[np.uint8]) -> str:
    """Address that holds a picture itself, from bytes of shape (3, height, width)."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0)).save(stream, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()


def address_of_file(path: str, page: str | os.PathLike[str]) -> str:
    """Address of a file from the folder of a page."""
    relative = os.path.relpath(path, Path(page).resolve().parent).replace(os.sep, "/")
    return quote(os.fsencode(relative))  # a name may have another encoding
