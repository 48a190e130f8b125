"""Items of several rows: groups against brute force, in all searches, after changes, and in files."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.frozen import FrozenEstimator

from skhash import EmbeddingHasher, ITQHasher, LSHHasher, StructHashHasher
from skhash.codes import Codes, hamming_distances
from skhash.codes.blocks import read_only
from skhash.codes.queries import Bits, Estimates, Real, Weighted
from skhash.exceptions import InvalidFileError
from skhash.neighbors import HammingNeighbors, HammingNeighborsTransformer, merge_neighbors
from skhash.persistence import load, save
from skhash.persistence.indexes import codes_of_index

rng = np.random.default_rng(0)


def nearest_groups(distances, labels, k, ids=None):
    """The k nearest groups of each query from the distances of all rows: distances, groups, nearest rows, ties."""
    ids, found = np.arange(len(labels)) if ids is None else np.asarray(ids), []
    for row in np.asarray(distances, dtype=float):
        groups, first = np.unique(np.asarray(labels)[order := np.argsort(row, kind="stable")], return_index=True)
        rows = order[first]
        by_distance = np.argsort(row[rows], kind="stable")
        best = by_distance[:k]
        n_ties = (row[rows] == row[rows[best[-1]]]).sum()
        found.append((row[rows[best]], groups[best], ids[rows[best]], n_ties))
    return tuple(np.array(part) for part in zip(*found, strict=True))


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)


# --- the search


def random_queries(kind, n_queries, n_items, nbits, rng):
    """Queries of one kind; many of their distances are equal."""
    codes = Codes.of(rng.integers(0, 2, (n_queries, nbits)))
    if kind == "bits":
        return Bits(codes)
    if kind == "weighted":
        return Weighted(codes, rng.integers(0, 3, nbits) + (np.arange(nbits) == 0))
    whole = rng.random() < 0.5
    activations = (
        rng.integers(-2, 3, (n_queries, nbits)).astype(float) if whole else rng.normal(size=(n_queries, nbits))
    )
    if kind == "real":
        return Real(activations)
    metric = rng.choice(["cosine", "inner", "euclidean"])
    factors = rng.integers(1, 3, (n_items, 2)).astype(np.float32)
    return Real(activations, Estimates(factors, metric, rng.integers(0, 3, n_queries).astype(float)))


@pytest.mark.parametrize("kind", ["bits", "weighted", "real", "estimated"])
def test_the_nearest_groups_are_those_of_brute_force(kind):
    rng = np.random.default_rng(7)
    for _ in range(1000):
        n, nbits, n_queries = rng.integers(1, 700), rng.choice([3, 64, 260]), rng.choice([1, 3, 15])
        groups = np.unique(rng.integers(0, rng.integers(1, n + 1), n), return_inverse=True)[1]
        groups = read_only(groups.astype(np.int32))
        items = Codes.of((rng.random((n, nbits)) < rng.choice([0, 0.1, 0.5])).astype(np.uint8)).blocks()
        queries = random_queries(kind, n_queries, n, nbits, rng)
        if rng.random() < 0.3 and n > 3:
            items = items.without(rng.permutation(n)[: n // 3])
        places = items.places()
        chosen = None if rng.random() < 0.5 else np.sort(rng.permutation(places)[: rng.integers(1, len(places) + 1)])
        places = places if chosen is None else chosen
        n_groups = len(np.unique(groups[places]))
        k = rng.choice([1, n_groups, rng.integers(1, n_groups + 1)])
        found = queries.nearest(items, int(k), chosen, groups)
        distances = queries.to_items(items, np.tile(places, (n_queries, 1)))
        expected = nearest_groups(distances, groups[places], k, places)[:3]
        assert_same((found.distances, groups[found.indices], found.indices), expected)


@pytest.mark.parametrize("kind", ["bits", "weighted", "real", "estimated"])
@pytest.mark.parametrize("n_queries", [1, 40])
@pytest.mark.parametrize("k", [1, 10, 80])
def test_many_items_of_groups_of_all_sizes(kind, n_queries, k, monkeypatch):
    rng = np.random.default_rng(k)
    n, nbits = 70_000, 32
    groups = read_only(rng.geometric(0.001, n).astype(np.int32))  # one has no items, and some have a hundred
    centers = rng.integers(0, 256, (groups.max() + 1, 4), dtype=np.uint8)
    codes = Codes(centers[groups] ^ np.packbits(rng.random((n, nbits)) < 0.05, axis=1), nbits)
    queries = random_queries(kind, n_queries, n, nbits, rng)
    found = queries.nearest(codes.blocks(), k, None, groups)
    distances = queries.to_items(codes.blocks(), np.tile(np.arange(n), (n_queries, 1)))
    expected = nearest_groups(distances, groups, k)[:3]
    assert_same((found.distances, groups[found.indices], found.indices), expected)
    monkeypatch.setattr("skhash.codes.queries.MIN_SHARD", 2**14)  # several threads
    monkeypatch.setattr("skhash.codes.queries.free_threads", lambda: 3)
    assert_same(queries.nearest(codes.blocks(), k, None, groups)[:2], found[:2])


# --- the index


def random_index(rng, **params):
    """An index of codes with groups, after some changes, the bits, labels and ids of its rows, and queries."""
    nbits, n = int(rng.choice([4, 12, 40])), int(rng.integers(1, 80))
    bits, numbers = rng.integers(0, 2, (n, nbits)), rng.integers(0, 20, n) * 3
    labels = numbers if rng.random() < 0.5 else np.array([f"text {i}" for i in numbers], dtype=object)
    ids = rng.permutation(1000)[:n]
    first = int(rng.integers(1, n + 1))
    index = HammingNeighbors(**params).fit(bits[:first], ids=ids[:first], groups=labels[:first])
    for part in np.array_split(np.arange(first, n), 3):
        if len(part):
            index.add(bits[part], ids=ids[part], groups=labels[part])
    kept = np.ones(n, bool)
    if rng.random() < 0.5 and len(np.unique(labels)) > 1:
        gone = np.unique(labels)[:: int(rng.integers(2, 4))]
        kept &= ~np.isin(labels, gone)
        index.remove(groups=gone)
    some = np.flatnonzero(kept)[1 :: int(rng.integers(2, 6))]
    if len(some) and rng.random() < 0.5:
        index.remove(ids[some])
        kept[some] = False
    queries = rng.integers(0, 2, (int(rng.choice([1, 4, 15])), nbits))
    return index, bits[kept], labels[kept], ids[kept], queries


def test_an_index_finds_the_groups_of_brute_force():
    rng = np.random.default_rng(3)
    for _ in range(1000):
        index, bits, labels, ids, queries = random_index(rng)
        assert_array_equal(index.groups_, labels)
        n_groups = len(np.unique(labels))
        k = int(rng.choice([1, n_groups, rng.integers(1, n_groups + 1)]))
        distances = hamming_distances(queries, bits)
        expected = nearest_groups(distances, labels, k, ids)
        found = index.kneighbors(queries, k, return_members=True, return_ties=True)
        assert_same(found, expected)
        graph = index.kneighbors_graph(queries, k, mode="distance")
        assert graph.shape == (len(queries), n_groups)
        assert_array_equal(np.unique(labels)[graph.indices.reshape(-1, k)], expected[1])
        assert_array_equal(graph.data.reshape(-1, k), expected[0])
        with pytest.raises(ValueError, match=f"Expected n_neighbors <= n_groups, but n_neighbors = {n_groups + 1}"):
            index.kneighbors(queries, n_groups + 1)


def test_a_radius_finds_the_groups_of_brute_force():
    rng = np.random.default_rng(4)
    for _ in range(300):
        index, bits, labels, ids, queries = random_index(rng)
        radius = int(rng.integers(0, 8))
        sort = bool(rng.integers(2))
        found = index.radius_neighbors(queries, radius, sort_results=sort, return_members=True)
        graph = index.radius_neighbors_graph(queries, radius, "distance", sort_results=sort)
        every = nearest_groups(hamming_distances(queries, bits), labels, len(bits), ids)[:3]
        for query, (distances, groups, members) in enumerate(zip(*every, strict=True)):
            order = np.arange(len(groups)) if sort else np.argsort(groups, kind="stable")
            order = order[distances[order] <= radius]
            expected = distances[order], groups[order], members[order]
            assert_same([part[query] for part in found], expected)
            row = graph[query]
            assert_array_equal(np.unique(labels)[row.indices], expected[1])
            assert_array_equal(row.data, expected[0])


def test_each_row_of_the_index_finds_other_groups_than_its_own():
    rng = np.random.default_rng(5)
    for _ in range(300):
        index, bits, labels, ids, _ = random_index(rng)
        if (n_groups := len(np.unique(labels))) < 2:
            continue
        k = int(rng.integers(1, n_groups))
        distances = hamming_distances(bits, bits).astype(float)
        found = index.kneighbors(None, k, return_members=True, return_ties=True)
        near = index.radius_neighbors(radius=2, return_distance=False)
        for row in range(len(bits)):
            others = labels != labels[row]
            expected = nearest_groups(distances[row : row + 1, others], labels[others], k, ids[others])
            assert_same([part[row] for part in found], [part[0] for part in expected])
            assert_array_equal(near[row], np.unique(labels[others & (distances[row] <= 2)]))
        with pytest.raises(
            ValueError, match=f"Expected n_neighbors < n_groups, but n_neighbors = {n_groups}, n_groups"
        ):
            index.kneighbors(n_neighbors=n_groups)


def test_a_search_among_some_groups_or_some_rows():
    rng = np.random.default_rng(6)
    for _ in range(300):
        index, bits, labels, ids, queries = random_index(rng)
        distances, groups, k = hamming_distances(queries, bits), np.unique(labels), 3
        mask = rng.random(len(bits)) < 0.5
        some = rng.permutation(groups)[: rng.integers(1, len(groups) + 1)]
        masks = rng.random((len(queries), len(bits))) < 0.5
        filters = [
            (mask, np.tile(mask, (len(queries), 1))),
            (pd.Series(mask, index=ids), np.tile(mask, (len(queries), 1))),
            (list(some), np.tile(np.isin(labels, some), (len(queries), 1))),
            ([list(some)] * len(queries), np.tile(np.isin(labels, some), (len(queries), 1))),
            (masks, masks),
            (sparse.csr_matrix(masks), masks),
        ]
        for among, masks_of_queries in filters:
            n_neighbors = min(k, len(groups))
            found = index.kneighbors(queries, n_neighbors, among=among, return_members=True, return_ties=True)
            near = index.radius_neighbors(queries, 3, among=among)
            for query, chosen in enumerate(masks_of_queries):
                n = min(n_neighbors, len(np.unique(labels[chosen])))
                assert (found[0][query, n:] == np.inf).all()
                if not n:
                    assert found[3][query] == 0
                    continue
                row = distances[query : query + 1, chosen]
                expected = nearest_groups(row, labels[chosen], n, ids[chosen])
                assert_same([part[query, :n] for part in found[:3]], [part[0] for part in expected[:3]])
                assert found[3][query] == expected[3][0]
                assert_array_equal(near[1][query], np.unique(labels[chosen][row[0] <= 3]))


X = rng.normal(size=(300, 16))
GROUPS = rng.integers(0, 60, 300)
QUERIES = rng.normal(size=(20, 16))
NAMES = np.array([f"group {i:02}" for i in GROUPS], dtype=object)


@pytest.fixture(scope="module")
def hashers():
    y = (X[:100, 0] > 0) + 2 * (X[:100, 1] > 0)
    return {
        "bits": LSHHasher(24, random_state=0).fit(X),
        "weighted": StructHashHasher(3, random_state=0).fit(X[:100], y),
        "real": ITQHasher(12, random_state=0).fit(X),
        "estimated": EmbeddingHasher(16, metric="euclidean", factors=True, n_epochs=2, random_state=0).fit(X),
    }


def distances_of_rows(index, queries):
    """Distances of all rows of an index without groups, in their order."""
    distances, rows = index.kneighbors(queries, index.n_samples_fit_)
    ordered = np.empty_like(distances)
    np.put_along_axis(ordered, rows, distances, axis=1)
    return ordered


@pytest.mark.parametrize("kind", ["bits", "weighted", "real", "estimated"])
def test_each_kind_of_queries_finds_the_groups_of_its_distances(kind, hashers):
    query = "real" if kind in ("real", "estimated") else "code"
    plain = HammingNeighbors(FrozenEstimator(hashers[kind]), query=query).fit(X)
    index = HammingNeighbors(FrozenEstimator(hashers[kind]), query=query).fit(X, groups=GROUPS)
    expected = nearest_groups(distances_of_rows(plain, QUERIES), GROUPS, 7)
    assert_same(index.kneighbors(QUERIES, 7, return_members=True, return_ties=True), expected)
    named = HammingNeighbors(FrozenEstimator(hashers[kind]), query=query).fit(X, groups=NAMES)
    assert_array_equal(named.kneighbors(QUERIES, 7)[1], np.array([f"group {i:02}" for i in range(60)])[expected[1]])


@pytest.mark.parametrize("rerank", ["cosine", "euclidean", "inner"])
def test_all_rows_of_the_candidate_groups_are_ranked_again(rerank, hashers):
    hasher = FrozenEstimator(hashers["bits"])
    plain = HammingNeighbors(hasher, rerank=rerank).fit(X)
    by_vectors = distances_of_rows(plain, QUERIES)
    index = HammingNeighbors(hasher, rerank=rerank).fit(X, groups=GROUPS)
    assert_same(index.kneighbors(QUERIES, 5, return_members=True), nearest_groups(by_vectors, GROUPS, 5)[:3])
    index.set_params(candidates=12)
    by_code = HammingNeighbors(hasher).fit(X, groups=GROUPS).kneighbors(QUERIES, 12, return_distance=False)
    mask = rng.random(300) < 0.7
    found, among = (index.kneighbors(QUERIES, 5, return_members=True, among=given) for given in (None, mask))
    of_some = HammingNeighbors(hasher).fit(X, groups=GROUPS).kneighbors(QUERIES, 12, among=mask)[1]
    for query in range(len(QUERIES)):
        for result, candidates, rows in ((found, by_code, mask | True), (among, of_some, mask)):
            chosen = np.flatnonzero(np.isin(GROUPS, candidates[query]) & rows)
            expected = nearest_groups(by_vectors[query : query + 1, chosen], GROUPS[chosen], 5, chosen)[:3]
            assert_same([part[query] for part in result], [part[0] for part in expected])
    with pytest.raises(ValueError, match=r"`candidates` must be at least n_neighbors=13\. Got 12"):
        index.kneighbors(QUERIES, 13)
    own = index.kneighbors(n_neighbors=3, return_distance=False)
    assert (own != GROUPS[:, None]).all()


def test_real_queries_rank_the_candidates_of_codes(hashers):
    hasher = FrozenEstimator(hashers["estimated"])
    plain = HammingNeighbors(hasher, query="real").fit(X)
    by_real = distances_of_rows(plain, QUERIES)
    index = HammingNeighbors(hasher, query="real", candidates=9).fit(X, groups=GROUPS)
    by_code = HammingNeighbors(hasher).fit(X, groups=GROUPS).kneighbors(QUERIES, 9, return_distance=False)
    distances, groups, members = index.kneighbors(QUERIES, 4, return_members=True)
    for query in range(len(QUERIES)):
        chosen = np.flatnonzero(np.isin(GROUPS, by_code[query]))
        expected = nearest_groups(by_real[query : query + 1, chosen], GROUPS[chosen], 4, chosen)[:3]
        assert_same((distances[query], groups[query], members[query]), [part[0] for part in expected])


def test_groups_of_one_row_are_the_items():
    bits, queries = rng.integers(0, 2, (200, 32)), rng.integers(0, 2, (20, 32))
    plain, index = HammingNeighbors().fit(bits), HammingNeighbors().fit(bits, groups=range(200))
    assert_same(index.kneighbors(queries, return_ties=True), plain.kneighbors(queries, return_ties=True))
    assert_same(index.kneighbors(), plain.kneighbors())
    assert (index.kneighbors_graph() != plain.kneighbors_graph()).nnz == 0
    assert (index.radius_neighbors_graph(radius=9) != plain.radius_neighbors_graph(radius=9)).nnz == 0


def test_shards_merge_into_the_groups_of_the_whole():
    bits, queries = rng.integers(0, 2, (200, 10)), rng.integers(0, 2, (20, 10))
    groups = np.sort(rng.integers(0, 50, 200))
    cut = np.searchsorted(groups, 25)
    parts = [(bits[:cut], groups[:cut]), (bits[cut:], groups[cut:])]
    shards = [HammingNeighbors().fit(part, groups=of).kneighbors(queries, 6) for part, of in parts]
    assert_same(merge_neighbors(shards, 6), HammingNeighbors().fit(bits, groups=groups).kneighbors(queries, 6))


# --- other searches


@pytest.mark.parametrize("params", [{"backend": "faiss-hnsw"}, {"backend": "faiss-ivf"}])
def test_an_approximate_index_finds_different_groups(params):
    pytest.importorskip("faiss")
    bits = np.repeat(rng.integers(0, 2, (400, 32)), 5, axis=0) ^ (rng.random((2000, 32)) < 0.03)
    groups = np.repeat(np.arange(400), 5)
    index = HammingNeighbors(**params).fit(bits, groups=groups)
    distances, found = index.kneighbors(bits[:50], 10)
    assert all(len(set(row)) == 10 for row in found.tolist())
    assert_array_equal(distances[:, 0], 0)
    exact = HammingNeighbors().fit(bits, groups=groups).kneighbors(bits[:50], 10)[1]
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found.tolist(), exact.tolist(), strict=True)]) > 5
    assert_same(index.kneighbors(bits[:5], 400), HammingNeighbors().fit(bits, groups=groups).kneighbors(bits[:5], 400))


def test_a_device_finds_the_same_groups():
    pytest.importorskip("torch")
    for n_bits in (6, 40):
        bits, queries = rng.integers(0, 2, (700, n_bits)), rng.integers(0, 2, (30, n_bits))
        groups = rng.integers(0, 40, 700)
        here, there = (HammingNeighbors(device=device).fit(bits, groups=groups) for device in (None, "cpu"))
        assert_same(there.kneighbors(queries, return_members=True), here.kneighbors(queries, return_members=True))
        assert_same(there.kneighbors(n_neighbors=39), here.kneighbors(n_neighbors=39))
        for one, other in zip(there.radius_neighbors(queries, 3), here.radius_neighbors(queries, 3), strict=True):
            assert_same(one, other)


def test_a_transformer_has_a_column_for_each_group():
    bits, groups = rng.integers(0, 2, (50, 12)), rng.integers(0, 9, 50)
    transformer = HammingNeighborsTransformer(n_neighbors=3, mode="connectivity")
    graph = transformer.fit_transform(bits, groups=groups)
    assert graph.shape == (50, 9)
    assert_array_equal(graph.sum(axis=1), 3)
    assert graph[np.arange(50), groups].all()  # the own group is the nearest, or one as near
    assert len(transformer.get_feature_names_out()) == 9


# --- what goes in and out


def test_codes_keep_their_groups_through_an_index(tmp_path):
    codes = Codes.of(rng.integers(0, 2, (6, 8)), groups=list("aabbcc"), ids=range(10, 16))
    index = HammingNeighbors().fit(codes)
    assert index.groups_.tolist() == index.codes_.groups.tolist() == list("aabbcc")
    assert HammingNeighbors().fit(codes, groups=range(6)).groups_.tolist() == [0, 1, 2, 3, 4, 5]
    index.add(Codes.of(rng.integers(0, 2, (2, 8)), groups=["B", "a"]))
    assert index.groups_.tolist() == [*"aabbcc", "B", "a"]
    index.remove(groups=["a", "B"])
    assert (index.ids_.tolist(), index.groups_.tolist()) == ([12, 13, 14, 15], list("bbcc"))
    save(index, tmp_path / "index")
    assert codes_of_index(tmp_path / "index").groups.tolist() == list("bbcc")


def test_groups_that_name_the_rows_are_put_in_their_order():
    frame = pd.DataFrame(rng.integers(0, 2, (4, 6)), index=["p", "q", "r", "s"])
    index = HammingNeighbors().fit(frame, groups=pd.Series([2, 1, 0, 0], index=["s", "r", "q", "p"]))
    assert index.groups_.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("labels", [GROUPS, NAMES, GROUPS - 2**62], ids=["ints", "text", "negative"])
@pytest.mark.parametrize("check_codes", [None, True, False])
def test_a_file_keeps_the_groups(labels, check_codes, hashers, tmp_path):
    index = HammingNeighbors(FrozenEstimator(hashers["real"]), query="real").fit(X[:250], groups=labels[:250])
    index.add(X[250:], groups=labels[250:]).remove(range(3, 290, 7)).remove(groups=labels[:1])
    save(index, tmp_path / "index")
    again = load(tmp_path / "index", check_codes=check_codes)
    assert_array_equal(again.groups_, index.groups_)
    for which in (index, again):
        which.add(X[:5], groups=labels[:5])
    assert_same(again.kneighbors(QUERIES, return_members=True), index.kneighbors(QUERIES, return_members=True))
    assert_same(again.kneighbors(QUERIES, among=labels[:1]), index.kneighbors(QUERIES, among=labels[:1]))


def test_a_file_with_wrong_groups_is_refused(tmp_path):
    index = HammingNeighbors().fit(rng.integers(0, 2, (10, 8)), groups=[0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    for numbers in (np.full(10, -1), np.full(10, 5), np.zeros(10), np.arange(9)):
        index._items.groups.numbers.values = numbers.astype(np.int32)
        save(index, tmp_path / "index")
        with pytest.raises(InvalidFileError, match="`groups_` must be"):
            load(tmp_path / "index")


def test_what_is_asked_and_changed_must_fit_the_groups(hashers):
    bits = rng.integers(0, 2, (6, 8))
    index, plain = HammingNeighbors().fit(bits, groups=list("aabbcc")), HammingNeighbors().fit(bits)
    refused = [
        (lambda: HammingNeighbors().fit(bits, groups=[1, 2]), r"`groups` must be ints of shape \(6,\), or text"),
        (lambda: HammingNeighbors().fit(bits, groups=[0.5] * 6), "`groups` must be ints or text. Got 0.5"),
        (lambda: index.add(bits), "`groups` must be given for an index with groups. Got None"),
        (lambda: index.add(bits, groups=range(6)), "`groups` must be text, as those in the index. Got ints"),
        (lambda: plain.add(bits, groups=range(6)), "`groups` must be None for an index that was fitted without them"),
        (lambda: index.remove(), "Either `ids` or `groups` must be given. Got neither"),
        (lambda: index.remove([1], groups=["a"]), "Either `ids` or `groups` must be given. Got both"),
        (lambda: index.remove(groups=["x", "a"]), r"`groups` must be groups of the index. Got \['x'\], which are not"),
        (lambda: index.remove(groups=[1]), r"`groups` must be text of shape \(n_groups,\)"),
        (lambda: index.remove(groups=list("abc")), "`groups` must leave at least one item in the index"),
        (lambda: plain.remove(groups=["a"]), "`groups` must be None for an index without groups"),
        (lambda: plain.kneighbors(bits, 1, return_members=True), "`return_members` must be False for an index without"),
        (lambda: plain.radius_neighbors(bits, return_members=True), "`return_members` must be False for an index"),
        (lambda: index.kneighbors(bits, 1, among=["a", "x"]), "`among` must be groups of the index"),
        (lambda: index.kneighbors(bits, 1, among=[0, 1]), r"`among` must be text of shape \(n_groups,\)"),
    ]
    for call, message in refused:
        with pytest.raises(ValueError, match=message):
            call()
    assert (index.groups_.tolist(), plain.n_samples_fit_) == (list("aabbcc"), 6)
    index.remove(groups=["a"])
    with pytest.raises(ValueError, match=r"`among` must be groups of the index. Got \['a'\]"):
        index.kneighbors(bits, 1, among=["a"])
    assert index.add(bits[:1], groups=["a"]).kneighbors(bits[:1], 1, return_distance=False) == [["a"]]
    real = HammingNeighbors().fit(hashers["real"].codes(X), groups=GROUPS).with_queries(hashers["real"])
    assert_array_equal(real.groups_, GROUPS)
    assert all(len(set(row)) == 10 for row in real.kneighbors(X[:5])[1].tolist())
