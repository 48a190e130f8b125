"""Search among codes, against brute force and scikit-learn."""

import pickle
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info, threadpool_limits

from skhash import ITQHasher, LSHHasher, StructHashHasher, TALRHasher
from skhash.codes import hamming_distances, pack
from skhash.codes import queries as kinds
from skhash.metrics import RetrievalScorer
from skhash.neighbors import HammingNeighbors, HammingNeighborsTransformer, merge_neighbors
from skhash.persistence import load, save

ITQ = ITQHasher(16, random_state=0)


def bits_of(n, nbits, seed=0, n_random=None):
    """Random bits; few random ones make many ties."""
    bits = np.random.default_rng(seed).integers(0, 2, (n, nbits), dtype=np.uint8)
    bits[:, nbits if n_random is None else n_random :] = 0
    return bits


def brute_force(distances, k):
    """Distances, indices and ties of the k nearest, the lowest index first among equals."""
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    nearest = np.take_along_axis(distances, order, axis=1)
    return nearest, order, (distances == nearest[:, -1:]).sum(axis=1)


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("n", "nbits", "k", "n_random"),
    [
        (1, 1, 1, None),
        (300, 7, 5, None),
        (300, 64, 300, 3),
        (2500, 65, 40, 5),
        (1100, 100, 1, None),
        (1025, 128, 700, 9),
        (200, 300, 20, None),
        (150, 4096, 10, 30),
    ],
)
def test_equals_brute_force(n, nbits, k, n_random):
    items, queries = bits_of(n, nbits, n_random=n_random), bits_of(40, nbits, 1, n_random)
    expected = brute_force(hamming_distances(queries, items), k)
    index = HammingNeighbors(n_neighbors=k).fit(items)
    assert_same(index.kneighbors(queries, return_ties=True), expected)
    packed = HammingNeighbors(n_neighbors=k, nbits=nbits).fit(pack(items))
    assert_same(packed.kneighbors(pack(queries), return_ties=True), expected)
    np.testing.assert_array_equal(index.kneighbors(queries, return_distance=False), expected[1])


@pytest.mark.parametrize(("n", "nbits", "k", "n_random"), [(1, 1, 1, None), (300, 64, 300, 3), (900, 100, 7, 5)])
def test_the_first_search_of_a_process_equals_brute_force(n, nbits, k, n_random, monkeypatch):
    items, queries = bits_of(n, nbits, n_random=n_random), bits_of(40, nbits, 1, n_random)
    index, expected = HammingNeighbors().fit(items), brute_force(hamming_distances(queries, items), k)
    monkeypatch.setattr(kinds, "_has_searched", False)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    assert_same(index.kneighbors(queries, k, return_ties=True), expected)
    monkeypatch.setattr(kinds, "_nearest_by_numpy", None)  # later searches do not use it
    assert_same(index.kneighbors(queries, k, return_ties=True), expected)


@pytest.mark.parametrize("k", [1, 7, 300])
def test_items_that_come_nearer_and_nearer(k):
    items, queries = bits_of(2600, 64), bits_of(1, 64, 1)
    items = items[np.argsort(-hamming_distances(queries, items)[0], kind="stable")]
    expected = brute_force(hamming_distances(queries, items), k)
    assert_same(HammingNeighbors(n_neighbors=k).fit(items).kneighbors(queries, return_ties=True), expected)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_few_queries_are_searched_in_shards_and_many_in_groups(n_jobs):
    items, queries = bits_of(2**17 + 9, 12), bits_of(130, 12, 1)
    index = HammingNeighbors(n_neighbors=30, n_jobs=n_jobs).fit(items)
    expected = brute_force(hamming_distances(queries, items).astype(np.uint8), 30)
    assert_same(index.kneighbors(queries, return_ties=True), expected)
    assert_same(index.kneighbors(queries[:2], return_ties=True), [part[:2] for part in expected])


def test_items_without_themselves():
    items = bits_of(200, 10, n_random=4)  # many copies
    distances = hamming_distances(items, items).astype(float)
    np.fill_diagonal(distances, np.inf)
    assert_same(HammingNeighbors(n_neighbors=6).fit(items).kneighbors(return_ties=True), brute_force(distances, 6))


def test_weighted_bits(digits):
    X, y = digits.X, digits.y
    hasher = StructHashHasher(8, random_state=0).fit(X[:300], y[:300])
    index = HammingNeighbors(FrozenEstimator(hasher), n_neighbors=20).fit(X[:300])
    bits = hasher.transform(X[300:350]), hasher.transform(X[:300])
    expected = brute_force(hamming_distances(*bits, bit_weights=hasher.bit_weights_), 20)
    assert_same(index.kneighbors(X[300:350], return_ties=True), expected)


@pytest.mark.parametrize("candidates", [None, 50])
def test_real_queries(digits, candidates):
    X = digits.X
    items, queries = X[:300], X[300:340]
    index = HammingNeighbors(ITQ, n_neighbors=10, query="real", candidates=candidates).fit(items)
    hasher = index.hasher_
    scores = hasher.project_queries(queries).astype(np.float64) @ (2.0 * hasher.transform(items).T - 1)
    if candidates is not None:
        shortlist = brute_force(hamming_distances(hasher.transform(queries), hasher.transform(items)), candidates)[1]
        left_out = np.ones(scores.shape, dtype=bool)
        np.put_along_axis(left_out, shortlist, False, axis=1)
        scores[left_out] = -np.inf
    distances, positions = index.kneighbors(queries)
    expected, _, _ = brute_force(-scores, 10)
    np.testing.assert_allclose(distances, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(-np.take_along_axis(scores, positions, 1), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rerank", ["cosine", "euclidean", "inner"])
def test_reranking_everything_is_the_exact_search(digits, rerank):
    X = digits.X
    index = HammingNeighbors(ITQ, n_neighbors=5, rerank=rerank).fit(X[:300])
    distances, positions = index.kneighbors(X[300:330])
    if rerank == "inner":
        expected = brute_force(-(X[300:330] @ X[:300].T), 5)[:2]
    else:
        expected = NearestNeighbors(n_neighbors=5, metric=rerank, algorithm="brute").fit(X[:300]).kneighbors(X[300:330])
    np.testing.assert_allclose(distances, expected[0], atol=1e-6)
    assert (positions == expected[1]).mean() > 0.98  # scikit-learn takes any of equal distances


@pytest.mark.parametrize("rerank", ["euclidean", "cosine", "inner"])
def test_missing_values_of_original_vectors_are_named(digits, rerank):
    vectors = digits.X[:30].copy()
    vectors[7, 3] = np.nan
    index = HammingNeighbors(ITQ, rerank=rerank).fit(digits.X[:30], vectors=vectors)
    with pytest.raises(ValueError, match="Got NaN as the distance of the item at position 7 of the index from query 0"):
        index.kneighbors(digits.X_query[:2], n_neighbors=3)


def test_a_shortlist_is_reranked(digits):
    X = digits.X
    short = HammingNeighbors(ITQ, n_neighbors=40).fit(X[:300]).kneighbors(X[300:330], return_distance=False)
    reranked = HammingNeighbors(ITQ, n_neighbors=40, candidates=40, rerank="cosine").fit(X[:300])
    distances, positions = reranked.kneighbors(X[300:330])
    np.testing.assert_array_equal(np.sort(positions), np.sort(short))
    assert (np.diff(distances) >= 0).all()
    real = HammingNeighbors(ITQ, n_neighbors=40, candidates=40, rerank="cosine", query="real").fit(X[:300])
    by_score = HammingNeighbors(ITQ, n_neighbors=40, query="real").fit(X[:300]).kneighbors(X[300:330])[1]
    np.testing.assert_array_equal(np.sort(real.kneighbors(X[300:330])[1]), np.sort(by_score))
    assert len(reranked.kneighbors()[0]) == 300  # the items themselves


def test_radius_and_graphs_equal_scikit_learn():
    items, queries = bits_of(80, 12), bits_of(9, 12, 1)
    ours, theirs = (
        HammingNeighbors(n_neighbors=4).fit(items),
        NearestNeighbors(n_neighbors=4, metric="manhattan", algorithm="brute"),
    )
    theirs.fit(items)
    for X in (None, queries):
        distances, positions = ours.radius_neighbors(X, radius=4)
        expected = theirs.radius_neighbors(X, radius=4)
        for found, other in zip((distances, positions), expected, strict=True):
            for a, b in zip(found, other, strict=True):
                np.testing.assert_array_equal(a, b)
        for mode in ("connectivity", "distance"):
            graph = ours.radius_neighbors_graph(X, radius=4, mode=mode)
            np.testing.assert_array_equal(
                graph.toarray(), theirs.radius_neighbors_graph(X, radius=4, mode=mode).toarray()
            )
            assert sparse.issparse(graph)
    sorted_distances, _ = ours.radius_neighbors(queries, radius=6, sort_results=True)
    assert all((np.diff(found) >= 0).all() for found in sorted_distances)
    nearest = ours.kneighbors_graph(queries, mode="distance").toarray()
    np.testing.assert_array_equal(nearest.sum(axis=1), ours.kneighbors(queries)[0].sum(axis=1))


def test_add_and_remove():
    items, queries = bits_of(90, 20), bits_of(9, 20, 1)
    index = HammingNeighbors(n_neighbors=7).fit(items[:50]).add(items[50:])
    assert_same(index.kneighbors(queries), HammingNeighbors(n_neighbors=7).fit(items).kneighbors(queries))
    index.remove([3, 60])
    kept = np.delete(np.arange(90), [3, 60])
    distances, ids = index.kneighbors(queries)
    expected = brute_force(hamming_distances(queries, items[kept]), 7)
    assert_same((distances, ids), (expected[0], kept[expected[1]]))
    assert index.add(items[:1]).ids_[-1] == 90
    named = HammingNeighbors(n_neighbors=1).fit(items[:3], ids=[30, 10, 20])
    np.testing.assert_array_equal(named.kneighbors(items[:3], return_distance=False)[:, 0], [30, 10, 20])
    before = named.codes_.rows.copy()
    for call in (
        lambda: named.add(items[:1], ids=[10]),
        lambda: named.remove([99]),
        lambda: named.remove([10, 20, 30]),
    ):
        with pytest.raises(ValueError, match="`ids` must"):
            call()
    np.testing.assert_array_equal(named.codes_.rows, before)


def test_pipeline_and_frozen_hasher(digits):
    X = digits.X
    pipeline = make_pipeline(StandardScaler(), ITQ)
    index = HammingNeighbors(pipeline, n_neighbors=3).fit(X[:300])
    frozen = HammingNeighbors(FrozenEstimator(clone(pipeline).fit(X[:300])), n_neighbors=3).fit(X[:300])
    assert_same(index.kneighbors(X[300:310]), frozen.kneighbors(X[300:310]))
    assert index.hasher_ is not pipeline
    assert frozen.hasher_ is frozen.hasher
    real = HammingNeighbors(pipeline, query="real", rerank="cosine", candidates=30).fit(X[:300])
    assert real.kneighbors(X[300:310])[1].shape == (10, 10)


def test_transformer_before_an_estimator_that_takes_a_graph(digits):
    X = digits.X
    transformer = HammingNeighborsTransformer(ITQ, n_neighbors=15)
    graph = transformer.fit_transform(X[:300])
    assert (graph.getnnz(axis=1) == 16).all()
    labels = make_pipeline(transformer, DBSCAN(eps=3, metric="precomputed")).fit_predict(X[:300])
    assert len(set(labels)) > 1
    assert len(transformer.get_feature_names_out()) == 300


def test_cosine_distances_are_a_graph_that_scikit_learn_takes(digits):
    X = digits.X[:100]
    graph = HammingNeighborsTransformer(ITQ, n_neighbors=4, rerank="cosine").fit_transform(X)
    assert graph.data.min() == 0  # rounding would make some of those of a sample from itself negative
    DBSCAN(eps=0.1, metric="precomputed").fit(graph)


def test_merge_equals_one_search():
    items, queries = bits_of(100, 8), bits_of(6, 8, 1)
    shards = []
    for start, stop in ((0, 40), (40, 43), (43, 43), (43, 100)):
        d = hamming_distances(queries, items[start:stop]) if stop > start else np.empty((6, 0))
        nearest, order, _ = brute_force(d, 10) if stop > start else (d, d.astype(int), None)
        shards.append((nearest, order + start))
    expected = brute_force(hamming_distances(queries, items), 10)[:2]
    assert_same(merge_neighbors(shards, 10), expected)
    assert_same(merge_neighbors(shards[::-1], 10), expected)
    assert merge_neighbors(shards, 1000)[0].shape[1] == 23
    with pytest.raises(ValueError, match="`shards` must be pairs"):
        merge_neighbors([], 3)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"query": "real"}, "`hasher` must be given with query='real'"),
        ({"rerank": "cosine"}, "`hasher` must be given"),
        ({"candidates": 5}, "`candidates` must be None unless"),
        ({"hasher": ITQ, "nbits": 16}, "`nbits` must be None with a hasher"),
        ({"hasher": make_pipeline(ITQ, "passthrough")}, "Got a Pipeline that ends in 'passthrough' instead"),
        ({"hasher": make_pipeline(ITQ, None)}, "`hasher` must be a hasher, or a Pipeline that ends in one"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_neighbors": True}, "n_neighbors"),
        ({"backend": "magic"}, "backend"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        HammingNeighbors(**parameters).fit(bits_of(20, 16))


def test_bad_queries(digits):
    X = digits.X
    index = HammingNeighbors(ITQ).fit(X[:50])
    for call, message in [
        (lambda: index.kneighbors(X[:2], n_neighbors=51), "Expected n_neighbors <= n_samples_fit"),
        (lambda: index.kneighbors(n_neighbors=50), "Expected n_neighbors < n_samples_fit"),
        (
            lambda: HammingNeighbors(ITQ).fit(X[:50]).set_params(rerank="cosine", candidates=20).kneighbors(X[:2]),
            r"`rerank` must be None unless `fit` has kept the vectors.*With FrozenEstimator\(index.hasher_\)",
        ),
        (lambda: index.kneighbors(X[:2], n_neighbors=0), "`n_neighbors` must be None or an int >= 1"),
        (lambda: index.kneighbors(X[:2, :5]), "features"),
        (lambda: index.radius_neighbors(X[:2], radius=-1), "`radius` must be a finite number >= 0"),
        (lambda: index.kneighbors_graph(X[:2], mode="other"), "`mode` must be"),
        (lambda: HammingNeighbors(ITQ, query="real").fit(X[:50]).kneighbors(), "`X` must be given with query='real'"),
        (lambda: HammingNeighbors(ITQ, query="real").fit(X[:50]).radius_neighbors(X[:1]), "A radius needs Hamming"),
        (
            lambda: HammingNeighbors(ITQ, rerank="inner", candidates=3).fit(X[:50]).kneighbors(X[:1]),
            "`candidates` must",
        ),
        (lambda: HammingNeighbors(ITQ, rerank="inner").fit(X[:50], vectors=X[:9]), "`vectors` must be numbers"),
        (lambda: HammingNeighbors().fit(X[:50]), "must hold only 0 and 1"),
        (
            lambda: HammingNeighbors(FeatureUnion([("itq", ITQ)]), query="real").fit(X[:50]),
            "`hasher` must be a hasher of skhash, or a Pipeline that ends in one, with query='real'. Got a Fea",
        ),
        (
            lambda: HammingNeighbors(FeatureUnion([("itq", ITQ)])).fit(X).set_params(query="real").kneighbors(X[:2]),
            "Got a FeatureUnion instead, which has no `project_queries`: make it an earlier step.",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(NotFittedError):
        HammingNeighbors(ITQ).kneighbors(X[:2])


def test_wrong_identifiers_and_vectors_are_refused_before_the_fit_of_the_hasher(digits, monkeypatch):
    monkeypatch.setattr(ITQHasher, "fit", lambda *args: pytest.fail("a fit"))
    index = HammingNeighbors(ITQ, rerank="cosine")
    with pytest.raises(ValueError, match="`ids`"):
        index.fit(digits.X[:50], ids=range(49))
    with pytest.raises(ValueError, match="`vectors`"):
        index.fit(digits.X[:50], vectors=digits.X[:49])
    with pytest.raises(
        ValueError, match=r"`vectors` must be numbers of shape \(50, 64\).* Got float.* \(50, 3\) instead"
    ):
        index.fit(digits.X[:50], vectors=digits.X[:50, :3])  # no query could be compared with them
    with pytest.raises(TypeError, match=r"`vectors` must be an array\. Got a Tensor.*detach"):
        index.fit(digits.X[:50], vectors=torch.ones(50, 9, requires_grad=True))


def test_more_vectors_have_the_width_of_those_of_the_index(digits):
    index = HammingNeighbors(ITQ, rerank="cosine").fit(digits.X[:50])
    with pytest.raises(
        ValueError, match=r"`vectors` must be numbers of shape \(2, 64\).* Got float.* \(2, 3\) instead"
    ):
        index.add(digits.X[50:52], vectors=digits.X[50:52, :3])
    assert index.n_samples_fit_ == len(index.vectors_) == 50


def test_a_hasher_without_real_queries_is_refused_before_its_fit(digits, monkeypatch):
    monkeypatch.setattr(FeatureUnion, "fit", lambda *args: pytest.fail("a fit"))
    for hasher in (FeatureUnion([("itq", ITQ)]), make_pipeline(StandardScaler(), FeatureUnion([("itq", ITQ)]))):
        with pytest.raises(ValueError, match="Got a FeatureUnion instead, which has no `project_queries`"):
            HammingNeighbors(hasher, query="real").fit(digits.X[:50])
    search = GridSearchCV(ITQ, {"nbits": [4, 8]}, scoring=RetrievalScorer(database="fold", empty="zero"), cv=2)
    index = HammingNeighbors(search, query="real").fit(digits.X[:50], digits.y[:50])  # its fit finds the hasher
    assert index.kneighbors(digits.X[:3], 1)[1].shape == (3, 1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "`n_neighbors` must be None or an int >= 1. Got 0 instead"),
        ({"n_neighbors": "3"}, "`n_neighbors` must be None or an int >= 1. Got '3' instead"),
        ({"query": "activations"}, "`query` must be one of 'code', 'real'. Got 'activations' instead"),
        ({"candidates": 20.0}, "`candidates` must be None or an int >= 1. Got 20.0 instead"),
        ({"rerank": "l2"}, "`rerank` must be one of None, 'euclidean', 'cosine', 'inner'. Got 'l2' instead"),
        (
            {"backend": "faiss"},
            r"`backend` must be one of 'exact', 'faiss-hnsw', .* Got 'faiss' \(did you mean 'faiss-",
        ),
        ({"n_jobs": "a"}, "`n_jobs` must be None or an int that is not 0. Got 'a' instead"),
        ({"n_jobs": 1.5}, "`n_jobs` must be None or an int that is not 0. Got 1.5 instead"),
        ({"n_jobs": 0}, "`n_jobs` must be None or an int that is not 0. Got 0 instead"),
    ],
)
def test_bad_parameters_that_are_set_after_fit_are_named_by_a_search(digits, parameters, message):
    index = HammingNeighbors(ITQ, rerank="euclidean", candidates=10).fit(digits.X[:50]).set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        index.kneighbors(digits.X[:2])


class CountsThreads(TransformerMixin, BaseEstimator):
    """A hasher that notes how many threads of OpenMP it may use."""

    n_threads = None

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "openmp"]
        type(self).n_threads = {pool["num_threads"] for pool in pools}
        return (X > 0).astype(np.uint8)


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 3), (-1, 3), (1, 1), (2, 2)])
def test_a_search_uses_as_many_threads_as_asked_or_those_of_scikit_learn(n_jobs, expected):
    index = HammingNeighbors(CountsThreads(), n_jobs=n_jobs).fit(bits_of(20, 8))
    with threadpool_limits(3, user_api="openmp"):
        index.kneighbors(bits_of(2, 8))
        assert expected in CountsThreads.n_threads  # libraries that are loaded later, such as FAISS, have their own
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"} == {3}


def test_an_index_stays_as_it_was_if_a_later_fit_fails(digits):
    X = pd.DataFrame(digits.X[:60]).rename(columns="pixel {}".format)
    index = HammingNeighbors(ITQ, n_neighbors=3).fit(X)
    expected = index.kneighbors(X[:5])
    for other, ids in ((digits.X[:60, :40], [1]), (X[:50].rename(columns="other {}".format), [1])):
        with pytest.raises(ValueError, match="`ids` must be ints"):
            index.fit(other, ids=ids)
        assert index.feature_names_in_[0] == "pixel 0"
        assert_same(index.kneighbors(X[:5]), expected)
    codes = HammingNeighbors().fit(bits_of(5, 8))
    with pytest.raises(ValueError, match="`ids` must be ints"):
        codes.fit(bits_of(5, 16), ids=[1])
    assert codes.kneighbors(bits_of(1, 8), n_neighbors=1)[0] == 0


@pytest.mark.filterwarnings("error")
def test_real_queries_and_factors_keep_the_names_of_a_data_frame(digits):
    X = pd.DataFrame(digits.X).rename(columns="pixel {}".format)
    index = HammingNeighbors(ITQHasher(16, random_state=0), query="real").fit(X[:60])
    assert_same(
        index.kneighbors(X[:5]),
        HammingNeighbors(index.hasher, query="real").fit(digits.X[:60]).kneighbors(digits.X[:5]),
    )


def test_vectors_are_kept_by_reference(digits, tmp_path):
    X = digits.X
    np.save(tmp_path / "vectors.npy", X[:50])
    vectors = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = HammingNeighbors(ITQ, rerank="euclidean", candidates=20).fit(X[:50], vectors=vectors)
    assert index.vectors_ is vectors
    assert index.kneighbors(X[:3])[1][:, 0].tolist() == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:.*constant")
@pytest.mark.parametrize(("backbone", "shape"), [(None, (64,)), ("conv", (1, 8, 8))])
def test_a_dataset_and_its_samples_have_the_same_neighbors(backbone, shape, digits, tmp_path):
    X = digits.X[:60].reshape(-1, *shape).astype(np.float32)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(digits.y[:60]))
    hasher = TALRHasher(16, backbone=backbone, n_epochs=1, random_state=0)
    expected = HammingNeighbors(hasher).fit(X, digits.y[:60]).kneighbors(X[:5])
    for items, queries in ((X, dataset), (dataset, X)):
        index = HammingNeighbors(hasher).fit(items, digits.y[:60])
        assert index.n_features_in_ == shape[0]
        save(index, tmp_path / "index")
        for same in (index, load(tmp_path / "index")):
            assert_same(same.kneighbors(queries)[1][:5], expected[1])
            assert_same(same.add(queries).kneighbors(items)[0][:5, 1], expected[0][:, 0])


@pytest.mark.parametrize(
    "hasher", [None, ITQ, make_pipeline(StandardScaler(), ITQ)], ids=["codes", "hasher", "pipeline"]
)
def test_a_vector_is_no_query(hasher, digits):
    X = (digits.X[:50] > 8).astype(np.uint8)
    index = HammingNeighbors(hasher, n_neighbors=3).fit(X)
    for method in (index.kneighbors, index.radius_neighbors, index.kneighbors_graph, index.add):
        with pytest.raises(
            ValueError, match=r"^Expected 2D array, got 1D array of 64 values .*: X.reshape\(1, -1\) .*$"
        ):
            method(X[0])
    assert len(index.ids_) == 50


@pytest.mark.parametrize("rerank", [None, "cosine"])
def test_a_vector_is_no_items(rerank, digits):
    for hasher in (None, ITQ) if rerank is None else (ITQ,):
        with pytest.raises(
            ValueError, match=r"^Expected 2D array, got 1D array of 64 values .*: X.reshape\(1, -1\) .*$"
        ):
            HammingNeighbors(hasher, rerank=rerank).fit(digits.X[0])


@pytest.mark.filterwarnings("ignore:.*constant")
def test_queries_that_are_not_vectors_are_named(digits):
    images = digits.X[:40].reshape(-1, 1, 8, 8).astype(np.float32)
    hasher = TALRHasher(4, backbone="conv", n_epochs=1, random_state=0)
    index = HammingNeighbors(hasher, rerank="cosine").fit(images, digits.y[:40], vectors=digits.X[:40])
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(images), torch.zeros(40))
    for queries, got in ((images, "Got float32 of shape"), (dataset, "Got a TensorDataset instead")):
        with pytest.raises(ValueError, match=rf"`X` must be numbers of shape \(40, 64\) for `rerank`. {got}"):
            index.kneighbors(queries)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"query": "real"}, {"query": "code"}),
        ({"query": "real", "candidates": 9}, {"query": "code"}),
        ({"rerank": "cosine"}, {"query": "code", "rerank": None}),
    ],
)
def test_a_radius_needs_no_other_fit(options, advice, digits):
    index = HammingNeighbors(ITQ, **options).fit(digits.X[:50])
    text = ", ".join(f"{name}={value!r}" for name, value in advice.items())
    for call in (index.radius_pairs, partial(index.radius_neighbors, digits.X[:3])):
        with pytest.raises(ValueError, match=rf"Call set_params\({text}\), which needs no other fit"):
            call(radius=3)
    expected = HammingNeighbors(ITQ).fit(digits.X[:50])
    pairs, right = (list(same.radius_pairs(3)) for same in (index.set_params(**advice), expected))
    assert_same(pairs[0], right[0])


@pytest.mark.parametrize("hasher", [ITQ, make_pipeline(StandardScaler(), ITQ)], ids=["hasher", "pipeline"])
def test_a_warning_of_names_comes_once(hasher, digits):
    frame = pd.DataFrame(digits.X[:60]).rename(columns="feature {}".format)
    index = HammingNeighbors(hasher, n_neighbors=2).fit(frame)
    for call in (index.kneighbors, index.add):
        with pytest.warns(UserWarning, match="does not have valid feature names") as caught:
            call(digits.X[:3])
        assert len(caught) == 1
        with pytest.raises(ValueError, match="The feature names should match"):
            call(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="X has 63 features"), pytest.warns(UserWarning, match="valid feature names"):
        index.kneighbors(digits.X[:3, :63])
    assert index.n_samples_fit_ == 63


@pytest.mark.parametrize("ids", [[1.0], [True], ["1"], ["a", None], [[0]], [[0], [1, 2]]])
def test_what_is_not_an_identifier_is_not_removed(ids):
    index = HammingNeighbors().fit(bits_of(3, 8))
    with pytest.raises(ValueError, match="`ids` must"):
        index.remove(ids)
    with pytest.raises(ValueError, match=r"`ids` must be in the index\. Got \[7\], which are not"):
        index.remove([1, 7])
    assert index.remove([]).ids_.tolist() == [0, 1, 2]


def test_identifiers_are_64_bit_integers():
    largest = 2**63 - 1
    with pytest.raises(ValueError, match=rf"`ids` must be at most {largest}\. Got {largest + 1} instead"):
        HammingNeighbors().fit(bits_of(1, 8), ids=np.array([largest + 1], dtype=np.uint64))
    index = HammingNeighbors().fit(bits_of(2, 8), ids=np.array([largest - 2, largest - 1], dtype=np.uint64))
    assert index.add(bits_of(1, 8)).ids_.tolist() == [largest - 2, largest - 1, largest]
    with pytest.raises(ValueError, match="`ids` must be given if an item has or had the largest possible one"):
        index.add(bits_of(1, 8))
    assert index.n_samples_fit_ == len(index.ids_) == 3
    with pytest.raises(ValueError, match="`ids` must be given if an item has or had the largest possible one"):
        index.remove([largest]).add(bits_of(1, 8))


@pytest.mark.parametrize("ids", [None, [9, 2, 7, 4, 5, 1], [-7, -3, -2, -9, -6, -8]], ids=["of fit", "own", "negative"])
@pytest.mark.parametrize("n_removed", [1, 3])  # the second leaves so many holes that the items move together
def test_a_number_of_a_removed_item_is_not_given_again(ids, n_removed, tmp_path):
    index = HammingNeighbors().fit(bits_of(6, 8), ids=ids)
    gone = np.sort(index.ids_)[-n_removed:]
    new = max(0, int(gone.max()) + 1)
    save(index.remove(gone), tmp_path / "index")
    for same in (index, load(tmp_path / "index"), pickle.loads(pickle.dumps(index))):
        assert same.add(bits_of(2, 8)).ids_[-2:].tolist() == [new, new + 1]
        assert same.remove([new, new + 1]).add(bits_of(1, 8)).ids_[-1] == new + 2
        assert same.add(bits_of(1, 8), ids=gone[:1]).ids_[-1] == gone[0]  # the same item in a new version


def test_only_the_named_items_are_removed_whatever_the_type_of_their_identifiers():
    ids = 2**60 + np.arange(200)  # float64, which holds both types of integers, rounds these
    ids[:2] = 7, 2**62
    removed = ids[1:150:2]
    index = HammingNeighbors().fit(bits_of(200, 8), ids=ids).remove(removed.astype(np.uint64))
    np.testing.assert_array_equal(index.ids_, np.setdiff1d(ids, removed, assume_unique=True))


@parametrize_with_checks(
    [
        HammingNeighbors(LSHHasher(8, random_state=0)),
        HammingNeighborsTransformer(LSHHasher(8, random_state=0)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
