"""FAISS gives the neighbors of ours, and the codes back."""

import numpy as np
import pytest
from _stores import LENGTHS, Items, K, Shortlists
from numpy.testing import assert_array_equal
from sklearn.frozen import FrozenEstimator

from skhash.neighbors import HammingNeighbors, order_shortlist
from skhash.stores import from_faiss, to_faiss

faiss = pytest.importorskip("faiss")


@pytest.mark.parametrize("nbits", LENGTHS)
def test_neighbors_and_codes(nbits):
    items = Items(nbits)
    index = to_faiss(items.bits, ids=items.ids)
    items.assert_same_neighbors(*index.search(items.queries, K))
    items.assert_same_codes(from_faiss(index, nbits=nbits))
    again = faiss.deserialize_index_binary(faiss.serialize_index_binary(index))
    items.assert_same_codes(from_faiss(again, nbits=nbits))


def test_a_shortlist_is_put_in_order():
    items = Shortlists()
    index = to_faiss(items.packed, nbits=items.nbits, ids=items.ids)
    _, ids = index.search(items.packed_queries, K)
    stored = from_faiss(index, nbits=items.nbits)
    items.assert_put_in_order(ids, stored.rows[np.searchsorted(stored.ids, ids)], is_sorted=False)


def test_lists_that_faiss_fills_with_no_items():
    items = Shortlists()
    packed = items.packed[:4]
    _, ids = to_faiss(packed, nbits=items.nbits).search(items.packed_queries, 6)
    distances, ordered = order_shortlist(items.queries, ids, codes=packed[ids], hasher=items.hasher)
    assert (ids[:, 4:] == -1).all()
    frozen = HammingNeighbors(FrozenEstimator(items.hasher), query="real").fit(items.vectors[:4])
    for found, expected in zip((distances, ordered), frozen.kneighbors(items.queries, 4), strict=True):
        assert_array_equal(found, expected)


def test_packed_codes_without_ids():
    items = Items(12)
    stored = from_faiss(to_faiss(items.packed, nbits=12))
    assert stored.nbits == 16
    assert_array_equal(stored.rows, items.packed)
    assert_array_equal(stored.ids, np.arange(400))


def test_an_empty_index_and_a_graph():
    assert from_faiss(faiss.IndexBinaryFlat(16)).rows.shape == (0, 2)
    items = Items(48)
    graph = faiss.IndexBinaryHNSW(48, 8)
    graph.add(items.packed)
    assert_array_equal(from_faiss(graph).rows, items.packed)


def test_identifiers_of_inverted_lists():
    items = Items(48)
    quantizer = faiss.IndexBinaryFlat(48)
    index = faiss.IndexBinaryIVF(quantizer, 48, 4)
    index.cp.min_points_per_centroid = 1
    index.train(items.packed)
    index.add_with_ids(items.packed, items.ids + 10_000)  # FAISS reconstructs none of these
    index.remove_ids(items.ids[:3] + 10_000)
    stored = from_faiss(index)
    order = 3 + np.argsort(items.ids[3:])
    assert_array_equal(stored.ids, items.ids[order] + 10_000)
    assert_array_equal(stored.rows, items.packed[order])


def test_identifiers_of_a_map_over_inverted_lists():
    items, quantizer = Items(48), faiss.IndexBinaryFlat(48)
    lists = faiss.IndexBinaryIVF(quantizer, 48, 4)
    lists.cp.min_points_per_centroid = 1
    lists.train(items.packed)
    index = faiss.IndexBinaryIDMap(lists)
    index.add_with_ids(items.packed, items.ids)
    items.assert_same_codes(from_faiss(index))


@pytest.mark.parametrize("kind", ["IndexBinaryHash", "IndexBinaryMultiHash", "IndexBinaryFromFloat"])
@pytest.mark.parametrize("outer", [None, "IndexBinaryIDMap", "IndexBinaryIDMap2"])
def test_an_index_without_codes_is_named(kind, outer):
    items = Items(16)
    floats = faiss.IndexFlatL2(16)
    arguments = {"IndexBinaryHash": (16, 4), "IndexBinaryMultiHash": (16, 2, 4), "IndexBinaryFromFloat": (floats,)}
    index = inner = getattr(faiss, kind)(*arguments[kind])
    if outer is None:
        index.add(items.packed)
    else:
        index = getattr(faiss, outer)(inner)
        index.add_with_ids(items.packed, items.ids)
    with pytest.raises(TypeError, match=rf"`index` must be .* reads codes again. Got {kind} instead."):
        from_faiss(index)


def test_the_least_and_the_largest_id():
    ids = [2**63 - 1, -(2**63), -1]
    assert from_faiss(to_faiss([[0, 1], [1, 1], [1, 0]], ids=ids)).ids.tolist() == ids


def test_refusals():
    with pytest.raises(TypeError, match=r"`index` must be a binary FAISS index. Got IndexFlatL2 instead."):
        from_faiss(faiss.IndexFlatL2(4))
    with pytest.raises(ValueError, match=r"`index` must have zeros after bit 12"):
        from_faiss(to_faiss(np.ones((3, 16), dtype=int)), nbits=12)
    with pytest.raises(ValueError, match=r"`ids` must be ints of shape"):
        to_faiss([[0, 1]], ids=[1, 2])
    with pytest.raises(ValueError, match=r"`ids` must have the same number of values in each row."):
        to_faiss([[0, 1], [1, 1]], ids=[1, [2, 3]])
