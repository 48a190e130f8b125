"""Parquet files keep codes, their number of bits and identifiers."""

import pytest
from _stores import LENGTHS, Items, K

from skhash.exceptions import InvalidFileError
from skhash.neighbors import HammingNeighbors
from skhash.stores import from_parquet, to_parquet

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits, tmp_path):
    items, path = Items(nbits), tmp_path / "codes.parquet"
    to_parquet(items.bits, path, ids=items.ids)
    stored = from_parquet(path)
    items.assert_same_codes(stored)
    index = HammingNeighbors(nbits=nbits).fit(stored.codes, ids=stored.ids)
    items.assert_same_neighbors(*index.kneighbors(items.queries, K))


@pytest.mark.parametrize("kind", ["binary", "large_binary", "list"])
def test_files_of_other_programs(kind, tmp_path):
    items, path = Items(12), tmp_path / "theirs.parquet"
    column = {
        "binary": lambda: arrow.array([code.tobytes() for code in items.packed], arrow.binary()),
        "large_binary": lambda: arrow.array([code.tobytes() for code in items.packed], arrow.large_binary()),
        "list": lambda: arrow.FixedSizeListArray.from_arrays(arrow.array(items.packed.ravel()), 2),
    }[kind]()
    parquet.write_table(arrow.table({"code": column}), path, row_group_size=100)
    stored = from_parquet(path)
    assert stored.nbits == 16
    assert stored.codes.tolist() == items.packed.tolist()
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
        "codes must be bytes of one length. Got 1 of type int64 instead.": {"code": [1]},
        "every item must have a code. Got 1 without one.": {"code": [b"a", None]},
        "has no codes": {"code": [b"a", b"ab"]},
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
        to_parquet([[1, 1]], path)
    assert from_parquet(path).codes.tolist() == [[64]]
    assert [file.name for file in tmp_path.iterdir()] == ["codes.parquet"]
