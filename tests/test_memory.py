"""Peak memory of fits and of evaluations, as numpy reports it; benchmarks/memory.py measures large ones."""

import tracemalloc

import numpy as np
import pytest
from _helpers import quick
from sklearn import config_context

from skhash.affinity import Relevance
from skhash.codes import Codes
from skhash.hashers.shallow import gaussian_kernel
from skhash.metrics import Ranking, evaluate_ranking, relevance_histogram
from skhash.neighbors import HammingNeighbors, duplicate_groups

MB = 1e6
KINDS = ("ITQCCA", "KSH", "SDH", "BRE", "AGH", "Spherical", "PCA", "CGHash")


def peak_of(function):
    """Bytes beyond those before, at the peak, and the result."""
    tracemalloc.start()
    try:
        result = function()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


# all kernel values take 32 MB, and the samples in float64 10 MB
@pytest.mark.parametrize("name", [f"{kind}Hasher" for kind in KINDS])
def test_a_fit_takes_a_few_times_the_samples(name, monkeypatch):
    monkeypatch.setattr(gaussian_kernel, "MIN_HELD", 0)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20_000, 64), dtype=np.float32), rng.integers(0, 10, 20_000)
    options = {"n_anchors": 200, "max_samples": 300, "n_queries": 100, "max_iter": 3}
    if name == "CGHashHasher":
        options |= {"nbits": 1, "hash_function": "linear"}
    quick(name, **options).fit(X[:100], y[:100])  # imports, compiled kernels
    peak, _ = peak_of(lambda: quick(name, **options).fit(X, y))
    assert peak < 4 * X.nbytes + 6 * MB


@pytest.fixture
def weighted():
    rng = np.random.default_rng(0)
    query, database = (rng.integers(0, 256, (n, 4), dtype=np.uint8) for n in (50, 20_000))
    targets = [rng.integers(0, 5, n) for n in (50, 20_000)]
    return Codes.of(query, 32), Codes.of(database, 32), targets, rng.uniform(1, 2, 32)


def test_an_evaluation_by_weighted_distances_takes_little_memory_at_a_time(weighted):
    query, database, targets, weights = weighted

    def evaluate():
        ranking = Ranking(query, database, Relevance.between(*targets), weights)
        return evaluate_ranking(ranking, ["ap", "ndcg"])

    whole = evaluate()
    with config_context(working_memory=4):
        peak, values = peak_of(evaluate)
    assert values == whole  # to the last bit
    assert peak < 12 * MB  # all pairs take 8 MB as distances alone, and 24 MB as counts


def test_a_weighted_histogram_takes_little_more_than_its_result(weighted):
    query, database, targets, weights = weighted
    with config_context(working_memory=4):
        peak, H = peak_of(lambda: relevance_histogram(query, database, *targets, bit_weights=weights))
    assert H.counts.sum() == 50 * 20_000
    assert peak < H.counts.nbytes + H.distances.nbytes + 8 * MB


def test_pairs_of_equal_codes_are_never_in_memory_together():
    index = HammingNeighbors(nbits=64).fit(np.zeros((10_000, 8), np.uint8))

    def count():
        return sum(len(i) for i, _, _ in index.radius_pairs(2)), len(duplicate_groups(index, 2))

    peak, counts = peak_of(count)
    assert counts == (10_000 * 9_999 // 2, 1)
    assert peak < 200 * MB  # all pairs take 1.2 GB
