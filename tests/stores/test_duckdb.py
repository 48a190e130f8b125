"""DuckDB gives the neighbors of ours, and the codes back."""

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

from skhash.stores import bit_strings, from_duckdb, to_duckdb

duckdb = pytest.importorskip("duckdb")


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits):
    items, connection = Items(nbits), duckdb.connect()
    to_duckdb(items.packed, connection, 'a "b"; c', nbits=nbits, ids=items.ids)
    select = f'SELECT bit_count(xor(code, ?::BIT)) AS distance, id FROM "a ""b""; c" ORDER BY distance LIMIT {K}'
    found = np.array([connection.execute(select, [query]).fetchall() for query in bit_strings(items.query_bits)])
    items.assert_same_neighbors(found[..., 0], found[..., 1])
    items.assert_same_codes(from_duckdb(connection, 'a "b"; c'), is_sorted=True)


def test_a_shortlist_is_put_in_order():
    items, connection = Shortlists(), duckdb.connect()
    to_duckdb(items.packed, connection, nbits=items.nbits, ids=items.ids)
    select = f"SELECT id, code FROM codes ORDER BY bit_count(xor(code, ?::BIT)), id LIMIT {K}"
    texts = bit_strings(items.packed_queries, nbits=items.nbits)
    found = [zip(*connection.execute(select, [text]).fetchall(), strict=True) for text in texts]
    items.assert_put_in_order(*zip(*found, strict=True))


@pytest.mark.parametrize(
    ("setup", "place"),
    [
        ("ATTACH ':memory:' AS other; USE other", ("other", "main")),
        ("ATTACH ':memory:' AS other; CREATE TABLE other.codes (id INT)", ("memory", "main")),
        ('CREATE SCHEMA "A b"; USE "A b"', ("memory", "A b")),
        ("CREATE SCHEMA s; SET schema = 'S'", ("memory", "s")),
        ("CREATE SCHEMA a; CREATE TABLE codes (id INT); SET search_path = 'a,main'", ("memory", "a")),
    ],
)
def test_the_table_is_where_the_connection_points(setup, place):
    connection = duckdb.connect()
    connection.execute(setup)
    before = connection.execute("SELECT database_name, schema_name FROM duckdb_tables()").fetchall()
    to_duckdb([[0, 1]], connection)
    after = connection.execute("SELECT database_name, schema_name FROM duckdb_tables()").fetchall()
    assert sorted(after) == sorted([*before, place])
    assert from_duckdb(connection).rows.tolist() == [[64]]
    with pytest.raises(ValueError, match=r"Got 'codes', which exists."):
        to_duckdb([[0, 1]], connection)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_open_transaction_is_joined(end, tmp_path):
    path = str(tmp_path / "codes.duckdb")
    connection = duckdb.connect(path)
    connection.execute("BEGIN; CREATE TABLE theirs (a INT)")
    to_duckdb([[0, 1]], connection)
    assert from_duckdb(connection).rows.tolist() == [[64]]
    refused = [lambda: to_duckdb([[0, 1]], connection)]
    refused += [lambda name=name: from_duckdb(connection, name) for name in ("nowhere", "theirs")]
    for refuse in refused:
        with pytest.raises(ValueError, match=r"`table` must be"):
            refuse()
    getattr(connection, end)()
    connection.close()
    tables = duckdb.connect(path).execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
    assert tables == ([("codes",), ("theirs",)] if end == "commit" else [])


@pytest.mark.parametrize("kind", ["TEMP TABLE", "TEMP VIEW"])
def test_a_temporary_table_would_hide_the_new_one(kind):
    connection = duckdb.connect()
    connection.execute(f"CREATE {kind} codes AS SELECT 1::BIGINT AS id, '01'::BIT AS code")
    with pytest.raises(ValueError, match=r"`table` must be the name of a new table. Got 'codes', which exists."):
        to_duckdb([[1, 1]], connection)
    assert from_duckdb(connection).rows.tolist() == [[64]]


def test_the_least_and_the_largest_id():
    connection = duckdb.connect()
    to_duckdb([[0, 1], [1, 1], [1, 0]], connection, ids=[2**63 - 1, -(2**63), -1])
    assert from_duckdb(connection).ids.tolist() == [-(2**63), -1, 2**63 - 1]
    with pytest.raises(ValueError, match=r"`ids` must be at most 9223372036854775807. Got 9223372036854775808"):
        to_duckdb([[0, 1]], connection, "others", ids=np.array([2**63], dtype=np.uint64))


def test_a_failed_write_leaves_no_table(tmp_path):
    duckdb.connect(str(tmp_path / "codes.duckdb")).close()
    connection = duckdb.connect(str(tmp_path / "codes.duckdb"), read_only=True)
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
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
    assert from_duckdb(connection).rows.tolist() == [[64]]
    connection.execute("INSERT INTO codes VALUES (7, '101'::BIT)")
    with pytest.raises(ValueError, match=r"codes of one length. Got the lengths \[2, 3\] in 'codes'."):
        from_duckdb(connection)
    with pytest.raises(ValueError, match=r"`table` must be the name of a table. Got '' instead."):
        from_duckdb(connection, "")


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("1.5::DOUBLE AS id, '01'::BIT AS code", r"`table` must have ints as ids. Got float in 'codes'."),
        ("NULL AS id, '01'::BIT AS code", r"`table` must have ints as ids. Got NoneType in 'codes'."),
        (
            "18446744073709551615::UBIGINT AS id, '01'::BIT AS code",
            r"`table` must have ids of at most 9223372036854775807",
        ),
        ("-(2::HUGEINT ** 80)::HUGEINT AS id, '01'::BIT AS code", r"`table` must have ids .* int64"),
        ("1 AS id, [1, 2]::UTINYINT[] AS code", r"`table` must have codes of type str. Got list in 'codes'."),
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


def test_text_identifiers():
    connection, names = duckdb.connect(), [*NAMES, "a\0", "a\0b"]
    to_duckdb(codes_of_names(names), connection, nbits=8, ids=names)
    assert_same_names(from_duckdb(connection), names, is_sorted=True)
    assert connection.execute("SELECT id FROM codes WHERE code = '00000001'::BIT").fetchall() == [("a",)]
    with pytest.raises(ValueError, match=r"`ids` must be text that UTF-8 can hold\. Got '.udcff\.png'\. Replace it"):
        to_duckdb([[0, 1]], connection, "others", ids=["\udcff.png"])
    with pytest.raises(ValueError, match=r"Got 'others': it does not exist"):
        from_duckdb(connection, "others")


def test_codes_of_another_hasher_are_refused(tmp_path):
    path = str(tmp_path / "some.duckdb")

    def write(name, codes, **options):
        with duckdb.connect(path) as connection:
            to_duckdb(codes, connection, f"a {name}", **options)

    def read(name, **options):
        with duckdb.connect(path, read_only=True) as connection:
            return from_duckdb(connection, f"A {name}", **options)

    assert_same_hasher_only(write, read)
    with duckdb.connect(path) as connection:
        for comment in ("'skhash.fingerprint=0'", "'of us'", "NULL"):
            connection.execute(f'COMMENT ON TABLE "a with" IS {comment}')
            assert from_duckdb(connection, "a with", fingerprint="0" * 16).fingerprint is None
        connection.execute(f"COMMENT ON TABLE \"a with\" IS 'ours, skhash.fingerprint={'1' * 16}, of today'")
        assert from_duckdb(connection, "a with").fingerprint == "1" * 16


def test_the_fingerprint_is_that_of_the_table_that_is_read():
    connection = duckdb.connect()
    to_duckdb([[0, 1]], connection, fingerprint="0" * 16)
    connection.execute("CREATE SCHEMA a; SET search_path = 'a,main'")
    assert from_duckdb(connection).fingerprint == "0" * 16
    to_duckdb([[1, 1]], connection, fingerprint="1" * 16)
    assert (from_duckdb(connection).rows.tolist(), from_duckdb(connection).fingerprint) == ([[192]], "1" * 16)
    connection.execute("SET search_path = 'main,a'")
    assert (from_duckdb(connection).rows.tolist(), from_duckdb(connection).fingerprint) == ([[64]], "0" * 16)
    connection.execute("CREATE TEMP TABLE codes AS SELECT 1::BIGINT AS id, '10'::BIT AS code")
    assert (from_duckdb(connection).rows.tolist(), from_duckdb(connection).fingerprint) == ([[128]], None)


def test_more_codes():
    connection = duckdb.connect()
    assert_takes_more(lambda codes, **options: to_duckdb(codes, connection, **options), lambda: from_duckdb(connection))


def test_more_codes_for_the_table_that_is_read():
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA a; SET search_path = 'a,main'; CREATE TABLE main.codes (x INT, CODE BIT, ID INT)")
    to_duckdb([[0, 1]], connection, if_exists="append")
    assert connection.execute("SELECT * FROM main.codes").fetchall() == [(None, "01", 0)]
    to_duckdb([[1, 1]], connection, if_exists="replace")
    assert connection.execute("SELECT id, code FROM a.codes").fetchall() == [(0, "11")]
    connection.execute("CREATE TEMP TABLE codes (id INT, code BIT)")
    with pytest.raises(ValueError, match=r"`table` must not be hidden by a temporary table. Got 'codes'"):
        to_duckdb([[1, 1]], connection, if_exists="replace")
    to_duckdb([[1, 0]], connection, if_exists="append")
    assert from_duckdb(connection).rows.tolist() == [[128]]
    connection.execute("CREATE TABLE others (id INT, code VARCHAR)")
    with pytest.raises(ValueError, match=r"Got 'others': its columns are id INTEGER, code VARCHAR"):
        to_duckdb([[1, 0]], connection, "others", if_exists="append")


def test_a_path_is_no_connection():
    for function in (lambda c: to_duckdb([[0, 1]], c), from_duckdb):
        with pytest.raises(TypeError, match=r"Got 'a.duckdb' instead. Open it: duckdb.connect\('a.duckdb'\)"):
            function("a.duckdb")
