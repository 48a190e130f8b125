"""CSV files, read by pyarrow in batches, with errors that name the file, its line and the parameter that helps."""

import codecs
import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from skhash._compat import cached_property
from skhash._libraries import library
from skhash._names import composed
from skhash.exceptions import InvalidFileError, parameter

_BLOCK = 1 << 23  # bytes that are parsed at once; a row fits into a block
_MARKS = {  # byte order marks; that of UTF-32 begins with that of UTF-16
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_SEPARATORS = ";\t|"  # those of other programs
_OF_VALUE = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to (\w+): invalid value '(.*)'")
_OF_ROW = re.compile(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


def columns_named(names: Iterable[str], name: str) -> list[str]:
    """Columns of a name; case, spaces around it and the form of accents count only if columns differ by them."""
    alike = [column for column in names if _plain(column) == _plain(name)]
    return [name] if name in alike else alike


def _plain(name: str) -> str:
    return composed(name.strip()).casefold()


class CsvTable:
    """A CSV file: the names of its columns, and its rows in batches.

    Lines may end with CRLF, and quoted cells may have newlines. Empty lines are left out. A cell is missing if it is
    empty; anything else, such as NA, is text. Each row must have as many cells as there are names. A column without a
    name is called "Unnamed: 0" by its position, as in pandas.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        encoding: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
    ) -> None:
        library("pyarrow", "pyarrow", "CSV files")
        self.path, self.encoding = os.fspath(path), encoding
        default = "\t" if self.path.lower().endswith(".tsv") else ","
        self.separator = _check_character("separator", default if separator is None else separator)
        self.decimal = _check_character("decimal", "." if decimal is None else decimal)
        self._check_start()
        if separator is None:
            self._check_separator()
        self.names: list[str] = []  # the first row is not read for them again
        with self._reader({}) as reader:
            self.names = [name or f"Unnamed: {place}" for place, name in enumerate(reader.schema.names)]
        if all(_is_number(name) for name in self.names) and not _ascend(self.names):
            raise InvalidFileError(
                self.path, f"must begin with the names of its columns. Got numbers, such as {self.names[0]!r}."
            )
        if repeated := [name for name, n in Counter(self.names).items() if n > 1]:
            raise InvalidFileError(self.path, f"must have columns of different names. Got {repeated[0]!r} twice.")

    def batches(self, types: Mapping[str, Any]) -> Iterator[Any]:
        """Record batches of the named columns, with given Arrow types: a string is text as it is written.

        The type None lets pyarrow choose one by the first 8 MB.
        """
        import pyarrow

        last = self.names[-1]  # an open quote there would take in all later rows
        read = {last: pyarrow.binary()} | dict(types)
        n_rows, end = 0, None
        with self._reader(read) as reader:
            for batch in reader:
                n_rows, end = n_rows + len(batch), batch
                yield batch.select(list(types))
        if end is not None and self._ends_in_quote(end.column(last)[-1].as_py()):
            raise InvalidFileError(self.path, f"has a quote in line {self.line(n_rows - 1)} that is never closed.")

    def find(self, name: str) -> str | None:
        """Column of a name; None if there is none."""
        alike = columns_named(self.names, name)
        if len(alike) > 1:
            raise InvalidFileError(
                self.path, f"must have one column named {name}. Got {' and '.join(map(repr, alike))}."
            )
        return alike[0] if alike else None

    def line(self, row: int) -> int:
        """Line of the file, from 1, in which a row begins; row 0 is the first one below the names."""
        with open(self.path, newline="", encoding=self.encoding or "utf-8", errors="replace") as file:
            reader, rows_before, end = csv.reader(file, delimiter=self.separator), row + 1, 0
            with suppress(csv.Error):  # the row has a cell of more than 128 KB, which an open quote makes
                for cells in reader:
                    if cells and not rows_before:
                        break
                    rows_before, end = rows_before - bool(cells), reader.line_num
        return end + 1

    def _check_start(self) -> None:
        """Raise InvalidFileError for what is empty, or for text of two bytes per character."""
        with open(self.path, "rb") as file:
            start = file.read(1 << 16)
        if not start.removeprefix(codecs.BOM_UTF8).strip():
            raise InvalidFileError(self.path, "is empty. It must begin with the names of its columns.")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError as error:
                raise ValueError(
                    f"{parameter('encoding')} must be one that Python knows, such as 'latin-1'. "
                    f"Got {self.encoding!r} instead."
                ) from error
            return
        for name, marks in _MARKS.items():
            if start.startswith(marks):
                raise InvalidFileError(
                    self.path, f"is {name.upper()} and not UTF-8. Pass {parameter('encoding', name)}."
                )
        if b"\0" in start:
            raise InvalidFileError(
                self.path,
                f"has NUL bytes: it is no CSV file, or UTF-16, which {parameter('encoding', 'utf-16-le')} reads.",
            )

    def _check_separator(self) -> None:
        """Raise InvalidFileError if the first line has one name, which another separator divides into several."""
        with open(self.path, newline="", encoding=self.encoding or "utf-8-sig", errors="replace") as file:
            cells: list[str] = []
            with suppress(csv.Error, UnicodeError):  # a cell of more than 128 KB; the reader says what is wrong
                cells = next((cells for cells in csv.reader(file, delimiter=self.separator) if cells), cells)
        if len(cells) == 1:
            for mark in _SEPARATORS:
                if mark in cells[0]:
                    raise InvalidFileError(
                        self.path,
                        f"has one column, {cells[0]!r}. Pass the separator of its cells: "
                        f"{parameter('separator', mark)}.",
                    )

    @contextmanager
    def _reader(self, types: Mapping[str, Any]) -> Iterator[Any]:
        """Context manager of a reader of some columns, or of all; errors in it name the file and the line.

        A thread of pyarrow reads ahead. If it runs Python code, or releases an object of Python, while the interpreter
        ends, it aborts the process. So the reader gets neither a file nor a handler of invalid rows of Python.
        """
        import pyarrow
        from pyarrow import csv as arrow_csv

        known = {name: kind for name, kind in types.items() if kind is not None}
        options = (
            arrow_csv.ReadOptions(
                use_threads=False,
                block_size=_BLOCK,
                column_names=self.names or None,
                skip_rows_after_names=bool(self.names),  # the first row has the names
            ),
            arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                check_utf8=bool(types),  # the names are read first, whatever the cells are
                column_types=known,
                include_columns=list(types),
                null_values=[""],
                strings_can_be_null=True,
                decimal_point=self.decimal,
            ),
        )
        try:
            with self._open() as file, arrow_csv.open_csv(file, *options) as reader:
                yield reader
        except UnicodeError as error:
            raise self.encoding_error() from error
        except pyarrow.ArrowInvalid as error:
            raise self._error(str(error)) from error

    def _open(self) -> Any:
        """File of pyarrow in UTF-8; one in another encoding is in memory."""
        import pyarrow

        if self.encoding is None or codecs.lookup(self.encoding).name == "utf-8":
            return pyarrow.OSFile(os.fsencode(self.path))
        return pyarrow.BufferReader(self._in_utf8)

    @cached_property
    def _in_utf8(self) -> Any:
        """Buffer of the text in UTF-8, for a file in another encoding."""
        import pyarrow

        content = pyarrow.BufferOutputStream()
        with open(self.path, newline="", encoding=self.encoding) as file:
            while text := file.read(_BLOCK):
                content.write(text.encode())
        return content.getvalue()

    def _error(self, text: str) -> InvalidFileError:
        """Error of pyarrow in the words of this library, with the line."""
        if found := _OF_ROW.match(text):
            row, expected, got, cells = found.groups()
            reason = (
                f"must have {expected} cells in each row. Got {got} in line {self.line(int(row) - 2)}: "
                f"{cells.strip()!r}. Quote cells that hold {self.separator!r}."
            )
        elif "invalid UTF8" in text:
            return self.encoding_error()
        elif "Empty CSV file" in text:
            reason = "has no rows below the names of its columns."
        elif "straddl" in text:
            reason = f"has a row of more than {_BLOCK >> 20} MB. Look for a quote that is never closed."
        elif found := _OF_VALUE.match(text):
            _, row, kind, value = found.groups()
            reason = f"must have values of type {kind}. Got {value!r} in line {self.line(int(row) - 2)}."
        else:
            reason = f"cannot be read: {' '.join(text.split())}"
        return InvalidFileError(self.path, reason)

    def encoding_error(self) -> InvalidFileError:
        """Error of text in another encoding, with its first line."""
        if self.encoding is not None:
            reason = f"is not {self.encoding}"
        else:
            with open(self.path, "rb") as file:
                line = next(line for line, content in enumerate(file, start=1) if not _is_utf8(content))
            reason = f"is not UTF-8, see line {line}"
        others = " or ".join(parameter("encoding", name) for name in ("latin-1", "cp1252"))
        return InvalidFileError(self.path, f"{reason}. Pass the encoding that it was saved with, such as {others}.")

    def _ends_in_quote(self, cell: Any) -> bool:
        """Whether the last cell has newlines but no closing quote."""
        if not isinstance(cell, str | bytes) or not {"\n", "\r"}.intersection(os.fsdecode(cell)):
            return False
        with open(self.path, "rb") as file:
            file.seek(-min(64, os.path.getsize(self.path)), os.SEEK_END)
            return not file.read().rstrip(b"\r\n\0").endswith(b'"')


def _check_character(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value in '"\r\n\0':
        raise ValueError(f"{parameter(name)} must be one character, such as ';'. Got {value!r} instead.")
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _ascend(names: list[str]) -> bool:
    """Whether names are whole numbers in order, as pandas and spreadsheets number columns."""
    return all(name.isdecimal() for name in names) and names == sorted(set(names), key=int)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
