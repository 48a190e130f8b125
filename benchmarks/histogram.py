"""Relevance histograms beside their bounds, in pairs of a query and an item per second of CPU time on one thread.

    SKHASH_DATA=FOLDER python benchmarks/histogram.py [--repeats 7]

Ratios, each with its goal:

- 1,000,000 codes of 64 bits, 128 queries, 10 classes, beside the flat search of FAISS for the 100 nearest: at least 1.3
- 59,000 codes of 64 bits, 1,000 queries, 10 classes, beside the count of differing bits alone: at least 1/3
- 59,000 codes of 16 bits of MNIST, many of which repeat, by ITQ and by SDH, beside the same count: at least 5/3

That count is of codes in the cache. The functions alternate in one process, and the fastest run of each counts. Ours
include the checks of codes and labels. The time of the first call stands below: without numba's cache it compiles, with
it the kernels are read from files.
"""

import argparse
import time

import faiss
import numpy as np
from evaluation import NBITS, random_codes
from search import count_bits, fastest
from threadpoolctl import threadpool_limits

from skhash import ITQHasher, SDHHasher
from skhash.codes.bit_kernels import BLOCK
from skhash.datasets import load_dataset
from skhash.metrics import relevance_histogram

MANY, FEW, N_BLOCKS = 1_000_000, 59_000, 58


def repeated_codes(hasher):
    """Codes of MNIST, and the digits."""
    data = load_dataset("mnist", protocol="5k")
    hasher.fit(data.X_train, data.y_train)
    codes = hasher.encode(data.X_query), hasher.encode(data.X_database[:FEW])
    return *codes, data.y_query, data.y_database[:FEW]


def main():
    """Print the ratios and the time of the first call."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    many, few = random_codes(128, MANY), random_codes(1000, FEW)
    repeated = {
        f"59,000 codes of {hasher.__class__.__name__}": repeated_codes(hasher)
        for hasher in (ITQHasher(16, random_state=0), SDHHasher(16, random_state=0))
    }
    start = time.process_time()
    relevance_histogram(few[0], few[1][:2000], few[2], few[3][:2000], nbits=NBITS)
    first_call = time.process_time() - start
    index = faiss.IndexBinaryFlat(NBITS)
    index.add(many[1])
    words, block = np.ascontiguousarray(few[1].view(np.uint64)[:BLOCK].T), np.empty(BLOCK, np.int32)
    queries = np.tile(few[0].view(np.uint64), (N_BLOCKS, 1))
    pairs = {
        "1,000,000 codes": 128 * MANY,
        "IndexBinaryFlat": 128 * MANY,
        "59,000 codes": 1000 * FEW,
        "counting alone": len(queries) * BLOCK,
    } | dict.fromkeys(repeated, 1000 * FEW)
    functions = {
        "1,000,000 codes": lambda: relevance_histogram(*many, nbits=NBITS),
        "IndexBinaryFlat": lambda: index.search(many[0], 100),
        "59,000 codes": lambda: relevance_histogram(*few, nbits=NBITS),
        "counting alone": lambda: count_bits(words, queries, block),
    } | {name: (lambda codes=codes: relevance_histogram(*codes, nbits=16)) for name, codes in repeated.items()}
    with threadpool_limits(1, user_api="openmp"):
        faiss.omp_set_num_threads(1)
        seconds = fastest(functions, repeats)
    rates = {name: pairs[name] / cpu for name, (cpu, _) in seconds.items()}
    for name, rate in rates.items():
        print(f"{name:29} {rate / 1e9:6.2f} billion pairs per CPU second")
    for name, (_, codes, _, y) in repeated.items():
        print(f"{name}: {len(np.unique(np.c_[codes, y], axis=0)):,} differ in the code or the class")
    goals = [("1,000,000 codes", "IndexBinaryFlat", 1.3), ("59,000 codes", "counting alone", 1 / 3)]
    for ours, other, goal in goals + [(name, "counting alone", 5 / 3) for name in repeated]:
        print(f"{ours} / {other}: {rates[ours] / rates[other]:.2f} (goal: {goal:.2f})")
    for name in repeated:
        print(f"{name} / 59,000 codes: {rates[name] / rates['59,000 codes']:.2f}")
    print(f"first call: {first_call:.2f} s of CPU")


if __name__ == "__main__":
    main()
