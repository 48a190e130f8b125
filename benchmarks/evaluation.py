"""Speed of an evaluation: 1,000 queries x 59,000 codes of 64 bits, 10 classes, beside two other ways.

    pytest benchmarks/evaluation.py --benchmark-enable

Each other way computes a metric from the same codes in the same run, and is compared with our
histogram and the same metric of it. The absolute limit needs an idle machine.
"""

import time

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from skhash.codes import hamming_distances, pack
from skhash.metrics import average_precision, ndcg, relevance_histogram

N_QUERIES, N_ITEMS, NBITS = 1000, 59_000, 64
OTHER_QUERIES = 40  # the other ways are timed with fewer queries


def random_codes(n_queries, n_items):
    """Codes around the centers of 10 classes, and the classes."""
    rng = np.random.default_rng(0)
    centers = rng.integers(0, 2, (10, NBITS), dtype=np.uint8)
    query_y, database_y = rng.integers(0, 10, n_queries), rng.integers(0, 10, n_items)
    query, database = (centers[y] ^ (rng.random((len(y), NBITS)) < 0.25) for y in (query_y, database_y))
    return pack(query), pack(database), query_y, database_y


@pytest.fixture(scope="module")
def codes():
    return random_codes(N_QUERIES, N_ITEMS)


def count(codes):
    query, database, query_y, database_y = codes
    return relevance_histogram(query, database, query_y, database_y, nbits=NBITS)


def evaluate_ap(codes):
    return average_precision(count(codes))


def evaluate_ndcg(codes):
    return ndcg(count(codes))


def evaluate_by_argsort(codes):
    """Average precision as most scripts compute it: one argsort per query."""
    query, database, query_y, database_y = codes
    values = []
    for code, label in zip(query[:OTHER_QUERIES], query_y, strict=False):
        distances = np.bitwise_count(database ^ code).sum(axis=1)
        hits = (database_y == label)[np.argsort(distances)]
        ranks = np.flatnonzero(hits) + 1
        values.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return values


def evaluate_by_sklearn(codes):
    """Tie-aware NDCG of scikit-learn on the same distances."""
    query, database, query_y, database_y = codes
    distances = hamming_distances(query[:OTHER_QUERIES], database, nbits=NBITS)
    return ndcg_score(query_y[:OTHER_QUERIES, None] == database_y, -distances)


def pairs_per_second(function, codes, n_queries):
    start = time.perf_counter()
    function(codes)
    return n_queries * N_ITEMS / (time.perf_counter() - start)


def test_histogram(benchmark, codes):
    benchmark(count, codes)


def test_ratios(codes, capsys):
    count(codes)  # compiles, or loads from the cache
    histogram, ap, gain = (
        max(pairs_per_second(function, codes, N_QUERIES) for _ in range(5))
        for function in (count, evaluate_ap, evaluate_ndcg)
    )
    argsort, sklearn = (
        max(pairs_per_second(function, codes, OTHER_QUERIES) for _ in range(3))
        for function in (evaluate_by_argsort, evaluate_by_sklearn)
    )
    with capsys.disabled():
        print(
            f"\nhistogram {histogram:.2e} pairs/s"
            f"\nAP_T {ap:.2e} pairs/s, by argsort {argsort:.2e}: {ap / argsort:.0f} times"
            f"\nNDCG_T {gain:.2e} pairs/s, sklearn's ndcg_score {sklearn:.2e}: {gain / sklearn:.0f} times"
        )
    assert ap >= 20 * argsort
    assert gain >= 100 * sklearn
    assert histogram >= 2e9
