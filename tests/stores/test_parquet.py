"""Parquet files keep codes, their number of bits and identifiers."""

from functools import partial

import pytest
from _stores import (
    LENGTHS,
    NAMES,
    Items,
    K,
    assert_same_hasher_only,
    assert_same_names,
    assert_takes_more,
    codes_of_names,
)

from skhash.exceptions import InvalidFileError
from skhash.neighbors import HammingNeighbors
from skhash.stores import from_parquet, to_parquet

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
writes_views = pytest.mark.skipif(
    int(arrow.__version__.partition(".")[0]) < 21, reason="pyarrow writes views into Parquet files from 21 on"
)


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits, tmp_path):
    items, path = Items(nbits), tmp_path / "codes.parquet"
    to_parquet(items.bits, path, ids=items.ids)
    stored = from_parquet(path)
    items.assert_same_codes(stored)
    index = HammingNeighbors(nbits=nbits).fit(stored.rows, ids=stored.ids)
    items.assert_same_neighbors(*index.kneighbors(items.queries, K))


@pytest.mark.parametrize(
    "kind",
    [
        arrow.binary(),
        arrow.large_binary(),
        pytest.param(arrow.binary_view(), marks=writes_views),
        arrow.list_(arrow.uint8()),
        arrow.list_(arrow.field("item", arrow.uint8(), nullable=False)),
        arrow.list_(arrow.int64()),
        arrow.large_list(arrow.uint8()),
        arrow.large_list(arrow.uint64()),
        arrow.list_(arrow.uint8(), 2),
        arrow.list_(arrow.int16(), 2),
        "tensor",
    ],
    ids=str,
)
def test_files_of_other_programs(kind, tmp_path):
    items, path = Items(12), tmp_path / "theirs.parquet"
    if kind == "tensor":
        column = arrow.FixedShapeTensorArray.from_numpy_ndarray(items.packed)
    else:
        values = items.packed.tolist() if "list" in str(kind) else [code.tobytes() for code in items.packed]
        column = arrow.array(values, kind)
    parquet.write_table(arrow.table({"code": column}), path, row_group_size=100)
    stored = from_parquet(path)
    assert stored.nbits == 16
    assert stored.rows.tolist() == items.packed.tolist()
    assert stored.ids.tolist() == list(range(400))


def test_damaged_and_foreign_files(tmp_path):
    path = tmp_path / "codes.parquet"
    with pytest.raises(FileNotFoundError):
        from_parquet(path)
    path.write_bytes(b"PAR1 no")
    with pytest.raises(InvalidFileError, match=r"codes.parquet has no codes: .*"):
        from_parquet(path)
    tables = {
        "a column `code` is needed. Got id instead.": {"id": [1]},
        "column `code` must hold .* Got 1 of type int64": {"code": [1]},
        "column `code` must hold .* Got 2 of type binary, of which 1 are null": {"code": [b"a", None]},
        "column `code` must hold .* Got binary": {"code": [b"a", b"ab"]},
        "column `code` must hold .* Got lists with 1 nulls": {"code": [[1, 2], [3, None]]},
        "column `code` must hold .* Got 2 of type list<.*>, of which 1 are null": {"code": [[1, 2], None]},
        "column `code` must hold .* Got list<.*expected size": {"code": [[1], [2, 3], [4, 5, 6]]},
        "column `code` must hold .*value 256 not in range": {"code": [[1, 256]]},
        "column `code` must hold .*value -1 not in range": {"code": [[1, -1]]},
        "column `code` must hold .* Got 1 of type list<element: double>": {"code": [[0.5, 1.0]]},
        "column `code` must hold .* Got 0 of type list": {"code": arrow.array([], arrow.list_(arrow.uint8()))},
        "`ids` must differ": {"code": [b"a", b"b"], "id": [1, 1]},
    }
    for message, columns in tables.items():
        parquet.write_table(arrow.table(columns), path)
        with pytest.raises(InvalidFileError, match=message):
            from_parquet(path)


def test_a_failed_write_keeps_the_file(tmp_path, monkeypatch):
    path = tmp_path / "codes.parquet"
    to_parquet([[0, 1]], path)

    def fail(table, file):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(parquet, "write_table", fail)
    with pytest.raises(KeyboardInterrupt):
        to_parquet([[1, 1]], path, ids=[1], if_exists="append")
    assert from_parquet(path).rows.tolist() == [[64]]
    assert [file.name for file in tmp_path.iterdir()] == ["codes.parquet"]


@pytest.mark.parametrize(
    "kind",
    [
        arrow.string(),
        arrow.large_string(),
        pytest.param(arrow.string_view(), marks=writes_views),
        arrow.dictionary(arrow.int32(), arrow.string()),
    ],
)
def test_text_identifiers(kind, tmp_path):
    names, path = [*NAMES, "a\0", "a\0b"], tmp_path / "codes.parquet"
    to_parquet(codes_of_names(names), path, nbits=8, ids=names)
    assert_same_names(from_parquet(path), names)
    table = parquet.read_table(path)
    assert table.column("id").type == arrow.string()
    parquet.write_table(table.set_column(0, "id", table.column("id").cast(kind)), path)  # of another program
    assert_same_names(from_parquet(path), names)


def test_codes_of_another_hasher_are_refused(tmp_path):
    assert_same_hasher_only(
        lambda name, codes, **options: to_parquet(codes, tmp_path / name, **options),
        lambda name, **options: from_parquet(tmp_path / name, **options),
    )
    table = parquet.read_table(tmp_path / "with")
    for text in (b"", b"0" * 17, b"0" * 15 + b"\n", b"\xff" * 16, b"0" * 1_000_000):
        parquet.write_table(table.replace_schema_metadata({"skhash.fingerprint": text}), tmp_path / "wrong")
        with pytest.raises(InvalidFileError, match=r"has no codes: `fingerprint` must be None or .{,400}$"):
            from_parquet(tmp_path / "wrong")


def test_more_codes(tmp_path):
    path = tmp_path / "codes.parquet"
    write = partial(to_parquet, path=path)
    assert_takes_more(write, partial(from_parquet, path), default="replace")


def test_more_codes_for_files_of_other_programs(tmp_path):
    path = tmp_path / "theirs.parquet"
    parquet.write_table(arrow.table({"code": [[1], [255]]}), path)
    to_parquet([[0, 1] * 4], path, ids=[7], if_exists="append")
    assert (from_parquet(path).rows.tolist(), from_parquet(path).ids.tolist()) == ([[1], [255], [85]], [0, 1, 7])
    parquet.write_table(arrow.table({"code": [[1], [255]], "text": ["a", "b"]}), path)
    with pytest.raises(ValueError, match=r"`path` must be a file of codes alone, to which codes are added. Got 'text'"):
        to_parquet([[0, 1] * 4], path, ids=[7], if_exists="append")
