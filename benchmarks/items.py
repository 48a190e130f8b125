"""Cost of codes, histograms, neighbors and of one item added or removed against the number of items; that of 1e9 items.

    python benchmarks/items.py                       # up to 1,000,000 items of 128 features
    python benchmarks/items.py --items 8000000       # 4 GB on disk

CPU seconds of one process with one thread, the fastest of three runs. The exponent is the slope of a line through the
logarithms of the four largest sizes; it is below 1 where a constant cost weighs. The last column takes the cost per
item of the largest size for 1e9 items.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from skhash import ITQHasher
from skhash.metrics import relevance_histogram
from skhash.neighbors import HammingNeighbors

N_FEATURES, NBITS, N_QUERIES, N_SIZES, N_REPEATS = 128, 64, 100, 6, 3
#: samples that are written at a time
BLOCK = 100_000


def main():
    """Print one line for each job."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--folder", default=None, help="where the samples are written; default a temporary folder")
    options = parser.parse_args()
    sizes = [options.items >> shift for shift in reversed(range(N_SIZES))]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, threadpool_limits(1):
        jobs = make_jobs(Path(folder), options.items)
        for function in jobs.values():
            function(min(sizes[0], 5000))  # compiles
        costs = {name: [cpu_seconds(function, n) for n in sizes] for name, function in jobs.items()}
    print(f"{N_FEATURES} float32 features, {NBITS} bits, {N_QUERIES} queries; CPU seconds of one thread")
    print(f"{'':10}" + "".join(f"{n:>12,}" for n in sizes) + f"{'exponent':>10}{'s, 1e9':>10}")
    for name, seconds in costs.items():
        slope = np.polyfit(np.log(sizes[-4:]), np.log(seconds[-4:]), 1)[0]
        total = seconds[-1] / sizes[-1] * 1e9
        print(f"{name:10}" + "".join(f"{value:12.4f}" for value in seconds) + f"{slope:10.2f}{total:10.0f}")
    print(f"bytes of 1e9 items: {4 * N_FEATURES} GB of samples, {NBITS // 8} GB of codes")


def make_jobs(folder, n):
    """Functions of a number of items."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, N_FEATURES))
    for start in range(0, n, BLOCK):
        X[start : start + BLOCK] = rng.standard_normal((len(X[start : start + BLOCK]), N_FEATURES), dtype=np.float32)
    X.flush()
    hasher = ITQHasher(NBITS, random_state=0, store_database=False).fit(np.array(X[:5000]))
    codes, y = hasher.encode(X), rng.integers(0, 10, n)
    indexes = {}  # made in the first of the runs

    def index(n):
        if n not in indexes:
            indexes[n] = HammingNeighbors(FrozenEstimator(hasher), rerank="cosine", candidates=100).fit(X[:n])
        return indexes[n]

    queries, query_y = hasher.encode(rng.standard_normal((N_QUERIES, N_FEATURES), dtype=np.float32)), y[:N_QUERIES]
    return {
        "encode": lambda n: hasher.encode(X[:n], out=folder / "codes.npy"),
        "histogram": lambda n: relevance_histogram(queries, codes[:n], query_y, y[:n], nbits=NBITS),
        "neighbors": lambda n: HammingNeighbors(nbits=NBITS).fit(codes[:n]).kneighbors(queries, 10),
        "add": lambda n: index(n).add(X[:1]),
        "remove": lambda n: index(n).remove(index(n).ids_[:1]),
    }


def cpu_seconds(function, n):
    """CPU seconds of the fastest of several runs."""
    seconds = []
    for _ in range(N_REPEATS):
        start = time.process_time()
        function(n)
        seconds.append(time.process_time() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
