"""Evaluation time against the size of the database: N with histograms, N log N with sorting.

    python benchmarks/evaluation_growth.py [FIGURE.png]

Prints the times and the exponents of both curves. With a path it also plots them.
"""

import sys
import time

import numpy as np

from skhash.codes import hamming_distances
from skhash.metrics import average_precision, relevance_histogram

SIZES = [10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000]
NBITS, N_QUERIES = 64, 64


def by_histogram(query, database, query_y, database_y):
    return average_precision(relevance_histogram(query, database, query_y, database_y, nbits=NBITS))


def by_sorting(query, database, query_y, database_y):
    values = []
    for code, label in zip(query, query_y, strict=True):
        order = np.argsort(hamming_distances(code[None], database, nbits=NBITS)[0], kind="stable")
        ranks = np.flatnonzero((database_y == label)[order]) + 1
        values.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return np.mean(values)


def best_time(function, *arguments, n=3):
    times = []
    for _ in range(n):
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def measure():
    rng = np.random.default_rng(0)
    query, query_y = rng.integers(0, 256, (N_QUERIES, NBITS // 8), dtype=np.uint8), rng.integers(0, 10, N_QUERIES)
    times = {"histogram": [], "sorting": []}
    for n in SIZES:
        database, database_y = rng.integers(0, 256, (n, NBITS // 8), dtype=np.uint8), rng.integers(0, 10, n)
        for name, function in (("histogram", by_histogram), ("sorting", by_sorting)):
            function(query[:2], database, query_y[:2], database_y)
            times[name].append(best_time(function, query, database, query_y, database_y))
    return times


def draw(times, path):
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, (linear, per_item) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for name, values in times.items():
        linear.plot(SIZES, values, "o-", label=name)
        per_item.plot(SIZES, 1e9 * np.array(values) / SIZES / N_QUERIES, "o-", label=name)
    linear.set(xlabel="database size N", ylabel=f"seconds for {N_QUERIES} queries")
    per_item.set(xlabel="database size N", ylabel="nanoseconds per pair", xscale="log", yscale="log")
    linear.legend()
    figure.suptitle("Evaluation time by histograms is proportional to N, by sorting it is not")
    figure.savefig(path, dpi=120)


def main():
    times = measure()
    print(f"{'N':>10} {'histogram s':>12} {'sorting s':>12} {'ratio':>8}")
    for n, ours, sorting in zip(SIZES, *times.values(), strict=True):
        print(f"{n:>10,} {ours:>12.4f} {sorting:>12.3f} {sorting / ours:>8.0f}")
    large = slice(2, None)  # the smallest sizes measure the overhead of a call
    for name, values in times.items():
        exponent = np.polyfit(np.log(SIZES[large]), np.log(values[large]), 1)[0]
        print(f"{name}: time ~ N^{exponent:.3f} from N = {SIZES[large][0]:,} on")
    if len(sys.argv) > 1:
        draw(times, sys.argv[1])


if __name__ == "__main__":
    main()
