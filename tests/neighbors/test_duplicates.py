"""Pairs, graphs and groups of near codes, against brute force."""

import _thread
import signal
import threading

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from skhash import ITQHasher, StructHashHasher
from skhash._threads import free_threads, n_threads
from skhash.codes import hamming_distances, pack, pair_kernels
from skhash.neighbors import HammingNeighbors, _pairs, duplicate_groups
from skhash.persistence import load, save


def random_bits(n, nbits, seed=0, n_random=None):
    """Random bits; few random ones make many near pairs."""
    bits = np.random.default_rng(seed).integers(0, 2, (n, nbits), dtype=np.uint8)
    bits[:, nbits if n_random is None else n_random :] = 0
    return bits


def pairs_of(index, radius):
    """All pairs with their distances, sorted."""
    blocks = list(index.radius_pairs(radius))
    assert all(0 < len(i) == len(j) == len(d) <= 2**20 for i, j, d in blocks)
    assert all((i < j).all() for i, j, _ in blocks)
    found = [(*pair,) for block in blocks for pair in zip(*(array.tolist() for array in block), strict=True)]
    assert len(set(found)) == len(found)
    return sorted(found)


def near_by(distances, radius, ids=None):
    """The same from a matrix of distances."""
    ids = np.arange(len(distances)) if ids is None else np.asarray(ids)
    i, j = np.nonzero(np.triu(distances <= radius, 1))
    return sorted((*sorted([ids[a].item(), ids[b].item()]), float(distances[a, b])) for a, b in zip(i, j, strict=True))


def groups_of(pairs, ids):
    """Connected components of pairs, as sets."""
    place = {item: position for position, item in enumerate(ids)}
    edges = np.array([[place[i], place[j]] for i, j, *_ in pairs]).reshape(-1, 2).T
    graph = sparse.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(len(ids), len(ids)))
    labels = connected_components(graph, directed=False)[1]
    groups = [{ids[i] for i in np.flatnonzero(labels == label)} for label in np.unique(labels)]
    return [group for group in groups if len(group) > 1]


def as_sets(groups):
    return [set(group.tolist()) for group in groups]


class Weighted(BaseEstimator):
    """A fitted hasher of bits that have weights."""

    def __init__(self, bit_weights):
        self.bit_weights_ = np.asarray(bit_weights, float)

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X, np.uint8)


@pytest.fixture(params=["by keys", "in blocks"])
def way(request, monkeypatch):
    """Each of the two ways to search, in small steps. Codes as few as here would be compared in blocks."""
    monkeypatch.setattr(_pairs, "IN_BLOCKS", 1e9 if request.param == "by keys" else 0.0)
    for name, value in {"MAX_PAIRS": 2**12, "GROUP": 3, "TASK": 7, "CHUNK": 50, "PART": 16, "MAX_PART_BITS": 3}.items():
        monkeypatch.setattr(_pairs, name, value)
    return request.param


def clusters(rng, n, nbits):
    """Random bits: some independent, some near others or equal to them, some columns constant or alike."""
    bits = rng.integers(0, 2, (n, nbits), dtype=np.uint8)
    copied = rng.random(n) < rng.random()
    bits[copied] = bits[rng.integers(0, max(1, n // 8), copied.sum())]
    flipped = rng.random((n, nbits)) < rng.choice([0, 1, 2]) / nbits
    bits[copied] ^= flipped[copied].astype(np.uint8)
    bits[:, rng.random(nbits) < rng.choice([0, 0.3])] = 1
    alike = np.flatnonzero(rng.random(nbits) < rng.choice([0, 0.3]))
    bits[:, alike] = bits[:, alike[:1]]
    return bits


@pytest.mark.parametrize("seed", range(200))
def test_pairs_are_those_of_brute_force(seed, way):
    rng = np.random.default_rng(seed)
    n, nbits = int(rng.integers(2, 120)), int(rng.choice([1, 5, 8, 31, 32, 33, 63, 64, 65, 100, 128, 200]))
    bits, radius = clusters(rng, n, nbits), int(rng.integers(0, 6)) if seed % 4 else int(rng.integers(0, nbits + 1))
    index, distances = HammingNeighbors().fit(bits), hamming_distances(bits, bits)
    assert pairs_of(index, radius) == near_by(distances, radius)


@pytest.mark.parametrize("seed", range(60))
def test_pairs_by_weighted_bits_are_those_of_brute_force(seed, way):
    rng = np.random.default_rng(seed)
    n, nbits = int(rng.integers(2, 100)), int(rng.choice([3, 8, 20, 64, 70]))
    bits = clusters(rng, n, nbits)
    weights = [rng.random(nbits), rng.integers(0, 3, nbits), 4.0 ** -rng.integers(0, 5, nbits)][seed % 3]
    index = HammingNeighbors(FrozenEstimator(Weighted(weights))).fit(bits)
    distances = (bits[:, None] != bits) @ index.hasher_.estimator.bit_weights_
    radius = float(np.quantile(distances, rng.choice([0.02, 0.2, 1]))) + 1e-6  # not at a distance, which is rounded
    found, expected = pairs_of(index, radius), near_by(distances, radius)
    assert [pair[:2] for pair in found] == [pair[:2] for pair in expected]
    np.testing.assert_allclose([d for *_, d in found], [d for *_, d in expected], atol=1e-6)


@pytest.mark.parametrize("sort_results", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_graph_of_the_items_is_that_of_queries_without_themselves(seed, sort_results, way):
    rng = np.random.default_rng(seed)
    bits = clusters(rng, int(rng.integers(1, 80)), 40)
    hasher = FrozenEstimator(Weighted(rng.integers(0, 3, 40) / 4)) if seed % 3 == 0 else None
    index, radius = HammingNeighbors(hasher).fit(bits, ids=100 + np.arange(len(bits))), seed / 2
    found = index.radius_neighbors(radius=radius, sort_results=sort_results)
    for mode in ("connectivity", "distance"):
        graph = index.radius_neighbors_graph(radius=radius, mode=mode, sort_results=sort_results)
        rows = index.radius_neighbors(bits, radius=radius, sort_results=sort_results)
        assert graph.shape == (len(bits), len(bits))
        assert (graph.data.dtype, graph.indices.dtype, graph.indptr.dtype) == (np.float64, np.int32, np.int32)
        for i, (distances, ids) in enumerate(zip(*rows, strict=True)):
            others = ids != 100 + i
            of_row = slice(*graph.indptr[i : i + 2])
            np.testing.assert_array_equal(graph.indices[of_row], ids[others] - 100)
            np.testing.assert_array_equal(graph.data[of_row], distances[others] if mode == "distance" else 1)
            np.testing.assert_array_equal(found[0][i], distances[others])
            np.testing.assert_array_equal(found[1][i], ids[others])


@pytest.mark.parametrize(("n", "radius", "nbits"), [(40_000, 2, 64), (30_000, 6, 128), (30_000, 1, 24)])
def test_pairs_of_many_codes(n, radius, nbits):
    bits = random_bits(n, nbits)
    bits[n // 2 :] = bits[: n // 2]
    bits[n // 2 :, 0] ^= 1
    found = pairs_of(HammingNeighbors().fit(bits), radius)
    assert set(found) >= {(i, i + n // 2, 1.0) for i in range(n // 2)}
    few = np.random.default_rng(0).choice(n, 300, replace=False)
    near = {
        (min(i, j), max(i, j), float(d))
        for i, row in zip(few, hamming_distances(bits[few], bits), strict=True)
        for j, d in enumerate(row.tolist())
        if d <= radius and i != j
    }
    assert {pair for pair in found if set(pair[:2]) & set(few.tolist())} == near


@pytest.mark.parametrize("nbits", [1, 7, 13, 64, 65, 130, 300])
def test_pairs_and_groups_are_those_of_brute_force_at_all_radii(nbits):
    bits = random_bits(90, nbits, n_random=9)
    index, distances = HammingNeighbors().fit(bits), hamming_distances(bits, bits)
    for radius in [*range(min(nbits + 1, 11)), nbits, nbits + 1]:
        expected = near_by(distances, radius)
        assert pairs_of(index, radius) == expected
        groups = duplicate_groups(index, radius)
        assert as_sets(groups) == groups_of(expected, range(90))
        assert all((np.diff(group) > 0).all() for group in groups)


@pytest.mark.parametrize(("n", "radius"), [(1, 64), (1024, 20), (1025, 20), (2300, 2), (2300, 2.9), (2300, 21)])
def test_pairs_of_several_blocks_of_codes(n, radius):
    bits = random_bits(n, 64, seed=1)
    bits[n // 2 : n // 2 + 9] = bits[:9]
    assert pairs_of(HammingNeighbors().fit(bits), radius) == near_by(hamming_distances(bits, bits), radius)


def test_pairs_have_the_ids_of_the_index_after_changes():
    bits, ids = random_bits(60, 12), np.random.default_rng(0).permutation(1000)[:60]
    index = HammingNeighbors().fit(bits[:40], ids=ids[:40]).add(bits[40:], ids=ids[40:]).remove(ids[5:20])
    kept = np.r_[0:5, 20:60]
    expected = near_by(hamming_distances(bits[kept], bits[kept]), 2, ids[kept])
    assert pairs_of(index, 2) == expected
    groups = duplicate_groups(index, 2)
    assert as_sets(groups) == groups_of(expected, ids[kept].tolist())
    assert [group.tolist() for group in groups] == [[i for i in ids[kept] if i in set(group)] for group in groups]


def test_pairs_and_groups_of_items_with_text_as_ids():
    index = HammingNeighbors().fit([[0, 0, 0], [1, 1, 1], [0, 0, 1]], ids=["pear", "fig", "apple"])
    assert pairs_of(index, 1) == [("apple", "pear", 1.0)]
    assert [group.tolist() for group in duplicate_groups(index, 1)] == [["pear", "apple"]]


def test_packed_codes_a_memmap_and_a_saved_index(tmp_path):
    bits = random_bits(300, 20)
    expected = near_by(hamming_distances(bits, bits), 2)
    np.save(tmp_path / "codes.npy", pack(bits))
    index = HammingNeighbors(nbits=20).fit(np.load(tmp_path / "codes.npy", mmap_mode="r"))
    assert pairs_of(index, 2) == expected
    save(index, tmp_path / "index")
    assert pairs_of(load(tmp_path / "index"), 2) == expected
    assert as_sets(duplicate_groups(load(tmp_path / "index"), 2)) == groups_of(expected, range(300))


def test_pairs_do_not_depend_on_threads_and_see_no_later_change():
    bits = random_bits(3000, 16)
    index = HammingNeighbors().fit(bits)
    blocks = index.radius_pairs(2)
    first = next(blocks)
    index.remove(np.arange(2900))
    found = [first, *blocks]
    for n_jobs in (1, 3):
        again = list(HammingNeighbors(n_jobs=n_jobs).fit(bits).radius_pairs(2))
        np.testing.assert_equal(found, again)


SEARCHES = {
    "graph": lambda index: index.radius_neighbors_graph(radius=2).indices,
    "neighbors": lambda index: np.concatenate(index.radius_neighbors(radius=2)[1]),
    "pairs": lambda index: np.concatenate([i for i, *_ in index.radius_pairs(2)]),
    "groups": lambda index: np.concatenate(duplicate_groups(index, 2)),
}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("name", list(SEARCHES))
def test_an_interrupted_search_leaves_the_index_as_it_was_and_no_thread_at_work(name, n_jobs, way, monkeypatch):
    bits = random_bits(3000, 40, n_random=30)
    index, search = HammingNeighbors(n_jobs=n_jobs).fit(bits), SEARCHES[name]
    expected, n_calls = search(index), 0
    kernel = {"by keys": "near_in_runs", "in blocks": "near_in_blocks"}[way]
    compare = getattr(pair_kernels, kernel)

    def interrupted(*args):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 3:
            _thread.interrupt_main()  # what Ctrl-C does, while the kernels run
        return compare(*args)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # processes of xdist ignore it
    with monkeypatch.context() as patch:
        patch.setattr(pair_kernels, kernel, interrupted)
        with pytest.raises(KeyboardInterrupt):
            search(index)
    signal.signal(signal.SIGINT, before)
    assert n_calls >= 3
    for thread in threading.enumerate():
        if thread.name.startswith("skhash"):  # one that an interrupted start of a pool does not know may still end
            thread.join(60)
            assert not thread.is_alive()
    assert free_threads() == n_threads()
    assert index.kneighbors(bits[7:8], 1)[1] == [[7]]
    np.testing.assert_array_equal(search(index), expected)


def test_weighted_distances_are_those_of_radius_neighbors():
    X = np.random.default_rng(0).normal(size=(1100, 6))
    hasher = StructHashHasher(10, n_relevant=5, n_irrelevant=5, random_state=0).fit(X[:60], np.arange(60) % 3)
    index = HammingNeighbors(FrozenEstimator(hasher)).fit(X)
    radius = float(np.sort(hasher.bit_weights_)[:4].sum())
    distances, neighbors = index.radius_neighbors(radius=radius)
    expected = sorted(
        (i, int(j), float(d))
        for i, (row, found) in enumerate(zip(distances, neighbors, strict=True))
        for d, j in zip(row, found, strict=True)
        if i < j
    )
    assert expected
    assert pairs_of(index, radius) == expected
    assert as_sets(duplicate_groups(index, radius)) == groups_of(expected, range(1100))


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner"])
@pytest.mark.parametrize("mapped", [False, True])
def test_groups_are_confirmed_by_vectors(metric, mapped, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    vectors[150:] = vectors[:50] + 0.01
    bits = (vectors > 0).astype(np.uint8)
    double = vectors.astype(float)
    far = {
        "cosine": 1 - double @ double.T / np.outer(*[np.linalg.norm(double, axis=1)] * 2),
        "euclidean": np.linalg.norm(double[:, None] - double, axis=2),
        "inner": -double @ double.T,
    }[metric]
    max_distance = float(np.quantile(far, 0.01))
    near = (hamming_distances(bits, bits) <= 1) & (far <= max_distance)
    expected = [(i, j) for i, j in zip(*np.nonzero(np.triu(near, 1)), strict=True)]
    if mapped:
        np.save(tmp_path / "vectors.npy", vectors)
        vectors = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = HammingNeighbors().fit(bits)
    groups = duplicate_groups(index, 1, vectors=vectors, metric=metric, max_distance=max_distance)
    assert as_sets(groups) == groups_of(expected, range(200))
    assert as_sets(groups) != as_sets(duplicate_groups(index, 1))


def test_many_equal_codes_come_in_blocks():
    n = 3000
    bits = np.zeros((n + 2, 64), np.uint8)
    bits[n:, :9] = 1
    index = HammingNeighbors().fit(bits)
    n_pairs = 0
    for i, _, distances in index.radius_pairs(0):
        assert len(i) <= 2**20
        assert not distances.any()
        n_pairs += len(i)
    assert n_pairs == n * (n - 1) // 2 + 1
    assert [len(group) for group in duplicate_groups(index, 2)] == [n, 2]
    vectors = np.ones((n + 2, 3))
    vectors[::2, 0] = -1
    groups = duplicate_groups(index, 2, vectors=vectors, max_distance=0.5)
    assert [len(group) for group in groups] == [n // 2, n // 2]


def test_no_pair_gives_no_block_and_no_group():
    index = HammingNeighbors().fit([[0, 0, 0], [1, 1, 1]])
    assert list(index.radius_pairs(2)) == []
    assert duplicate_groups(index, 2) == []
    assert as_sets(duplicate_groups(index, 3)) == [{0, 1}]


@pytest.mark.parametrize("radius", [-1, float("nan"), float("inf"), True, "2", None])
def test_a_wrong_radius_is_an_error_before_any_work(radius):
    index = HammingNeighbors().fit([[0, 1], [1, 1]])
    with pytest.raises(ValueError, match="`radius` must be a finite number >= 0"):
        index.radius_pairs(radius)
    with pytest.raises(ValueError, match="`radius` must be a finite number >= 0"):
        duplicate_groups(index, radius)


@pytest.mark.parametrize("options", [{"query": "real"}, {"rerank": "cosine"}])
def test_distances_that_are_not_of_codes_are_refused(options):
    X = np.random.default_rng(0).normal(size=(30, 4))
    index = HammingNeighbors(ITQHasher(4, random_state=0), **options).fit(X)
    for call in (index.radius_pairs, lambda: duplicate_groups(index)):
        with pytest.raises(ValueError, match=r"Call set_params\(query='code'"):
            call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_distance": 0.1}, "`max_distance` must be None without `vectors`"),
        ({"vectors": np.ones((3, 2))}, "`max_distance` must be a finite number with `vectors`"),
        ({"vectors": np.ones((3, 2)), "max_distance": np.nan}, "`max_distance` must be a finite number"),
        ({"vectors": np.ones((3, 2)), "max_distance": "1"}, "`max_distance` must be a finite number"),
        ({"vectors": np.ones((2, 2)), "max_distance": 0.1}, r"`vectors` must be numbers of shape \(3, 2\)"),
        ({"vectors": np.ones((3, 2)), "max_distance": 0.1, "metric": "l1"}, "`metric` must be one of"),
        ({"vectors": np.full((3, 2), np.nan), "max_distance": 0.1}, "`vectors` must be finite"),
    ],
)
def test_wrong_vectors_are_refused(options, message):
    index = HammingNeighbors().fit([[0, 1], [1, 1], [0, 1]])
    with pytest.raises(ValueError, match=message):
        duplicate_groups(index, **options)
