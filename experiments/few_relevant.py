"""TALR where few items are relevant to a query: batches that keep classes together, and the start by ITQ.

    export SKHASH_DATA=FOLDER      # with wordnet_minilm384.npz
    python experiments/few_relevant.py             # three seeds; what is stored is not measured again
    python experiments/few_relevant.py table       # the table of the stored results

In "pairs", a class is a synset of WordNet: its gloss and its first example sentence. 3,500 pairs are learned; the
examples of 1,000 others are queries, and the database has their glosses among 20,000. The other tasks have clusters of
glosses by k-means as classes: 6,000 are learned, and 2,000 of 6,000 others are ranked for these. All have 64 bits and
the default parameters. "random" are batches of a random permutation; "together" are batches of whole classes, which
TALR has by default where classes are small. The results are in
experiments/results/few_relevant.json, the table in experiments/results/few_relevant.md.
"""

import argparse
import os
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
from _results import RESULTS, as_markdown, measure_missing, read, write_table
from sklearn.cluster import MiniBatchKMeans
from sklearn.preprocessing import normalize

from skhash import TALRHasher
from skhash.comparison import mean_and_spread
from skhash.engine import Objective
from skhash.hashers.deep.talr import TALRObjective, batches_of_classes
from skhash.metrics import average_precision, recall, relevance_histogram

NBITS, N_PAIRS, N_QUERIES, N_ITEMS, N_CLUSTERED = 64, 3500, 1000, 20_000, 6000
TASKS = {"pairs": None, "clusters of 5": 5, "clusters of 12": 12, "clusters of 25": 25, "clusters of 60": 60}
BATCHES, STARTS, BACKBONES = ("random", "together"), ("rotation", "itq"), (None, "mlp")
PATH, TABLE = RESULTS / "few_relevant.json", RESULTS / "few_relevant.md"
KEYS = ("task", "backbone", "batches", "init", "seed")


def load(task, seed):
    """Samples to learn from, queries and database, each with its classes."""
    with np.load(Path(os.environ["SKHASH_DATA"], "wordnet_minilm384.npz")) as file:
        glosses = normalize(file["X"] * file["scale"]).astype(np.float32)
        examples, synsets = normalize(file["queries"]).astype(np.float32), file["query_item"]
    rng = np.random.default_rng(seed)
    if TASKS[task] is not None:
        chosen = rng.permutation(len(glosses))[: 2 * N_CLUSTERED]
        k_means = MiniBatchKMeans(N_CLUSTERED // TASKS[task], random_state=seed, n_init=1, batch_size=4096)
        (X, others), (y, classes) = np.split(glosses[chosen], 2), np.split(k_means.fit_predict(glosses[chosen]), 2)
        return (X, y), (others[:2000], classes[:2000]), (others, classes)
    order = rng.permutation(np.unique(synsets, return_index=True)[1])
    learned, held_out = order[:N_PAIRS], order[N_PAIRS : N_PAIRS + N_QUERIES]
    noise = np.setdiff1d(rng.permutation(len(glosses))[:N_ITEMS], synsets)
    items = np.concatenate([synsets[held_out], noise])
    train = np.concatenate([examples[learned], glosses[synsets[learned]]]), np.tile(synsets[learned], 2)
    return train, (examples[held_out], synsets[held_out]), (glosses[items], items)


def fit(X, y, batches, **parameters):
    """TALR with one of the two kinds of batches."""

    def together(objective, encoder, X, relevance, n_batches, rng):
        return batches_of_classes(relevance.classes, n_batches, rng)

    made = {"random": Objective.batches, "together": together}[batches]
    with mock.patch.object(TALRObjective, "batches", made):
        return TALRHasher(NBITS, **parameters).fit(X, y)


def measure(task, backbone, batches, init, seed):
    """AP_T, and recall among the first ten items, of one fit."""
    (X, y), (Q, query_y), (items, classes) = load(task, seed)
    hasher = fit(X, y, batches, backbone=backbone, init=init, random_state=seed)
    H = relevance_histogram(hasher.encode(Q), hasher.encode(items), query_y, classes, nbits=NBITS)
    metrics = {"ap": average_precision(H, empty="skip"), "recall_at_10": recall(H, k=10)}
    return dict(zip(KEYS, (task, backbone, batches, init, seed), strict=True)) | metrics


def make_table(results):
    """Markdown of the means over the seeds."""
    rows = [["task", "backbone", "batches", "start", "AP_T", "recall of the first 10"]]
    for setting in product(TASKS, BACKBONES, BATCHES, STARTS):
        some = [result for result in results if tuple(result[key] for key in KEYS[:-1]) == setting]
        if some:
            task, backbone, batches, init = setting
            cells = [mean_and_spread([result[metric] for result in some], 3) for metric in ("ap", "recall_at_10")]
            rows.append([task, backbone or "none", batches, init, *cells])
    return as_markdown(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.command == "measure":
        settings = product(range(options.seeds), options.tasks, BACKBONES, BATCHES, STARTS)
        measure_missing(PATH, KEYS, ((*setting, seed) for seed, *setting in settings), measure)
    write_table(TABLE, make_table(read(PATH)))


if __name__ == "__main__":
    main()
