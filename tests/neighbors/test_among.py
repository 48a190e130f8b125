"""Searches among some items only, against brute force over these items."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator

from skhash import EmbeddingHasher, LSHHasher
from skhash.neighbors import HammingNeighbors, HammingNeighborsTransformer
from skhash.persistence import load, save

RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 2, (700, 12), dtype=np.uint8)  # many ties
QUERIES = RNG.integers(0, 2, (20, 12), dtype=np.uint8)
MASK = RNG.random(700) < 0.3
FEW = np.sort(RNG.choice(700, 9, replace=False))  # so few that their codes are copied
VECTORS = RNG.integers(-9, 9, (300, 8)) / 7.0
LSH = FrozenEstimator(LSHHasher(16, random_state=0).fit(VECTORS))


def nearest(distances, ids, k):
    """Distances, identifiers and ties of the k nearest items, of equal ones the first, in rows of `distances`."""
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(distances, order, axis=1)
    return found, ids[order], (distances == found[:, -1:]).sum(axis=1)


def hamming(queries, items):
    """Distances between bits."""
    return (queries[:, None] != items).sum(axis=2).astype(float)


def assert_equal(found, right):
    """Check that tuples of arrays are equal."""
    for one, other in zip(found, right, strict=True):
        np.testing.assert_array_equal(one, other)


# --- one filter for all queries


@pytest.mark.parametrize("n_queries", [1, 20])
@pytest.mark.parametrize("chosen", [np.flatnonzero(MASK), FEW, np.arange(700), np.array([5])], ids=len)
def test_one_filter(chosen, n_queries):
    index, queries, k = HammingNeighbors().fit(BITS), QUERIES[:n_queries], min(7, len(chosen))
    right = nearest(hamming(queries, BITS[chosen]), chosen, k)
    mask = np.isin(np.arange(700), chosen)
    for among in (mask, mask.tolist(), pd.Series(mask), chosen, chosen.tolist(), pd.Series(chosen), chosen[::-1]):
        assert_equal(index.kneighbors(queries, k, return_ties=True, among=among), right)
    assert_equal([index.kneighbors(queries, k, return_distance=False, among=mask)], right[1:2])


@pytest.mark.parametrize(("n_chosen", "n_queries"), [(1500, 1), (1500, 200), (30_000, 1), (30_000, 200)])
def test_many_items(n_chosen, n_queries):
    rng = np.random.default_rng(0)
    items, queries = (rng.integers(0, 256, (n, 5), dtype=np.uint8) for n in (100_000, n_queries))
    index, chosen = HammingNeighbors(nbits=40).fit(items), np.sort(rng.choice(100_000, n_chosen, replace=False))
    right = HammingNeighbors(nbits=40).fit(items[chosen], ids=chosen).kneighbors(queries, 30, return_ties=True)
    assert_equal(index.kneighbors(queries, 30, return_ties=True, among=chosen), right)
    for found, near in zip(
        index.radius_neighbors(queries[:3], 9, among=chosen),
        HammingNeighbors(nbits=40).fit(items[chosen], ids=chosen).radius_neighbors(queries[:3], 9),
        strict=True,
    ):
        assert_equal(found, near)


@pytest.mark.parametrize("query", ["code", "real"])
def test_threads_some_of_which_have_none_of_the_items(query):
    X = np.random.default_rng(0).normal(size=(100_000, 8))
    hasher = FrozenEstimator(LSHHasher(64, random_state=0).fit(X[:100]))
    index, chosen = HammingNeighbors(hasher, query=query, n_jobs=2).fit(X), np.r_[0:20_000, 99_990]
    small = HammingNeighbors(hasher, query=query, n_jobs=1).fit(X[chosen], ids=chosen)
    right = small.kneighbors(X[-30:], 40, return_ties=True)
    assert_equal(index.kneighbors(X[-30:], 40, return_ties=True, among=chosen), right)


def test_ids_are_no_positions():
    ids = RNG.permutation(10_000)[:700] - 3000
    index = HammingNeighbors().fit(BITS, ids=ids)
    right = nearest(hamming(QUERIES, BITS[FEW]), ids[FEW], 4)
    for among in (ids[FEW], ids[FEW][::-1].tolist(), np.isin(np.arange(700), FEW), np.repeat(ids[FEW], 2)):
        assert_equal(index.kneighbors(QUERIES, 4, return_ties=True, among=among), right)


def test_text_ids():
    names = np.array([f"item {i}" for i in RNG.permutation(700)], dtype=object)
    index = HammingNeighbors().fit(BITS, ids=names)
    right = nearest(hamming(QUERIES, BITS[MASK]), names[MASK], 5)
    for among in (MASK, names[MASK], names[MASK].tolist(), names[MASK].astype(str), pd.Series(names[MASK])):
        assert_equal(index.kneighbors(QUERIES, 5, return_ties=True, among=among), right)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("ascending", [True, False])
def test_removed_items_and_those_that_came_back(named, ascending):
    ids = np.arange(700) if ascending else RNG.permutation(700)
    ids = ids.astype(str).astype(object) if named else ids
    index = HammingNeighbors().fit(BITS, ids=ids)
    index.remove(ids[10:60]).add(BITS[10:30], ids=ids[10:30]).remove(ids[10:20])
    left = np.r_[0:10, 60:700, 20:30]
    np.testing.assert_array_equal(index.ids_, ids[left])
    mask = np.resize([True, False, False], len(left))
    right = nearest(hamming(QUERIES, BITS[left][mask]), ids[left][mask], 6)
    for among in (mask, ids[left][mask]):
        assert_equal(index.kneighbors(QUERIES, 6, return_ties=True, among=among), right)
    for gone in (ids[10], ids[40]):
        with pytest.raises(ValueError, match=r"`among` must be in the index. Got .*, which are not."):
            index.kneighbors(QUERIES, 1, among=[ids[0], gone])


def test_a_loaded_index(tmp_path):
    index = HammingNeighbors().fit(BITS).remove([3, 4])
    save(index, tmp_path / "index")
    loaded, among = load(tmp_path / "index"), np.arange(5, 700, 7)
    assert_equal(
        loaded.kneighbors(QUERIES, 5, return_ties=True, among=among),
        nearest(hamming(QUERIES, BITS[among]), among, 5),
    )


@pytest.mark.parametrize("chosen", [np.flatnonzero(MASK), FEW], ids=len)
def test_items_as_queries_are_not_their_own_neighbors(chosen):
    index, distances = HammingNeighbors().fit(BITS), hamming(BITS, BITS)
    distances[np.arange(700), np.arange(700)] = np.inf
    right = nearest(distances[:, chosen], chosen, 4)
    assert_equal(index.kneighbors(n_neighbors=4, return_ties=True, among=chosen), right)
    each = [chosen] * 700
    assert_equal(index.kneighbors(n_neighbors=4, return_ties=True, among=each), right)
    found = index.kneighbors(n_neighbors=len(chosen), return_ties=True, among=chosen)
    assert_equal(index.kneighbors(n_neighbors=len(chosen), return_ties=True, among=each), found)
    np.testing.assert_array_equal(np.isinf(found[0][:, -1]), np.isin(np.arange(700), chosen))
    graph = index.radius_neighbors_graph(radius=3, among=chosen).toarray()
    expected = np.zeros((700, 700))
    expected[:, chosen] = distances[:, chosen] <= 3
    np.testing.assert_array_equal(graph, expected)
    np.testing.assert_array_equal(index.radius_neighbors_graph(radius=3, among=each).toarray(), expected)


def test_equal_items_as_queries():
    index = HammingNeighbors().fit(np.zeros((40, 8), np.uint8))
    distances, ids, n_ties = index.kneighbors(n_neighbors=2, return_ties=True, among=np.arange(30, 40))
    assert not distances.any()
    assert n_ties.tolist() == [10] * 30 + [9] * 10
    assert ids[0].tolist() == [30, 31]
    assert ids[30].tolist() == [31, 32]
    assert ids[39].tolist() == [30, 31]


@pytest.mark.parametrize("chosen", [np.flatnonzero(MASK), FEW], ids=len)
def test_radius_and_graphs(chosen):
    index, distances = HammingNeighbors().fit(BITS), hamming(QUERIES, BITS[chosen])
    found, ids = index.radius_neighbors(QUERIES, 4, among=chosen)
    for query, near in enumerate(distances <= 4):
        np.testing.assert_array_equal(ids[query], chosen[near])
        np.testing.assert_array_equal(found[query], distances[query, near])
    found, ids = index.radius_neighbors(QUERIES, 4, among=chosen, sort_results=True)
    for query, near in enumerate(distances):
        np.testing.assert_array_equal(ids[query], chosen[np.argsort(near, kind="stable")][: (near <= 4).sum()])
    graph = index.radius_neighbors_graph(QUERIES, 4, mode="distance", among=chosen)
    assert graph.shape == (20, 700)
    assert graph.nnz == (distances <= 4).sum()
    np.testing.assert_array_equal(graph.toarray()[:, chosen], np.where(distances <= 4, distances, 0))
    graph = index.kneighbors_graph(QUERIES, 5, among=chosen)
    right = np.zeros((20, 700))
    np.put_along_axis(right, nearest(distances, chosen, 5)[1], 1, axis=1)
    np.testing.assert_array_equal(graph.toarray(), right)
    ranked = HammingNeighborsTransformer().fit(BITS).kneighbors_graph(QUERIES, 5, among=chosen)
    np.testing.assert_array_equal(ranked.toarray(), right)


# --- the other stages


class Weighted(TransformerMixin, BaseEstimator):
    """A hasher whose bits have weights."""

    def fit(self, X, y=None):
        self.bit_weights_ = np.array([1.0, 2, 3, 0, 1, 1, 2, 1])
        return self

    def transform(self, X):
        return (np.asarray(X) > 0).astype(np.uint8)


def stages():
    """Indexes with all kinds of stages."""
    embedding = EmbeddingHasher(16, metric="euclidean", factors=True, n_epochs=1, device="cpu", random_state=0)
    return {
        "codes": HammingNeighbors(LSH),
        "weighted": HammingNeighbors(Weighted()),
        "real": HammingNeighbors(LSH, query="real"),
        "candidates": HammingNeighbors(LSH, query="real", candidates=15),
        "factors": HammingNeighbors(embedding, query="real"),
        "rerank": HammingNeighbors(LSH, rerank="cosine", candidates=15),
        "rerank all": HammingNeighbors(LSH, rerank="euclidean"),
        "three": HammingNeighbors(LSH, query="real", rerank="inner", candidates=15),
    }


@pytest.mark.parametrize("name", stages())
def test_stages_equal_an_index_of_these_items(name):
    index = stages()[name].fit(VECTORS)
    fitted = FrozenEstimator(index.hasher_)
    queries = VECTORS[::-17] + 0.01
    for chosen in (np.arange(0, 300, 2), np.array([3, 50, 51, 290, 299])):
        small = HammingNeighbors(**index.get_params(deep=False) | {"hasher": fitted}).fit(VECTORS[chosen], ids=chosen)
        right = small.kneighbors(queries, 4)
        assert_equal(index.kneighbors(queries, 4, among=chosen), right)
        assert_equal(index.kneighbors(queries, 4, among=[chosen] * len(queries)), right)
        if name in ("codes", "weighted"):
            for found, expected in zip(
                index.radius_neighbors(queries, 3, among=chosen), small.radius_neighbors(queries, 3), strict=True
            ):
                assert_equal(found, expected)


def test_weighted_queries_without_items():
    index = HammingNeighbors(Weighted()).fit(VECTORS)
    ids = index.radius_neighbors(VECTORS[:3], 20, among=[[4, 2], np.empty(0, int), [1]])[1]
    assert [found.tolist() for found in ids] == [[2, 4], [], [1]]


def test_rerank_of_items_as_queries():
    index = HammingNeighbors(LSH, rerank="euclidean", candidates=20).fit(VECTORS)
    chosen = np.arange(0, 300, 3)
    one = index.kneighbors(n_neighbors=3, among=chosen)
    assert_equal(index.kneighbors(n_neighbors=3, among=[chosen] * 300), one)
    assert set(one[1].ravel()) <= set(chosen)
    assert (one[1] != np.arange(300)[:, None]).all()


def test_the_item_with_nan_is_named_by_its_position_among_all():
    vectors = VECTORS.copy()
    vectors[6, 2] = np.nan
    index = HammingNeighbors(LSH, rerank="euclidean").fit(VECTORS, vectors=vectors)
    assert not np.isnan(index.kneighbors(VECTORS[:3], 2, among=[1, 2, 9])[0]).any()
    with pytest.raises(ValueError, match=r"position 6 of the index from query 1 of X"):
        index.kneighbors(VECTORS[:2], 1, among=[[1], [3, 6]])


def test_an_approximate_backend_searches_some_items_exactly():
    pytest.importorskip("faiss")
    index = HammingNeighbors(backend="faiss-hnsw").fit(BITS)
    right = nearest(hamming(QUERIES, BITS[MASK]), np.flatnonzero(MASK), 5)
    assert_equal(index.kneighbors(QUERIES, 5, return_ties=True, among=MASK), right)
    assert len(index.radius_neighbors(QUERIES, 2, among=MASK)[1]) == 20


# --- one filter for each query


def each_query():
    """Masks of the items of each query: some, few, fewer than five, and none."""
    masks = np.random.default_rng(3).random((20, 700)) < 0.2
    masks[3], masks[4], masks[5, 200:] = False, False, False
    masks[4, [7, 9]] = True
    return masks


@pytest.mark.parametrize("named", [False, True])
def test_one_filter_for_each_query(named):
    masks, distances = each_query(), hamming(QUERIES, BITS)
    ids = np.array([f"item {i}" for i in range(700)], dtype=object) if named else np.arange(700)
    index = HammingNeighbors().fit(BITS, ids=ids)
    filters = [ids[mask] for mask in masks]
    matrix = sparse.csr_matrix(masks)
    forms = [list(masks), masks, filters, tuple(filters), [chosen.tolist() for chosen in filters]]
    for among in [*forms, matrix, sparse.coo_array(masks), matrix.tocsc().astype(float)]:
        found, items, n_ties = index.kneighbors(QUERIES, 5, return_ties=True, among=among)
        for query, mask in enumerate(masks):
            right = nearest(distances[query : query + 1, mask], ids[mask], 5)
            n = right[0].shape[1]
            np.testing.assert_array_equal(found[query, :n], right[0][0])
            np.testing.assert_array_equal(items[query, :n], right[1][0])
            assert np.isinf(found[query, n:]).all()
            assert n_ties[query] == (right[2][0] if n else 0)
        if named:
            np.testing.assert_array_equal(np.ma.getmaskarray(items), np.isinf(found))
        else:
            assert (items[np.isinf(found)] == -1).all()
        graph = index.kneighbors_graph(QUERIES, 5, among=among)
        assert np.diff(graph.indptr).tolist() == np.minimum(masks.sum(axis=1), 5).tolist()
        assert not (graph.toarray().astype(bool) & ~masks).any()
        near = index.radius_neighbors_graph(QUERIES, 4, among=among)
        np.testing.assert_array_equal(near.toarray(), masks & (distances <= 4))


def test_ids_are_not_masked_where_every_query_has_enough():
    index = HammingNeighbors().fit(BITS, ids=[f"{i}" for i in range(700)])
    assert not isinstance(index.kneighbors(QUERIES[:1], 2, among=[["3", "4"]])[1], np.ma.MaskedArray)


def test_a_list_with_one_list_is_the_filter_of_a_single_query():
    index = HammingNeighbors().fit(BITS)
    assert index.kneighbors(QUERIES[:1], 3, among=[[5, 6]])[1][0, -1] == -1


@pytest.mark.parametrize("chosen", [[9, 5, 6], []], ids=["few", "none"])
def test_one_filter_of_few_items_is_one_for_each_query(chosen):
    plain, items = HammingNeighbors().fit(BITS), FrozenEstimator(LSHHasher(16, random_state=0).fit(VECTORS))
    staged = [
        HammingNeighbors(items, query="real", candidates=8).fit(VECTORS),
        HammingNeighbors(items, rerank="cosine", candidates=8).fit(VECTORS),
    ]
    for index, queries in ((plain, QUERIES), *((index, VECTORS[:20]) for index in staged)):
        found, n = index.kneighbors(queries, 6, among=chosen), len(chosen)
        for same in ([chosen] * 20, np.array(chosen, int), np.isin(index.ids_, chosen)):
            assert_equal(found, index.kneighbors(queries, 6, among=same))
        assert (found[1][:, n:] == -1).all()
        assert np.isinf(found[0][:, n:]).all()
        assert set(found[1][:, :n].ravel()) == set(chosen)
    assert index.kneighbors_graph(queries, 6, among=chosen).nnz == 20 * n
    assert [len(ids) for ids in plain.radius_neighbors(QUERIES, 100, among=chosen)[1]] == [n] * 20
    with pytest.raises(ValueError, match="Expected n_neighbors <= n_samples_fit, but n_neighbors = 701"):
        plain.kneighbors(QUERIES, 701, among=chosen)


def test_a_matrix_after_items_were_removed():
    index = HammingNeighbors().fit(BITS).remove([0, 1, 699])
    masks, ids = np.random.default_rng(0).random((20, 697)) < 0.1, np.arange(2, 699)
    rights = [nearest(hamming(QUERIES[[q]], BITS[ids[mask]]), ids[mask], 2) for q, mask in enumerate(masks)]
    right = [np.concatenate(parts) for parts in zip(*rights, strict=True)]
    for among in (list(masks), sparse.csr_matrix(masks)):
        assert_equal(index.kneighbors(QUERIES, 2, return_ties=True, among=among), right)


# --- errors

WRONG = {
    "unknown": ([1, 2, 700], r"`among` must be in the index. Got \[700\], which are not."),
    "negative": ([-1, 2], r"`among` must be in the index. Got \[-1\]"),
    "large": (np.array([2**64 - 1], np.uint64), r"must be in the index. Got \[18446744073709551615\]"),
    "short mask": (MASK[:9], r"`among` must be a mask of shape \(700,\).* Got a mask of shape \(9,\)"),
    "short list": ([True, False], r"`among` must be a mask of shape \(700,\)"),
    "0 and 1": (MASK.astype(int), r"must be a mask of bools, or ids. Got ints that are 0 or 1.* Pass them as bools"),
    "list of 0 and 1": (MASK.astype(int).tolist(), r"Got ints that are 0 or 1"),
    "text": (["a"], r"`among` must be ints of shape \(n_ids,\), as those in the index"),
    "floats": (np.array([1.0, 2.0]), r"`among` must be ints or text. Got 1.0 instead. Pass whole numbers"),
    "number": (3, r"`among` must be a mask or a list of ids. Got 3 instead. Pass \[3\]"),
    "string": ("abc", r"`among` must be a mask or a list of ids. Got 'abc' instead. Pass \['abc'\]"),
    "set": ({1, 2}, r"`among` must be ints or text. Got a set instead. Pass a list"),
    "both": ([1, [2, 3]], r"Got a list of both"),
    "nothing for one": ([None] + [MASK] * 19, r"`among` must be one mask or ids for all queries, or a list with one"),
    "two filters": ([[1, 2], [3]], r"for each of the 20 queries. Got 2 instead. .* pass one mask, or one list of ids"),
    "one unknown": ([[1]] * 19 + [[2, 999]], r"`among\[19\]` must be in the index. Got \[999\]"),
    "one short mask": ([MASK] * 19 + [MASK[:3]], r"`among\[19\]` must be a mask of shape"),
    "row of 0 and 1": (np.tile(MASK, (20, 1)).astype(int), r"`among\[0\]` .*Got ints that are 0 or 1"),
    "matrix": (sparse.csr_matrix((20, 9)), r"`among` must have shape \(20, 700\).* Got \(20, 9\)"),
    "zeros": (
        sparse.csr_matrix(([0.0, 1], ([0, 1], [0, 1])), (20, 700)),
        r"must not store zeros.*among.eliminate_zeros\(\)",
    ),
    "masked": (np.ma.array(MASK, mask=MASK), r"among"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    among, message = WRONG[name]
    index = HammingNeighbors().fit(BITS)
    with pytest.raises(ValueError, match=message):
        index.kneighbors(QUERIES, 5, among=among)


# --- histories


def check_history(seed):
    """Change and search an index at random, beside lists of its items."""
    rng = np.random.default_rng(seed)
    nbits, named = int(rng.integers(1, 200)), bool(rng.integers(2))
    flips = rng.random() < 0.5  # near codes have many ties, and far ones few
    base = rng.integers(0, 2, (3, nbits), dtype=np.uint8)

    def codes(n):
        bits = base[rng.integers(0, 3, n)] ^ (rng.random((n, nbits)) < 0.1) if flips else rng.integers(0, 2, (n, nbits))
        return bits.astype(np.uint8)

    numbers = iter(rng.permutation(10_000).tolist() if rng.integers(2) else range(10_000))

    def new_ids(n):
        ids = [next(numbers) for _ in range(n)]
        return np.array([f"i{i}" for i in ids], dtype=object) if named else np.array(ids)

    n = int(rng.integers(1, 400))
    bits, ids = codes(n), new_ids(n)
    index = HammingNeighbors().fit(bits, ids=ids)
    for _ in range(6):
        step = rng.integers(4)
        if step == 0:
            n = int(rng.integers(1, 150))
            more, more_ids = codes(n), new_ids(n)
            index.add(more, ids=more_ids)
            bits, ids = np.concatenate([bits, more]), np.concatenate([ids, more_ids])
        elif step == 1 and len(ids) > 1:
            gone = rng.random(len(ids)) < rng.choice([0.02, 0.5])
            gone[rng.integers(len(ids))] = False
            index.remove(ids[gone])
            bits, ids = bits[~gone], ids[~gone]
        elif step == 2:
            index = yield index
        queries = codes(int(rng.choice([1, 3, 20])))
        distances = hamming(queries, bits)
        mask = rng.random(len(ids)) < rng.choice([0.01, 0.1, 0.9])
        mask[rng.integers(len(ids))] = True
        k = int(rng.integers(1, mask.sum() + 1))
        right = nearest(distances[:, mask], ids[mask], k)
        for among in (mask, rng.permutation(ids[mask]), [mask] * len(queries)):
            assert_equal(index.kneighbors(queries, k, return_ties=True, among=among), right)
        assert_equal(index.kneighbors(queries, k, return_ties=True), nearest(distances, ids, k))
        radius = float(rng.integers(0, nbits + 1))
        near = index.radius_neighbors_graph(queries, radius, among=mask).toarray()
        np.testing.assert_array_equal(near, mask & (distances <= radius))
    yield None


def run_histories(seeds, folder):
    """Run histories; an index is saved and loaded where one asks for it."""
    for seed in seeds:
        history = check_history(seed)
        index = next(history)
        while index is not None:
            save(index, folder / f"index {seed}")
            index = history.send(load(folder / f"index {seed}"))


@pytest.mark.parametrize("part", range(6))
def test_histories_equal_brute_force(part, tmp_path):
    run_histories(range(50 * part, 50 * part + 50), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_2000_histories_equal_brute_force(part, tmp_path):
    run_histories(range(1000 + 500 * part, 1500 + 500 * part), tmp_path)
