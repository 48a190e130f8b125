"""Recall of the ten nearest vectors against bytes, of hashers and of what is deployed.

    python experiments/neighbors.py                                    # digits
    export SKHASH_DATA=FOLDER
    python experiments/neighbors.py --set fashion_mnist --items 10000 --bytes 8,16,32,64 --seeds 3
    python experiments/neighbors.py --set wordnet --bytes 16,32,48,96,192 --seeds 3
    python experiments/neighbors.py --set wordnet_users --bytes 16,48 --seeds 3
    python experiments/neighbors.py --methods embedding,embedding-real --again   # measure these again
    python experiments/neighbors.py table                              # EmbeddingHasher beside the best other method

FOLDER has one .npz file per set, with the vectors in X. ``python experiments/vectors.py`` writes those of WordNet and
GloVe. "text" is books_minilm384 and arxiv_minilm384 together; this data is not distributed. Each seed holds out 500
samples as queries, at most a fifth, as ``skhash compare --task neighbors`` does. The queries of "wordnet_examples" are
500 example sentences, and all glosses are items. Those of "wordnet_users" are 2,000 example sentences, and 20,000
glosses are items: "embedding+queries" has learned from 2,000 other example sentences, too. The neighbors of text and
words are those by cosine.

The results are in experiments/results/neighbors, one file per set; what is stored is not measured again. The table is
experiments/results/neighbors.md. Two methods are level there if their difference is at most two standard errors over
the splits, or 0.005.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from _results import RESULTS, as_markdown, read, store

from skhash.comparison import _baselines, expand_methods
from skhash.comparison._neighbors import Vectors, evaluate_method
from skhash.comparison.tables import mean_and_spread
from skhash.datasets import PROTOCOLS, split
from skhash.datasets.loading import fetch, find_file
from skhash.registry import FOR_NEIGHBORS

METHODS = "lsh,baselines,itq,embedding,embedding-real,embedding-factors"
METHODS_OF_USERS = "embedding,embedding+queries,embedding-real,embedding-real+queries"
#: set to its files and its protocol; other sets are their own file, with Euclidean distances
SETS = {
    "text": (("books_minilm384", "arxiv_minilm384"), "neighbors-cosine"),
    "wordnet": (("wordnet_minilm384",), "neighbors-cosine"),
    "glove": (("glove_6b_50d",), "neighbors-cosine"),
}
#: sets of the table
TITLES = {
    "wordnet": "WordNet, 117,159 x 384",
    "text": "text, 3,630 x 384",
    "glove": "GloVe, 399,500 x 50",
    "cifar10_gist512": "CIFAR-10 GIST, 10,000 x 512",
    "cifar10_efficientnet1280": "EfficientNet features of CIFAR-10, 10,000 x 1,280",
    "fashion_mnist": "Fashion-MNIST, 10,000 x 784",
    "mnist": "MNIST, 10,000 x 784",
}
N_SPLITS, TABLE = 3, RESULTS / "neighbors.md"
N_QUERIES = 500
N_QUERIES_OF_USERS, N_ITEMS_OF_USERS = 2000, 20_000
KEYS = ("dataset", "method", "nbits", "seed")
DIGITS = {"fit_seconds": 2, "single_query_ms": 3, "batch_query_ms": 3}


def load(name):
    """Vectors of a file, or of scikit-learn."""
    path = find_file(name, None)
    arrays = np.load(path) if path else fetch(name, None)
    X = arrays["X"]
    return X.reshape(len(X), -1).astype(np.float32) * np.float32(arrays.get("scale", 1))


def vectors_of(name, seed, n_items):
    """Items and queries of a set, and the sentence that describes them."""
    if name in ("wordnet_examples", "wordnet_users"):
        rng, items = np.random.default_rng(seed), load("wordnet_minilm384")
        with np.load(Path(os.environ["SKHASH_DATA"]) / "wordnet_minilm384.npz") as arrays:
            queries = rng.permutation(arrays["queries"]).astype(np.float32)
        if name == "wordnet_users":
            items = items[rng.permutation(len(items))[:N_ITEMS_OF_USERS]]
        items, queries = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (items, queries))
        n = N_QUERIES if name == "wordnet_examples" else N_QUERIES_OF_USERS
        vectors = Vectors(items, queries[:n], learned=queries[n : 2 * n])
        return vectors, f"{name}: {n:,} example sentences against {len(items):,} glosses."
    files, protocol = SETS.get(name, ((name,), "neighbors"))
    protocol = PROTOCOLS[protocol]
    if n_items:
        protocol = replace(protocol, n_samples=n_items + protocol.max_query)
    data = split(np.concatenate([load(file) for file in files]), None, protocol=protocol, random_state=seed, name=name)
    return Vectors(data.X_database, data.X_query), data.DESCR


def measure(name, method, nbits, seed, vectors):
    """Result of a method, rounded."""
    learner, _, learned = method.partition("+")
    if not learned:
        vectors = Vectors(vectors.items, vectors.queries)
    values, _ = evaluate_method(learner, nbits, seed, vectors)
    result = {"dataset": name, "method": method, "nbits": nbits, "seed": seed, "n_items": len(vectors.items)}
    result |= {"bytes_per_item": values["bytes_per_item"]}
    setting = {key: value for key, value in values["parameters"].items() if key in ("axes", "bits")}
    recalls = {key: round(value, 5) for key, value in values.items() if "neighbor_recall" in key}
    return result | setting | recalls | {key: round(values[key], digits) for key, digits in DIGITS.items()}


def recalls_by_seed(results, nbytes):
    """R@10 by real queries of each method with so many bytes: seed to recall."""
    recalls = {}
    for result in results:
        if result["bytes_per_item"] == nbytes:
            recalls.setdefault(result["method"], {})[result["seed"]] = result["real_neighbor_recall_at_10"]
    return {method: by_seed for method, by_seed in recalls.items() if len(by_seed) >= N_SPLITS}


def compare_with_best(results, nbytes):
    """Cells of EmbeddingHasher and of the best other method of at most so many bytes; bold is the better, or both."""
    ours = {method: r for method, r in recalls_by_seed(results, nbytes).items() if method.startswith("embedding")}
    others = {
        (method, n): recalls
        for n in sorted({result["bytes_per_item"] for result in results if result["bytes_per_item"] <= nbytes})
        for method, recalls in recalls_by_seed(results, n).items()
        if not method.startswith("embedding")
    }
    if not ours or not others:
        return None

    def mean(item):
        return np.mean(list(item[1].values()))

    _, our = max(ours.items(), key=mean)
    (other, n), their = max(others.items(), key=mean)
    gains = np.array([our[seed] - their[seed] for seed in our if seed in their])
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    is_level = abs(gains.mean()) <= max(2 * error, 0.005)
    cells = [mean_and_spread(list(recalls.values())) for recalls in (our, their)]
    wins = (is_level or gains.mean() > 0, is_level or gains.mean() < 0)
    cells = [f"**{cell}**" if is_bold else cell for cell, is_bold in zip(cells, wins, strict=True)]
    name = other + (f", {n} bytes" if n < nbytes else "")
    return [cells[0], f"{cells[1]} {name}", f"{gains.mean():+.3f} ± {error:.3f}"]


def make_table():
    """Markdown of EmbeddingHasher beside the best other method, by set and bytes."""
    lines = [["data", "bytes", "EmbeddingHasher", "best other", "difference"]]
    for name, title in TITLES.items():
        results = read(RESULTS / "neighbors" / f"{name}.json")
        for nbytes in (8, 16, 24, 32, 48, 64, 96, 128, 192):
            cells = compare_with_best([r for r in results if r["dataset"] == name], nbytes)
            lines += [[title, str(nbytes), *cells]] if cells else []
    return as_markdown(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--set", default="digits")
    parser.add_argument("--bytes", default="8,16,32")
    parser.add_argument("--methods", help=f"by default {METHODS}, or {METHODS_OF_USERS} of wordnet_users")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--items", type=int, help="largest number of items; all by default")
    parser.add_argument("--codebooks", type=int, default=_baselines.N_CODEBOOKS, help="largest number for rq and lsq")
    parser.add_argument("--again", action="store_true", help="measure again what is stored")
    options = parser.parse_args()
    if options.command == "table":
        TABLE.write_text(make_table(), encoding="utf-8")
        print(make_table())
        return
    _baselines.N_CODEBOOKS = options.codebooks
    path = RESULTS / "neighbors" / f"{options.set}.json"
    if options.set == "wordnet_users":
        methods = (options.methods or METHODS_OF_USERS).split(",")
    else:
        methods = expand_methods((options.methods or METHODS).split(","), "neighbors")
    for seed in range(options.seeds):
        vectors, description = vectors_of(options.set, seed, options.items)
        print(description, flush=True)
        stored = () if options.again else [tuple(result[key] for key in KEYS) for result in read(path)]
        for nbits in (8 * int(n) for n in options.bytes.split(",")):
            for method in methods:
                n_items, n_features = vectors.items.shape
                reason = method in FOR_NEIGHBORS and _baselines.why_not(method, nbits, n_features, n_items)
                if reason or (options.set, method, nbits, seed) in stored:
                    continue
                result = measure(options.set, method, nbits, seed, vectors)
                store(path, [result], KEYS)
                print(", ".join(f"{key} {value}" for key, value in result.items()), flush=True)


if __name__ == "__main__":
    main()
