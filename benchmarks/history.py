"""CPU time of the main paths, on one thread: codes, a fit, a step of TALR, searches, a histogram.

    make benchmark

Each run is kept as a file of .benchmarks, which is named after the commit. To compare two commits, measure both on one
machine. The last command prints the fastest run of each function at both:

    git switch --detach main && make benchmark
    git switch - && make benchmark
"""

import time

import numpy as np
import pytest
from evaluation import NBITS, random_codes
from one_sample import estimators
from talr_step import Step
from threadpoolctl import threadpool_limits

from skhash import ITQHasher
from skhash._threads import one_thread
from skhash.metrics import relevance_histogram
from skhash.neighbors import HammingNeighbors

pytestmark = [
    pytest.mark.benchmark(timer=time.process_time, max_time=0.5),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # codes of one epoch
]
rng = np.random.default_rng(0)
y = rng.integers(10, size=2000)
X = rng.standard_normal((10, 64))[y] + rng.standard_normal((2000, 64))
query_codes, codes, query_y, database_y = random_codes(128, 100_000)


@pytest.fixture(autouse=True)
def one_thread_of_libraries():
    """Let the times not depend on how many cores are free."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def hashers():
    return estimators(X, y)


@pytest.mark.parametrize("n_samples", [1, 2000])
@pytest.mark.parametrize("name", ["itq", "talr", "talr-mlp"])
def test_transform(benchmark, hashers, name, n_samples):
    benchmark(hashers[name].transform, X[:n_samples])


def test_fit_itq(benchmark):
    benchmark(ITQHasher(32, random_state=0).fit, X)


def test_talr_step(benchmark):
    with one_thread():  # as in training
        benchmark(Step())


@pytest.mark.parametrize("n_queries", [1, 128])
def test_kneighbors(benchmark, n_queries):
    index = HammingNeighbors(nbits=NBITS, n_neighbors=10).fit(codes)
    benchmark(index.kneighbors, query_codes[:n_queries])


def test_relevance_histogram(benchmark):
    benchmark(relevance_histogram, query_codes, codes, query_y, database_y, nbits=NBITS)
