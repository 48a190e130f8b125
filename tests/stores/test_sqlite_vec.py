"""sqlite-vec gives the neighbors of ours, and the codes back."""

import numpy as np
import pytest
from _stores import LENGTHS, Items, K

from skhash.stores import from_sqlite_vec, to_sqlite_vec

apsw = pytest.importorskip("apsw")
pytest.importorskip("sqlite_vec", reason="needs sqlite-vec")


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits, tmp_path):
    items = Items(nbits)
    to_sqlite_vec(items.bits, apsw.Connection(str(tmp_path / "codes.db")), 'a "b"; c', ids=items.ids)
    connection = apsw.Connection(str(tmp_path / "codes.db"))
    items.assert_same_codes(from_sqlite_vec(connection, 'a "b"; c', nbits=nbits), is_sorted=True)
    select = 'SELECT distance, id FROM "a ""b""; c" WHERE code MATCH vec_bit(?) AND k = ? ORDER BY distance'
    found = np.array([connection.execute(select, (query.tobytes(), K)).fetchall() for query in items.queries])
    items.assert_same_neighbors(found[..., 0], found[..., 1])


def test_refusals():
    connection = apsw.Connection(":memory:")
    to_sqlite_vec([[0, 1]], connection)
    with pytest.raises(ValueError, match=r"`table` must be the name of a new table. Got 'codes', which exists."):
        to_sqlite_vec([[1, 1]], connection)
    stored = from_sqlite_vec(connection)
    assert (stored.codes.tolist(), stored.nbits) == ([[64]], 8)
    with pytest.raises(ValueError, match=r"`codes` must hold packed codes of 9 bits, uint8 of shape \(n, 2\)"):
        from_sqlite_vec(connection, nbits=9)
    connection.execute("DELETE FROM codes")
    with pytest.raises(ValueError, match=r"`table` must have codes. Got none in 'codes'."):
        from_sqlite_vec(connection)
    with pytest.raises(ValueError, match=r"`codes` must have at most 8192 bits in sqlite-vec. Got 8200 instead."):
        to_sqlite_vec(np.zeros((2, 8200), dtype=int), connection, "long")


def test_lengths_that_add_up_to_whole_codes_are_refused():
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE codes (id INTEGER, code BLOB)")
    connection.execute("INSERT INTO codes VALUES (1, x'0102'), (2, x'03'), (3, x'040506')")
    with pytest.raises(ValueError, match=r"`table` must have codes of one length. Got the lengths \[1, 2, 3\]"):
        from_sqlite_vec(connection)


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("1.5, x'01'", r"`table` must have ints as ids. Got float in 'codes'."),
        ("'x', x'01'", r"`table` must have ints as ids. Got str in 'codes'."),
        ("1, NULL", r"`table` must have codes of type bytes. Got NoneType in 'codes'."),
        ("1, '01'", r"`table` must have codes of type bytes. Got str in 'codes'."),
    ],
)
def test_tables_of_other_programs(row, match):
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE codes (id, code)")
    connection.execute(f"INSERT INTO codes VALUES ({row})")
    with pytest.raises(ValueError, match=match):
        from_sqlite_vec(connection)


def test_a_missing_table_and_vectors_are_named():
    connection = apsw.Connection(":memory:")
    with pytest.raises(
        ValueError, match=r"`table` must be the name of a table .* Got 'nowhere': no such table: nowhere"
    ):
        from_sqlite_vec(connection, "nowhere")
    connection.execute("CREATE VIRTUAL TABLE vectors USING vec0(id INTEGER PRIMARY KEY, code float[2])")
    connection.execute("INSERT INTO vectors VALUES (1, '[1, 2]')")
    with pytest.raises(ValueError, match=r"`table` must have codes of type bit. Got float32 in 'vectors'."):
        from_sqlite_vec(connection, "vectors")
