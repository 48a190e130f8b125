"""The command ``skhash browse``."""

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Any

from skhash._files import check_writable
from skhash._progress import progress
from skhash.cli._options import split
from skhash.cli._pictures import THUMBNAIL, table_options
from skhash.cli._samples import ItemsOfFile, read_codes
from skhash.codes import Codes
from skhash.datasets import load_images
from skhash.datasets.images import read_picture_table
from skhash.displays import write_image_browser


def browse(options: argparse.Namespace) -> int:
    """Write a page that searches pictures by their codes."""
    check_writable(options.out)
    _check_labels(options)
    parts = {path: read_codes(path) for path in options.codes}
    codes, trained = _menu(parts, options.bits)
    images = _images(options, parts)
    more = {"trained": trained, "link": options.link, "title": options.title}
    with progress(f"Reading {options.images}", len(images)) as show:
        write_image_browser(options.out, images, codes, watch=show, **more)
    print(f"{len(images):,} pictures: {options.out}")
    return 0


def _check_labels(options: argparse.Namespace) -> None:
    """Raise ValueError for options of the file in --labels-from if that file is not given."""
    for name, default in {"labels": None, "label_separator": "auto", "encoding": None, "separator": None}.items():
        if options.labels_from is None and getattr(options, name) != default:
            raise ValueError(f"--{name.replace('_', '-')} must be used with --labels-from FILE.")


def _menu(parts: dict[str, ItemsOfFile], bits: str | None) -> tuple[dict[str, Codes], dict[str, Any]]:
    """Codes at each number of bits, and training pictures, by their names in the menu of the page."""
    stems = Counter(Path(path).stem for path in parts)
    codes, trained = {}, {}
    for path, part in parts.items():
        of_part, name = part.codes, Path(path).stem if stems[Path(path).stem] == 1 else path
        for nbits in [of_part.nbits] if bits is None else _numbers(bits, of_part.nbits, path):
            codes[f"{name}, {nbits} bits"] = of_part.first(nbits)
            trained[f"{name}, {nbits} bits"] = part.trained
    return codes, {name: marks for name, marks in trained.items() if marks is not None}


def _numbers(bits: str, nbits: int, path: str) -> list[int]:
    numbers = [int(word) if word.isdecimal() else 0 for word in split([bits])]
    if not numbers or not all(1 <= number <= nbits for number in numbers):
        raise ValueError(f"--bits must be ints from 1 to {nbits}, the bits of {path}. Got {bits!r} instead.")
    return numbers


def _images(options: argparse.Namespace, parts: dict[str, ItemsOfFile]) -> Any:
    """Small pictures in the order of the codes, with their labels."""
    named = {path: part for path, part in parts.items() if part.names is not None}
    images = (
        images_of_codes(options.images, named) if named else load_images(options.images, size=THUMBNAIL, broken="skip")
    )
    for path, part in parts.items():
        if len(part.codes) != len(images):
            raise ValueError(
                f"INDEX must have a code for each of the {len(images):,} pictures. Got {len(part.codes):,} "
                f"codes in {path}. Encode the pictures again: skhash encode."
            )
    if options.labels_from is not None:
        given = table_options(options) | {"label_separator": options.label_separator}
        table = read_picture_table(options.labels_from, **given, find_files=False)
        if table.targets is None:
            raise ValueError(
                f"--labels-from must be a table with a column label. Got {options.labels_from} without one."
            )
        rows = {name: row for row, name in enumerate(table.names)}
        if missing := [name for name in images.names if name not in rows]:
            raise ValueError(
                f"--labels-from must have labels for all pictures. {options.labels_from} has none for {missing[0]}."
            )
        images.targets = table.targets[[rows[name] for name in images.names]]
        images.label_names = table.label_names
    return images


def images_of_codes(folder: str, named: dict[str, ItemsOfFile]) -> Any:
    """The pictures whose paths files of codes have; all of them must have the same ones."""
    (first, items), *others = named.items()
    for path, part in others:
        if part.names != items.names:
            raise ValueError(f"INDEX must be codes of the same pictures. Got different ones in {path} and {first}.")
    names = items.names or []
    if missing := [name for name in names if not os.path.isfile(os.path.join(folder, name))]:
        raise FileNotFoundError(
            f"--images must be the folder of the pictures of {first}. {folder} has no {missing[0]}, and lacks "
            f"{len(missing):,} in all."
        )
    images = load_images([Path(folder, name) for name in names], size=THUMBNAIL, labels=items.labels)
    images.folder, images.names, images.label_names = folder, type(images.names)(names), items.label_names
    return images
