"""LanceDB gives the neighbors of ours, and the codes back."""

import numpy as np
import pyarrow
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

from skhash.stores import from_lancedb, to_lancedb

lancedb = pytest.importorskip("lancedb")


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits, tmp_path):
    items = Items(nbits)
    table = to_lancedb(items.bits, lancedb.connect(tmp_path), "some", ids=items.ids)
    found = [
        table.search(query, vector_column_name="code").distance_type("hamming").limit(K).to_arrow()
        for query in items.queries
    ]
    items.assert_same_neighbors([t["_distance"].to_pylist() for t in found], [t["id"].to_pylist() for t in found])
    items.assert_same_codes(from_lancedb(lancedb.connect(tmp_path), "some"))


@pytest.mark.parametrize("is_list", [True, False])
def test_a_shortlist_is_put_in_order(is_list, tmp_path):
    items = Shortlists()
    table = to_lancedb(items.packed, lancedb.connect(tmp_path), nbits=items.nbits, ids=items.ids)
    searches = [table.search(query, vector_column_name="code") for query in items.packed_queries]
    searches = [search.distance_type("hamming").limit(K) for search in searches]
    if is_list:
        found = [search.to_list() for search in searches]
        ids, codes = ([[item[name] for item in line] for line in found] for name in ("id", "code"))
    else:
        found = [search.to_pandas() for search in searches]
        ids, codes = [line["id"] for line in found], [list(line["code"]) for line in found]
    items.assert_put_in_order(ids, codes, is_sorted=False)


def test_refusals(tmp_path):
    connection = lancedb.connect(tmp_path)
    to_lancedb([[0, 1]], connection)
    with pytest.raises(ValueError, match="which exists"):
        to_lancedb([[1, 1]], connection)
    assert from_lancedb(connection).rows.tolist() == [[64]]
    with pytest.raises(ValueError, match="not found"):
        from_lancedb(connection, "nothing")
    connection.create_table("floats", [{"vector": [0.5, 1.0]}]).alter_columns({"path": "vector", "rename": "code"})
    with pytest.raises(ValueError, match=r"column `code` must hold .* Got 1 of type fixed_size_list.*float"):
        from_lancedb(connection, "floats")


def test_lists_of_other_programs(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    items, connection = Items(48), lancedb.connect(tmp_path)
    columns = {"id": items.ids, "code": list(items.packed)}
    tables = {
        "pandas": pandas.DataFrame(columns),
        "polars": polars.DataFrame(columns),
        "python": [{"id": i, "code": code} for i, code in zip(items.ids.tolist(), items.packed.tolist(), strict=True)],
    }
    for name, table in tables.items():
        connection.create_table(name, table)
        items.assert_same_codes(from_lancedb(connection, name))
    connection.create_table("mixed", [{"code": [1, 2]}, {"code": [3]}])
    with pytest.raises(ValueError, match=r"column `code` must hold .* of one length. Got list<item: int64>"):
        from_lancedb(connection, "mixed")


def test_the_least_and_the_largest_id(tmp_path):
    connection = lancedb.connect(tmp_path)
    to_lancedb([[0, 1], [1, 1]], connection, ids=np.array([-(2**63), 2**63 - 1]))
    assert from_lancedb(connection).ids.tolist() == [-(2**63), 2**63 - 1]


def test_text_identifiers(tmp_path):
    connection, names = lancedb.connect(tmp_path), [*NAMES, "a\0", "a\0b"]
    table = to_lancedb(codes_of_names(names), connection, nbits=8, ids=names)
    assert_same_names(from_lancedb(connection), names)
    search = table.search(codes_of_names()[1], vector_column_name="code").distance_type("hamming")
    assert [item["id"] for item in search.limit(1).to_list()] == ["a"]


def test_codes_of_another_hasher_are_refused(tmp_path):
    connection = lancedb.connect(tmp_path)
    assert_same_hasher_only(
        lambda name, codes, **options: to_lancedb(codes, connection, name, **options),
        lambda name, **options: from_lancedb(connection, name, **options),
    )
    table = connection.open_table("with")
    table.add(table.to_arrow().slice(0, 3))
    with pytest.raises(ValueError, match="`fingerprint` must be that of"):
        from_lancedb(connection, "with", fingerprint="0" * 16)
    wrong = table.to_arrow().replace_schema_metadata({"skhash.fingerprint": "new"})
    connection.create_table("wrong", wrong)
    with pytest.raises(ValueError, match=r"`fingerprint` must be None or .* Got 'new'"):
        from_lancedb(connection, "wrong")


def test_more_codes(tmp_path):
    connection = lancedb.connect(tmp_path)
    assert_takes_more(
        lambda codes, **options: to_lancedb(codes, connection, **options), lambda: from_lancedb(connection)
    )


def test_more_codes_for_tables_of_other_programs(tmp_path):
    connection = lancedb.connect(tmp_path)
    code = pyarrow.array([[64]], pyarrow.list_(pyarrow.uint8(), 1))
    connection.create_table("theirs", pyarrow.table({"text": ["a"], "code": code, "id": pyarrow.array([5])}))
    theirs = to_lancedb([[0, 1] * 4], connection, "theirs", if_exists="append")
    assert theirs.to_arrow().to_pydict() == {"text": ["a", None], "code": [[64], [85]], "id": [5, 0]}
    connection.create_table("mixed", [{"id": 1, "code": [1, 2]}, {"id": 2, "code": [3]}])
    with pytest.raises(ValueError, match=r"a column `code` of lists of one length is needed to add codes. Got list<"):
        to_lancedb([[0, 1]], connection, "mixed", if_exists="append")
    connection.create_table("numbers", [{"code": [1.0, 2.0]}])
    with pytest.raises(ValueError, match=r"Got 'numbers': it has no column id"):
        to_lancedb([[0, 1]], connection, "numbers", if_exists="append")


def test_a_path_is_no_connection():
    for function in (lambda c: to_lancedb([[0, 1]], c), from_lancedb):
        with pytest.raises(TypeError, match=r"Got 'lance' instead. Open it: lancedb.connect\('lance'\)"):
            function("lance")
