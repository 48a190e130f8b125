"""The command ``skhash browse``."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from skhash.cli._samples import Items, read_codes
from skhash.datasets import load_images
from skhash.displays import write_image_browser
from skhash.persistence import load
from skhash.persistence._format import read_header
from skhash.persistence._indexes import INDEXES
from skhash.persistence._writing import check_writable
from skhash.stores import StoredCodes

_SIZE = 64  # pixels of a thumbnail


def browse(options: argparse.Namespace) -> int:
    """Write a page that searches pictures by their codes."""
    check_writable(options.out)
    parts = {path: _read(path) for path in options.codes}
    images = _images(options, next(iter(parts.values())))
    codes = {}
    for path, (stored, *_) in parts.items():
        codes[f"{Path(path).stem}, {stored.nbits} bits"] = stored.codes, stored.nbits
    write_image_browser(options.out, images, codes, link=options.link, title=options.title)
    print(f"{len(images):,} pictures: {options.out}")
    return 0


def _read(path: str) -> Items:
    """Codes of a file of codes or of an index."""
    if Path(path).suffix in (".npz", ".parquet"):
        return read_codes(path)
    if read_header(path).get("class") not in INDEXES:
        raise ValueError(f"INDEX must be codes of skhash encode, or the file of an index. Got {path}.")
    index: Any = load(path)
    nbits = int(index.hasher_._n_features_out) if index.hasher_ is not None else int(index._nbits)
    return Items(StoredCodes(index.codes_.view(np.uint8)[:, : -(-nbits // 8)], nbits, index.ids_))


def _images(options: argparse.Namespace, first: Items) -> Any:
    """Small pictures in the order of the codes, with their labels."""
    if first.names is None:
        images = load_images(options.images, size=_SIZE, broken="skip")
    else:
        paths = [Path(options.images, name) for name in first.names]
        images = load_images(paths, size=_SIZE, labels=first.labels)
        images.folder, images.names = options.images, first.names
    if options.labels is not None:
        table = load_images(options.labels, size=_SIZE)
        by_name = dict(zip(table.names, [] if table.targets is None else table.targets, strict=False))
        if missing := [name for name in images.names if name not in by_name]:
            raise ValueError(f"--labels must have labels for all pictures. {options.labels} has none for {missing[0]}.")
        images.targets = np.array([by_name[name] for name in images.names])
    return images
