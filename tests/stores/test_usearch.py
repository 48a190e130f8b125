"""usearch gives the neighbors of ours, and the codes back."""

import numpy as np
import pytest
from _stores import LENGTHS, Items, K, Shortlists

from skhash.stores import from_usearch, to_usearch

usearch = pytest.importorskip("usearch.index", reason="needs usearch")


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits):
    items = Items(nbits)
    index = to_usearch(items.packed, nbits=nbits, ids=items.ids)
    matches = index.search(items.queries, K, exact=True)
    items.assert_same_neighbors(matches.distances, matches.keys)
    items.assert_same_codes(from_usearch(index), is_sorted=True)
    again = usearch.Index.restore(index.save())
    items.assert_same_codes(from_usearch(again), is_sorted=True)


def test_a_shortlist_is_put_in_order():
    items = Shortlists()
    index = to_usearch(items.packed, nbits=items.nbits, ids=items.ids)
    ids = index.search(items.packed_queries, K, exact=True).keys
    items.assert_put_in_order(ids, [index.get(keys) for keys in ids], is_sorted=False)


def test_one_code_and_none():
    assert from_usearch(to_usearch([[0, 0, 1]])).rows.tolist() == [[32]]
    assert from_usearch(usearch.Index(ndim=12, dtype="b1", metric="hamming")).rows.shape == (0, 2)


def test_the_largest_keys():
    keys = np.array([2**64 - 2, 5, 2**63], dtype=np.uint64)
    index = to_usearch([[0, 1], [1, 1], [1, 0]], ids=keys)
    assert sorted(index.search(np.array([64], dtype=np.uint8), 3).keys.tolist()) == sorted(keys.tolist())
    stored = from_usearch(index)
    assert (stored.ids.tolist(), stored.ids.dtype) == ([5, 2**63, 2**64 - 2], np.uint64)
    assert stored.rows.tolist() == [[192], [128], [64]]
    assert from_usearch(to_usearch([[0, 1]], ids=np.array([2**63 - 1], dtype=np.uint64))).ids.dtype == np.int64


def test_refusals():
    with pytest.raises(TypeError, match=r"`index` must be a usearch index with dtype='b1'. Got .*F32 instead."):
        from_usearch(usearch.Index(ndim=4, dtype="f32"))
    with pytest.raises(ValueError, match=r"`ids` must be >= 0 in usearch. Got -1 instead."):
        to_usearch([[0, 1]], ids=[-1])
    with pytest.raises(ValueError, match=r"`ids` must be at most 18446744073709551614 in usearch."):
        to_usearch([[0, 1]], ids=np.array([2**64 - 1], dtype=np.uint64))
    with pytest.raises(ValueError, match=r"`ids` must differ"):
        to_usearch([[0, 1], [1, 1]], ids=np.array([2**63, 2**63], dtype=np.uint64))
    repeated = usearch.Index(ndim=8, metric="hamming", dtype="b1", multi=True)
    repeated.add(np.array([1, 1], dtype=np.uint64), np.array([[1], [2]], dtype=np.uint8))
    with pytest.raises(ValueError, match=r"`index` must have different keys"):
        from_usearch(repeated)
