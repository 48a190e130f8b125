"""dask collections: the results of one process, lazily, without gathering, and after the loss of a worker."""

import os
import signal
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skhash.dask
from skhash import ITQHasher, StructHashHasher, TALRHasher
from skhash.affinity import ClassAffinity, NeighborAffinity
from skhash.metrics import RetrievalScorer, relevance_histogram
from skhash.neighbors import HammingNeighbors

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

NBITS = 24


@pytest.fixture(scope="module")
def problem():
    """A hasher, samples and classes; each cluster of samples is a class."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 9000)
    X = (rng.normal(size=(5, 16))[y] + rng.normal(size=(9000, 16))).astype(np.float32)
    return ITQHasher(NBITS, random_state=0).fit(X[:500], y[:500]), X, y


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def assert_same_histogram(found, expected):
    for name in ("counts", "levels", "distances", "indptr"):
        a, b = getattr(found, name), getattr(expected, name)
        assert (a is None) == (b is None)
        if b is not None:
            assert_array_equal(a, b)
            assert a.dtype.kind == b.dtype.kind


def refuse(X):
    raise AssertionError("computed")


@pytest.mark.parametrize("chunks", [(9000, 16), (4096, 16), (1000, 5), ((1, 0, 8000, 999), 16)])
def test_codes_do_not_depend_on_the_chunks(chunks, problem):
    hasher, X, _ = problem
    codes = skhash.dask.encode(hasher, da.from_array(X, chunks=chunks))
    assert (codes.shape, codes.dtype) == ((9000, 3), np.uint8)
    n_differing = int(np.bitwise_count(codes.compute() ^ hasher.encode(X)).sum())
    assert n_differing == 0


def test_nothing_is_computed_before_it_must_be(problem):
    hasher, X, y = problem
    lazy = da.from_array(X, chunks=(1000, 16)).map_blocks(refuse, dtype=X.dtype, meta=X[:0])
    codes = skhash.dask.encode(hasher, lazy)
    shards = da.from_array(y, chunks=1000)
    skhash.dask.relevance_histogram(hasher.encode(X[:9]), codes, y[:9], shards, nbits=NBITS)
    skhash.dask.kneighbors(hasher.encode(X[:9]), codes, nbits=NBITS)
    with pytest.raises(AssertionError, match="computed"):
        codes.compute()


def test_data_frames_and_pipelines(problem):
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    _, X, _ = problem
    frame = pandas.DataFrame(X, columns=[f"x{i}" for i in range(16)])
    pipeline = make_pipeline(StandardScaler(), ITQHasher(NBITS, random_state=0)).fit(frame[:500])
    expected = np.packbits(pipeline.transform(frame), axis=1)
    assert_array_equal(skhash.dask.encode(pipeline, frames.from_pandas(frame, npartitions=4)).compute(), expected)
    hasher = ITQHasher(NBITS, random_state=0).fit(frame[:500])  # a warning of missing names is an error here
    assert_array_equal(
        skhash.dask.encode(hasher, frames.from_pandas(frame, npartitions=4)).compute(), hasher.encode(frame)
    )


@pytest.mark.parametrize("sizes", [(9000,), (3000, 3000, 3000), (1, 8000, 0, 999), (100,) * 90])
@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_are_those_of_one_process(sizes, weighted, problem):
    hasher, X, y = problem
    queries, codes = hasher.encode(X[:20]), hasher.encode(X)
    weights = np.linspace(0.5, 2, NBITS) if weighted else None
    shards = da.from_array(codes, chunks=(sizes, 3)), da.from_array(y, chunks=(sizes,))
    options = {"bit_weights": weights, "nbits": NBITS}
    found = skhash.dask.relevance_histogram(queries, shards[0], y[:20], shards[1], split_every=3, **options)
    assert_same_histogram(found.compute(), relevance_histogram(queries, codes, y[:20], y, **options))


@pytest.mark.parametrize("sizes", [(9000,), (3000, 3000, 3000), (1, 8000, 0, 999), (100,) * 90])
@pytest.mark.parametrize("is_bits", [False, True])
def test_neighbors_are_those_of_one_process(sizes, is_bits, problem):
    hasher, X, _ = problem
    nbits = None if is_bits else NBITS
    queries, codes = (hasher.transform(part) if is_bits else hasher.encode(part) for part in (X[:20], X))
    shards = da.from_array(codes, chunks=(sizes, codes.shape[1]))
    found = skhash.dask.kneighbors(queries, shards, 150, nbits=nbits, split_every=4).compute()
    expected = HammingNeighbors(nbits=nbits).fit(codes).kneighbors(queries, 150)
    for array, one in zip(found, expected, strict=True):
        assert_array_equal(array, one, strict=True)


def test_shards_of_unknown_sizes(problem):
    hasher, X, y = problem
    keep = da.from_array(X[:, 0] > 0, chunks=1000)
    lazy, lazy_y = da.from_array(X, chunks=(1000, 16))[keep], da.from_array(y, chunks=1000)[keep]
    codes, queries, kept = skhash.dask.encode(hasher, lazy), hasher.encode(X[:9]), X[:, 0] > 0
    found = skhash.dask.kneighbors(queries, codes, 7, nbits=NBITS).compute()
    expected = HammingNeighbors(nbits=NBITS).fit(hasher.encode(X[kept])).kneighbors(queries, 7)
    assert_array_equal(found, expected)
    H = skhash.dask.relevance_histogram(queries, codes, y[:9], lazy_y, nbits=NBITS).compute()
    assert_same_histogram(H, relevance_histogram(queries, hasher.encode(X[kept]), y[:9], y[kept], nbits=NBITS))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_scorer_takes_a_dask_database(weighted, problem):
    hasher, X, y = problem
    if weighted:
        options = {"n_relevant": 4, "n_irrelevant": 4, "n_anchors": 40, "tol": 0.05, "random_state": 0}
        hasher = StructHashHasher(4, **options).fit(X[:100], y[:100])
    names = ["ap", "ndcg", "precision_at_100", "precision_radius_2"]
    lazy = da.from_array(X, chunks=(2000, 16)), da.from_array(y, chunks=2000)
    found = RetrievalScorer(names, database=lazy)(hasher, X[:50], y[:50])
    assert found == RetrievalScorer(names, database=(X, y))(hasher, X[:50], y[:50])


def test_what_would_gather_or_cannot_add_is_refused(problem):
    hasher, X, y = problem
    lazy, lazy_y = da.from_array(X, chunks=(2000, 16)), da.from_array(y, chunks=2000)
    for method in (hasher.transform, hasher.encode, hasher.project, hasher.fit):
        with pytest.raises(TypeError, match=r"Got a dask collection instead\. .* skhash\.dask\.encode\(hasher, X\)"):
            method(lazy)
    with pytest.raises(TypeError, match=r"`X` must be a dask array or data frame\. Got ndarray instead\."):
        skhash.dask.encode(hasher, X)
    with pytest.raises(NotFittedError):
        skhash.dask.encode(ITQHasher(8), lazy)
    codes = skhash.dask.encode(hasher, lazy)
    with pytest.raises(TypeError, match="`database_y` must be a dask array"):
        skhash.dask.relevance_histogram(hasher.encode(X[:2]), codes, y[:2], y, nbits=NBITS)
    shards, affinity = da.from_array(y, chunks=1000), NeighborAffinity(5)
    with pytest.raises(ValueError, match="Got 9 and 5 blocks instead"):
        skhash.dask.relevance_histogram(hasher.encode(X[:2]), codes, y[:2], shards, nbits=NBITS)
    with pytest.raises(ValueError, match="Got a NeighborAffinity, which ranks all items"):
        skhash.dask.relevance_histogram(hasher.encode(X[:2]), codes, X[:2], lazy, affinity, nbits=NBITS)
    for k in (0, 2.5, True):
        with pytest.raises(ValueError, match=r"`n_neighbors` must be an int >= 1\. Got "):
            skhash.dask.kneighbors(hasher.encode(X[:2]), codes, k, nbits=NBITS)
    with pytest.raises(ValueError, match=r"`database_codes` must have the same number of bits\. Got 2 and 3 instead"):
        skhash.dask.kneighbors([[0, 1]], da.ones((9, 3), dtype=np.uint8), 1).compute()
    with pytest.raises(ValueError, match=r"`split_every` must be an int >= 2\. Got 1 instead\."):
        skhash.dask.kneighbors(hasher.encode(X[:2]), codes, nbits=NBITS, split_every=1)
    with pytest.raises(ValueError, match=r"`database_codes` must have at least one item\. Got empty blocks\."):
        skhash.dask.relevance_histogram(hasher.encode(X[:2]), codes[:0], y[:2], lazy_y[:0], nbits=NBITS).compute()
    with pytest.raises(ValueError, match="`query` must be 'code' with a dask database"):
        RetrievalScorer(database=(lazy, lazy_y), query="real")(hasher, X[:5], y[:5])


def test_a_stream_of_shuffled_blocks_learns_as_from_the_same_arrays(problem):
    _, X, y = problem
    lazy, lazy_y = da.from_array(X[:600], chunks=(200, 16)), da.from_array(y[:600], chunks=200)
    streamed, expected = (TALRHasher(8, batch_size=64, device="cpu", random_state=0) for _ in range(2))
    for block in np.random.default_rng(0).permutation(lazy.numblocks[0]):
        streamed.partial_fit(*dask.compute(lazy.blocks[block], lazy_y.blocks[block]))
        rows = slice(200 * block, 200 * block + 200)
        expected.partial_fit(X[rows], y[rows])
    assert [entry["loss"] for entry in streamed.history_] == [entry["loss"] for entry in expected.history_]
    assert_array_equal(streamed.project(X), expected.project(X))
    with pytest.raises(TypeError, match="Computing it would gather all of it"):
        streamed.partial_fit(lazy, lazy_y)
    assert_array_equal(streamed.project(X), expected.project(X))  # nothing learned is lost


def slowly(X):
    time.sleep(0.3)
    return X


@pytest.mark.slow
def test_four_workers_give_the_results_of_one_process_also_when_one_is_killed(problem):
    distributed = pytest.importorskip("distributed")
    hasher, X, y = problem
    queries, codes = hasher.encode(X[:20]), hasher.encode(X)
    lazy = da.from_array(X, chunks=(300, 16)).map_blocks(slowly, dtype=X.dtype, meta=X[:0])
    shards, lazy_y = skhash.dask.encode(hasher, lazy), da.from_array(y, chunks=300)
    histogram = skhash.dask.relevance_histogram(queries, shards, y[:20], lazy_y, ClassAffinity(), nbits=NBITS)
    neighbors = skhash.dask.kneighbors(queries, shards, 50, nbits=NBITS)
    with (
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        dask.config.set(scheduler=client),
    ):
        pids = list(client.run(os.getpid).values())
        assert len(set(pids) - {os.getpid()}) == 4
        futures = client.compute([histogram, neighbors])
        time.sleep(1.5)
        assert any(future.status == "pending" for future in futures)
        os.kill(pids[0], signal.SIGKILL)
        H, found = client.gather(futures)
        assert_array_equal(client.compute(shards).result(), codes)
    assert_same_histogram(H, relevance_histogram(queries, codes, y[:20], y, nbits=NBITS))
    for array, one in zip(found, HammingNeighbors(nbits=NBITS).fit(codes).kneighbors(queries, 50), strict=True):
        assert_array_equal(array, one, strict=True)
