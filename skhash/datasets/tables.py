"""Tables of numbers: CSV and Parquet files, and data frames, with columns of features, labels and identifiers."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from skhash._ids import as_ids, first_repeated
from skhash._libraries import library
from skhash._validation import as_array, with_nearest
from skhash.datasets._labels import check_label_separator, flag_labels, list_labels, text_labels
from skhash.datasets.csv_files import CsvTable, columns_named
from skhash.exceptions import InvalidFileError, parameter

if TYPE_CHECKING:
    from sklearn.utils import Bunch

#: names of columns that hold no features, in lower case; the second ones are identifiers
_LABELS = frozenset({"y", "label", "labels", "class", "target", "targets"})
_IDS = frozenset({"id", "ids", "index", "unnamed: 0", "__index_level_0__"})
ENDINGS = (".csv", ".tsv", ".parquet")
_N_NAMED = 5  # columns in a message
_N_ROWS = 8192  # that are read from a Parquet file at once
_N_COLUMNS = 16  # that are read from a Parquet file at once, since each takes 2 MB
_BUFFER = 1 << 18  # bytes that are read from a column of a Parquet file at once
_LARGEST = 2**53  # float64 has all whole numbers up to this one
_NUMBER = r"^\s*([+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[+-]?[iI][nN][fF]|[nN][aA][nN])\s*$"
_WHOLE = r"^\s*[+-]?[0-9]+\s*$"
_WITH_COMMA = r"^\s*[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?\s*$"
_PLAIN_INT = r"^(0|-?[1-9][0-9]{0,18})$"  # 007 is text
#: whole thousands, as spreadsheets write them in one country or another; 1,234 can be a number below 2, too
_THOUSANDS = r"^\s*[+-]?[1-9][0-9]{0,2}([,.'_ \x{A0}\x{2019}\x{202F}][0-9]{3})+([.,][0-9]+)?\s*$"


def load_table(
    source: Any,
    *,
    columns: str | Sequence[str] | None = None,
    labels: str | Sequence[str] | None = None,
    ids: str | None = None,
    drop: str | Sequence[str] | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    label_separator: str | None = "auto",
) -> "Bunch":
    """Features, labels and identifiers of a CSV file, a Parquet file or a data frame.

    The features are all columns that no parameter names. They must be columns of numbers: int, float or bool.
    A column with text, dates, blank cells, NaN, infinity or whole numbers beyond 2**53 is refused. So is a column
    named y, label, class, target, id or index, and a first column without a name: they would leak into the features.
    Name such a column in `labels`, `ids` or `drop`; or name the features in `columns`.

    Parameters
    ----------
    source : path-like or data frame
        A ``.csv``, ``.tsv`` or ``.parquet`` file, or a data frame of pandas, polars or pyarrow. A file is read
        batch by batch into the array that is returned. The index of a frame of pandas is not read.
    columns : str or list of str, default=None
        Columns of the features, in the order of the features. All others are left out. For samples of a
        fitted hasher pass ``hasher.feature_names_in_``. A column of lists or tensors of numbers holds all
        features: it is named alone, or it is the only such column.
    labels : str or list of str, default=None
        Column of the labels, or of lists of labels, or several columns of 0 and 1, one for each label.
    ids : str, default=None
        Column of identifiers: text or whole numbers that differ.
    drop : str or list of str, default=None
        Columns to leave out.
    encoding : str, default=None
        Encoding of a CSV file, such as "latin-1". None is UTF-8. A file in another encoding is read into memory.
    separator : str, default=None
        Character between the cells of a CSV file. None is a comma, and a tab in a ``.tsv`` file.
    decimal : str, default=None
        Character before the fraction of numbers in a CSV file. None is a point.
    label_separator : str or None, default="auto"
        Separator of several labels in a cell, such as ";". None takes each cell as one label. "auto"
        does so, too, but raises an error if parts of a cell at ";" or "|" occur in other rows.

    Returns
    -------
    Bunch
        ``data``, an array of shape (n_samples, n_features), float32 if the columns are float32, else float64.
        ``target``, the labels, as an array of shape (n_samples,), a uint8 matrix of shape
        (n_samples, n_labels) for several labels, whose names are ``label_names``, or None. ``ids``, an array
        of shape (n_samples,), int64 or object for text, or None. ``feature_names``, a list of str; None for a column
        of lists. In a CSV file, labels and ids are integers if all cells are and int64 holds them, and else text as it
        is written, such as 007.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column is missing, or cannot be a feature, labels or identifiers. The message names all such
        columns.
    InvalidFileError
        If a file cannot be read: it is damaged, in another encoding, or a row has another number of cells.

    Examples
    --------
    >>> import pandas as pd
    >>> from skhash.datasets import load_table
    >>> frame = pd.DataFrame(
    ...     {"id": [7, 8], "height": [1.5, 2.5], "width": [3, 4], "label": ["a", "b"]}
    ... )
    >>> table = load_table(frame, labels="label", ids="id")
    >>> table.data
    array([[1.5, 3. ],
           [2.5, 4. ]])
    >>> table.target.tolist(), table.ids.tolist(), table.feature_names
    (['a', 'b'], [7, 8], ['height', 'width'])
    >>> load_table(frame, labels="label")
    Traceback (most recent call last):
    ...
    ValueError: the DataFrame: id would leak into the features. Say what it is: ids="id".
    If it is a feature, name all features in `columns`.
    """
    table = open_table(source, encoding=encoding, separator=separator, decimal=decimal)
    check_label_separator(label_separator)
    chosen = choose_columns(table, columns=columns, labels=labels, ids=ids, drop=drop)
    return read_table(table, chosen, label_separator)


class ChosenColumns(NamedTuple):
    """Names of the columns of each kind."""

    features: list[str]
    labels: list[str]
    ids: str | None
    are_lists: bool  # whether the only feature column has lists, each of which holds all features


@dataclass(frozen=True)
class Table:
    """Columns of a file or a frame, with what is needed to read some of them."""

    name: str  # in messages
    types: dict[str, Any]  # Arrow types of the columns, by name
    batches: Callable[[Sequence[str], Sequence[str]], Iterator[Any]]  # of columns of numbers, and of others
    n_rows: int | None = None  # None if it is known at the end
    csv: CsvTable | None = None

    def place(self, row: int) -> str:
        """Where a row is, for a message."""
        return f"row {row}" if self.csv is None else f"line {self.csv.line(row)}"

    def find(self, name: str) -> str | None:
        """Column of a name; None if there is none, or more than one."""
        alike = columns_named(self.types, name)
        return alike[0] if len(alike) == 1 else None

    def known(self, names: str | Iterable[str] | None) -> list[str] | None:
        """Those of some names that are columns."""
        names = [names] if isinstance(names, str) else names
        return None if names is None else [name for name in names if self.find(name) is not None]


# --- files and frames


def open_table(
    source: Any, *, encoding: str | None = None, separator: str | None = None, decimal: str | None = None
) -> Table:
    """Columns of a file or a frame, whose rows are not read yet."""
    of_csv = {"encoding": encoding, "separator": separator, "decimal": decimal}
    is_path = isinstance(source, str | os.PathLike)
    path = os.path.expanduser(os.fspath(source)) if is_path else ""
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".tsv"):
        for name, value in of_csv.items():
            if value is not None:
                raise ValueError(f"{parameter(name)} must be used with a CSV file. Got {value!r} for another source.")
    if not is_path:
        return _open_frame(source)
    if ending not in ENDINGS:
        raise ValueError(f"`source` must be a {' or '.join(ENDINGS)} file, or a data frame. Got {path} instead.")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no file {path}.")
    if ending == ".parquet":
        return _open_parquet(path)
    return _open_csv(CsvTable(path, **of_csv))


def _open_csv(csv: CsvTable) -> Table:
    """Columns of a CSV file; their types are those of the first 8 MB."""
    import pyarrow

    first = next(csv.batches(dict.fromkeys(csv.names)), None)
    if first is None or not len(first):
        raise InvalidFileError(csv.path, "has no rows below the names of its columns.")
    types = dict(zip(csv.names, first.schema.types, strict=True))

    def batches(numbers: Sequence[str], others: Sequence[str]) -> Iterator[Any]:
        kinds = {name: pyarrow.bool_() if types[name] == pyarrow.bool_() else pyarrow.float64() for name in numbers}
        return csv.batches(kinds | dict.fromkeys(others, pyarrow.string()))

    return Table(csv.path, types, batches, csv=csv)


def _open_parquet(path: str) -> Table:
    pyarrow, parquet = (library(name, "pyarrow", "Parquet files") for name in ("pyarrow", "pyarrow.parquet"))

    @contextmanager
    def opened() -> Iterator[Any]:
        try:
            with parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
                yield file
        except (pyarrow.ArrowException, OSError) as error:
            raise InvalidFileError(path, f"cannot be read: {' '.join(str(error).split())}") from error

    with opened() as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows

    def batches(numbers: Sequence[str], others: Sequence[str]) -> Iterator[Any]:
        with opened() as file:
            yield from file.iter_batches(_N_ROWS, columns=[*numbers, *others])

    return Table(path, _checked_types(schema, path), batches, n_rows)


def _open_frame(frame: Any) -> Table:
    pyarrow = library("pyarrow", "pyarrow", "data frames")

    name = f"the {type(frame).__name__}"
    try:
        if hasattr(frame, "iloc"):  # of pandas, whose sparse columns pyarrow does not read
            is_sparse = {at: kind.subtype for at, kind in frame.dtypes.items() if hasattr(kind, "fill_value")}
            frame = frame.astype(is_sparse) if is_sparse else frame
            table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        elif isinstance(frame, pyarrow.RecordBatch) or hasattr(frame, "__arrow_c_stream__"):
            table = pyarrow.table(frame)
        else:
            raise TypeError(
                "`source` must be the path of a file, or a frame of pandas, polars or pyarrow. Got a "
                f"{type(frame).__name__} instead. Hashers take arrays as they are."
            )
    except (pyarrow.ArrowException, ValueError) as error:
        raise ValueError(f"{name} must have columns of one type each. Got: {' '.join(str(error).split())}") from error

    def batches(numbers: Sequence[str], others: Sequence[str]) -> Iterator[Any]:
        yield from table.select([*numbers, *others]).to_batches(max_chunksize=_N_ROWS)

    return Table(name, _checked_types(table.schema, name), batches, table.num_rows)


def _checked_types(schema: Any, name: str) -> dict[str, Any]:
    """Types of the columns by name."""
    if repeated := [column for column, n in Counter(schema.names).items() if n > 1]:
        raise ValueError(f"{name}: columns must have different names. Got {repeated[0]!r} twice.")
    return dict(zip(schema.names, schema.types, strict=True))


# --- which columns


def choose_columns(
    table: Table,
    *,
    columns: str | Iterable[str] | None = None,
    labels: str | Iterable[str] | None = None,
    ids: str | None = None,
    drop: str | Iterable[str] | None = None,
) -> ChosenColumns:
    """Columns of features, labels and identifiers; ValueError for missing ones, and for those that would leak."""
    if table.n_rows == 0:
        raise ValueError(f"{table.name} has no rows. It must have at least one.")
    given = {"columns": columns, "labels": labels, "ids": ids, "drop": drop}
    found = {option: _find(table, option, names) for option, names in given.items()}
    owners: dict[str, str] = {}
    for option, names in found.items():
        for name in names:
            if (other := owners.setdefault(name, option)) != option:
                raise ValueError(
                    f"{table.name}: {parameter(other)} and {parameter(option)} must name different columns. Got "
                    f"{name!r}."
                )
    if len(found["ids"]) > 1:
        raise ValueError(f"{table.name}: {parameter('ids')} must name one column. Got {listed(found['ids'])}.")
    features = [name for name in table.types if name not in owners] if columns is None else found["columns"]
    lists = [name for name in features if _has_numbers(table.types[name])]
    if lists:
        return _choose_list(table, lists, features if columns is not None else [], found)
    if columns is None:
        _check_leaks(table, features)
    if not features:
        raise ValueError(f"{table.name}: there must be columns of features. Got none beside {listed(list(owners))}.")
    return ChosenColumns(features, found["labels"], next(iter(found["ids"]), None), False)


def _choose_list(table: Table, lists: list[str], named: list[str], found: dict[str, list[str]]) -> ChosenColumns:
    """The column of lists, and labels in y unless others are named: no other column is a feature."""
    if len(named or lists) > 1:
        raise ValueError(
            f"{table.name}: {parameter('columns')} must name one column, since a column of lists holds all "
            "features. Got "
            f"{listed(named) if named else f'none, and there are {listed(lists)}'}."
        )
    owned = {name for names in found.values() for name in names}
    is_labeled = not found["labels"] and "y" in table.types and "y" not in {*owned, *lists}
    labels = ["y"] if is_labeled else found["labels"]
    return ChosenColumns(lists, labels, next(iter(found["ids"]), None), True)


def _find(table: Table, option: str, names: Any) -> list[str]:
    """Columns of the names in an option."""
    names = [] if names is None else [names] if isinstance(names, str) else [str(name) for name in names]
    found = {name: table.find(name) for name in names}
    if missing := [name for name, column in found.items() if column is None]:
        more = f", and {len(missing) - _N_NAMED:,} more" if len(missing) > _N_NAMED else ""
        raise ValueError(
            f"{table.name}: {parameter(option)} must be columns of it, {listed(list(table.types))}. "
            f"Got {with_nearest(missing[:_N_NAMED], table.types)}{more} instead."
        )
    return list(dict.fromkeys(column for column in found.values() if column is not None))


def _check_leaks(table: Table, features: list[str]) -> None:
    """Raise ValueError for columns that hold labels or identifiers by their names."""
    first = next(iter(table.types))
    names = {name: name.strip().casefold() for name in features}
    if table.csv is not None and "path" in names.values():
        raise ValueError(
            f"{table.name}: a CSV file with a column path is a table of pictures, which load_images reads. Name the "
            f"columns of numbers in {parameter('columns')}."
        )
    labels = [name for name, text in names.items() if text in _LABELS]
    ids = [name for name, text in names.items() if text in _IDS and (name == first or not text.startswith("unnamed"))]
    if not labels and not ids:
        return
    leaks = labels + ids
    they, them = ("it is", "it is a feature") if len(leaks) == 1 else ("they are", "they are features")
    roles = {"labels": labels[:1], "ids": ids[:1], "drop": labels[1:] + ids[1:]}
    remedies = [parameter(option, columns) for option, columns in roles.items() if columns]
    raise ValueError(
        f"{table.name}: {listed(leaks)} would leak into the features. Say what {they}: {', '.join(remedies)}. "
        f"If {them}, name all features in {parameter('columns')}."
    )


def listed(names: Sequence[str], n: int = _N_NAMED) -> str:
    """The first names, and how many more there are."""
    return ", ".join(map(str, names[:n])) + (f" and {len(names) - n:,} more" if len(names) > n else "")


def _cells(n: int, kind: str = "") -> str:
    return f"{n:,} {kind}cell{'s' * (n > 1)}"


# --- values


def read_table(table: Table, chosen: ChosenColumns, label_separator: str | None) -> "Bunch":
    """Values of the chosen columns."""
    from sklearn.utils import Bunch

    others = [*chosen.labels, *([] if chosen.ids is None else [chosen.ids])]
    if chosen.are_lists:
        data, cells = np.concatenate(list(list_batches(table, chosen.features[0]))), read_columns(table, others)
    else:
        data, kept = _read_numbers(table, chosen.features, others)
        cells = _columns(kept, others)
    target, label_names = targets_of(table, chosen.labels, label_separator, cells)
    ids = ids_of(table, chosen.ids, cells)
    feature_names = None if chosen.are_lists else chosen.features
    return Bunch(data=data, target=target, ids=ids, feature_names=feature_names, label_names=label_names)


def read_columns(table: Table, names: Sequence[str]) -> dict[str, Any]:
    """Columns of labels or identifiers as Arrow arrays."""
    return _columns(list(table.batches([], names)), names) if names else {}


def _columns(batches: list[Any], names: Sequence[str]) -> dict[str, Any]:
    """Columns of batches, each as one Arrow array."""
    import pyarrow

    return {name: pyarrow.chunked_array([batch.column(name) for batch in batches]).combine_chunks() for name in names}


def _read_numbers(table: Table, features: list[str], others: list[str]) -> tuple[npt.NDArray[Any], list[Any]]:
    """Array of the features, filled batch by batch, and the batches of the other columns."""
    faults = _Faults(table, features)
    faults.check_types()
    X: npt.NDArray[Any] = np.empty((table.n_rows or 0, len(features)), _dtype(table, features))
    kept, n_rows = [], 0
    n_at_once = len(features) if table.csv is not None else _N_COLUMNS
    try:
        for first in range(0, len(features), n_at_once):
            names, n_rows = features[first : first + n_at_once], 0
            for batch in table.batches(names, [] if first else others):
                start, n_rows = n_rows, n_rows + len(batch)
                if n_rows > len(X):
                    X.resize((n_rows + n_rows // 8, len(features)), refcheck=False)  # no copy is made of many rows
                _fill(X[start:n_rows, first : first + len(names)], batch, names, faults, start, first)
                kept += [] if first else [batch.select(others)]
    except InvalidFileError:
        faults.check_text()  # a cell that is no number is counted
        raise
    faults.check()
    X.resize((n_rows, len(features)), refcheck=False)
    return X, kept


def _dtype(table: Table, features: list[str]) -> type:
    """The dtype that scikit-learn gives a frame of these columns."""
    if table.csv is not None:
        return np.float64
    kinds = [_numpy_type(table.types[name]) for name in features]
    return np.float32 if np.result_type(*kinds) == np.float32 else np.float64


def _numpy_type(kind: Any) -> Any:
    from pyarrow import types

    return np.float64 if types.is_decimal(kind) else kind.to_pandas_dtype()


def _fill(block: Any, batch: Any, names: list[str], faults: "_Faults", start: int, first: int) -> None:
    """Write columns of a batch into a part of an array from a row and a column on, and count what is no feature."""
    import pyarrow

    for place, name in enumerate(names):
        column = batch.column(name)
        if not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)):
            column = column.cast(pyarrow.float64())  # bool, decimal or blank
        values = column.to_numpy(zero_copy_only=False)
        block[:, place] = values
        if values.dtype in (np.int64, np.uint64):
            faults.count("beyond", first + place, (values > _LARGEST) | (values < -_LARGEST), start)
    with np.errstate(invalid="ignore"):
        is_small = bool((np.abs(block) < _LARGEST).all())
    if not is_small:  # or NaN
        for place in range(len(names)):
            values = block[:, place]
            faults.count("blank", first + place, np.isnan(values), start)
            faults.count("infinite", first + place, np.isinf(values), start)
            faults.count("large", first + place, np.abs(values) >= _LARGEST, start)


@dataclass
class _Faults:
    """What keeps columns from being features: the number of cells by kind and column, and the first row."""

    table: Table
    features: list[str]
    found: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def count(self, kind: str, place: int, is_fault: npt.NDArray[np.bool_], start: int) -> None:
        """Add cells of a batch that begins at the row `start`."""
        if n := int(is_fault.sum()):
            before, first = self.found.get((kind, place), (0, start + int(is_fault.argmax())))
            self.found[kind, place] = before + n, first

    def check_types(self) -> None:
        """Raise ValueError for columns that are no numbers by their types."""
        types = {name: self.table.types[name] for name in self.features}
        if not (wrong := {name: kind for name, kind in types.items() if not is_number(kind)}):
            return
        if self.table.csv is not None:
            self.check_text()
        self._refuse([f"{name} ({_described(kind)})" for name, kind in wrong.items()], list(wrong))

    def check_text(self) -> None:
        """Raise ValueError for columns of a CSV file with cells that are no numbers, after counting these."""
        import pyarrow
        from pyarrow import compute

        csv = self.table.csv
        assert csv is not None  # other tables are checked by their types
        types = self.table.types
        texts = {name: "" for name in self.features if types[name] != pyarrow.bool_()}
        counts, n_thousands, n_rows = Counter[str](), Counter[str](), 0
        for batch in csv.batches(dict.fromkeys(texts, pyarrow.string())):
            n_rows += len(batch)
            for name in texts:
                column = batch.column(name).drop_null()
                pattern = _NUMBER if csv.decimal == "." else _NUMBER.replace("[.]", f"[{csv.decimal}]")
                wrong = column.filter(compute.invert(compute.match_substring_regex(column, pattern)))
                if len(wrong):
                    counts[name] += len(wrong)
                    n_thousands[name] += compute.sum(compute.match_substring_regex(wrong, _THOUSANDS)).as_py()
                    texts[name] = texts[name] or wrong[0].as_py()
        if not counts:
            return
        if with_thousands := [name for name in counts if n_thousands[name] == counts[name]]:
            name = with_thousands[0]
            may_be_point = csv.decimal == "." and "," in texts[name] and "." not in texts[name]
            other = f" If the comma is the decimal point, pass {parameter('decimal', ',')}." if may_be_point else ""
            raise ValueError(
                f"{self.table.name}: column {name} is text such as {texts[name]!r}, which seems to have separators of "
                f"thousands. Write its numbers without them.{other}"
            )
        with_comma = [name for name in counts if compute.match_substring_regex(texts[name], _WITH_COMMA).as_py()]
        if with_comma and csv.decimal == ".":
            name = with_comma[0]
            others = f", as in {len(with_comma)} columns" if len(with_comma) > 1 else ""
            raise ValueError(
                f"{self.table.name}: column {name} is text such as {texts[name]!r}{others}. "
                f"Pass {parameter('decimal', ',')}."
            )
        self._refuse(
            [
                f"{name} ({self._kind_of_text(name)} in {n:,} of {n_rows:,} cells, such as {texts[name]!r})"
                for name, n in counts.items()
            ],
            list(counts),
        )

    def _kind_of_text(self, name: str) -> str:
        from pyarrow import types

        return "dates" if types.is_temporal(self.table.types[name]) else "text"

    def check(self) -> None:
        """Raise ValueError if there are faults."""
        if self.table.csv is not None:
            self._count_large_ints(self.table.csv)
        words = {
            "blank": "blank or NaN",
            "infinite": "infinity",
            "beyond": "whole numbers beyond 2**53, which floats do not keep,",
        }
        found = {key: value for key, value in self.found.items() if key[0] in words}
        if found:
            self._refuse(
                [
                    f"{self.features[place]} ({words[kind]} in {_cells(n)}, see {self.table.place(first)})"
                    for (kind, place), (n, first) in found.items()
                ],
                list(dict.fromkeys(self.features[place] for _, place in found)),
            )

    def _count_large_ints(self, csv: CsvTable) -> None:
        """Find whole numbers among the large ones of a CSV file, which were read as floats."""
        import pyarrow
        from pyarrow import compute

        places = {self.features[place]: place for kind, place in self.found if kind == "large"}
        start = 0
        for batch in csv.batches(dict.fromkeys(places, pyarrow.string())) if places else ():
            for name, place in places.items():
                column = batch.column(name)
                is_whole = compute.match_substring_regex(column, _WHOLE).fill_null(False)
                is_beyond = np.array(is_whole.to_numpy(zero_copy_only=False))
                for row in np.flatnonzero(is_beyond):
                    is_beyond[row] = abs(int(column[row].as_py())) > _LARGEST
                self.count("beyond", place, is_beyond, start)
            start += len(batch)

    def _refuse(self, found: list[str], names: list[str]) -> NoReturn:
        left_out = parameter("drop", names) if len(names) <= _N_NAMED else f"name the others in {parameter('columns')}"
        raise ValueError(
            f"{self.table.name}: features must be columns of numbers without gaps. Got {listed(found)}. Fill or "
            f"convert {'it' if len(names) == 1 else 'them'}, name labels in {parameter('labels')} and identifiers in "
            f"{parameter('ids')}, or leave out: {left_out}."
        )


def is_number(kind: Any) -> bool:
    """Whether cells of a type are numbers; blank ones are counted when they are read."""
    from pyarrow import types

    checks = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(check(kind) for check in checks)


def _described(kind: Any) -> str:
    """Type of a column, in words."""
    from pyarrow import types

    if types.is_temporal(kind):
        return "dates" if not types.is_duration(kind) else "durations"
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return "text" if is_text else "categories" if types.is_dictionary(kind) else str(kind)


def targets_of(
    table: Table, names: list[str], separator: str | None, cells: dict[str, Any]
) -> tuple[Any, list[str] | None]:
    """Labels from Arrow arrays, or None; and the names of several labels."""
    for name in names:
        _check_complete(table, name, cells[name], "labels")
    if separator not in (None, "auto") and len(names) != 1:
        raise ValueError(
            f"{table.name}: {parameter('label_separator')} must be used with one column of labels. Got "
            f"{separator!r} and "
            f"{len(names)} columns in {parameter('labels')}."
        )

    def refuse(reason: str) -> ValueError:
        return ValueError(f"{table.name} {reason}")

    if lists := [name for name in names if _is_list(cells[name].type)]:
        if separator not in (None, "auto") or len(names) > 1:
            found = f"{len(names)} columns" if len(names) > 1 else f"{parameter('label_separator', separator)}"
            raise ValueError(
                f"{table.name}: {parameter('labels')} must be {lists[0]} alone, which has lists of labels. Got {found}."
            )
        return list_labels(lists[0], cells[lists[0]].to_pylist(), refuse, table.place)
    if len(names) > 1:
        return flag_labels({name: cells[name] for name in names}, refuse, table.place), names
    values = _values(table, cells[names[0]]) if names else None
    if values is None or not all(isinstance(value, str) for value in values.tolist()):
        return values, None
    return text_labels(values.tolist(), separator, refuse, table.place)


def ids_of(table: Table, name: str | None, cells: dict[str, Any]) -> Any:
    """Identifiers from Arrow arrays, int64 or text of dtype object, or None."""
    import pyarrow

    if name is None:
        return None
    _check_complete(table, name, cells[name], "ids")
    column = _whole_numbers(table, cells[name])
    is_plain = pyarrow.types.is_integer(column.type)
    try:  # text stays a list: an array of numpy would have the width of the longest one
        if _is_list(column.type):
            raise ValueError("`ids` must be no lists.")
        ids = as_ids(column.to_numpy(zero_copy_only=False) if is_plain else column.to_pylist(), "ids")
    except ValueError as error:
        raise ValueError(
            f"{table.name}: {parameter('ids')} must be a column of text or whole numbers. Got {name}, "
            f"{_described(cells[name].type)}."
        ) from error
    if ids.dtype == np.uint64:  # beyond int64, as a CSV file has them
        ids = np.array([str(i) for i in ids.tolist()], dtype=object)
    found = ids.tolist()
    if n_repeated := len(found) - len(set(found)):
        raise ValueError(
            f"{table.name}: {parameter('ids')} must be a column whose values differ. Got {n_repeated:,} repeated "
            "ones in "
            f"{name}, such as {first_repeated(found)}."
        )
    return ids


def _check_complete(table: Table, name: str, column: Any, option: str) -> None:
    """Raise ValueError for blank cells."""
    from pyarrow import compute

    is_blank = compute.is_null(column, nan_is_null=True)
    if n := compute.sum(is_blank).as_py():
        raise ValueError(
            f"{table.name}: {parameter(option)} must be complete. Got {_cells(n, 'blank ')} in {name}, see "
            f"{table.place(compute.index(is_blank, True).as_py())}. Fill them, or leave their rows out."
        )


def _values(table: Table, column: Any) -> npt.NDArray[Any]:
    """Labels as an array."""
    import pyarrow

    column = _whole_numbers(table, column)
    is_plain = pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)
    if is_plain or pyarrow.types.is_boolean(column.type):
        return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return as_array(column.to_pylist(), "labels")


def _whole_numbers(table: Table, column: Any) -> Any:
    """A column as int64 if all cells of a CSV file are whole numbers that it holds, or all are such decimals."""
    import pyarrow
    from pyarrow import compute

    kinds = pyarrow.types
    is_whole = kinds.is_decimal(column.type) and column.type.scale == 0
    if table.csv is not None:
        is_whole = compute.all(compute.match_substring_regex(column, _PLAIN_INT)).as_py()
    if is_whole:
        with suppress(pyarrow.ArrowInvalid):  # beyond int64
            return column.cast(pyarrow.int64())
    return column.cast(pyarrow.string()) if kinds.is_decimal(column.type) and is_whole else column


# --- columns of lists


def list_batches(table: Table, name: str) -> Iterator[npt.NDArray[Any]]:
    """Samples of a column of lists or tensors."""
    from pyarrow import compute

    kind = table.types[name]  # Arrow stores a tensor as a list of its values, with a shape
    if (axes := getattr(kind, "permutation", None)) is not None and axes != sorted(axes):
        how = "Write them with FixedShapeTensorArray.from_numpy_ndarray(numpy.ascontiguousarray(X))."
        raise InvalidFileError(
            table.name, f"must have tensors in {name} whose axes are in order. Got the order {axes}. {how}"
        )
    width = None
    for batch in table.batches([name], []):
        if not len(batch):
            continue
        column = batch.column(name)
        values = getattr(column, "storage", column)
        flat = values.flatten()
        lengths = compute.list_value_length(values).unique().to_pylist()
        width = lengths[0] if width is None else width
        if flat.null_count or lengths != [width] or not width:
            raise InvalidFileError(table.name, f"must have lists of one length without gaps in {name}.")
        yield flat.to_numpy(zero_copy_only=False).reshape(len(values), *getattr(kind, "shape", (width,)))


def _is_list(kind: Any) -> bool:
    """Whether the cells of a column of a type are lists."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _has_numbers(kind: Any) -> bool:
    """Whether a column of a type has lists or tensors of numbers."""
    from pyarrow import types

    value_type = getattr(kind, "value_type", None)
    if value_type is None or types.is_dictionary(kind):
        return False
    return bool(types.is_floating(value_type) or types.is_integer(value_type))
