"""Recall of the ten nearest neighbors: EmbeddingHasher against ITQ, PQ, OPQ and RaBitQ.

    export SKHASH_DATA=FOLDER
    python experiments/embeddings.py choose                            # settings, on samples that are not test queries
    python experiments/embeddings.py                                   # all sets; what is stored is not measured again
    python experiments/embeddings.py --sets mnist --bits 128 --splits 0 --items 10000
    python experiments/embeddings.py table                             # tables of the stored results

FOLDER has one .npz file per set, with the vectors in X. "text" is books_minilm384 and arxiv_minilm384 together;
this data is not distributed. Five splits have disjoint test queries: 250 each of text, and 500 each of the others. The
items of a split are all other samples, at most 60,000. "choose" uses only samples that are in no test split: of these,
some are held out as queries, and at most 15,000 are items.

R@10 is the share of the ten nearest vectors of a query among the ten best items, and "10 of 50" their share among the
fifty best items; ties are broken by the lowest index. "itq" ranks by Hamming distance, "itq_real" by real queries, with
PCA-ITQ of at most 10,000 items. "learned" and "learned_real" are EmbeddingHasher, "learned_factors" is the same with
8 bytes of factors, and "learned_alone" the one whose codes are for real queries alone. PQ and OPQ have as many bytes as
the codes. FAISS encodes and searches, k-means of scikit-learn learns the 256 values per byte from 10,000 items, and
OPQ's rotation is the parametric one, by allocation of eigenvalues. RaBitQ is FAISS's, behind a random rotation, with
one bit per feature, 8 bytes more, and float queries.

The results are in experiments/results/embeddings.json and embeddings_choice.json, the tables in embeddings.md.
"""

import argparse
import functools
import itertools
import os
import time
from pathlib import Path
from unittest import mock

import numpy as np
from _embedding_tables import make_tables
from _results import RESULTS, read, store
from sklearn.cluster import KMeans
from sklearn.frozen import FrozenEstimator

from skhash import EmbeddingHasher, ITQHasher
from skhash._validation import evenly_spaced
from skhash.codes import pack
from skhash.comparison import mean_and_spread
from skhash.neighbors import HammingNeighbors
from skhash.vectors import embedding

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
N_CANDIDATES = 50
METHODS = ("itq", "learned", "learned_alone", "learned_factors", "pq", "opq", "rabitq")
PATH, CHOICE_PATH = RESULTS / "embeddings.json", RESULTS / "embeddings_choice.json"
#: changes of the default settings, the most promising first; the number of digits has a default per metric
CANDIDATES = [
    {},
    {"exponent": 0.0},
    {"exponent": -0.25},
    {"learning_rate": 3e-4},
    {"learning_rate": 3e-3},
    {"temperature": 0.15},
    {"cosine_digits": 3},
    {"euclidean_digits": 5},
]


@functools.cache
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
    """Items and held-out queries among the samples that are not test queries."""
    X, n_queries = load(name), SETS[name][2]
    X = X[N_SPLITS * n_queries :]
    return X[n_queries:][:n_items], X[:n_queries]


@functools.cache
def split_neighbors(name, split, n_items):
    """Indices of the true neighbors in a split."""
    return true_neighbors(*split_samples(name, split, n_items))


def true_neighbors(items, queries):
    """Indices of the nearest vectors: the cosine and the Euclidean distance agree on vectors of norm 1."""
    items, queries = items.astype(np.float64), queries.astype(np.float64)
    return best(2 * queries @ items.T - (items**2).sum(1))[:, :K]


def best(scores):
    """Indices of the best items of each query; the lowest index wins a tie."""
    least = np.partition(scores, -N_CANDIDATES, axis=1)[:, -N_CANDIDATES]
    found = []
    for row, threshold in zip(scores, least, strict=True):
        candidates = np.flatnonzero(row >= threshold)
        found.append(candidates[np.argsort(-row[candidates], kind="stable")[:N_CANDIDATES]])
    return np.array(found)


def recall(truth, found):
    """Share of the true neighbors that are found."""
    return float(np.mean([len(np.intersect1d(*pair)) / K for pair in zip(truth, found, strict=True)]))


def by_real_queries(hasher, bits, queries):
    """The best items by real queries."""
    return best(hasher.project_queries(queries) @ np.where(bits, 1, -1).T.astype(np.float32))


def by_factors(hasher, items, queries):
    """The best items by the distances that factors estimate."""
    search = HammingNeighbors(FrozenEstimator(hasher), query="real", n_neighbors=N_CANDIDATES).fit(items)
    return search.kneighbors(queries, return_distance=False)


def by_codes(hasher, bits, queries):
    """The best items by Hamming distance."""
    search = HammingNeighbors(n_neighbors=N_CANDIDATES, nbits=hasher.nbits).fit(pack(bits))
    return search.kneighbors(hasher.encode(queries), return_distance=False)


def by_product_quantization(items, queries, n_bytes, rotate):
    """The best items of PQ or of OPQ, with FAISS's search and k-means for the values."""
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
    return index.search(np.ascontiguousarray(queries), N_CANDIDATES)[1]


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
    """The best items of RaBitQ behind a random rotation, and the bytes of an item."""
    import faiss

    n_features = items.shape[1]
    quantizer = faiss.IndexRaBitQ(n_features)
    quantizer.qb = 0  # float queries
    index = faiss.IndexPreTransform(faiss.RandomRotationMatrix(n_features, n_features), quantizer)
    index.train(items[evenly_spaced(len(items), N_TRAIN)])
    index.add(items)
    return index.search(queries, N_CANDIDATES)[1], quantizer.code_size


def measure(name, nbits, split, n_items, method):
    """Results of a method on a split: two of a hasher, by Hamming distance and by real queries."""
    items, queries = split_samples(name, split, n_items)
    truth = split_neighbors(name, split, n_items)
    common = {"set": name, "seed": split, "n_items": len(items), "n_features": items.shape[1], "nbits": nbits}

    def result(method, found, n_bytes, **others):
        recalls = {"recall_at_10": recall(truth, found[:, :K]), "recall_at_10_of_50": recall(truth, found)}
        return common | {"bytes": n_bytes, "method": method} | recalls | others

    if method in ("pq", "opq"):
        return [result(method, by_product_quantization(items, queries, nbits // 8, method == "opq"), nbits // 8)]
    if method == "rabitq":
        return [result(method, *by_rabitq(items, queries), nbits=items.shape[1])]
    options = {"random_state": split, "store_database": False}
    start = time.process_time()
    if method == "itq":
        hasher = ITQHasher(nbits, **options).fit(items[evenly_spaced(len(items), N_TRAIN)])
    else:
        kind = {"factors": method == "learned_factors", "hamming": method == "learned"}
        hasher = EmbeddingHasher(nbits, metric=SETS[name][1], **kind, **options).fit(items)
    seconds = round(time.process_time() - start, 1)
    if method == "learned_factors":
        return [result(method, by_factors(hasher, items, queries), nbits // 8 + 8, cpu_seconds=seconds)]
    bits = hasher.project(items) >= 0
    return [
        result(method, by_codes(hasher, bits, queries), nbits // 8),
        result(f"{method}_real", by_real_queries(hasher, bits, queries), nbits // 8, cpu_seconds=seconds),
    ]


def resolve(name, changes):
    """Settings of a fit: the changes that matter for this set, and the defaults."""
    metric, rate = SETS[name][1], embedding._DEFAULTS["learning_rate"] * embedding._QUERY_RATE
    return {
        "temperature": changes.get("temperature", EmbeddingHasher(metric=metric).temperature),
        "learning_rate": round(changes.get("learning_rate", rate), 10),
        "n_digits": changes.get(f"{metric}_digits", embedding._N_DIGITS[metric]),
        "exponent": changes.get("exponent", embedding.EQUALIZED),
    }


def choose(name, nbits, n_items, changes):
    """Recalls with changed settings on held-out training samples. Settings that are the same here are fitted once."""
    items, queries = choice_samples(name, n_items)
    cell = {"set": name, "nbits": nbits, "n_items": len(items), "seed": 0}
    settings = resolve(name, changes)
    label = {"settings": ", ".join(f"{key}={value:g}" for key, value in changes.items()) or "default"}
    for result in read(CHOICE_PATH):
        if (cell | settings).items() <= result.items():
            return result | label
    metric, options = SETS[name][1], {key: settings[key] for key in ("temperature", "learning_rate")}
    hasher = EmbeddingHasher(nbits, metric=metric, random_state=0, store_database=False, **options)
    start, digits = time.process_time(), {metric: settings["n_digits"]}
    with mock.patch.dict(embedding._N_DIGITS, digits), mock.patch.object(embedding, "EQUALIZED", settings["exponent"]):
        hasher.fit(items)
    seconds = round(time.process_time() - start, 1)
    bits, truth = hasher.project(items) >= 0, true_neighbors(items, queries)
    real, hamming = (
        recall(truth, found[:, :K])
        for found in (by_real_queries(hasher, bits, queries), by_codes(hasher, bits, queries))
    )
    return cell | settings | label | {"real": real, "hamming": hamming, "cpu_seconds": seconds}


def is_stored(name, nbits, split, method):
    """Whether a result is stored; RaBitQ has its own number of bits."""
    return any(
        (result["set"], result["seed"], result["method"]) == (name, split, method)
        and (method == "rabitq" or result["nbits"] == nbits)
        for result in read(PATH)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "choose", "table"], default="measure")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--bits", default="128,256,512")
    parser.add_argument("--splits", default="0,1,2,3,4")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--items", type=int, help="largest number of items; by default 60,000, or 15,000 for choose")
    parser.add_argument("--candidates", type=int, help="number of settings that choose compares, all by default")
    parser.add_argument("--again", action="store_true", help="measure again what is stored")
    options = parser.parse_args()
    sets, methods = options.sets.split(","), options.methods.split(",")
    if unknown := set(methods) - set(METHODS):
        parser.error(f"--methods must be some of {', '.join(METHODS)}. Got {', '.join(sorted(unknown))} instead.")
    for nbits in map(int, options.bits.split(",")) if options.command != "table" else ():
        if options.command == "choose":
            for name, changes in itertools.product(sets, CANDIDATES[: options.candidates]):
                if changes and resolve(name, changes) == resolve(name, {}):
                    continue  # of the other metric
                result = choose(name, nbits, options.items or 15_000, changes)
                store(CHOICE_PATH, [result], ("set", "nbits", "n_items", "settings"))
                print(result, flush=True)
            continue
        cells = [(s, name, method) for s in options.splits.split(",") for name in sets for method in methods]
        for split, name, method in cells:
            if not options.again and is_stored(name, nbits, int(split), method):
                continue
            results = measure(name, nbits, int(split), options.items or 60_000, method)
            store(PATH, results, ("set", "nbits", "n_items", "seed", "method"))
            texts = (f"{result['method']} {mean_and_spread([result['recall_at_10']], 4)}" for result in results)
            print(f"{name}, {nbits} bits, split {split}: {', '.join(texts)}", flush=True)
    tables = make_tables(read(PATH), read(CHOICE_PATH))
    PATH.with_suffix(".md").write_text(tables, encoding="utf-8")
    print(f"written: {PATH.with_suffix('.md')}\n\n{tables}")


if __name__ == "__main__":
    main()
