"""Labels from the cells of a table: one class per row, or a 0/1 matrix of several labels."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._names import composed
from skhash.exceptions import parameter

_SEPARATORS = (";", "|")  # between several labels of a cell
_FLAGS = {"0": 0.0, "0.0": 0.0, "false": 0.0, "1": 1.0, "1.0": 1.0, "true": 1.0}


def check_label_separator(separator: Any) -> None:
    """Raise ValueError for a separator that cannot divide labels."""
    if separator is not None and not (isinstance(separator, str) and separator):
        raise ValueError(
            f"{parameter('label_separator')} must be a separator of labels, such as ';', or 'auto' or None. "
            f"Got {separator!r} instead."
        )


def text_labels(
    cells: Sequence[str | None],
    separator: str | None,
    refuse: Callable[[str], Exception],
    place: Callable[[int], str],
) -> tuple[npt.NDArray[Any], list[str] | None]:
    """Targets of a column of text, and the names of the columns of a matrix.

    Without a separator each text is a class, and None is missing. With one the targets are a uint8 matrix, or if labels
    are missing a float32 matrix with rows of NaN. The separator "auto" refuses text that looks like several labels:
    `refuse` makes an error of a reason, and `place` says where a row is.
    """
    if separator == "auto":
        _check_single(cells, refuse, place)
        separator = None
    if separator is None:
        is_complete = all(cell is not None for cell in cells)
        return np.array(cells, dtype=None if is_complete and cells else object), None
    parts = [None if cell is None else _parts(cell, separator) for cell in cells]
    names = sorted({name for row in parts for name in row or ()})
    columns = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((len(cells), len(names)), np.float32)
    for row, labels in enumerate(parts):
        matrix[row, [columns[name] for name in labels or ()]] = 1
        if not labels:
            matrix[row] = np.nan
    return _without_gaps(matrix), names


def list_labels(
    column: str, cells: Sequence[Any], refuse: Callable[[str], Exception], place: Callable[[int], str]
) -> tuple[npt.NDArray[np.uint8], list[str] | None]:
    """Targets of a column of lists of labels, a uint8 matrix, and the names of its columns. An empty list has none.

    Lists of one length that hold only 0 and 1 are rows of such a matrix.
    """
    lengths = {len(cell) if isinstance(cell, list) else 0 for cell in cells}
    if len(lengths) == 1 and max(lengths) > 1 and all(value in (0, 1) for cell in cells for value in cell):
        return np.array(cells, np.uint8), None
    for row, cell in enumerate(cells):
        if not isinstance(cell, list) or not all(isinstance(label, str | int) for label in cell):
            raise refuse(
                f"must have lists of text or whole numbers in the column {column!r}. Got {repr(cell)[:60]} in "
                f"{place(row)}."
            )
    parts = [{composed(str(label)) for label in cell} for cell in cells]
    names = sorted(set().union(*parts))
    columns = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((len(cells), len(names)), np.uint8)
    for row, labels in enumerate(parts):
        matrix[row, [columns[name] for name in labels]] = 1
    return matrix, names


def flag_labels(
    columns: Mapping[str, Any], refuse: Callable[[str], Exception], place: Callable[[int], str]
) -> npt.NDArray[Any]:
    """Targets of Arrow arrays of 0 and 1, each of which is a label: a uint8 matrix, or float32 with NaN for missing."""
    flags = []
    for name, column in columns.items():
        encoded = column.dictionary_encode()
        cells = encoded.dictionary.to_pylist()
        values = [_FLAGS.get(str(cell).strip().lower()) for cell in cells]
        if None in values:
            wrong = values.index(None)
            raise refuse(
                f"must have 0 or 1 in the column {name!r}, since several columns are labels. "
                f"Got {cells[wrong]!r} in {place(encoded.indices.index(wrong).as_py())}."
            )
        flags.append(np.array([*values, np.nan], np.float32)[encoded.indices.fill_null(len(values))])
    return _without_gaps(np.stack(flags, axis=1))


def _check_single(cells: Sequence[str | None], refuse: Callable[[str], Exception], place: Callable[[int], str]) -> None:
    """Raise an error if parts of a label are labels of other rows, too."""
    for mark in _SEPARATORS:
        if not any(mark in cell for cell in cells if cell is not None):
            continue
        counts = Counter(part for cell in cells if cell is not None for part in _parts(cell, mark))
        for row, cell in enumerate(cells):
            if cell is None or mark not in cell:
                continue
            if repeated := [part for part in _parts(cell, mark) if counts[part] > 1]:
                raise refuse(
                    f"seems to have several labels in a cell: {cell!r} in {place(row)}, and "
                    f"{repeated[0]!r} in other rows. Pass {parameter('label_separator', mark)} to divide them, or "
                    f"{parameter('label_separator', None)} if each cell is one label.",
                )


def _parts(cell: str, separator: str) -> set[str]:
    return {composed(part.strip()) for part in cell.split(separator) if part.strip()}


def _without_gaps(matrix: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    return matrix if np.isnan(matrix).any() else matrix.astype(np.uint8)
