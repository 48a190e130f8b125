"""Encode, count and search a database on dask workers, with the peak memory of each worker, at two sizes.

    python benchmarks/dask_workers.py                # 4 processes; 500,000 and 2,000,000 samples of 128 features
    python benchmarks/dask_workers.py --samples 100000 400000 --workers 2

The samples are made by the workers, block by block, so that no process ever has all of them. Each size has new
workers. Their peak is bounded by the blocks in work: it stays while the samples grow.
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
    parser.add_argument("--samples", type=int, nargs="+", default=[500_000, 2_000_000])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--block", type=int, default=50_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    hasher = ITQHasher(NBITS, random_state=0).fit(rng.standard_normal((5000, N_FEATURES), dtype=np.float32))
    queries = hasher.encode(rng.standard_normal((N_QUERIES, N_FEATURES), dtype=np.float32))
    print(f"{options.workers} workers; a block of {options.block:,} samples takes {options.block / 2048:.0f} MiB")
    print("   samples  MiB of all  encode and count  encode and search  MiB before  MiB at the peak of each worker")
    for n in options.samples:
        seconds, before, peaks = run(hasher, queries, n, options)
        print(f"{n:10,} {n * N_FEATURES * 4 / 2**20:11.0f}", end="")
        print("".join(f"{value:{width}.1f} s" for value, width in zip(seconds, (16, 17), strict=True)), end="")
        print(f"{max(before):12.0f}  {', '.join(f'{value:.0f}' for value in peaks)}", flush=True)


def run(hasher, queries, n, options):
    """Seconds of both jobs on new workers, and MiB of each worker before and at its peak."""
    query_y = np.arange(N_QUERIES) % 10
    random = da.random.default_rng(0)
    X = random.standard_normal((n, N_FEATURES), dtype=np.float32, chunks=(options.block, N_FEATURES))
    y = random.integers(0, 10, n, chunks=options.block)
    codes = skhash.dask.encode(hasher, X)
    jobs = [
        skhash.dask.relevance_histogram(queries, codes, query_y, y, nbits=NBITS),
        skhash.dask.kneighbors(queries, codes, 100, nbits=NBITS),
    ]
    seconds = []
    with (
        LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        dask.config.set(scheduler=client),
    ):
        before = client.run(peak)
        for job in jobs:
            start = time.perf_counter()
            job.compute()
            seconds.append(time.perf_counter() - start)
        return seconds, list(before.values()), list(client.run(peak).values())


def peak():
    """MiB of this process at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
