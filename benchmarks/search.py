"""Exact search beside FAISS: CPU time of `HammingNeighbors.kneighbors`, and how many times as long FAISS takes.

    python benchmarks/search.py                                # all tables: an hour
    python benchmarks/search.py --bits 64 --items 1000000      # some columns
    python benchmarks/search.py --tables real,changes          # real queries; items that come and go
    python benchmarks/search.py --tables codes --json experiments/results/search.json    # for the plot of the docs

- codes: packed codes beside IndexBinaryFlat, which must find the same distances
- real: real queries beside IndexPQFastScan and IndexRaBitQFastScan of the same number of bytes, which approximate them
- cascade: real queries of the first bits, whose nearest items the whole codes put in order, beside whole codes alone;
  ten calls of each in a row, since the first bits of a million items may stay in the cache
- radius: one query, beside `kneighbors` of the same query
- among: searches among some items, chosen at random, by a mask and by ids, beside those among all
- groups: items of five rows each, beside the same rows without groups: by codes, and by real queries
- maxsim: one query of 32 vectors, and 32 of them, beside 32 queries of one vector among the same items without groups
- changes: one item into and out of an index, with the next search
- callers: calls per second of eight threads that search one index, beside those of one

One thread each, except for the callers. All of a row alternate in one process, and the median counts, so that other
work on the machine slows all of them equally. 32 bits are 4 bytes for FAISS, too.
"""

import argparse
import json
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import faiss
import numba as nb
import numpy as np

from skhash import LSHHasher
from skhash.codes import Codes
from skhash.codes.bit_kernels import BLOCK, block_distances
from skhash.neighbors import HammingNeighbors, order_shortlist

N_CALLS = {1: 200, 8: 30, 128: 4}  # of each function, by the number of queries
MAX_BYTES = 2**34  # codes that are read by all calls of one function


@nb.njit(nogil=True)
def count_bits(words, queries, block):
    """Distances of a block of codes in the cache from all queries, of which nothing is kept."""
    for q in range(len(queries)):
        block_distances(words, 0, BLOCK, queries[q], block)


def fastest(functions, repeats):
    """Best CPU and wall seconds of each function; they alternate."""
    best = {name: [np.inf, np.inf] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.process_time(), time.perf_counter()
            function()
            taken = time.process_time() - start[0], time.perf_counter() - start[1]
            best[name] = [min(a, b) for a, b in zip(best[name], taken, strict=True)]
    return best


def medians(functions, n_calls, in_a_row=1):
    """Median CPU milliseconds of each function; they alternate, after some calls of each in a row."""
    taken = [[] for _ in functions]
    for function in functions:
        function()
    for _ in range(n_calls):
        for function, times in [pair for pair in zip(functions, taken, strict=True) for _ in range(in_a_row)]:
            start = time.process_time()
            function()
            times.append(1000 * (time.process_time() - start))
    return [float(np.median(times)) for times in taken]


def random_codes(n, nbits, seed=0):
    """Packed random codes."""
    return np.random.default_rng(seed).integers(0, 256, (n, nbits // 8), dtype=np.uint8)


def of_codes(options):
    """Table of searches by codes."""
    print("codes: ms of CPU per call, and how many times as long IndexBinaryFlat takes")
    rows = []
    print(f"{'items':>10}{'bits':>6}{'queries':>9}" + "".join(f"{f'k = {k}':>18}" for k in options.k))
    for n in options.items:
        for nbits in options.bits:
            codes = random_codes(n, nbits)
            index = HammingNeighbors(nbits=nbits, n_jobs=1).fit(codes)
            flat = faiss.IndexBinaryFlat(nbits)
            flat.add(codes)
            for n_queries in options.queries:
                row, queries = f"{n:10,}{nbits:6}{n_queries:9}", random_codes(n_queries, nbits, seed=1)
                n_calls = max(2, min(N_CALLS[n_queries], MAX_BYTES // (codes.nbytes * n_queries)))
                for k in options.k:
                    ours, theirs = medians(
                        [partial(index.kneighbors, queries, k), partial(flat.search, queries, k)], n_calls
                    )
                    np.testing.assert_array_equal(index.kneighbors(queries, k)[0], flat.search(queries, k)[0])
                    row += f"{ours:10.3f} x{theirs / ours:6.2f}"
                    names = ("items", "bits", "queries", "k", "skhash_ms", "faiss_ms")
                    rows.append(
                        dict(zip(names, (n, nbits, n_queries, k, round(ours, 4), round(theirs, 4)), strict=True))
                    )
                print(row, flush=True)
    if options.json:
        options.json.write_text(
            json.dumps({"cpu": cpu_name(), "faiss": faiss.__version__, "rows": rows}, indent=1) + "\n"
        )


def of_real_queries(options):
    """Table of searches by real queries, whose scores are inner products with the signs of a code."""
    print("real: ms of CPU per call, and how many times as long IndexPQFastScan and IndexRaBitQFastScan take")
    for n, nbits in ((1_000_000, 256), (470_000, 384)):
        rng = np.random.default_rng(0)
        hasher = LSHHasher(nbits, random_state=0).fit(rng.normal(size=(1000, nbits)))
        index = HammingNeighbors(hasher=None, nbits=nbits).fit(random_codes(n, nbits))
        index.hasher_, index.n_features_in_ = hasher, nbits
        index.set_params(query="real", n_jobs=1)
        scan = faiss.IndexPQFastScan(nbits, nbits // 4, 4, faiss.METRIC_INNER_PRODUCT)
        rabitq = faiss.IndexRaBitQFastScan(nbits, faiss.METRIC_L2)
        for other in (scan, rabitq):
            other.train(rng.normal(size=(5000, nbits)).astype(np.float32))
            for start in range(0, n, 100_000):
                other.add(rng.normal(size=(min(100_000, n - start), nbits)).astype(np.float32))
        for n_queries in (1, 32, 64):
            queries = rng.normal(size=(n_queries, nbits)).astype(np.float32)
            for k in (10, 100, 1000):
                functions = [partial(search, queries, k) for search in (index.kneighbors, scan.search, rabitq.search)]
                ours, *theirs = medians(functions, 30 if n_queries == 1 else 3)
                ratios = " ".join(f"x{other / ours:.2f}" for other in theirs)
                print(f"{n:10,}{nbits:6} bits{n_queries:4} queries, k = {k:4}: {ours:9.3f}  {ratios}", flush=True)


def real_index(hasher, codes):
    """Index of packed codes for real queries of a hasher."""
    index = HammingNeighbors(nbits=hasher._n_features_out, n_jobs=1).fit(codes)
    return index.with_queries(hasher).set_params(n_jobs=1)


def of_cascade(options):
    """Table of searches by the first bits, and then by the whole codes."""
    print(
        "cascade: ms of CPU per call by whole codes, and shares of it by the first bits, for 300 and 1,000 candidates"
    )
    n = 1_000_000
    for nbits in (384, 768, 1536):
        rng = np.random.default_rng(0)
        hasher = LSHHasher(nbits, random_state=0).fit(rng.normal(size=(1000, nbits)))
        codes = random_codes(n, nbits)
        whole = real_index(hasher, codes)
        for n_first in (128, 256):
            first = real_index(hasher.prefix(n_first), np.ascontiguousarray(codes[:, : n_first // 8]))

            def search(queries, n_candidates, first=first, codes=codes, hasher=hasher):
                found = first.kneighbors(queries, n_candidates, return_distance=False)
                return order_shortlist(queries, found, codes=codes[found], hasher=hasher)

            for n_queries in (1, 100):
                queries = rng.normal(size=(n_queries, nbits)).astype(np.float32)
                functions = [partial(whole.kneighbors, queries, 10)]
                functions += [partial(search, queries, n_candidates) for n_candidates in (300, 1000)]
                ours, *shares = medians(functions, *((5, 10) if n_queries == 1 else (3, 1)))
                shares = ", ".join(f"{share / ours:.2f}" for share in shares)
                print(f"{n_first:4} of {nbits:4} bits{n_queries:4} queries: {ours:9.3f}  {shares}", flush=True)


def of_radius(options):
    """Table of searches within a radius."""
    print("radius: ms of CPU of one query within a radius, and times that of its ten nearest")
    for nbits in options.bits:
        index = HammingNeighbors(nbits=nbits, n_jobs=1).fit(random_codes(1_000_000, nbits))
        query = random_codes(1, nbits, seed=1)
        radius = index.kneighbors(query, 10)[0][0, -1]
        within, nearest = medians(
            [partial(index.radius_neighbors, query, radius), partial(index.kneighbors, query, 10)], 50
        )
        print(f"{nbits:6} bits: {within:.3f} x{within / nearest:.2f}")


def of_among(options):
    """Table of searches among some items."""
    print("among: ms of CPU among a share of 1,000,000 items, by a mask and by ids, and among all")
    n = 1_000_000
    for nbits in options.bits:
        index = HammingNeighbors(nbits=nbits, n_jobs=1).fit(random_codes(n, nbits))
        for n_queries in (1, 128):
            queries, shares = random_codes(n_queries, nbits, seed=1), (0.0001, 0.001, 0.01, 0.1, 0.5)
            masks = [np.random.default_rng(0).random(n) < share for share in shares]
            forms = [None, *masks, *map(np.flatnonzero, masks)]
            functions = [partial(index.kneighbors, queries, 10, among=among) for among in forms]
            whole, *some = medians(functions, 30 if n_queries == 1 else 4)
            print(f"{nbits:6} bits{n_queries:4} queries, all: {whole:.3f}", end="")
            for share, by_mask, by_ids in zip(shares, some, some[len(shares) :], strict=False):
                print(f"   {100 * share:g} %: {by_mask:.3f}, {by_ids:.3f}", end="")
            print(flush=True)


def of_groups(options):
    """Table of searches for groups."""
    print("groups: ms of CPU per call for 1,000,000 rows, and times that for 200,000 groups of them")
    rng, n = np.random.default_rng(0), 1_000_000
    groups = rng.permutation(np.repeat(np.arange(n // 5), 5))
    for nbits in options.bits:

        def near(codes, share):
            """Codes of which a share of the bits is flipped."""
            flipped = np.packbits(rng.random((len(codes), codes.shape[1] * 8), np.float32) < share, axis=1)
            return codes ^ flipped

        topics = random_codes(n // 50, nbits)
        centers = near(topics[rng.integers(0, len(topics), n // 5)], 0.12)
        hasher = LSHHasher(nbits, random_state=0).fit(rng.normal(size=(1000, nbits)))
        for kind, codes in (("random", random_codes(n, nbits)), ("clustered", near(centers[groups], 0.06))):
            plain = HammingNeighbors(nbits=nbits, n_jobs=1).fit(codes)
            grouped = HammingNeighbors(nbits=nbits, n_jobs=1).fit(codes, groups=groups)
            real = [index.with_queries(hasher).set_params(n_jobs=1) for index in (plain, grouped)]
            for n_queries in (1, 128):
                queries = near(codes[rng.integers(0, n, n_queries)], 0.06)
                vectors = 2.0 * np.unpackbits(queries, axis=1) - 1 + rng.normal(size=(n_queries, nbits))
                row = f"{nbits:6} bits, {kind:9} {n_queries:4} queries"
                for name, indexes, asked in (("codes", (plain, grouped), queries), ("real", real, vectors)):
                    for k in (10, 100):
                        n_calls = 30 if n_queries == 1 else 6
                        functions = [partial(index.kneighbors, asked, k) for index in indexes]
                        whole, ours = medians(functions, n_calls)
                        row += f"   {name}, k = {k:3}: {whole:9.3f} x{ours / whole:.2f}"
                print(row, flush=True)


def of_maxsim(options):
    """Table of searches for groups with queries of several vectors."""
    print(
        "maxsim: ms of CPU among 1,000,000 items of 128 bits, of 32 queries of one vector, and of queries of 32 vectors"
    )
    rng, codes = np.random.default_rng(0), random_codes(1_000_000, 128)
    hasher = LSHHasher(128, random_state=0).fit(rng.normal(size=(1000, 128)))
    vectors, of_many = rng.normal(size=(1024, 128)), np.arange(1024) // 32
    queries, alone = hasher.codes(vectors), HammingNeighbors(n_jobs=1).fit(Codes.of(codes, 128))
    for n_groups in (10_000, 200_000):
        index = HammingNeighbors(n_jobs=1).fit(Codes.of(codes, 128, groups=rng.integers(0, n_groups, len(codes))))
        real = index.with_queries(hasher).set_params(n_jobs=1)
        some = index.with_queries(hasher).set_params(n_jobs=1, candidates=100)
        of_one = {"query_groups": of_many[:32]}
        times = medians(
            [
                partial(alone.kneighbors, queries[:32], 10),
                partial(index.kneighbors, queries[:32], 10, **of_one),
                partial(index.kneighbors, queries, 10, query_groups=of_many),
                partial(some.kneighbors, vectors[:32], 10, **of_one),
                partial(real.kneighbors, vectors[:32], 10, **of_one),
            ],
            5,
        )
        names = "32 of one vector", "one of 32", "32 of 32", "one, real, 100 candidates", "one, real"
        row = ", ".join(f"{name}: {taken:.1f}" for name, taken in zip(names, times, strict=True))
        print(f"{n_groups:10,} groups: {row}", flush=True)


def of_changes(options):
    """Times of added and removed items."""
    n, nbits = 1_000_000, 64
    codes, queries = random_codes(n, nbits), random_codes(10_000, nbits, seed=1)
    index = HammingNeighbors(nbits=nbits, n_jobs=1).fit(codes)
    few = HammingNeighbors(nbits=nbits, n_jobs=1).fit(codes)
    for _ in range(2):  # the second loads the kernels
        index.kneighbors(queries[:1])

    def change(name, function):
        start = time.process_time()
        for i in range(10_000):
            function(i)
        changes = time.process_time()
        for i in range(1000):
            index.kneighbors(queries[i : i + 1])
        searches = time.process_time()
        for i in range(1000):
            few.kneighbors(queries[i : i + 1])
        alone = time.process_time() - searches
        print(
            f"changes: {name}: {1000 * (changes - start) / 10_000:.3f} ms; a search afterwards "
            f"{searches - changes:.3f} ms, before {alone:.3f} ms"
        )

    change("one item into 1,000,000", lambda i: index.add(queries[i : i + 1]))
    change("one item out of 1,000,000", lambda i: index.remove([50 * i]))


def of_callers(options):
    """Calls per second of several threads."""
    index = HammingNeighbors(nbits=256, n_jobs=1).fit(random_codes(1_000_000, 256))
    for _ in range(2):
        index.kneighbors(random_codes(1, 256))
    queries = random_codes(400, 256, seed=1)
    for n_callers in (1, 8):
        with ThreadPoolExecutor(n_callers) as pool:
            start = time.perf_counter()
            list(pool.map(lambda i: index.kneighbors(queries[i : i + 1]), range(400)))
            print(f"callers: {n_callers}: {400 / (time.perf_counter() - start):.0f} calls per second")


TABLES = {
    "codes": of_codes,
    "real": of_real_queries,
    "cascade": of_cascade,
    "radius": of_radius,
    "among": of_among,
    "groups": of_groups,
    "maxsim": of_maxsim,
    "changes": of_changes,
    "callers": of_callers,
}


def main():
    """Print the tables."""

    def ints(text):
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=lambda text: text.split(","), default=list(TABLES))
    parser.add_argument("--items", type=ints, default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--bits", type=ints, default=[32, 64, 128, 256, 512])
    parser.add_argument("--queries", type=ints, default=[1, 8, 128])
    parser.add_argument("--k", type=ints, default=[1, 10, 100, 1000])
    parser.add_argument("--json", type=Path, help="file for the times of the searches by codes")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    print(f"{cpu_name()}, faiss {faiss.__version__} ({faiss.get_compile_options().strip()}), one thread")
    for table in options.tables:
        TABLES[table](options)


def cpu_name():
    """Name of the CPU."""
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
