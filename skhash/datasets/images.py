"""Pictures of a folder, a list or a table (a CSV file with a column of paths), read when they are needed."""

import os
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from skhash._libraries import import_torch
from skhash._validation import as_count
from skhash.affinity.targets import as_targets
from skhash.datasets._labels import check_label_separator, flag_labels, text_labels
from skhash.datasets.csv_files import CsvTable
from skhash.datasets.kinds import PICTURES, kind_of
from skhash.exceptions import InvalidFileError, parameter

if TYPE_CHECKING:
    from skhash.datasets.image_files import ImageFiles


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
        A folder; a CSV file with the column ``path`` and, for labels, the column ``label``; a picture;
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
        Separator of several labels in a cell of the CSV file, such as ";". None takes each cell as
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
    import_torch("images")
    from skhash.datasets.image_files import ImageFiles

    check_label_separator(label_separator)
    options = {"encoding": encoding, "separator": separator, "label_separator": label_separator}
    source = os.path.expanduser(source) if isinstance(source, str | os.PathLike) else source
    is_csv = isinstance(source, str) and kind_of(source).format == "csv"
    if not is_csv:
        _check_no_table(options | {"labels": labels if isinstance(labels, str) else None})
    columns = labels if is_csv and _are_columns(labels) else None
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


def _check_no_table(options: dict[str, Any]) -> None:
    """Raise ValueError for parameters of a table if there is none."""
    for name, value in options.items():
        if value not in (None, "auto"):
            raise ValueError(f"{parameter(name)} must be used with a CSV file. Got {value!r} with another source.")


def _are_columns(labels: Any) -> bool:
    """Whether these are names of columns."""
    return isinstance(labels, str) or (
        isinstance(labels, list | tuple) and all(isinstance(name, str) for name in labels)
    )


class PictureTable(NamedTuple):
    """What a table says about pictures."""

    names: list[str]  # paths, which begin at the folder of the table
    targets: Any = None
    label_names: list[str] | None = None  # of the columns of a 0/1 matrix


def _find(source: Any, columns: Any, options: dict[str, Any]) -> tuple[str, PictureTable]:
    """Folder of the pictures, and their names in it with their labels."""
    if not isinstance(source, str | os.PathLike):
        folder, found = "", PictureTable(_existing([os.path.expanduser(path) for path in source]))
    elif os.path.isdir(source):
        folder, found = os.fspath(source), PictureTable(*_in_folder(os.fspath(source)))
    elif not os.path.exists(source):
        raise FileNotFoundError(f"`source` must be a folder, a CSV file or a picture. There is no {os.fspath(source)}.")
    elif kind_of(os.fspath(source)).format == "csv":
        folder, found = os.path.dirname(source), read_picture_table(source, labels=columns, **options)
    else:
        folder, found = "", PictureTable([os.fspath(source)])
    if not found.names:
        endings = ", ".join(sorted(PICTURES))
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
            if Path(name).suffix.lower() in PICTURES and not name.startswith(".")
        ]
    names.sort()
    has_labels = all(os.path.dirname(name) for name in names)
    return names, np.array([name.split(os.sep)[0] for name in names]) if has_labels else None


def without_broken(images: "ImageFiles", indices: Iterable[int] | None = None) -> "ImageFiles":
    """Images without those that cannot be read, among all or some of them, after a warning that names them."""
    from skhash.datasets.image_files import TooLargeError, some_of

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


# --- tables of pictures


def read_picture_table(
    path: str | os.PathLike[str],
    *,
    labels: str | Sequence[str] | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    label_separator: str | None = "auto",
    find_files: bool = True,
) -> PictureTable:
    """Paths and labels of a table; with `find_files` all pictures must be there."""
    import pyarrow

    table = CsvTable(path, encoding=encoding, separator=separator)
    column = table.find("path")
    if column is None:
        raise InvalidFileError(
            table.path, f"must have a column named path. Got {', '.join(table.names)}. Rename the column of the paths."
        )
    chosen = _label_columns(table, labels)
    if label_separator not in (None, "auto") and len(chosen) != 1:
        raise ValueError(
            f"{parameter('label_separator')} must be used with one column of labels. Got {label_separator!r} for "
            f"{table.path}, of the columns {', '.join(table.names)}. "
            f"Name the column, such as {parameter('labels', table.names[-1])}."
        )
    _warn_of_others(table, column, chosen, labels)
    types = {**dict.fromkeys(chosen, pyarrow.string()), column: pyarrow.binary()}
    batches = [batch.to_pydict() for batch in table.batches(types)]
    cells = {name: [cell for batch in batches for cell in batch[name]] for name in types}
    paths = cells.pop(column)
    texts = {name: [_text(cell) for cell in column] for name, column in cells.items()}
    # a spreadsheet also saves rows that are empty
    rows = [i for i, cell in enumerate(paths) if (cell or b"").strip() or any(text[i] for text in texts.values())]
    texts = {name: [column[i] for i in rows] for name, column in texts.items()}
    names = _names(table, [paths[i] for i in rows], rows, find_files)
    if not chosen:
        return PictureTable(names)
    refuse = partial(InvalidFileError, table.path)

    def place(row: int) -> str:
        return f"line {table.line(rows[row])}"

    if labels is None or isinstance(labels, str):
        return PictureTable(names, *text_labels(texts[chosen[0]], label_separator, refuse, place))
    columns = {name: pyarrow.array(column, pyarrow.string()) for name, column in texts.items()}
    return PictureTable(names, flag_labels(columns, refuse, place), [name.strip() for name in columns])


def _label_columns(table: CsvTable, labels: str | Sequence[str] | None) -> list[str]:
    """Columns of the labels."""
    if labels is None:
        label = table.find("label")
        return [] if label is None else [label]
    wanted = [labels] if isinstance(labels, str) else list(labels)
    found = [table.find(name) for name in wanted]
    for name, column in zip(wanted, found, strict=True):
        if column is None or column == table.find("path"):
            raise ValueError(
                f"{parameter('labels')} must name columns of {table.path}: {', '.join(table.names)}. Got {name!r} "
                "instead. "
                "Labels themselves are passed as an array."
            )
    return [column for column in found if column is not None]


def _warn_of_others(table: CsvTable, path: str, chosen: list[str], labels: Any) -> None:
    """Warn of columns that are not read, one of which may hold the labels."""
    named = [name.strip() for name in table.names if name not in (path, *chosen)]
    others = [name for name in named if name and not name.startswith("Unnamed: ")]
    if labels is None and others:
        lost = "" if chosen else " There is no column named label, so that the pictures have no labels."
        warnings.warn(
            f"Columns of {table.path} that are not read: {', '.join(others)}.{lost} To take labels from one of them, "
            f"name it: {parameter('labels', others[0])}.",
            UserWarning,
            stacklevel=5,  # the caller of load_images
        )


def _text(cell: str | None) -> str | None:
    """Text without the spaces around it, nor the quotes that follow a space; None for blanks."""
    text = "" if cell is None else cell.strip()
    if cell is not None and cell[:1].isspace() and len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].replace('""', '"').strip()
    return text or None


def _names(table: CsvTable, cells: Sequence[bytes | None], rows: Sequence[int], find_files: bool) -> list[str]:
    """Paths of the pictures; an error if one is blank, missing or stands there twice."""
    folder = os.path.abspath(os.path.dirname(table.path))
    names, missing, first = [], [], dict[str, int]()
    for row, cell in zip(rows, cells, strict=True):
        spellings = _spellings(table, cell, folder)
        if not spellings:
            raise InvalidFileError(table.path, f"has no path in line {table.line(row)}.")
        found = [name for name in spellings if os.path.isfile(os.path.join(folder, name))] if find_files else spellings
        missing += [] if found else [row]
        names.append((found or spellings)[0].removeprefix("./"))
        key = os.path.normcase(os.path.normpath(os.path.join(folder, names[-1])))
        if first.setdefault(key, row) != row:
            raise InvalidFileError(
                table.path,
                f"must name each picture once. Got {names[-1]} in line {table.line(first[key])} and in line "
                f"{table.line(row)}. Several labels of a picture stand in one cell: see "
                f"{parameter('label_separator')}.",
            )
    if missing:
        name = names[rows.index(missing[0])]
        raise FileNotFoundError(
            f"{len(missing):,} of {len(names):,} pictures of {table.path} are missing. The first is {name}, in line "
            f"{table.line(missing[0])}. Paths begin at the folder of the table."
        )
    return names


def _spellings(table: CsvTable, cell: bytes | None, folder: str) -> list[str]:
    """How a path may be meant: without spaces around it, with the slashes of this system, or as it is written."""
    try:
        name = (cell or b"").decode()
    except UnicodeDecodeError:  # Linux allows it in the name of a file
        name = (cell or b"").decode("utf-8", "surrogateescape")
        if not os.path.isfile(os.path.join(folder, name)):
            raise table.encoding_error() from None
    text = _text(name)
    return [] if text is None else list(dict.fromkeys((text, text.replace("\\", "/"), name)))
