"""EmbeddingHasher and ITQ on vectors that a classifier has tuned, where samples of a class are near each other.

    export SKHASH_DATA=FOLDER      # with wordnet_minilm384.npz
    python experiments/clustered.py            # three seeds; what is stored is not measured again
    python experiments/clustered.py table      # the table of the stored results

The vectors are those of WordNet's glosses, as they are, and behind a small residual network that was trained to tell
the 45 classes of 20,000 other glosses. 10,000 vectors are items and are learned from; 1,000 others are queries. All
codes have 64 bits. The results are in experiments/results/clustered.json, the table in clustered.md beside it.
"""

import argparse
import os
import time
from itertools import product
from pathlib import Path

import numpy as np
import torch
from _results import RESULTS, as_markdown, measure_missing, read, write_table
from sklearn.preprocessing import normalize
from torch import nn

from skhash import EmbeddingHasher, ITQHasher, TALRHasher
from skhash.comparison import mean_and_spread
from skhash.metrics import average_precision, histogram_from_distances, relevance_histogram
from skhash.neighbors import HammingNeighbors

NBITS, N_TUNED, N_ITEMS, N_QUERIES, N_CLASSES = 64, 20_000, 10_000, 1000, 45
N_EPOCHS, BATCH_SIZE, SCALE = 8, 128, 16
PATH, TABLE = RESULTS / "clustered.json", RESULTS / "clustered.md"
VECTORS = {"tuned": "tuned by a classifier", "plain": "as they are"}
METHODS = {
    "vectors": "the vectors themselves",
    "itq": "ITQ",
    "embedding": "EmbeddingHasher",
    "embedding-real": "EmbeddingHasher, `hamming=False`",
    "talr": "TALR, with labels",
}
METRICS = {
    "ap": "AP_T of the classes, by Hamming",
    "recall_10": "recall of 10, by Hamming",
    "recall_100": "recall of 100, by Hamming",
    "real_10": "recall of 10, real queries",
}
KEYS = ("vectors", "method", "seed")


def tuned(X, y, chosen, seed):
    """Vectors behind a residual network, of the length 1, after training it to tell the classes of some of them."""
    torch.manual_seed(seed)
    width = X.shape[1]
    network = nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, width))
    classes = nn.Linear(width, N_CLASSES, bias=False)
    optimizer = torch.optim.AdamW([*network.parameters(), *classes.parameters()], 1e-3, weight_decay=0.05)
    samples, targets = torch.from_numpy(X), torch.from_numpy(y)

    def output(part):
        return nn.functional.normalize(part + network(part))

    for _ in range(N_EPOCHS):
        for batch in torch.from_numpy(chosen)[torch.randperm(len(chosen))].split(BATCH_SIZE):
            scores = SCALE * output(samples[batch]) @ nn.functional.normalize(classes.weight).T
            loss = nn.functional.cross_entropy(scores, targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        network.eval()
        return output(samples).numpy()


def load(vectors, seed):
    """Items and queries, each with its classes."""
    with np.load(Path(os.environ["SKHASH_DATA"], "wordnet_minilm384.npz")) as file:
        X, y = normalize(file["X"] * file["scale"]).astype(np.float32), file["y"].astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(X))
    learned, items, queries, _ = np.split(order, np.cumsum([N_TUNED, N_ITEMS, N_QUERIES]))
    X = tuned(X, y, learned, seed) if vectors == "tuned" else X
    return (X[items], y[items]), (X[queries], y[queries])


def recall_of(found, cosines):
    """Share of the k nearest vectors among k that were found, for k columns."""
    k = found.shape[1]
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return float(np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(found, nearest, strict=True)]))


def measure(vectors, method, seed):
    """Metrics of one method."""
    (X, y), (Q, of_queries) = load(vectors, seed)
    cosines = Q @ X.T
    if method == "vectors":
        return {"ap": average_precision(histogram_from_distances(-cosines, of_queries, y))}
    hasher = {
        "itq": ITQHasher(NBITS, random_state=seed),
        "embedding": EmbeddingHasher(NBITS, random_state=seed),
        "embedding-real": EmbeddingHasher(NBITS, hamming=False, random_state=seed),
        "talr": TALRHasher(NBITS, random_state=seed),
    }[method]
    start = time.process_time()
    index = HammingNeighbors(hasher).fit(X, y)
    seconds = round(time.process_time() - start, 1)
    codes, database = index.hasher_.encode(Q), index.hasher_.encode(X)
    H = relevance_histogram(codes, database, of_queries, y, nbits=NBITS)
    found = {k: index.kneighbors(Q, k, return_distance=False) for k in (10, 100)}
    values = {f"recall_{k}": recall_of(ids, cosines) for k, ids in found.items()}
    index.set_params(query="real")
    real = index.kneighbors(Q, 10, return_distance=False)
    return values | {"ap": average_precision(H), "real_10": recall_of(real, cosines), "cpu_seconds": seconds}


def make_table(results):
    """Markdown of the means over the seeds."""
    rows = [["vectors", "codes", *METRICS.values()]]
    for vectors, method in product(VECTORS, METHODS):
        some = [result for result in results if (result["vectors"], result["method"]) == (vectors, method)]
        if some:
            values = [[result[metric] for result in some if metric in result] for metric in METRICS]
            cells = [mean_and_spread(each, 3) if each else "" for each in values]
            rows.append([VECTORS[vectors], METHODS[method], *cells])
    return as_markdown(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.command == "measure":
        cells = product(range(options.seeds), VECTORS, METHODS)
        measure_missing(PATH, KEYS, ((vectors, method, seed) for seed, vectors, method in cells), measure)
    write_table(TABLE, make_table(read(PATH)))


if __name__ == "__main__":
    main()
