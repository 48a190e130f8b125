"""Methods where classes look alike: what helps on one such set hurts on another, so that no default suits all.

    export SKHASH_DATA=FOLDER      # with USPS, MNIST, the GIST features of CIFAR-10, and wordnet_minilm384.npz
    python experiments/alike.py            # what is stored is not measured again
    python experiments/alike.py table      # the table of the stored results

Classes look alike in three sets. "clusters of WordNet" has glosses in 40 clusters of k-means, 40 of each to learn from,
and 25 others of each that are ranked for each other. In the pairs of digits, two images stand side by side, with one of
100 classes; 2,000 are learned. MNIST and GIST are those of experiments/defaults.py. All hashers have two hidden
layers and 32 bits, and only training samples are used. The results are in experiments/results/alike.json, the table in
experiments/results/alike.md: AP_T, and the share of the classes that have the code of another one.
"""

import argparse
import time
import warnings
from itertools import product

import defaults
import numpy as np
from _results import RESULTS, as_markdown, measure_missing, rank, read, write_table
from _splits import join_digits, rank_held_out, take_per_class
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils import Bunch

from skhash.comparison import make_hasher, mean_and_spread
from skhash.datasets import load_dataset

NBITS, N_CLUSTERS, N_LEARNED, N_HELD_OUT = 32, 40, 40, 25
PATH, TABLE = RESULTS / "alike.json", RESULTS / "alike.md"
#: set to its name
SETS = {
    "clusters": "clusters of WordNet",
    "usps_pairs": "pairs of USPS digits",
    "digit_pairs": "pairs of digits",
    "mnist": "MNIST",
    "cifar_gist": "GIST",
}
LESS = {"hidden_dropout": 0.1, "weight_decay": 0.3}
#: method to its settings, beside the defaults
METHODS = {
    "hashnet": {
        "hidden 0.1": {"hidden_dropout": 0.1},
        "hidden 0.1, decay 0.3": LESS,
        "hidden 0.1, decay 0.3, max_beta 10": LESS | {"max_beta": 10.0},
    },
    "dpsh": {"hidden 0.1, decay 0.3": LESS},
    "dhn": {"hidden 0.1, decay 0.3": LESS},
    "mihash": {"batches of 256, 125 epochs": {"batch_size": 256, "n_epochs": 125}},
    "talr": {},
    "greedyhash": {},
}
KEYS = ("set", "method", "settings", "seed")


def load(name, seed):
    """Split of the training samples alone."""
    rng = np.random.default_rng(seed)
    if name == "clusters":
        data = load_dataset("wordnet_minilm384", protocol="holdout", random_state=seed)
        X = data.X_train[rng.permutation(len(data.X_train))[:20_000]]
        k_means = MiniBatchKMeans(N_CLUSTERS, random_state=seed, n_init=3, batch_size=2048)
        clusters = k_means.fit_predict(X)
        learned, rest = take_per_class(clusters, N_LEARNED, seed)
        held_out = rest[take_per_class(clusters[rest], N_HELD_OUT, seed)[0]]
        return rank_held_out(X, clusters, learned, held_out, data.affinity)
    if name == "usps_pairs":
        data = load_dataset("usps", protocol="5k", random_state=seed)
        learned, held_out = np.split(rng.permutation(len(data.X_train))[:3000], 2)
        data = Bunch(**rank_held_out(data.X_train, data.y_train, learned, held_out, data.affinity))
        join_digits(data, rng, 1000, 1000, 2000)
        data.X_query, data.y_query = data.X_database, data.y_database
        return data
    return defaults.load(name, seed)


def share_of_shared_codes(hasher, X, y):
    """Share of the classes of training samples whose most frequent bits are those of another class."""
    bits, classes = hasher.transform(X), np.unique(y)
    codes = np.array([bits[y == label].mean(axis=0) > 0.5 for label in classes])
    _, groups, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    return float(np.mean(counts[groups] > 1))


def measure(name, method, settings, seed):
    """AP_T and shared codes of one fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of codes that classes share, and of queries that are not read
        data = load(name, seed)
        parameters = METHODS[method].get(settings, {})
        hasher = make_hasher(f"{method}-mlp", NBITS, seed, data.affinity, **parameters)
        start = time.process_time()
        hasher.fit(data.X_train, data.y_train)
    seconds = round(time.process_time() - start, 1)
    shared = share_of_shared_codes(hasher, data.X_train, data.y_train)
    cell = dict(zip(KEYS, (name, method, settings, seed), strict=True))
    return cell | {"cpu_seconds": seconds, "shared": shared} | rank(hasher, data, ["ap"])


def make_table(results):
    """Markdown of the means over the seeds."""
    rows = [["method", "settings", *SETS.values()]]
    for method, others in METHODS.items():
        for settings in ("defaults", *others):
            cells = []
            for name in SETS:
                some = [r for r in results if (r["set"], r["method"], r["settings"]) == (name, method, settings)]
                shared = np.mean([result["shared"] for result in some]) if some else 0
                text = mean_and_spread([result["ap"] for result in some], 3) if some else ""
                cells.append(text + (f" ({shared:.0%})" if shared else ""))
            rows += [[method, settings, *cells]]
    return (
        "AP_T on held-out training samples (share of classes with the code of another one):\n\n"
        + as_markdown(rows)
        + "\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    settings = [(method, name) for method in options.methods for name in ("defaults", *METHODS[method])]
    if options.command == "measure":
        cells = product(range(options.seeds), options.sets, settings)
        measure_missing(PATH, KEYS, ((name, *setting, seed) for seed, name, setting in cells), measure)
    write_table(TABLE, make_table(read(PATH)))


if __name__ == "__main__":
    main()
