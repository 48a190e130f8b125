"""DuckDB gives the neighbors of ours, and the codes back."""

import numpy as np
import pytest
from _stores import LENGTHS, Items, K

from skhash.stores import _codes, bit_strings, from_duckdb, to_duckdb

duckdb = pytest.importorskip("duckdb")


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits, monkeypatch):
    monkeypatch.setattr(_codes, "BATCH", 150)  # several parts
    items, connection = Items(nbits), duckdb.connect()
    to_duckdb(items.packed, connection, 'a "b"; c', nbits=nbits, ids=items.ids)
    select = f'SELECT bit_count(xor(code, ?::BIT)) AS distance, id FROM "a ""b""; c" ORDER BY distance LIMIT {K}'
    found = np.array([connection.execute(select, [query]).fetchall() for query in bit_strings(items.query_bits)])
    items.assert_same_neighbors(found[..., 0], found[..., 1])
    items.assert_same_codes(from_duckdb(connection, 'a "b"; c'), is_sorted=True)


def test_a_failed_write_leaves_no_table(monkeypatch):
    connection = duckdb.connect()

    def fail(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("skhash.stores.duckdb.bit_strings", fail)
    with pytest.raises(KeyboardInterrupt):
        to_duckdb([[0, 1]], connection)
    assert connection.execute("SHOW TABLES").fetchall() == []


def test_no_codes_make_an_empty_table():
    connection = duckdb.connect()
    to_duckdb(np.empty((0, 1), dtype=np.uint8), connection, nbits=8)
    assert connection.execute("SELECT * FROM codes").fetchall() == []


def test_refusals():
    connection = duckdb.connect()
    to_duckdb([[0, 1]], connection)
    with pytest.raises(ValueError, match=r"`table` must be the name of a new table. Got 'codes', which exists."):
        to_duckdb([[1, 1]], connection)
    assert from_duckdb(connection).codes.tolist() == [[64]]
    connection.execute("INSERT INTO codes VALUES (7, '101'::BIT)")
    with pytest.raises(ValueError, match=r"codes of one length. Got the lengths \[2, 3\] in 'codes'."):
        from_duckdb(connection)
    with pytest.raises(ValueError, match=r"`table` must be the name of a table. Got '' instead."):
        from_duckdb(connection, "")


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("1.5::DOUBLE AS id, '01'::BIT AS code", r"`table` must have ints as ids. Got float in 'codes'."),
        ("'7' AS id, '01'::BIT AS code", r"`table` must have ints as ids. Got str in 'codes'."),
        ("NULL AS id, '01'::BIT AS code", r"`table` must have ints as ids. Got NoneType in 'codes'."),
        (
            "18446744073709551615::UBIGINT AS id, '01'::BIT AS code",
            r"`table` must have ids of at most 9223372036854775807",
        ),
        ("1 AS id, NULL::BIT AS code", r"`table` must have codes of type str. Got NoneType in 'codes'."),
        ("1 AS id, 'né' AS code", r"`table` must have codes of 0 and 1. Got other characters in 'codes'."),
        ("1 AS id, '' AS code", r"`table` must have codes of one length. Got the lengths \[0\] in 'codes'."),
        ("1 AS key, '01'::BIT AS code", r"`table` must be the name of a table with the columns id and code. .*\"id\""),
    ],
)
def test_tables_of_other_programs(row, match):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE codes AS SELECT {row}")
    with pytest.raises(ValueError, match=match):
        from_duckdb(connection)


def test_a_missing_table_is_named():
    with pytest.raises(
        ValueError, match=r"`table` must be the name of a table with .* Got 'nowhere': .*does not exist"
    ):
        from_duckdb(duckdb.connect(), "nowhere")
