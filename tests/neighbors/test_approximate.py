"""Backends of FAISS, against the exact search."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from skhash import ITQHasher
from skhash.neighbors import HammingNeighbors, HammingNeighborsTransformer
from skhash.persistence import load, save

pytest.importorskip("faiss")
BACKENDS = ("faiss-hnsw", "faiss-ivf", "faiss-multihash")


def clustered_bits(n, nbits, seed=0):
    """Bits of 30 clusters, so that there are near neighbors."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(9).integers(0, 2, (30, nbits), dtype=np.uint8)
    return centers[rng.integers(0, 30, n)] ^ (rng.random((n, nbits)) < 0.08).astype(np.uint8)


ITEMS, QUERIES = clustered_bits(3000, 60), clustered_bits(50, 60, 1)


@pytest.fixture(scope="module", params=BACKENDS)
def index(request):
    return HammingNeighbors(backend=request.param).fit(ITEMS)


def test_most_neighbors_are_found_in_the_exact_order(index):
    exact = HammingNeighbors().fit(ITEMS)
    distances, ids = index.kneighbors(QUERIES)
    expected, expected_ids = exact.kneighbors(QUERIES)
    assert (distances == expected).mean() > 0.9
    assert np.mean([len(set(a) & set(b)) for a, b in zip(ids, expected_ids, strict=True)]) > 8
    np.testing.assert_array_equal(distances, (ITEMS[ids] != QUERIES[:, None]).sum(axis=-1))
    steps = np.diff(distances)
    assert (steps >= 0).all()
    assert (np.diff(ids)[steps == 0] > 0).all()
    own = index.kneighbors(n_neighbors=3)[1]
    assert own.shape == (3000, 3)
    assert not (own == np.arange(3000)[:, None]).any()


def test_the_same_items_give_the_same_neighbors(index):
    again = clone(index).fit(ITEMS)
    copies = clone(index).set_params(n_jobs=2).fit(ITEMS), pickle.loads(pickle.dumps(index))
    for other in (again, *copies):
        np.testing.assert_array_equal(other.kneighbors(QUERIES)[1], index.kneighbors(QUERIES)[1])


def test_items_are_added_removed_saved_and_loaded(index, tmp_path):
    changed = clone(index).fit(ITEMS[:1000]).add(ITEMS[1000:]).remove([7])
    fresh = clone(index).fit(np.delete(ITEMS, 7, axis=0), ids=np.delete(np.arange(3000), 7))
    np.testing.assert_array_equal(changed.kneighbors(QUERIES)[1], fresh.kneighbors(QUERIES)[1])
    save(changed, tmp_path / "index")
    np.testing.assert_array_equal(load(tmp_path / "index").kneighbors(QUERIES)[1], fresh.kneighbors(QUERIES)[1])


def test_a_radius(index):
    if index.backend == "faiss-hnsw":
        with pytest.raises(
            ValueError, match="`backend` must be 'exact', 'faiss-ivf' or 'faiss-multihash' for a search"
        ):
            index.radius_neighbors(QUERIES, radius=6)
        return
    distances, ids = index.radius_neighbors(QUERIES, radius=6)
    expected = HammingNeighbors().fit(ITEMS).radius_neighbors(QUERIES, radius=6)[1]
    assert sum(map(len, ids)) > 0.8 * sum(map(len, expected)) > 0
    for query, near, found in zip(QUERIES, distances, ids, strict=True):
        assert (np.diff(found) > 0).all()
        np.testing.assert_array_equal(near, (ITEMS[found] != query).sum(axis=1))
        assert (near <= 6).all()


def test_too_few_found_items_are_an_exact_search():
    n = len(ITEMS)  # all of them are too many for any hash table
    found = HammingNeighbors(backend="faiss-multihash", n_neighbors=n).fit(ITEMS).kneighbors(QUERIES)
    expected = HammingNeighbors(n_neighbors=n).fit(ITEMS).kneighbors(QUERIES)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [3, 100])
def test_few_items_and_few_bits(backend, n, capfd):
    items = clustered_bits(n, 3)
    distances, _ = HammingNeighbors(backend=backend, n_neighbors=2).fit(items).kneighbors(items)
    assert (distances[:, 0] == 0).all()
    assert capfd.readouterr() == ("", "")  # FAISS warns of few items


def test_a_shortlist_and_the_transformer(digits):
    X, hasher = digits.X, ITQHasher(32, random_state=0)
    index = HammingNeighbors(hasher, backend="faiss-hnsw", query="real", candidates=50, n_neighbors=5).fit(X)
    exact = clone(index).set_params(backend="exact").fit(X)
    assert (index.kneighbors(X[:50])[1] == exact.kneighbors(X[:50])[1]).mean() > 0.9
    transformer = HammingNeighborsTransformer(hasher, backend="faiss-ivf", n_neighbors=4)
    assert transformer.fit_transform(X).getnnz() == 5 * len(X)


def test_what_a_backend_cannot_do(digits, monkeypatch):
    X, hasher = digits.X[:200], ITQHasher(4, random_state=0).fit(digits.X[:200])
    hasher.bit_weights_ = np.arange(4.0)
    weighted = FrozenEstimator(hasher)
    for index, message in [
        (
            HammingNeighbors(FrozenEstimator(weighted), backend="faiss-ivf"),
            "`backend` must be 'exact' for weighted bits",
        ),
        (HammingNeighbors(ITQHasher(8), backend="faiss-ivf", query="real"), "`candidates` must be set with backend="),
        (HammingNeighbors(ITQHasher(8), backend="faiss-ivf", rerank="inner"), "`candidates` must be set with backend="),
    ]:
        with pytest.raises(ValueError, match=message):
            index.fit(X)
    fitted = HammingNeighbors(ITQHasher(8, random_state=0), backend="faiss-ivf").fit(X)
    with pytest.raises(ValueError, match="`return_ties` must be False unless all items are ranked"):
        fitted.kneighbors(X, return_ties=True)
    items = fitted._items
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match="faiss must be installed for backend='faiss-ivf': pip install faiss-cpu"):
        fitted.fit(X[:50])
    assert fitted._items is items
