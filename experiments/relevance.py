"""AP of short codes that learn relevance from few labels: EmbeddingHasher against the float vectors.

    export SKHASH_DATA=FOLDER
    python experiments/relevance.py                                 # the table of the documentation
    python experiments/relevance.py --bits 64 --splits 1 --shared 3

FOLDER has books_minilm384.npz, with vectors in X and genres in y; this data is not distributed. In each split 300
books are queries, the others are the database and the training samples, and a quarter of these have their genres. A
book is relevant to another if they share at least `--shared` genres. All books count in the AP, of codes by Hamming
distance and in expectation over ties. EmbeddingHasher knows all books of the database, and the genres of the quarter;
TALR learns from this quarter alone. EmbeddingHasher chooses its penalty and its epoch on held-out labeled books; all
parameters have their defaults. The loss of TALR was taken after the AP of the queries of the first split had been seen,
too; held-out labeled books agreed with that choice.
The results are in experiments/results/relevance.json.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from _results import RESULTS, store

from skhash import EmbeddingHasher, ITQHasher, TALRHasher
from skhash.comparison import mean_and_spread
from skhash.metrics import RetrievalScorer, average_precision, histogram_from_distances

N_QUERIES = 300
METHODS = ("cosine", "itq", "talr", "learned")


class SharedGenres:
    """Level 1 for books that share so many genres."""

    def __init__(self, n_shared):
        self.n_shared = n_shared

    def __call__(self, y_a, y_b):
        return (np.asarray(y_a, np.float32) @ np.asarray(y_b, np.float32).T >= self.n_shared).astype(np.uint8)


def measure(nbits, seed, n_shared):
    """AP of each method on one split, with the CPU seconds of the fit."""
    books = np.load(Path(os.environ["SKHASH_DATA"]) / "books_minilm384.npz")
    order = np.random.default_rng(seed).permutation(len(books["X"]))
    X, y = books["X"][order], books["y"][order]
    (queries, query_y), (X, y) = (X[:N_QUERIES], y[:N_QUERIES]), (X[N_QUERIES:], y[N_QUERIES:])
    n_labeled = len(X) // 4
    few = np.where(np.arange(len(X))[:, None] < n_labeled, y, 0)
    affinity = SharedGenres(n_shared)
    itq = ITQHasher(nbits, random_state=seed).fit(X)
    talr = TALRHasher(nbits, affinity=affinity, random_state=seed).fit(X[:n_labeled], y[:n_labeled])
    start = time.process_time()
    learned = EmbeddingHasher(nbits, affinity=affinity, random_state=seed).fit(X, few)
    seconds = round(time.process_time() - start, 1)
    result = {"nbits": nbits, "seed": seed, "n_shared": n_shared, "n_labeled": n_labeled, "cpu_seconds": seconds}
    cosine = histogram_from_distances(-queries.astype(np.float64) @ X.T, query_y, y, affinity)
    result["cosine"] = float(average_precision(cosine))
    scorer = RetrievalScorer("ap", (X, y), affinity=affinity)
    for name, hasher in {"itq": itq, "talr": talr, "learned": learned}.items():
        result[name] = scorer(hasher, queries, query_y)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", default="32,64,128")
    parser.add_argument("--shared", default="3,4")
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".* of 300 queries have no relevant item")
    for n_shared in map(int, options.shared.split(",")):
        for nbits in map(int, options.bits.split(",")):
            results = [measure(nbits, seed, n_shared) for seed in range(options.splits)]
            store(RESULTS / "relevance.json", results, ("nbits", "seed", "n_shared"))
            texts = (f"{method} {mean_and_spread([result[method] for result in results], 4)}" for method in METHODS)
            print(f"at least {n_shared} shared genres, {nbits} bits: {', '.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
