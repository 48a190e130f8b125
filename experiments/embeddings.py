"""Recall of the ten nearest neighbors: EmbeddingHasher against ITQ, PQ, OPQ and RaBitQ.

    export SKHASH_DATA=FOLDER
    python experiments/embeddings.py choose                            # settings, on samples that are no test queries
    python experiments/embeddings.py                                   # all sets
    python experiments/embeddings.py --sets mnist --bits 128 --splits 0 --items 10000

FOLDER has one .npz file per set, with the vectors in X. "text" is books_minilm384 and arxiv_minilm384 together;
this data is not distributed. Five splits have disjoint test queries: 250 each of text, and 500 each of the others. The
items of a split are all other samples, at most 60,000. "choose" uses only samples that are in no test split: of these,
some are held out as queries, and at most 15,000 are items.

R@10 is the share of the ten nearest vectors of a query among the ten best items; ties are broken by the lowest index.
"itq" ranks by Hamming distance, "itq_real" by real queries, with PCA-ITQ of at most 10,000 items. "learned" and
"learned_real" are EmbeddingHasher. PQ and OPQ have as many bytes as the codes. FAISS encodes and searches, k-means of
scikit-learn learns the 256 values per byte from 10,000 items, and OPQ's rotation is the parametric one, by allocation
of eigenvalues. RaBitQ is FAISS's, behind a random rotation, with one bit per feature, 8 bytes more, and float queries.

The results are in experiments/results/embeddings.json and embeddings_choice.json.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from _results import RESULTS, spread, store
from sklearn.cluster import KMeans

from skhash import EmbeddingHasher, ITQHasher
from skhash.engine import evenly_spaced
from skhash.neighbors import HammingNeighbors

#: set to its files, its metric, and its number of test queries per split
SETS = {
    "text": (("books_minilm384", "arxiv_minilm384"), "cosine", 250),
    "fashion_mnist": (("fashion_mnist",), "euclidean", 500),
    "mnist": (("mnist",), "euclidean", 500),
    "cifar10_gist512": (("cifar10_gist512",), "euclidean", 500),
}
N_SPLITS = 5
N_TRAIN = 10_000  # items that ITQ, PQ and OPQ learn from, as the start of EmbeddingHasher does
K = 10
#: one change of the default settings at a time
CANDIDATES = [
    {},
    {"temperature": 0.15},
    {"temperature": 0.4},
    {"learning_rate": 1e-4},
    {"learning_rate": 1e-3},
    {"n_digits": 4},
    {"n_digits": 6},
]


def load(name):
    """All vectors of a set in random order, of norm 1 for the cosine: the test queries of the splits, then the rest."""
    files, metric, _ = SETS[name]
    folder = Path(os.environ["SKHASH_DATA"])
    X = np.concatenate([np.load(folder / f"{file}.npz")["X"] for file in files])
    X = X.reshape(len(X), -1).astype(np.float32)
    if metric == "cosine":
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    return X[np.random.default_rng(0).permutation(len(X))]


def split_samples(name, split, n_items):
    """Items and test queries of a split."""
    X, n_queries = load(name), SETS[name][2]
    is_query = np.arange(len(X)) // n_queries == split
    return X[~is_query][-n_items:], X[is_query]


def choice_samples(name, n_items):
    """Items and held-out queries among the samples that are no test queries."""
    X, n_queries = load(name), SETS[name][2]
    X = X[N_SPLITS * n_queries :]
    return X[n_queries:][:n_items], X[:n_queries]


def true_neighbors(items, queries):
    """Indices of the nearest vectors: the cosine and the Euclidean distance agree on vectors of norm 1."""
    items, queries = items.astype(np.float64), queries.astype(np.float64)
    return best(2 * queries @ items.T - (items**2).sum(1))


def best(scores):
    """Indices of the ten best items of each query; the lowest index wins a tie."""
    least = np.partition(scores, -K, axis=1)[:, -K]
    found = []
    for row, threshold in zip(scores, least, strict=True):
        candidates = np.flatnonzero(row >= threshold)
        found.append(candidates[np.argsort(-row[candidates], kind="stable")[:K]])
    return np.array(found)


def recall(truth, found):
    """R@10."""
    return float(np.mean([len(np.intersect1d(*pair)) / K for pair in zip(truth, found, strict=True)]))


def by_real_queries(hasher, items, queries):
    """The ten best items by real queries."""
    return best(hasher.project_queries(queries) @ np.where(hasher.project(items) >= 0, 1, -1).T.astype(np.float32))


def by_codes(hasher, items, queries):
    """The ten best items by Hamming distance."""
    search = HammingNeighbors(n_neighbors=K, nbits=hasher.nbits).fit(hasher.encode(items))
    return search.kneighbors(hasher.encode(queries), return_distance=False)


def by_product_quantization(items, queries, n_bytes, rotate):
    """The ten best items of PQ or of OPQ, with FAISS's search and k-means for the values."""
    import faiss

    width = -(-items.shape[1] // n_bytes) * n_bytes
    items, queries = (np.pad(X, ((0, 0), (0, width - X.shape[1]))) for X in (items, queries))
    train = items[evenly_spaced(len(items), N_TRAIN)]
    if rotate:
        rotation = allocation_rotation(train, n_bytes)
        items, queries, train = items @ rotation, queries @ rotation, train @ rotation
    parts = np.split(train, n_bytes, axis=1)
    values = [KMeans(256, n_init=1, init="random", max_iter=25, random_state=0).fit(part) for part in parts]
    index = faiss.IndexPQ(width, n_bytes, 8)
    centers = np.stack([model.cluster_centers_ for model in values]).astype(np.float32)
    faiss.copy_array_to_vector(centers.ravel(), index.pq.centroids)
    index.is_trained = True
    index.add(np.ascontiguousarray(items))
    return index.search(np.ascontiguousarray(queries), K)[1]


def allocation_rotation(X, n_parts):
    """Rotation of parametric OPQ: principal directions, so that all parts have about the same product of variances."""
    variances, directions = np.linalg.eigh(np.cov(X.T.astype(np.float64)))
    parts, logarithms = [[] for _ in range(n_parts)], np.zeros(n_parts)
    for i in np.argsort(-variances):
        open_parts = [p for p in range(n_parts) if len(parts[p]) < X.shape[1] // n_parts]
        chosen = min(open_parts, key=lambda p: logarithms[p])
        parts[chosen].append(i)
        logarithms[chosen] += np.log(max(variances[i], 1e-12) / max(variances.max(), 1e-12) * 1e12)
    return directions[:, np.concatenate(parts)].astype(np.float32)


def by_rabitq(items, queries):
    """The ten best items of RaBitQ behind a random rotation, and the bytes of an item."""
    import faiss

    n_features = items.shape[1]
    quantizer = faiss.IndexRaBitQ(n_features)
    quantizer.qb = 0  # float queries
    index = faiss.IndexPreTransform(faiss.RandomRotationMatrix(n_features, n_features), quantizer)
    index.train(items[evenly_spaced(len(items), N_TRAIN)])
    index.add(items)
    return index.search(queries, K)[1], quantizer.code_size


def measure(name, nbits, split, n_items, methods):
    """One result per method on one split."""
    items, queries = split_samples(name, split, n_items)
    truth = true_neighbors(items, queries)
    common = {"set": name, "seed": split, "n_items": len(items), "n_features": items.shape[1]}
    results = []

    def add(method, found, n_bytes, seconds=None):
        result = {"nbits": nbits, "bytes": n_bytes, "method": method, "recall_at_10": recall(truth, found)}
        results.append(common | result | ({} if seconds is None else {"cpu_seconds": round(seconds, 1)}))

    hashers = {
        "itq": ITQHasher(nbits, random_state=split, store_database=False),
        "learned": EmbeddingHasher(nbits, metric=SETS[name][1], random_state=split, store_database=False),
    }
    for method, hasher in hashers.items():
        start = time.process_time()
        hasher.fit(items[evenly_spaced(len(items), N_TRAIN)] if method == "itq" else items)
        seconds = time.process_time() - start
        add(method, by_codes(hasher, items, queries), nbits // 8)
        add(f"{method}_real", by_real_queries(hasher, items, queries), nbits // 8, seconds)
    for method in ("pq", "opq"):
        if method in methods:
            add(method, by_product_quantization(items, queries, nbits // 8, method == "opq"), nbits // 8)
    if "rabitq" in methods:
        add("rabitq", *by_rabitq(items, queries))
    return results


def choose(name, nbits, n_items):
    """R@10 of each candidate on held-out training samples."""
    items, queries = choice_samples(name, n_items)
    truth = true_neighbors(items, queries)
    results = []
    for changes in CANDIDATES:
        settings = dict(changes)
        n_digits = settings.pop("n_digits", None)
        digits = EmbeddingHasher._n_digits if n_digits is None else dict.fromkeys(EmbeddingHasher._n_digits, n_digits)
        hasher = type("Candidate", (EmbeddingHasher,), {"_n_digits": digits, "__doc__": EmbeddingHasher.__doc__})(
            nbits, metric=SETS[name][1], random_state=0, store_database=False, **settings
        )
        start = time.process_time()
        hasher.fit(items)
        seconds = time.process_time() - start
        value = recall(truth, by_real_queries(hasher, items, queries))
        result = {"set": name, "nbits": nbits, "n_items": len(items), "seed": 0, "settings": str(changes or "default")}
        results.append(result | {"recall_at_10": value, "cpu_seconds": round(seconds, 1)})
        print(results[-1], flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "choose"], default="measure")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--bits", default="128,256,512")
    parser.add_argument("--splits", default="0,1,2,3,4")
    parser.add_argument("--methods", default="pq,opq,rabitq", help="baselines beside ITQ")
    parser.add_argument("--items", type=int, help="largest number of items; by default 60,000, or 15,000 for choose")
    options = parser.parse_args()
    for name in options.sets.split(","):
        for nbits in map(int, options.bits.split(",")):
            if options.command == "choose":
                results = choose(name, nbits, options.items or 15_000)
                store(RESULTS / "embeddings_choice.json", results, ("set", "nbits", "n_items"))
                continue
            for split in map(int, options.splits.split(",")):
                results = measure(name, nbits, split, options.items or 60_000, options.methods.split(","))
                store(RESULTS / "embeddings.json", results, ("set", "nbits", "n_items", "seed", "method"))
                values = {result["method"]: result["recall_at_10"] for result in results}
                texts = (f"{method} {spread([value])}" for method, value in values.items())
                print(f"{name}, {nbits} bits, split {split}: {', '.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
