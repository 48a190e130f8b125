"""Tables of numbers from CSV and Parquet files and from frames."""

import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from _tables import features, make_frame
from numpy.testing import assert_array_equal
from pyarrow import parquet

from skhash import ITQHasher
from skhash.datasets import load_table
from skhash.exceptions import InvalidFileError


@pytest.fixture(scope="module")
def frame():
    return make_frame()


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def as_csv(frame, path):
    frame.to_csv(path, index=False)
    return path


def as_parquet(frame, path):
    frame.to_parquet(path)
    return path


SOURCES = {
    "csv": lambda frame, folder: as_csv(frame, folder / "t.csv"),
    "tsv": lambda frame, folder: write(folder / "t.tsv", frame.to_csv(sep="\t", index=False)),
    "parquet": lambda frame, folder: as_parquet(frame, folder / "t.parquet"),
    "pandas": lambda frame, _: frame,
    "polars": lambda frame, _: pl.from_pandas(frame),
    "arrow": lambda frame, _: pa.Table.from_pandas(frame),
    "batch": lambda frame, _: pa.RecordBatch.from_pandas(frame),
    "pandas of arrow": lambda frame, _: frame.convert_dtypes(dtype_backend="pyarrow"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_the_same_arrays_and_codes_from_every_source(kind, frame, tmp_path):
    table = load_table(SOURCES[kind](frame, tmp_path), labels="label", ids="id")
    assert table.data.dtype == np.float64
    assert table.data.flags.c_contiguous
    assert_array_equal(table.data, features(frame).to_numpy())
    assert_array_equal(table.target, frame["label"].astype(str))
    assert_array_equal(table.ids, frame["id"])
    assert table.target.dtype.kind == "U"
    assert table.ids.dtype == np.int64
    assert table.feature_names == [f"x{i}" for i in range(20)]
    expected = ITQHasher(16, random_state=0).fit(features(frame))
    codes = ITQHasher(16, random_state=0).fit(table.data).encode(table.data)
    assert_array_equal(codes, expected.encode(features(frame)))


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars"])
def test_columns_are_read_by_name_in_the_order_of_the_hasher(kind, frame, tmp_path):
    hasher = ITQHasher(16, random_state=0).fit(features(frame))
    mixed = frame[list(np.random.default_rng(1).permutation(frame.columns))]
    mixed.insert(0, "note", "text")
    table = load_table(SOURCES[kind](mixed, tmp_path), columns=hasher.feature_names_in_)
    assert table.feature_names == list(hasher.feature_names_in_)
    assert (table.target, table.ids) == (None, None)
    assert_array_equal(table.data, features(frame).to_numpy())
    with pytest.raises(ValueError, match=r"`columns` must be columns of it, .*Got 'x20' \(did you mean 'x2'\?\)"):
        load_table(SOURCES[kind](mixed, tmp_path), columns=["x1", "x20"])


@pytest.mark.parametrize(
    ("types", "dtype"),
    [
        (["f4", "f4"], "f4"),
        (["f4", "i2"], "f4"),
        (["f4", "?"], "f4"),
        (["f4", "i4"], "f8"),
        (["f2", "f2"], "f8"),
        (["u1", "?"], "f8"),
        (["f4", "f8"], "f8"),
    ],
)
def test_the_dtype_is_that_of_scikit_learn(types, dtype, tmp_path):
    frame = pd.DataFrame({f"x{i}": np.array([0, 1, 1]).astype(kind) for i, kind in enumerate(types)})
    for source in (frame, as_parquet(frame, tmp_path / "t.parquet")):
        table = load_table(source)
        assert table.data.dtype == dtype
        assert_array_equal(table.data, [[0, 0], [1, 1], [1, 1]])


def test_more_rows_than_a_batch(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60_000, 12)), columns=[f"x{i}" for i in range(12)])
    for kind in ("csv", "parquet", "pandas"):
        assert_array_equal(load_table(SOURCES[kind](frame, tmp_path)).data, frame)


@pytest.mark.parametrize(
    ("content", "options", "data"),
    [
        (b"\xef\xbb\xbfa,b\n1,2\n", {}, [[1, 2]]),
        (b"a,b\r\n1,2\r\n3,4\r\n", {}, [[1, 2], [3, 4]]),
        (b'a,"b\nc"\n1,"2"\n\n"3",4', {}, [[1, 2], [3, 4]]),
        (b"a,b\n 1 ,-2.5e-1\n+.5,3.\n", {}, [[1, -0.25], [0.5, 3]]),
        (b"a,b\nTrue,0\nFalse,1\n", {}, [[1, 0], [0, 1]]),
        (b"a;b\n1,5;2\n", {"separator": ";", "decimal": ","}, [[1.5, 2]]),
        (b'a,b\n"1,5",2\n', {"decimal": ","}, [[1.5, 2]]),
        (b"a\tb\n1\t2\n", {"separator": "\t"}, [[1, 2]]),
        ("größe,b\n1,2\n".encode("latin-1"), {"encoding": "latin-1"}, [[1, 2]]),
        (b"0,1\n5,6\n", {}, [[5, 6]]),
        (b"a,b,\n1,2,\n", {"drop": "Unnamed: 2"}, [[1, 2]]),
    ],
)
def test_spellings_of_csv_files(content, options, data, tmp_path):
    assert_array_equal(load_table(write(tmp_path / "t.csv", content), **options).data, data)


def test_labels_and_ids_of_csv_files_are_text_unless_all_are_integers(tmp_path):
    path = write(tmp_path / "t.csv", "x,y,id,k\n1,1,007,-3\n2,0,8,12\n3,10,NA,0\n")
    table = load_table(path, labels="y", ids="id", drop="k")
    assert table.target.tolist() == [1, 0, 10]
    assert table.ids.tolist() == ["007", "8", "NA"]
    assert load_table(path, labels="id", ids="k", drop="y").ids.tolist() == [-3, 12, 0]


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas"])
def test_several_columns_of_labels_are_a_matrix(kind, tmp_path):
    frame = pd.DataFrame({"x": [1.5, 2, 3], "sea": [0, 1, 1], "sky": [True, False, True], "sun": [1.0, 0.0, 0.0]})
    table = load_table(SOURCES[kind](frame, tmp_path), labels=["sea", "sky", "sun"])
    assert table.target.dtype == np.uint8
    assert_array_equal(table.target, [[0, 1, 1], [1, 0, 0], [1, 1, 0]])
    assert table.feature_names == ["x"]
    with pytest.raises(ValueError, match=r"must have 0 or 1 in the column 'x', .* Got '?1.5'? in (line 2|row 0)"):
        load_table(SOURCES[kind](frame, tmp_path), labels=["x", "sea"])


NAMES = ["y", "label", "class", "target", "id", "index", "Label", " ID ", "CLASS", "labels"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas"])
def test_a_column_that_would_leak_is_refused_until_it_is_named(kind, name, tmp_path):
    source = SOURCES[kind](pd.DataFrame({"a": [1, 2], name: [3, 4]}), tmp_path)
    with pytest.raises(ValueError, match=f'{name} would leak into the features. Say what it is: (labels|ids)="{name}"'):
        load_table(source)
    for options in ({"labels": name.strip().lower()}, {"ids": name}, {"drop": name}, {"columns": ["a"]}):
        assert load_table(source, **options).feature_names == ["a"]
    assert load_table(source, columns=["a", name]).data.tolist() == [[1, 3], [2, 4]]


def test_an_unnamed_first_column_is_refused(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv")  # with the index
    with pytest.raises(ValueError, match=r'Unnamed: 0 would leak into the features. Say what it is: ids="Unnamed: 0"'):
        load_table(tmp_path / "t.csv", labels="label", drop="id")
    table = load_table(tmp_path / "t.csv", labels="label", drop="id", ids="Unnamed: 0")
    assert_array_equal(table.ids, np.arange(2000))
    frame.set_axis(frame["id"].to_numpy()).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="__index_level_0__ would leak into the features"):
        load_table(tmp_path / "t.parquet", labels="label", drop="id")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["red", "green", "blue", "1"], r"x \(text.*\)"),
        (pd.to_datetime(["2020-01-01"] * 4), r"x \(dates.*\)"),
        ([1.5, None, 2.5, None], r"x \(blank or NaN in 2 cells, see (line 3|row 1)\)"),
        ([1, 2, 2**53 + 1, -(2**60)], r"x \(whole numbers beyond 2\*\*53, .* in 2 cells, see (line 4|row 2)\)"),
        ([1.5, np.inf, 2, 3], r"x \(infinity in 1 cell, see (line 3|row 1)\)"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars"])
def test_what_is_no_number_is_refused_by_name_and_count(kind, values, found, tmp_path):
    source = SOURCES[kind](pd.DataFrame({"a": [1, 2, 3, 4], "x": values}), tmp_path)
    with pytest.raises(ValueError, match=rf'features must be columns of numbers.* Got {found}\. .*drop="x"'):
        load_table(source)
    assert load_table(source, drop="x").feature_names == ["a"]


def test_whole_numbers_up_to_2_to_53_and_large_floats_are_kept(tmp_path):
    path = write(tmp_path / "t.csv", f"a,b\n{2**53},1e300\n{-(2**53)},-9.5e18\n")
    assert load_table(path).data.tolist() == [[2.0**53, 1e300], [-(2.0**53), -9.5e18]]
    path = write(tmp_path / "t.csv", "a,b\n12345678901234567890123,1\n2,2\n")
    with pytest.raises(ValueError, match=r"a \(whole numbers beyond 2\*\*53"):
        load_table(path)


def test_cells_of_text_are_counted_in_the_whole_file(tmp_path):
    rows = [f"{i}.5,{i}" for i in range(1_000_000)]
    rows[990_000] = "NA,1"
    rows[995_000] = "?,x"
    path = write(tmp_path / "t.csv", "\n".join(["a,b", *rows]))
    with pytest.raises(ValueError, match=r"a \(text in 2 of 1,000,000 cells, such as 'NA'\), b \(text in 1 of"):
        load_table(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,b\n"1,5",2\n', """column a is text such as '1,5'. Pass decimal=",".$"""),
        (b"a;b\n1,5;2,5\n", """has one column, 'a;b'. Pass the separator of its cells: separator=";".$"""),
        ("a,größe\n1,2\n".encode("latin-1"), 'is not UTF-8, see line 1. .* encoding="latin-1"'),
        ("a,b\n1,2\n".encode("utf-16"), 'encoding="utf-16"'),
        (b"a,b\n1,2\n3\n", "must have 2 cells in each row. Got 1 in line 3"),
        (b"0.5,1.5\n2,3\n", "must begin with the names of its columns"),
        (b"a,b\n", "has no rows below the names of its columns"),
        (b"path,x\na.png,2\n", "is a table of pictures, which load_images reads"),
        (b"", "is empty"),
    ],
)
def test_other_files_get_an_error_with_the_remedy(content, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        load_table(write(tmp_path / "t.csv", content))
    assert str(caught.value).startswith(str(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({"a": [1, 2], "k": ["u", "u"]}, {"ids": "k"}, "must be a column whose values differ. Got 1 repeated .* u"),
        ({"a": [1, 2], "k": ["u", None]}, {"ids": "k"}, "`ids` must be complete. Got 1 blank cell in k"),
        ({"a": [1, 2], "k": [0.5, 1.5]}, {"ids": "k"}, "must be a column of text or whole numbers. Got k, double"),
        ({"a": [1, 2], "k": ["u", None]}, {"labels": "k"}, "`labels` must be complete. Got 1 blank cell in k"),
        ({"a": [1, 2], "k": [1, 2]}, {"labels": "k", "ids": "k"}, "`labels` and `ids` must name different columns"),
        ({"a": [1, 2], "k": [1, 2]}, {"ids": ["a", "k"]}, "`ids` must name one column. Got a, k"),
        ({"a": [1, 2], "k": [1, 2]}, {"drop": ["a", "k"]}, "there must be columns of features. Got none beside a, k"),
        ({"a": [1, 2]}, {"decimal": ","}, "`decimal` must be used with a CSV file. Got ','"),
        ({"a": [1, 2], "k": [{1}, 2]}, {}, "must have columns of one type each"),
    ],
)  # fmt: skip
def test_bad_options(frame, options, message):
    with pytest.raises(ValueError, match=message):
        load_table(pd.DataFrame(frame), **options)


def test_bad_sources(tmp_path):
    with pytest.raises(TypeError, match=r"`source` must be the path of a file, or a frame .* Got a ndarray instead"):
        load_table(np.zeros((3, 2)))
    with pytest.raises(
        ValueError, match=r"`source` must be a .csv or .tsv or .parquet file, or a data frame. Got x.npz"
    ):
        load_table("x.npz")
    with pytest.raises(FileNotFoundError, match=r"There is no file .*no.csv"):
        load_table(tmp_path / "no.csv")
    with pytest.raises(InvalidFileError, match=r"t.parquet cannot be read"):
        load_table(write(tmp_path / "t.parquet", b"PAR1"))
    with pytest.raises(ValueError, match=r"columns must have different names. Got 'a' twice"):
        load_table(pa.table([[1], [2]], names=["a", "a"]))


def test_a_column_of_lists_holds_all_features(tmp_path):
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    table = pa.table({"v": list(X), "w": list(2 * X), "y": [1, 0, 1], "id": ["a", "b", "c"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        found = load_table(source, columns="w", ids="id")
        assert_array_equal(found.data, 2 * X)
        assert (found.data.dtype, found.target.tolist(), found.feature_names) == (np.float32, [1, 0, 1], None)
        assert found.ids.tolist() == ["a", "b", "c"]
        assert_array_equal(load_table(source, drop="w", labels="id").data, X)
        with pytest.raises(ValueError, match=r"`columns` must name one column, .* Got none, and there are v, w"):
            load_table(source)
        with pytest.raises(ValueError, match=r"`columns` must name one column, .* Got v, y"):
            load_table(source, columns=["v", "y"])


@pytest.mark.parametrize("kind", ["csv", "frame"])
def test_several_labels_of_a_cell(tmp_path, kind):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "label": ["sky;sea", "sea", "sky; tree", "tree"]})
    source = tmp_path / "t.csv"
    frame.to_csv(source, index=False)
    source = source if kind == "csv" else frame
    with pytest.raises(ValueError, match=r"seems to have several labels .*'sky;sea' in .*label_separator=\";\""):
        load_table(source, labels="label")
    table = load_table(source, labels="label", label_separator=";")
    assert table.target.tolist() == [[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]]
    assert table.label_names == ["sea", "sky", "tree"]
    assert load_table(source, labels="label", label_separator=None).target[0] == "sky;sea"
    with pytest.raises(ValueError, match="`label_separator` must be used with one column of labels"):
        load_table(source, drop="label", label_separator=";")


# --- what other programs write


@pytest.mark.parametrize("cell", ['"12,345"', '"1,234,567"', "1 234", "1\u202f234", "1'234", "1.234.567", '"1,234.50"'])
def test_separators_of_thousands_are_named(cell, tmp_path):
    path = write(tmp_path / "t.csv", f"price,rooms\n999,2\n{cell},5\n")
    with pytest.raises(ValueError, match=r"column price is text such as .* have separators of thousands"):
        load_table(path)


def test_a_comma_that_may_be_either_is_said_to_be(tmp_path):
    with pytest.raises(ValueError, match='If the comma is the decimal point, pass decimal=","'):
        load_table(write(tmp_path / "a.csv", 'a,b\n"1,234",1\n'))
    with pytest.raises(ValueError, match=r'text such as .0,234.\. Pass decimal=","'):
        load_table(write(tmp_path / "b.csv", 'a,b\n"0,234",1\n'))
    assert load_table(tmp_path / "b.csv", decimal=",").data.tolist() == [[0.234, 1.0]]


INT64 = np.iinfo(np.int64)


@pytest.mark.parametrize(
    ("ids", "dtype"),
    [
        ([INT64.max, INT64.min, 0], np.int64),
        ([2**63, 2**64 - 1, 5], object),  # beyond int64: text, as from a CSV file
        ([10**18, -(10**18), 7], np.int64),
    ],
)
def test_ids_of_a_csv_and_of_a_parquet_file_agree(ids, dtype, tmp_path):
    kind = np.uint64 if max(ids) > INT64.max else np.int64
    frame = pd.DataFrame({"id": np.array(ids, kind), "a": [1.0, 2, 3]})
    files = as_csv(frame, tmp_path / "t.csv"), as_parquet(frame, tmp_path / "t.parquet")
    for found in (load_table(source, ids="id").ids for source in (*files, frame)):
        assert found.dtype == dtype
        assert found.tolist() == (ids if dtype == np.int64 else [*map(str, ids)])


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.uint64])
def test_ids_of_any_integer_kind(kind, tmp_path):
    frame = pd.DataFrame({"id": np.array([3, 100, 7], kind), "a": [1.0, 2, 3]})
    assert load_table(as_parquet(frame, tmp_path / "t.parquet"), ids="id").ids.dtype == np.int64
    decimals = pa.table({"id": pa.array([3, 100, 7], pa.decimal128(20, 0)), "a": [1.0, 2, 3]})
    assert load_table(decimals, ids="id").ids.tolist() == [3, 100, 7]


def test_long_ids_take_no_matrix_of_the_longest():
    ids = [*map(str, range(3000)), "x" * 10**6]  # 12 GB as one type of numpy
    table = load_table(pa.table({"id": ids, "a": np.arange(3001.0)}), ids="id")
    assert (table.ids.dtype, table.ids.tolist()) == (object, ids)


@pytest.mark.parametrize("options", [{}, {"ids": "id"}, {"labels": "label"}, {"ids": "id", "labels": "label"}])
def test_a_table_without_rows_is_named(options, tmp_path):
    frame = pd.DataFrame({"id": ["k"], "label": ["cat"], "a": [1.0]}).iloc[:0]
    drop = [name for name in ("id", "label") if name not in options.values()]
    for source, name in ((as_parquet(frame, tmp_path / "monday.parquet"), "monday.parquet"), (frame, "the DataFrame")):
        with pytest.raises(ValueError, match=f"{name} has no rows"):
            load_table(source, **options, drop=drop)


def test_parts_of_a_table_without_rows_are_left_out():
    kind = pa.list_(pa.float64())
    chunks = pa.chunked_array([pa.array([], kind), pa.array([[1.0, 2.0]], kind), pa.array([], kind)])
    assert load_table(pa.table({"v": chunks}), columns="v").data.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("cells", "target", "names"),
    [
        ([["b", "a"], ["a"], []], [[1, 1], [1, 0], [0, 0]], ["a", "b"]),
        ([[3], [4, 3], [4]], [[1, 0], [1, 1], [0, 1]], ["3", "4"]),
        ([["a", "b"], ["b", "c"], ["a", "c"]], [[1, 1, 0], [0, 1, 1], [1, 0, 1]], ["a", "b", "c"]),
    ],
)
def test_lists_of_labels(cells, target, names, tmp_path):
    frame = pd.DataFrame({"tags": cells, "a": [1.0, 2, 3], "b": [0.0, 1, 0]})
    for source in (frame, as_parquet(frame, tmp_path / "t.parquet")):
        table = load_table(source, labels="tags")
        assert (table.target.tolist(), table.label_names) == (target, names)


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        ([["a"], None], {"labels": "t"}, "`labels` must be complete. Got 1 blank cell in t"),
        ([["a"], ["b", None]], {"labels": "t"}, "lists of text or whole numbers in the column 't'. Got .* in row 1"),
        ([["a"], ["b"]], {"labels": ["t", "a"]}, "`labels` must be t alone, which has lists of labels. Got 2 columns"),
        ([["a"], ["b"]], {"labels": "t", "label_separator": ";"}, 'must be t alone, .* Got label_separator=";"'),
        ([[1], [2]], {"ids": "t"}, "`ids` must be a column of text or whole numbers. Got t, list"),
    ],
)
def test_bad_lists(cells, options, message):
    with pytest.raises(ValueError, match=message):
        load_table(pd.DataFrame({"t": cells, "a": [1.0, 2.0], "b": [0.5, 1.5]}), **options)


def test_sparse_columns_are_read(frame):
    sparse = features(frame).astype(pd.SparseDtype(float, 0.0)).assign(id=frame["id"])
    assert_array_equal(load_table(sparse, ids="id").data, features(frame).to_numpy())


def test_columns_with_accents_in_two_characters(tmp_path):
    one, two = (unicodedata.normalize(form, "Größe") for form in ("NFC", "NFD"))
    path = write(tmp_path / "t.csv", f"{two},b\n1,2\n")
    assert load_table(path, columns=["b", one]).data.tolist() == [[2.0, 1.0]]
