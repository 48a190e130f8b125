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
