"""Queries of several vectors against brute force: sums of the distances of the nearest members of groups."""

import pickle

import numpy as np
import pytest
from _oracles import sums_to_groups
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from skhash import EmbeddingHasher, LSHHasher
from skhash.codes import Codes, hamming_distances
from skhash.neighbors import HammingNeighbors

VECTORS = np.random.default_rng(0).integers(-9, 9, (200, 8)) / 7.0
GROUPS = np.random.default_rng(1).integers(0, 40, 200)
ROWS, QUERY_GROUPS = VECTORS[:12] + 0.1, np.array(list("cabbacaaacbb"), object)
LSH = FrozenEstimator(LSHHasher(16, random_state=0).fit(VECTORS))


def nearest(sums, labels, k):
    """Distances, labels and ties of the k nearest groups, of equal ones the lowest."""
    order = np.argsort(sums, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(sums, order, axis=1)
    return found, labels[order], (sums == found[:, -1:]).sum(axis=1)


def assert_equal(found, right):
    for one, other in zip(found, right, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("kind", ["ints", "text"])
@pytest.mark.parametrize("n_rows", [1, 3, 40])
def test_items_come_and_go(kind, n_rows):
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, nbits = int(rng.integers(1, 120)), int(rng.choice([1, 9, 64, 100, 300]))
        items, groups = rng.integers(0, 2, (n, nbits)), rng.integers(-3, 9, n)
        items[rng.random(n) < 0.4] = items[0]
        groups = np.array([str(group) for group in groups], object) if kind == "text" else groups
        rows, query_groups = rng.integers(0, 2, (n_rows, nbits)), rng.integers(0, max(1, n_rows // 3), n_rows)
        index, ids = HammingNeighbors().fit(items, groups=groups), np.arange(n)
        for _ in range(3):
            labels = np.array(sorted(set(groups.tolist())), dtype=groups.dtype)
            sums = sums_to_groups(hamming_distances(rows, items), groups, query_groups)
            k = int(rng.integers(1, len(labels) + 1))
            right = nearest(sums, labels, k)
            assert_equal(index.kneighbors(rows, k, return_ties=True, query_groups=query_groups), right)
            assert_array_equal(index.kneighbors(rows, k, False, query_groups=query_groups), right[1])
            radius = float(np.median(sums))
            for by_distance in (False, True):
                near = index.radius_neighbors(rows, radius, sort_results=by_distance, query_groups=query_groups)
                for of_query, distances, found in zip(sums, *near, strict=True):
                    chosen = np.flatnonzero(of_query <= radius)
                    chosen = chosen[np.argsort(of_query[chosen], kind="stable")] if by_distance else chosen
                    assert_equal([distances, found], [of_query[chosen], labels[chosen]])
            kept = rng.random(len(ids)) < 0.7
            kept[rng.integers(len(ids))] = True
            index.remove(ids[~kept])
            more, of_more = rng.integers(0, 2, (5, nbits)), rng.integers(-3, 12, 5)
            of_more = np.array([str(group) for group in of_more], object) if kind == "text" else of_more
            index.add(more, groups=of_more)
            ids, items = index.ids_, np.concatenate([items[kept], more])
            groups = np.concatenate([groups[kept], of_more])


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    items, rows = rng.integers(0, 256, (300_000, 8), dtype=np.uint8), rng.integers(0, 256, (64, 8), dtype=np.uint8)
    groups = np.minimum(rng.zipf(1.5, 300_000), 5000)  # a large group and many small ones
    index = HammingNeighbors(nbits=64).fit(items, groups=groups)
    with threadpool_limits(1, user_api="openmp"):
        alone = index.kneighbors(rows, 50, return_ties=True, query_groups=np.arange(64) // 8)
    for n_jobs in (2, 4):
        index.set_params(n_jobs=n_jobs)
        assert_equal(index.kneighbors(rows, 50, return_ties=True, query_groups=np.arange(64) // 8), alone)
    expected = sums_to_groups(hamming_distances(Codes(rows[:8], 64), Codes(items, 64)), groups, np.zeros(8))
    assert_equal([row[:1] for row in alone], nearest(expected, np.unique(groups), 50))


def test_one_vector_finds_the_nearest_member_and_items_without_groups_are_their_own():
    rng = np.random.default_rng(0)
    bits, rows, ids = rng.integers(0, 2, (90, 10)), rng.integers(0, 2, (4, 10)), 1000 - np.arange(90)
    index = HammingNeighbors().fit(bits, ids=ids)
    assert_equal(
        index.kneighbors(rows, 7, return_ties=True, query_groups=range(4)), index.kneighbors(rows, 7, return_ties=True)
    )
    sums = sums_to_groups(hamming_distances(rows, bits), None, [0, 0, 1, 1])
    assert_equal(index.kneighbors(rows, 7, return_ties=True, query_groups=[0, 0, 1, 1]), nearest(sums, ids, 7))


class WeightedHasher(TransformerMixin, BaseEstimator):
    """Signs of vectors, whose bits have weights."""

    def fit(self, X, y=None):
        self.bit_weights_ = np.array([1.0, 2, 3, 0, 1, 1, 2, 1])
        self._n_features_out = 8
        return self

    def transform(self, X):
        return (np.asarray(X) > 0).astype(np.uint8)


def estimating(metric):
    hasher = EmbeddingHasher(16, metric=metric, factors=True, n_epochs=1, device="cpu", random_state=0)
    return FrozenEstimator(hasher.fit(VECTORS))


STAGES = {
    "weights": lambda: HammingNeighbors(WeightedHasher()),
    "real": lambda: HammingNeighbors(LSH, query="real"),
    "cosine": lambda: HammingNeighbors(LSH, rerank="cosine"),
    "inner": lambda: HammingNeighbors(LSH, rerank="inner"),
    "real, euclidean": lambda: HammingNeighbors(LSH, query="real", rerank="euclidean"),
    "estimates": lambda: HammingNeighbors(estimating("euclidean"), query="real"),
    "estimated cosine": lambda: HammingNeighbors(estimating("cosine"), query="real"),
}


@pytest.mark.parametrize("stages", STAGES)
def test_every_stage_sums_its_own_distances(stages):
    index = STAGES[stages]().fit(VECTORS)
    of_items = np.empty((len(ROWS), len(VECTORS)))
    distances, found = index.kneighbors(ROWS, len(VECTORS))
    np.put_along_axis(of_items, found, distances, axis=1)
    index.fit(VECTORS, groups=GROUPS).remove(range(0, 200, 3))
    kept = np.arange(200) % 3 > 0
    sums = sums_to_groups(of_items[:, kept], GROUPS[kept], QUERY_GROUPS)
    right = nearest(sums, np.unique(GROUPS[kept]), 9)
    distances, found = index.kneighbors(ROWS, 9, query_groups=QUERY_GROUPS)
    assert_allclose(distances, right[0], rtol=1e-12)
    assert_array_equal(found, right[1])
    if stages in ("weights", "real", "estimates"):
        assert_array_equal(index.kneighbors(ROWS, 9, return_ties=True, query_groups=QUERY_GROUPS)[2], right[2])


@pytest.mark.parametrize("options", [{"query": "real"}, {"rerank": "cosine"}, {"query": "real", "rerank": "inner"}])
def test_candidates_are_groups_of_the_stage_before(options):
    index = HammingNeighbors(LSH, **options).fit(VECTORS, groups=GROUPS)
    first = {"query": "real"} if len(options) == 2 else {}
    shortlist = HammingNeighbors(LSH, **first).fit(VECTORS, groups=GROUPS)
    every, of_every = index.kneighbors(ROWS, 40, query_groups=QUERY_GROUPS)
    chosen = np.sort(shortlist.kneighbors(ROWS, 12, False, query_groups=QUERY_GROUPS))
    index.set_params(candidates=12)
    distances, found = index.kneighbors(ROWS, 12, query_groups=QUERY_GROUPS)
    assert_array_equal(np.sort(found), chosen)
    for query in range(3):
        kept = np.isin(of_every[query], chosen[query])
        assert_equal([distances[query], found[query]], [every[query][kept], of_every[query][kept]])
    with pytest.raises(ValueError, match="`candidates` must be at least n_neighbors=13"):
        index.kneighbors(ROWS, 13, query_groups=QUERY_GROUPS)
    with pytest.raises(ValueError, match="`return_ties` must be False unless one"):
        index.kneighbors(ROWS, 3, return_ties=True, query_groups=QUERY_GROUPS)


def test_vectors_of_added_items_are_compared():
    index = HammingNeighbors(LSH, rerank="euclidean").fit(VECTORS[:150], groups=GROUPS[:150])
    index.add(VECTORS[150:], groups=GROUPS[150:])
    whole = HammingNeighbors(LSH, rerank="euclidean").fit(VECTORS, groups=GROUPS)
    assert_equal(*(one.kneighbors(ROWS, 40, query_groups=QUERY_GROUPS) for one in (index, whole)))


def test_queries_search_among_some_items():
    bits, rows, labels = LSH.transform(VECTORS), LSH.transform(ROWS), np.unique(GROUPS)
    index = HammingNeighbors().fit(bits, groups=GROUPS)
    mask = np.random.default_rng(0).random(200) < 0.2
    sums = sums_to_groups(hamming_distances(rows, bits[mask]), GROUPS[mask], QUERY_GROUPS)
    given = {"query_groups": QUERY_GROUPS, "among": mask}
    of_mask = np.unique(GROUPS[mask])
    assert_equal(index.kneighbors(rows, 5, return_ties=True, **given), nearest(sums, of_mask, 5))
    near = index.radius_neighbors(rows, float(np.median(sums)), **given)
    assert_equal(near[1], [of_mask[row <= np.median(sums)] for row in sums])
    few = [labels[0] == GROUPS, [], mask]
    for among in (few, sparse.csr_array(np.array([labels[0] == GROUPS, np.zeros(200, bool), mask]))):
        distances, found = index.kneighbors(rows, 5, query_groups=QUERY_GROUPS, among=among)
        assert found[:2].tolist() == [[labels[0], -1, -1, -1, -1], [-1] * 5]
        assert_array_equal(np.isinf(distances[:2]), found[:2] < 0)
        assert_equal([distances[2], found[2]], [row[2] for row in nearest(sums, of_mask, 5)[:2]])
    named = HammingNeighbors().fit(bits, groups=[str(group) for group in GROUPS])
    found = named.kneighbors(rows, 2, False, query_groups=QUERY_GROUPS, among=[[str(GROUPS[0])], [], [str(GROUPS[1])]])
    assert found.mask.tolist() == [[False, True], [True, True], [False, True]]


def test_an_index_searches_as_before_after_pickling():
    index = HammingNeighbors(LSH).fit(VECTORS, groups=GROUPS).remove([3, 5])
    found = index.kneighbors(ROWS, 9, query_groups=QUERY_GROUPS)
    assert_equal(pickle.loads(pickle.dumps(index)).kneighbors(ROWS, 9, query_groups=QUERY_GROUPS), found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"X": None}, "`X` must be given with `query_groups`"),
        ({"query_groups": [0]}, r"`query_groups` must be ints of shape \(12,\), or text"),
        ({"query_groups": [0.5] * 12}, "`query_groups` must be ints or text. Got 0.5"),
        ({"return_members": True}, "`return_members` must be False with `query_groups`"),
        ({"n_neighbors": 41}, "but n_neighbors = 41, and there are 40 groups"),
        ({"among": [[1], [2]]}, "each of the 1 queries. Got 2"),
    ],
)
def test_bad_input_is_named(options, message):
    index = HammingNeighbors(LSH).fit(VECTORS, groups=GROUPS)
    with pytest.raises(ValueError, match=message):
        index.kneighbors(**{"X": ROWS, "query_groups": [0] * 12} | options)


def test_a_bad_radius_is_named():
    index = HammingNeighbors(LSH).fit(VECTORS, groups=GROUPS)
    with pytest.raises(ValueError, match="`radius` must be a finite number >= 0"):
        index.radius_neighbors(ROWS, -1, query_groups=[0] * 12)
    with pytest.raises(ValueError, match="A radius needs Hamming distances"):
        index.set_params(query="real").radius_neighbors(ROWS, 3, query_groups=[0] * 12)
