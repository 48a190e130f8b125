"""Search among 1,000,000 codes beside FAISS, in pairs of a query and an item per second of CPU time.

    python benchmarks/search.py [--items 1000000] [--repeats 5] [--json FILE]

Hamming distances beside IndexBinaryFlat, whose distances must be equal; real queries, 32 at once and one, beside the
scans of IndexRaBitQ and IndexPQFastScan of the same number of bytes, which approximate their scores. All of them
alternate in one process, and the fastest run counts, so that other work on the machine slows all of them equally. Two
bounds stand beside: to read the codes once for each query from memory, and to count the bits of words in the cache,
with nothing else. A search reads the codes once for several queries, so that it may exceed the first.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import faiss
import numba as nb
import numpy as np
from threadpoolctl import threadpool_limits

from skhash.codes._kernels import BLOCK, block_distances
from skhash.codes._search import HammingDistance, real_distance
from skhash.neighbors._search import nearest

N_QUERIES, N_REAL_QUERIES = 64, 32
N_BLOCKS = 100  # how often the bits of a block in the cache are counted


@nb.njit(nogil=True)
def sum_words(words):
    """Sum of all words: reads memory."""
    total = np.uint64(0)
    for word in words:
        total += word
    return total


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


def hamming(codes, k, n_threads, repeats):
    """Results of searches by Hamming distance."""
    n_items, n_words = codes.shape
    queries = np.random.default_rng(1).integers(0, 2**64, (N_QUERIES, n_words), dtype=np.uint64)
    index, found = faiss.IndexBinaryFlat(64 * n_words), {}
    index.add(codes.view(np.uint8))
    words, block = np.ascontiguousarray(codes[:BLOCK].T), np.empty(BLOCK, np.int32)  # stay in the first-level cache
    many = np.tile(queries, (N_BLOCKS, 1))
    pairs = {
        "skhash": N_QUERIES * n_items,
        "IndexBinaryFlat": N_QUERIES * n_items,
        "memory": n_items,
        "bit counts": N_BLOCKS * N_QUERIES * BLOCK,
    }
    functions = {
        "skhash": lambda: found.update(ours=nearest(HammingDistance(queries), codes, k).distances),
        "IndexBinaryFlat": lambda: found.update(faiss=index.search(queries.view(np.uint8), k)[0]),
        "memory": lambda: sum_words(codes.ravel()),
        "bit counts": lambda: count_bits(words, many, block),
    }
    with threadpool_limits(n_threads, user_api="openmp"):
        faiss.omp_set_num_threads(n_threads)
        seconds = fastest(functions, repeats)
    np.testing.assert_array_equal(found["ours"], found["faiss"])
    return [
        {"query": "code", "nbits": 64 * n_words, "k": k, "n_threads": n_threads, "method": name}
        | {"pairs_per_cpu_second": pairs[name] / cpu, "pairs_per_second": pairs[name] / wall}
        for name, (cpu, wall) in seconds.items()
    ]


def real(codes, k, n_threads, repeats):
    """Results of searches by real queries; codes of the other indexes have the same number of bytes."""
    n_items, nbits = len(codes), 64 * codes.shape[1]
    rng = np.random.default_rng(2)
    queries = rng.normal(size=(N_REAL_QUERIES, nbits)).astype(np.float32)
    signs = 2 * np.unpackbits(codes.view(np.uint8), axis=1).astype(np.int8) - 1
    pq = faiss.IndexPQFastScan(nbits, nbits // 4, 4, faiss.METRIC_INNER_PRODUCT)
    rabitq = faiss.IndexRaBitQ(nbits, faiss.METRIC_L2)
    indexes = {"IndexPQFastScan": pq, "IndexRaBitQ": rabitq}
    if hasattr(faiss, "IndexRaBitQFastScan"):
        indexes["IndexRaBitQFastScan"] = faiss.IndexRaBitQFastScan(nbits, faiss.METRIC_L2)
    for index in indexes.values():
        index.train(signs[:20_000].astype(np.float32))
        for start in range(0, n_items, 100_000):
            index.add(signs[start : start + 100_000].astype(np.float32))
    found = {}
    functions = {"skhash": lambda: found.update(ours=nearest(real_distance(queries), codes, k))}
    functions |= {name: (lambda index=index: index.search(queries, k)) for name, index in indexes.items()}
    with threadpool_limits(n_threads, user_api="openmp"):
        faiss.omp_set_num_threads(n_threads)
        seconds = fastest(functions, repeats)
        single = {"skhash": lambda: nearest(real_distance(queries[:1]), codes, k)}
        single |= {name: (lambda index=index: index.search(queries[:1], k)) for name, index in indexes.items()}
        seconds_of_one = fastest(single, repeats)
    check_scores(found["ours"], queries[:2], signs, k)
    return [
        {"query": kind, "nbits": nbits, "k": k, "n_threads": n_threads, "method": name}
        | {"pairs_per_cpu_second": n_queries * n_items / cpu, "pairs_per_second": n_queries * n_items / wall}
        for kind, n_queries, taken in (("real", N_REAL_QUERIES, seconds), ("one real", 1, seconds_of_one))
        for name, (cpu, wall) in taken.items()
    ]


def check_scores(found, queries, signs, k):
    """Raise AssertionError unless the best scores are those of a matrix product."""
    for i, query in enumerate(queries.astype(np.float64)):
        scores = np.concatenate([signs[s : s + 100_000] @ query for s in range(0, len(signs), 100_000)])
        expected = np.sort(scores)[::-1][:k]
        np.testing.assert_allclose(-found.distances[i] * real_distance(queries).units[i], expected, atol=1e-3)


def table(results):
    """Lines of a table: billions of pairs per CPU second, and how many times those of each other method skhash does."""
    lines, settings = [], list(dict.fromkeys((r["query"], r["nbits"], r["k"], r["n_threads"]) for r in results))
    for setting in settings:
        rates = {
            r["method"]: r["pairs_per_cpu_second"] / 1e9
            for r in results
            if (r["query"], r["nbits"], r["k"], r["n_threads"]) == setting
        }
        others = "  ".join(
            f"{name} {rate:.2f} ({rates['skhash'] / rate:.2f}x)" for name, rate in rates.items() if name != "skhash"
        )
        query, nbits, k, n_threads = setting
        threads = f"{n_threads} thread{'s' * (n_threads > 1)}"
        lines.append(f"{query:9} {nbits:4} bits  k={k:<4} {threads:10} skhash {rates['skhash']:.2f}  {others}")
    return "\n".join(lines)


def main():
    """Print the table, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    rng, results = np.random.default_rng(0), []
    codes = {nbits: rng.integers(0, 2**64, (options.items, nbits // 64), dtype=np.uint64) for nbits in (64, 256)}
    print(f"{options.items:,} codes; billions of pairs per CPU second, and how many times as many skhash does")
    for nbits in codes:
        for n_threads in (1, 2):
            for k in (10, 100):
                results += hamming(codes[nbits], k, n_threads, options.repeats)
                print(table(results[-4:]), flush=True)
    for k in (10, 100):
        results += real(codes[256], k, 1, options.repeats)
    print(table([result for result in results if "real" in result["query"]]))
    if options.json:
        versions = {"faiss": faiss.__version__, "numba": nb.__version__, "python": platform.python_version()}
        content = {"n_items": options.items, "machine": platform.machine(), "versions": versions, "results": results}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
