"""What a path names: a data set, pictures, samples, codes or an index, by its ending and the beginning of the file."""

import os
import re
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from skhash.datasets.loading import ALIASES, DEFAULT_PROTOCOLS, find_file
from skhash.datasets.tables import is_number, open_table
from skhash.exceptions import InvalidFileError
from skhash.persistence.format import read_header
from skhash.registry import INDEXES

#: endings of the names of pictures, which Pillow reads
PICTURES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_HEADER = 1 << 16  # bytes of the first line of a CSV file that are searched for a column


class Kind(NamedTuple):
    """How a path is read, and what is there."""

    format: Literal["name", "folder", "picture", "csv", "parquet", "npz", "npy", "other"]  # name: of a data set
    holds: Literal["samples", "pictures", "codes", "index"] = "samples"

    @property
    def is_table(self) -> bool:
        """Whether its samples are columns of a table."""
        return self.format in ("csv", "parquet")


def kind_of(path: str) -> Kind:
    """Kind of a path. A missing or damaged file has the kind of its ending: its reader says what is wrong."""
    exists, ending = os.path.isfile(path), Path(path).suffix.lower()
    if path in DEFAULT_PROTOCOLS or path in ALIASES:
        return Kind("name")
    if os.path.isdir(path):
        return Kind("folder", "pictures")
    if not exists and find_file(path, None) is not None:  # in the folder of data sets
        return Kind("name")
    if ending in PICTURES:
        return Kind("picture", "pictures")
    if ending in (".csv", ".tsv"):
        return Kind("csv", "pictures" if exists and "path" in _first_cells(path) else "samples")
    if ending == ".parquet":
        code = open_table(path).types.get("code") if exists else None
        return Kind("parquet", "samples" if code is None or is_number(code) else "codes")  # numbers are a feature
    if exists:
        with suppress(InvalidFileError):
            if read_header(path).get("class") in INDEXES:
                return Kind("other", "index")
    if ending == ".npz":
        with suppress(zipfile.BadZipFile, FileNotFoundError), zipfile.ZipFile(path) as archive:
            if "codes.npy" in archive.namelist():
                return Kind("npz", "codes")
        return Kind("npz")
    return Kind("npy" if ending == ".npy" else "other")


def _first_cells(path: str) -> list[str]:
    """Cells of the first line of a CSV file, in whatever encoding and with whatever separator."""
    with open(path, "rb") as file:
        line = file.readline(_HEADER).replace(b"\0", b"").decode("latin-1").lstrip("\xef\xbb\xbf\xff\xfe")
    names = re.split(r"[,;\t|]", re.split(r"[\r\n]", line)[0])
    return [name.strip(' "').casefold() for name in names]
