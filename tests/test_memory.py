"""Peak memory of fits and of evaluations, as numpy reports it; benchmarks/memory.py measures large ones."""

import tracemalloc

import numpy as np
import pytest
from _helpers import quick

from skhash.codes import _bits
from skhash.hashers.shallow import _kernel_features
from skhash.metrics import Ranking, evaluate_ranking, relevance_histogram

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
    monkeypatch.setattr(_kernel_features, "MIN_HELD", 0)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20_000, 64), dtype=np.float32), rng.integers(0, 10, 20_000)
    options = {"n_anchors": 200, "n_labeled": 300, "n_queries": 100, "n_iter": 2, "max_iter": 3}
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
    return query, database, 32, *targets, "auto", rng.uniform(1, 2, 32)


def test_an_evaluation_by_weighted_distances_takes_little_memory_at_a_time(weighted, monkeypatch):
    def evaluate():
        return evaluate_ranking(Ranking(*weighted), ["ap", "ndcg"])

    whole = evaluate()
    monkeypatch.setattr(_bits, "MAX_WORKING_MEMORY", 4)
    peak, values = peak_of(evaluate)
    assert values == whole  # to the last bit
    assert peak < 12 * MB  # all pairs take 8 MB as distances alone, and 24 MB as counts


def test_a_weighted_histogram_takes_little_more_than_its_result(weighted, monkeypatch):
    query, database, nbits, query_y, database_y, affinity, weights = weighted
    monkeypatch.setattr(_bits, "MAX_WORKING_MEMORY", 4)
    arguments = {"affinity": affinity, "bit_weights": weights, "nbits": nbits}
    peak, H = peak_of(lambda: relevance_histogram(query, database, query_y, database_y, **arguments))
    assert H.counts.sum() == 50 * 20_000
    assert peak < H.counts.nbytes + H.distances.nbytes + 8 * MB
