"""sqlite-vec gives the neighbors of ours, and the codes back."""

import sqlite3

import numpy as np
import pytest
from _stores import (
    LENGTHS,
    NAMES,
    Items,
    K,
    Shortlists,
    assert_same_hasher_only,
    assert_same_names,
    assert_takes_more,
    codes_of_names,
)

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


@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_shortlist_is_put_in_order(is_sorted):
    items, connection = Shortlists(), apsw.Connection(":memory:")
    to_sqlite_vec(items.packed, connection, nbits=items.nbits, ids=items.ids)
    if is_sorted:  # of the items that tie at the last place the first ones
        select = "SELECT id, code FROM codes ORDER BY vec_distance_hamming(code, vec_bit(?)), id LIMIT ?"
    else:
        select = "SELECT id, code FROM codes WHERE code MATCH vec_bit(?) AND k = ?"
    lines = [connection.execute(select, (query.tobytes(), K)).fetchall() for query in items.packed_queries]
    ids, codes = ([[row[i] for row in line] for line in lines] for i in (0, 1))
    items.assert_put_in_order(ids, codes, is_sorted=is_sorted)


def test_refusals():
    connection = apsw.Connection(":memory:")
    to_sqlite_vec([[0, 1]], connection)
    with pytest.raises(ValueError, match=r"`table` must be the name of a new table. Got 'codes', which exists."):
        to_sqlite_vec([[1, 1]], connection)
    stored = from_sqlite_vec(connection)
    assert (stored.rows.tolist(), stored.nbits) == ([[64]], 8)
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
        ("'x', x'01'), (7, x'01'", r"`table` must have ints as ids. Got int, str in 'codes'."),
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


def test_traces_and_factories_of_the_caller_stay():
    connection, statements = apsw.Connection(":memory:"), []

    def as_dict(cursor, row):
        return {column[0]: value for column, value in zip(cursor.get_description(), row, strict=True)}

    class Cursor(apsw.Cursor):
        def fetchall(self):
            return None

    def log(cursor, statement, bindings):
        statements.append(statement)
        return True

    connection.row_trace, connection.exec_trace, connection.cursor_factory = as_dict, log, Cursor
    to_sqlite_vec([[0, 1], [1, 1]], connection, ids=[7, 8])
    assert from_sqlite_vec(connection, nbits=2).ids.tolist() == [7, 8]
    assert list(connection.execute("SELECT 1 AS one")) == [{"one": 1}]
    assert (connection.row_trace, connection.exec_trace, connection.cursor_factory) == (as_dict, log, Cursor)
    assert any("CREATE VIRTUAL TABLE" in statement for statement in statements)


@pytest.mark.parametrize("allowed", [0, 1])
def test_the_loading_of_extensions_is_as_before(allowed):
    connection, setting = apsw.Connection(":memory:"), apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION
    connection.config(setting, allowed)
    to_sqlite_vec([[0, 1]], connection)
    assert connection.config(setting, -1) == allowed


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_an_open_transaction_is_joined(end):
    connection = apsw.Connection(":memory:")
    connection.execute("BEGIN; CREATE TABLE theirs (a)")
    to_sqlite_vec([[0, 1]], connection)
    for refuse in (lambda: from_sqlite_vec(connection, "nowhere"), lambda: to_sqlite_vec([[0, 1]], connection)):
        with pytest.raises(ValueError, match=r"`table` must be"):
            refuse()
    assert connection.in_transaction
    connection.execute(end)
    assert [connection.table_exists("main", name) for name in ("theirs", "codes")] == [end == "COMMIT"] * 2


def test_attached_and_temporary_tables():
    connection = apsw.Connection(":memory:")
    connection.execute("ATTACH ':memory:' AS other; CREATE TABLE other.codes (id, code)")
    to_sqlite_vec([[0, 1]], connection)
    assert from_sqlite_vec(connection).rows.tolist() == [[64]]
    assert connection.execute("SELECT count(*) FROM other.codes").fetchall() == [(0,)]
    connection.execute("CREATE VIRTUAL TABLE other.vectors USING vec0(id INTEGER PRIMARY KEY, code float[2])")
    connection.execute("INSERT INTO vectors VALUES (1, '[1, 2]')")
    with pytest.raises(ValueError, match=r"`table` must have codes of type bit. Got float32 in 'vectors'."):
        from_sqlite_vec(connection, "vectors")
    connection.execute("CREATE TEMP TABLE hides (id, code); CREATE VIEW seen AS SELECT 1 AS id")
    for name in ("hides", "Seen"):
        with pytest.raises(ValueError, match=f"Got '{name}', which exists."):
            to_sqlite_vec([[0, 1]], connection, name)


def test_the_least_and_the_largest_id():
    connection = apsw.Connection(":memory:")
    to_sqlite_vec([[0, 1], [1, 1], [1, 0]], connection, ids=[2**63 - 1, -(2**63), -1])
    assert from_sqlite_vec(connection).ids.tolist() == [-(2**63), -1, 2**63 - 1]


def test_a_connection_of_sqlite3_is_named():
    for function in (lambda c: to_sqlite_vec([[0, 1]], c), from_sqlite_vec):
        with pytest.raises(TypeError, match=r"what apsw.Connection returns. Got sqlite3.Connection instead"):
            function(sqlite3.connect(":memory:"))


def test_text_identifiers():
    connection, names = apsw.Connection(":memory:"), [*NAMES, "a\0", "a\0b"]
    to_sqlite_vec(codes_of_names(names), connection, nbits=8, ids=names)
    assert_same_names(from_sqlite_vec(connection), names, is_sorted=True)
    select = "SELECT id FROM codes WHERE code MATCH vec_bit(?) AND k = 1"
    assert connection.execute(select, (b"\1",)).fetchall() == [("a",)]


def test_codes_of_another_hasher_are_refused(tmp_path):
    path = str(tmp_path / "some.db")
    connection = apsw.Connection(path)
    assert_same_hasher_only(
        lambda name, codes, **options: to_sqlite_vec(codes, connection, f'a "{name}"', **options),
        lambda name, **options: from_sqlite_vec(connection, f'A "{name}"', **options),
    )
    connection.close()
    connection = apsw.Connection(path)
    stored = from_sqlite_vec(connection, 'a "with"')
    assert len(stored.fingerprint) == 16
    query = 'SELECT distance FROM "a ""with""" WHERE code MATCH vec_bit(?) AND k = 1'
    assert connection.execute(query, (stored.rows[0].tobytes(),)).fetchall() == [(0.0,)]
    connection.execute('DROP TABLE "a ""with"""')
    to_sqlite_vec([[0, 1]], connection, 'a "with"')
    assert from_sqlite_vec(connection, 'a "with"', fingerprint="0" * 16).fingerprint is None


def test_the_fingerprint_is_that_of_the_table_that_is_read():
    connection = apsw.Connection(":memory:")
    to_sqlite_vec([[0, 1]], connection, fingerprint="0" * 16)
    connection.execute("CREATE TEMP TABLE codes AS SELECT 1 AS id, x'80' AS code")
    assert from_sqlite_vec(connection).rows.tolist() == [[128]]
    assert from_sqlite_vec(connection).fingerprint is None


def test_more_codes():
    connection = apsw.Connection(":memory:")
    assert_takes_more(
        lambda codes, **options: to_sqlite_vec(codes, connection, **options),
        lambda: from_sqlite_vec(connection, nbits=12),
    )


def test_more_codes_for_tables_of_other_programs():
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE plain (x, id, code); CREATE TABLE others (a); CREATE TEMP TABLE hides (id, code)")
    to_sqlite_vec([[0, 1]], connection, "plain", if_exists="append")
    assert connection.execute("SELECT * FROM plain").fetchall() == [(None, 0, b"@")]
    with pytest.raises(ValueError, match=r"`ids` must not be in 'plain' yet. Got 0"):
        to_sqlite_vec([[0, 1]], connection, "plain", if_exists="append")
    with pytest.raises(ValueError, match=r"the columns id and code. Got 'others': no such column"):
        to_sqlite_vec([[0, 1]], connection, "others", if_exists="append")
    with pytest.raises(ValueError, match=r"`table` must not be hidden by a temporary table. Got 'hides'"):
        to_sqlite_vec([[0, 1]], connection, "hides", if_exists="replace")


def test_a_path_is_no_connection():
    for function in (lambda c: to_sqlite_vec([[0, 1]], c), from_sqlite_vec):
        with pytest.raises(TypeError, match=r"Got 'codes.db' instead. Open it: apsw.Connection\('codes.db'\)"):
            function("codes.db")
