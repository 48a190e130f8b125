"""What all readers of CSV files have in common."""

import subprocess
import sys

import pyarrow
import pytest

from skhash.datasets.csv_files import CsvTable
from skhash.exceptions import InvalidFileError


def read(path, content, types=None, **options):
    path.write_bytes(content)
    table = CsvTable(path, **options)
    types = dict.fromkeys(table.names, pyarrow.string()) if types is None else types
    rows = [row for batch in table.batches(types) for row in batch.to_pylist()]
    return table.names, [tuple(row.values()) for row in rows]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.csv"


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"a,b\n007,NA\nNone,nan\n 1 ,''\n", [("007", "NA"), ("None", "nan"), (" 1 ", "''")]),
        (b'a,b\n,1\n"",2\n', [(None, "1"), (None, "2")]),
        (b"a,b\r\n1,2\r\n3,4\r\n", [("1", "2"), ("3", "4")]),
        (b"a,b\r1,2\r3,4", [("1", "2"), ("3", "4")]),
        (b"\xef\xbb\xbfa,b\n1,2\n", [("1", "2")]),
        (b'a,b\n"x\ny","p, ""q"""\n\n1,"2\n"\n\n\n', [("x\ny", 'p, "q"'), ("1", "2\n")]),
        (b"a,b\n", []),
        (b"a,b\n5\" disk,it's\n", [('5" disk', "it's")]),
    ],
)
def test_cells_are_text_as_written(path, content, rows):
    assert read(path, content) == (["a", "b"], rows)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig"])
def test_encodings(path, encoding):
    assert read(path, "a,b\né,ü\n".encode(encoding), encoding=encoding) == (["a", "b"], [("é", "ü")])


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_program_ends_while_a_file_is_read_ahead(path, encoding):
    path.write_text("a,b\n" + "1,2\n" * 6_000_000)
    program = """
import builtins, io, sys, time
from skhash.datasets.csv_files import CsvTable

class SlowFile(io.FileIO):
    def read(self, size=-1):
        time.sleep(0.3)
        return super().read(size)

plain = builtins.open
builtins.open = lambda path, mode="r", **options: SlowFile(path) if mode == "rb" else plain(path, mode, **options)
next(CsvTable(sys.argv[1], encoding=sys.argv[2]).batches({"a": None}))
"""
    subprocess.run([sys.executable, "-c", program, str(path), encoding], check=True, timeout=100)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_reader_which_may_outlive_the_interpreter_holds_no_python_code(path, encoding, monkeypatch):
    given, open_csv = [], pyarrow.csv.open_csv
    monkeypatch.setattr(pyarrow.csv, "open_csv", lambda *arguments: given.append(arguments) or open_csv(*arguments))
    read(path, b"a,b\n1,2\n", encoding=encoding)
    assert given
    for file, _, parse, _ in given:
        assert isinstance(file, pyarrow.OSFile | pyarrow.BufferReader)
        assert parse.invalid_row_handler is None


def test_columns_without_a_name_are_called_by_their_place(path):
    assert read(path, b",a,\n1,2,3\n") == (["Unnamed: 0", "a", "Unnamed: 2"], [("1", "2", "3")])


def test_numbers_are_names_if_they_ascend(path):
    assert read(path, b"0,1,2\n3,4,5\n") == (["0", "1", "2"], [("3", "4", "5")])


def test_separator_decimal_and_types(path):
    assert read(path, b'a,b\n"1,5",2\n', {"a": None, "b": None}, decimal=",")[1] == [(1.5, 2)]
    types = {"b": pyarrow.float64(), "a": None}
    assert read(path, b"a;b;c\n1;2,5;x\n", types, separator=";", decimal=",")[1] == [(2.5, 1)]
    assert read(path, b"a\tb\n1\t2,5\n", separator="\t")[1] == [("1", "2,5")]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, "is empty. It must begin with the names of its columns"),
        (b"\xef\xbb\xbf\n", {}, "is empty"),
        (b"a,b,a\n", {}, "must have columns of different names. Got 'a' twice"),
        (
            b'a,b\n\n"x\ny",1\nr, s,2\n',
            {},
            "must have 2 cells in each row. Got 3 in line 5: 'r, s,2'. Quote cells",
        ),
        (b"a,b\n1,2\n3\n", {}, "must have 2 cells in each row. Got 1 in line 3: '3'"),
        (b"a;b\n1;2\n", {}, "has one column, 'a;b'. Pass the separator of its cells: separator=\";\""),
        (b"0.5,1\n2,3\n", {}, "must begin with the names of its columns. Got numbers, such as '0.5'."),
        (b"0,0,0\n2,3,4\n", {}, "must begin with the names of its columns."),
        (b"a\tb\n1\t2\n", {}, 'has one column, .*separator="'),
        (b"a,b\n1,2\n\n3,\xe9\n", {}, 'is not UTF-8, see line 4. Pass the encoding .* encoding="latin-1"'),
        (b"a,\xe9\n1,2\n", {}, "is not UTF-8, see line 1"),
        ("a,b\n1,é\n".encode("utf-16"), {}, 'is UTF-16 and not UTF-8. Pass encoding="utf-16"'),
        ("a,b\n1,é\n".encode("utf-16-le"), {}, "has NUL bytes: it is no CSV file, or UTF-16"),
        (b"a,b\n1,\xe9\n", {"encoding": "ascii"}, "is not ascii. Pass the encoding"),
        ("a,b\n1,é\n".encode("utf-16-be"), {"encoding": "utf-16"}, "is not utf-16. Pass the encoding"),
        (b"a,b", {}, "has no rows below the names of its columns"),
        (b'a,b\n1,2\n3,"4\n5,6\n7,8\n', {}, "has a quote in line 3 that is never closed"),
        (b'a\n"' + b"1\n" * 10_000_000, {}, "has a row of more than 8 MB. Look for a quote that is never closed"),
    ],
)
def test_invalid_files_are_named_with_their_line(path, content, options, message):
    with pytest.raises(InvalidFileError, match=f"table.csv {message}"):
        read(path, content, **options)


def test_a_quote_that_is_never_closed_in_a_column_that_is_not_read(path):
    with pytest.raises(InvalidFileError, match="has a quote in line 2 that is never closed"):
        read(path, b'a,b\n1,"2\n3,4\n', {"a": pyarrow.string()})


def test_numbers_that_are_none(path):
    with pytest.raises(InvalidFileError, match=r"must have values of type double. Got '2,5' in line 3"):
        read(path, b"a;b\n1;2\n1;2,5\n", {"b": pyarrow.float64()}, separator=";")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "no"}, "`encoding` must be one that Python knows, such as 'latin-1'. Got 'no'"),
        ({"separator": ";;"}, "`separator` must be one character, such as ';'. Got ';;'"),
        ({"decimal": ""}, "`decimal` must be one character"),
    ],
)
def test_arguments(path, options, message):
    with pytest.raises(ValueError, match=message):
        read(path, b"a,b\n", **options)


def test_memory_does_not_grow_with_the_file(path):
    before = pyarrow.default_memory_pool().max_memory()
    path.write_bytes(b"a,b\n" + b"1.25,some text of a cell\n" * 24_000_000)  # 600 MB
    n = sum(len(batch) for batch in CsvTable(path).batches({"a": pyarrow.float64(), "b": pyarrow.string()}))
    assert n == 24_000_000
    # blocks that are read ahead of a slow program take up to 310 MB
    assert pyarrow.default_memory_pool().max_memory() < max(before, 400 << 20)
