"""A table of pictures: a CSV file with a column of their paths, and columns of labels."""

import os
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from skhash.datasets._csv import CsvTable
from skhash.datasets._labels import flag_labels, text_labels
from skhash.exceptions import InvalidFileError


class PictureTable(NamedTuple):
    """What a table says of pictures."""

    names: list[str]  # paths, which begin at the folder of the table
    targets: Any = None
    label_names: list[str] | None = None  # of the columns of a 0/1 matrix


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
            f"`label_separator` must be used with one column of labels. Got {label_separator!r} for {table.path}, of "
            f'the columns {", ".join(table.names)}. Name the column, such as labels="{table.names[-1]}".'
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
    if labels is not None and not isinstance(labels, str):
        return PictureTable(names, *flag_labels(texts, table, rows))
    return PictureTable(
        names,
        *text_labels(
            texts[chosen[0]],
            label_separator,
            lambda reason: InvalidFileError(table.path, reason),
            lambda row: f"line {table.line(rows[row])}",
        ),
    )


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
                f"`labels` must name columns of {table.path}: {', '.join(table.names)}. Got {name!r} instead. Labels "
                "themselves are passed as an array."
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
            f'name it: labels="{others[0]}".',
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
                f"{table.line(row)}. Several labels of a picture stand in one cell: see `label_separator`.",
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
