"""Relevance histograms beside their bounds, in pairs of a query and an item per second of CPU time on one thread.

    python benchmarks/histogram.py                       # beside FAISS: a minute
    SKHASH_DATA=FOLDER python benchmarks/histogram.py    # and beside a count of differing bits alone

The table is of random codes of 10 classes, and of the flat search of FAISS for the 100 nearest, which compares as many
pairs. The ratios with a goal, beside that count:

- 59,000 codes of 64 bits, 1,000 queries, 10 classes: at least 1/3
- 59,000 codes of 16 bits of MNIST, many of which repeat, by ITQ and by SDH: at least 5/3

Then the sums of MaxSim: 32 vectors of one query, and 1,000,000 codes of 128 bits in 10,000 groups, beside as many pairs
of queries and items of two classes, which may take half the time at least. The order of the groups is kept with the
codes, and the time to make it stands below.

The count is of codes in the cache. The functions alternate in one process, and the fastest run of each counts. Ours
include the checks of codes and labels. The time of the first call stands below: without numba's cache it compiles, with
it the kernels are read from files.
"""

import argparse
import os
import time
from functools import partial

import faiss
import numpy as np
from evaluation import NBITS, random_codes
from search import count_bits, fastest
from threadpoolctl import threadpool_limits

from skhash import ITQHasher, SDHHasher
from skhash.codes import Codes
from skhash.codes.bit_kernels import BLOCK
from skhash.datasets import load_dataset
from skhash.metrics import relevance_histogram

SIZES = (59_000, 1000), (1_000_000, 128)  # items and queries
FEW, N_BLOCKS = 59_000, 58
N_VECTORS, N_MEMBERS, N_GROUPS = 32, 1_000_000, 10_000


def repeated_codes(hasher):
    """Codes of MNIST, and the digits."""
    data = load_dataset("mnist", protocol="5k")
    hasher.fit(data.X_train, data.y_train)
    codes = hasher.encode(data.X_query), hasher.encode(data.X_database[:FEW])
    return *codes, data.y_query, data.y_database[:FEW]


def beside_flat(bits, repeats):
    """Print the CPU time of each number of bits and items, and how many times as long IndexBinaryFlat takes."""
    print("ms of CPU per histogram, and how many times as long IndexBinaryFlat takes")
    print(f"{'bits':>6}" + "".join(f"{f'{n:,} x {n_queries:,}':>24}" for n, n_queries in SIZES))
    for nbits in bits:
        row = f"{nbits:6}"
        for n, n_queries in SIZES:
            rng = np.random.default_rng(0)
            queries, codes = (rng.integers(0, 256, (size, nbits // 8), dtype=np.uint8) for size in (n_queries, n))
            targets = [rng.integers(0, 10, size) for size in (n_queries, n)]
            index = faiss.IndexBinaryFlat(nbits)
            index.add(codes)
            functions = {
                "ours": partial(relevance_histogram, queries, codes, *targets, nbits=nbits),
                "theirs": partial(index.search, queries, 100),
            }
            seconds = fastest(functions, repeats)
            ours, theirs = seconds["ours"][0], seconds["theirs"][0]
            row += f"{f'{1000 * ours:.1f} x{theirs / ours:.2f}':>24}"
        print(row, flush=True)


def beside_count(repeats):
    """Print ratios and the time of the first call."""
    few = random_codes(1000, FEW)
    repeated = {
        f"59,000 codes of {hasher.__class__.__name__}": repeated_codes(hasher)
        for hasher in (ITQHasher(16, random_state=0), SDHHasher(16, random_state=0))
    }
    words, block = np.ascontiguousarray(few[1].view(np.uint64)[:BLOCK].T), np.empty(BLOCK, np.int32)
    queries = np.tile(few[0].view(np.uint64), (N_BLOCKS, 1))
    pairs = {"59,000 codes": 1000 * FEW, "counting alone": len(queries) * BLOCK} | dict.fromkeys(repeated, 1000 * FEW)
    functions = {
        "59,000 codes": lambda: relevance_histogram(*few, nbits=NBITS),
        "counting alone": lambda: count_bits(words, queries, block),
    } | {name: (lambda codes=codes: relevance_histogram(*codes, nbits=16)) for name, codes in repeated.items()}
    seconds = fastest(functions, repeats)
    rates = {name: pairs[name] / cpu for name, (cpu, _) in seconds.items()}
    for name, rate in rates.items():
        print(f"{name:29} {rate / 1e9:6.2f} billion pairs per CPU second")
    for name, (_, codes, _, y) in repeated.items():
        print(f"{name}: {len(np.unique(np.c_[codes, y], axis=0)):,} differ in the code or the class")
    for name, goal in [("59,000 codes", 1 / 3)] + [(name, 5 / 3) for name in repeated]:
        print(f"{name} / counting alone: {rates[name] / rates['counting alone']:.2f} (goal: {goal:.2f})")
    for name in repeated:
        print(f"{name} / 59,000 codes: {rates[name] / rates['59,000 codes']:.2f}")


def of_groups(repeats):
    """Print the times of a query of several vectors, and of as many queries, with members in order and at random."""
    rng = np.random.default_rng(0)
    queries, codes = (rng.integers(0, 256, (n, 16), dtype=np.uint8) for n in (N_VECTORS, N_MEMBERS))
    targets = [rng.integers(0, 2, n) for n in (N_VECTORS, N_MEMBERS, N_GROUPS)]
    for order, groups in (
        ("members in order", np.repeat(np.arange(N_GROUPS), N_MEMBERS // N_GROUPS)),
        ("members at random", rng.integers(0, N_GROUPS, N_MEMBERS)),
    ):
        query, database = Codes.of(queries, 128, groups=[0] * N_VECTORS), Codes.of(codes, 128, groups=groups)
        functions = {
            "as many pairs": lambda: relevance_histogram(queries, codes, *targets[:2], nbits=128),
            "one query of several vectors": partial(relevance_histogram, query, database, [1], targets[2]),
            "its first call": lambda query=query, groups=groups: relevance_histogram(
                query, Codes.of(codes, 128, groups=groups), [1], targets[2]
            ),
        }
        seconds = {name: cpu for name, (cpu, _) in fastest(functions, repeats).items()}
        ratio = seconds["as many pairs"] / seconds["one query of several vectors"]
        print(f"{order}: " + ", ".join(f"{name} {1000 * cpu:.1f} ms" for name, cpu in seconds.items()), end="")
        print(f"; as many pairs / several vectors: {ratio:.1f} (goal: 2.0)", flush=True)


def main():
    """Print the time of the first call, and the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--bits", type=lambda text: list(map(int, text.split(","))), default=[32, 64, 128, 192, 256])
    options = parser.parse_args()
    few = random_codes(1000, FEW)
    start = time.process_time()
    relevance_histogram(*few, nbits=NBITS)
    print(f"first call: {time.process_time() - start:.2f} s of CPU")
    with threadpool_limits(1, user_api="openmp"):
        faiss.omp_set_num_threads(1)
        beside_flat(options.bits, options.repeats)
        of_groups(options.repeats)
        if "SKHASH_DATA" in os.environ:
            beside_count(options.repeats)


if __name__ == "__main__":
    main()
