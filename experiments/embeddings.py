"""Recall of the ten nearest neighbors: EmbeddingHasher against ITQ and signs.

    export SKHASH_DATA=FOLDER
    python experiments/embeddings.py                                   # all sets
    python experiments/embeddings.py --sets mnist --bits 128 --seeds 1 --items 10000

FOLDER has one .npz file per set, with the vectors in X. "text" is books_minilm384 and arxiv_minilm384 together;
this data is not distributed. Of each set 500 samples are queries, drawn anew by each seed, and the others are items.
R@10 is the share of the ten nearest vectors of a query among the ten best items; ties are broken by the lowest index.
Signs have one bit per feature. ITQ learns from at most 10,000 items, as the start of EmbeddingHasher does.
The results are in experiments/results/embeddings.json. The settings of EmbeddingHasher were explored on the queries of
seed 0 of text, MNIST and Fashion-MNIST: these results are not independent of that choice.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from _results import RESULTS, spread, store

from skhash import EmbeddingHasher, ITQHasher
from skhash.engine import evenly_spaced
from skhash.neighbors import HammingNeighbors

#: set to its files and its metric
SETS = {
    "text": (("books_minilm384", "arxiv_minilm384"), "cosine"),
    "mnist": (("mnist",), "euclidean"),
    "fashion_mnist": (("fashion_mnist",), "euclidean"),
    "cifar10_gist512": (("cifar10_gist512",), "euclidean"),
}
N_QUERIES = 500
K = 10


def load(name, n_items, seed):
    """Items and queries of a set, of norm 1 for the cosine."""
    files, metric = SETS[name]
    folder = Path(os.environ["SKHASH_DATA"])
    X = np.concatenate([np.load(folder / f"{file}.npz")["X"] for file in files])
    X = X.reshape(len(X), -1).astype(np.float32)
    if metric == "cosine":
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    X = X[np.random.default_rng(seed).permutation(len(X))]
    return X[N_QUERIES:][:n_items], X[:N_QUERIES]


def true_neighbors(items, queries):
    """Indices of the nearest vectors: the cosine and the Euclidean distance agree on vectors of norm 1."""
    items, queries = items.astype(np.float64), queries.astype(np.float64)
    distances = (items**2).sum(1) - 2 * queries @ items.T
    return np.argsort(distances, axis=1, kind="stable")[:, :K]


def recall(truth, items, queries, query="code"):
    """R@10 of codes, or of real queries and codes."""
    if query == "real":
        found = np.argsort(-(queries @ np.where(items >= 0, 1, -1).T.astype(np.float32)), axis=1, kind="stable")[:, :K]
    else:
        search = HammingNeighbors(n_neighbors=K).fit((items >= 0).astype(np.uint8))
        found = search.kneighbors((queries >= 0).astype(np.uint8), return_distance=False)
    return float(np.mean([len(np.intersect1d(*pair)) / K for pair in zip(truth, found, strict=True)]))


def measure(name, nbits, seed, n_items):
    """R@10 of each method on one split, with the CPU seconds of the fit."""
    items, queries = load(name, n_items, seed)
    truth = true_neighbors(items, queries)
    result = {"set": name, "nbits": nbits, "seed": seed, "n_items": len(items), "n_features": items.shape[1]}
    center = items.mean(0)
    result["sign"] = recall(truth, items - center, queries - center)
    itq = ITQHasher(nbits, random_state=seed, store_database=False).fit(items[evenly_spaced(len(items), 10_000)])
    learned = EmbeddingHasher(nbits, metric=SETS[name][1], random_state=seed, store_database=False)
    start = time.process_time()
    learned.fit(items)
    result["cpu_seconds"] = round(time.process_time() - start, 1)
    result["n_epochs"] = learned.n_epochs_
    for method, hasher in {"itq": itq, "learned": learned}.items():
        codes = hasher.project(items)
        result[method] = recall(truth, codes, hasher.project(queries))
        result[f"{method}_real"] = recall(truth, codes, hasher.project_queries(queries), "real")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--bits", default="128,256,384,512")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--items", type=int, help="largest number of items; all by default")
    options = parser.parse_args()
    for name in options.sets.split(","):
        for nbits in map(int, options.bits.split(",")):
            results = [measure(name, nbits, seed, options.items) for seed in range(options.seeds)]
            store(RESULTS / "embeddings.json", results, ("set", "nbits", "n_items"))
            gains = [result["learned_real"] - result["itq_real"] for result in results]
            methods = ("sign", "itq", "itq_real", "learned", "learned_real")
            texts = (f"{method} {spread([result[method] for result in results])}" for method in methods)
            print(f"{name} {results[0]['n_items']} items, {nbits} bits: {', '.join(texts)}, gain {spread(gains)}")


if __name__ == "__main__":
    main()
