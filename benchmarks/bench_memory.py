"""Peak memory of an evaluation of 10,000 queries x 1,000,000 codes of 64 bits.

python benchmarks/bench_memory.py
"""

import resource
import time

import numpy as np

from skhash.metrics import average_precision, relevance_histogram


def main():
    rng = np.random.default_rng(0)
    query, database = (rng.integers(0, 256, (n, 8), dtype=np.uint8) for n in (10_000, 1_000_000))
    query_y, database_y = rng.integers(0, 10, 10_000), rng.integers(0, 10, 1_000_000)
    start = time.perf_counter()
    H = relevance_histogram(query, database, query_y, database_y, nbits=64)
    value = average_precision(H)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"AP_T {value:.4f}; {seconds:.1f} s, {1e10 / seconds:.2e} pairs/s; peak memory of the process {peak:.2f} GiB")
    assert peak < 1


if __name__ == "__main__":
    main()
