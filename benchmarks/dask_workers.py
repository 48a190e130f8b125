"""Encode, count and search a database on dask workers, with the peak memory of each worker.

    python benchmarks/dask_workers.py                                # 4 processes, 2,000,000 samples of 128 features
    python benchmarks/dask_workers.py --samples 200000 --workers 2

The samples are made by the workers, block by block, so that no process ever has all of them.
"""

import argparse
import resource
import time

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import skhash.dask
from skhash import ITQHasher

N_FEATURES, NBITS, N_QUERIES = 128, 64, 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--block", type=int, default=50_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    hasher = ITQHasher(NBITS, random_state=0).fit(rng.standard_normal((5000, N_FEATURES), dtype=np.float32))
    queries = hasher.encode(rng.standard_normal((N_QUERIES, N_FEATURES), dtype=np.float32))
    query_y = np.arange(N_QUERIES) % 10
    random = da.random.default_rng(0)
    shape, chunks = (options.samples, N_FEATURES), (options.block, N_FEATURES)
    X = random.standard_normal(shape, dtype=np.float32, chunks=chunks)
    y = random.integers(0, 10, options.samples, chunks=options.block)
    codes = skhash.dask.encode(hasher, X)
    jobs = {
        "encode and count": skhash.dask.relevance_histogram(queries, codes, query_y, y, nbits=NBITS),
        "encode and search": skhash.dask.kneighbors(queries, codes, 100, nbits=NBITS),
    }
    with (
        LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        dask.config.set(scheduler=client),
    ):
        before = client.run(peak)
        print(f"{options.samples:,} x {N_FEATURES} float32 in blocks of {options.block:,}; {options.workers} workers")
        print(
            f"all samples: {options.samples * N_FEATURES * 4 / 2**20:.0f} MiB; a block: {options.block / 2048:.0f} MiB"
        )
        for name, job in jobs.items():
            start = time.perf_counter()
            job.compute()
            print(f"{name}: {time.perf_counter() - start:.1f} s")
        for number, (worker, value) in enumerate(client.run(peak).items()):
            print(f"worker {number}: {value:.0f} MiB at the peak, {before[worker]:.0f} before")


def peak():
    """MiB of this process at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
