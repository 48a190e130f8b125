"""How much smoothing is good for tags, and for GIST features: held-out training rows, two splits and two starts.

    export SKHASH_DATA=FOLDER
    python experiments/smoothing.py                          # training rows of MIRFlickr and of CIFAR-10
    python experiments/smoothing.py --packages Packages      # and Debian's packages

`Packages` is the index of any Debian release (dists/NAME/main/binary-amd64/Packages, unpacked):
the words of a one-line description are the features, the 40 commonest debtags but for the roles
are the labels. TALR learns from 3,000 rows, 2,000 others rank each other. Queries are not used.
Methods that know no smoothing (ITQ-CCA, SDH, KSH) are handed rows that were smoothed before.
Every figure goes to experiments/results/smoothing.json.
"""

import argparse
import re
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from _results import RESULTS, figure, keep

from skhash import ITQCCAHasher, KSHHasher, SDHHasher, TALRHasher
from skhash.affinity import resolve_affinity
from skhash.datasets import load_dataset
from skhash.engine.smoothing import DIRECTIONS, Smoothing
from skhash.metrics import evaluate_histograms, relevance_histogram

SMOOTHING = (0.0, 0.2, 0.4, 0.6)
RIVALS = {"itq-cca": ITQCCAHasher, "sdh": SDHHasher, "ksh": KSHHasher}
N_ROWS, N_LEARNED = 5000, 3000


def package_words(path):
    """Words of descriptions and debtags of packages in random order, as two 0/1 matrices."""
    packages = []
    for block in path.read_text(errors="ignore").split("\n\n"):
        fields = dict(re.findall(r"^(Tag|Description): (.*(?:\n .*)*)", block, re.MULTILINE))
        if len(fields) == 2:
            words = set(re.findall(r"[a-z0-9+#]{2,}", fields["Description"].split("\n")[0].lower()))
            packages.append((words, {tag for tag in re.split(r"[,\s]+", fields["Tag"]) if "role::" not in tag}))
    np.random.default_rng(0).shuffle(packages)
    X, y = (
        _indicators([package[kind] for package in packages], most).astype(dtype)
        for kind, most, dtype in ((0, 1400, np.float32), (1, 40, int))
    )
    known = (X.sum(axis=1) > 1) & (y.sum(axis=1) > 0)
    return X[known][:N_ROWS], y[known][:N_ROWS]


def _indicators(sets, most):
    counts = Counter(item for items in sets for item in sorted(items))
    chosen = [item for item, _ in counts.most_common(most)]
    return np.array([[item in items for item in chosen] for items in sets])


def run_split(X, y, method, objective, smoothing, split, seed):
    """Figures of the held-out rows of one split, each a query for the others."""
    rows = np.random.default_rng(split).permutation(N_ROWS)
    learned, held_out = rows[:N_LEARNED], rows[N_LEARNED:]
    options = {"store_database": False, "random_state": seed}
    if method in RIVALS:
        X = torch.tensor(X - X[learned].mean(axis=0))
        X = Smoothing(X.shape[1], DIRECTIONS).learn(X[learned], smoothing, np.random.RandomState(seed))(X).numpy()
        hasher = RIVALS[method](**options)
    else:
        hasher = TALRHasher(objective=objective, smoothing=smoothing, **options)
    codes = hasher.fit(X[learned], y[learned]).encode(X[held_out])
    targets = (y[held_out], y[held_out])
    histogram = relevance_histogram(
        codes, codes, *targets, affinity=resolve_affinity("auto", y), nbits=32, exclude_self=True
    )
    figures = evaluate_histograms([histogram], ["ap", "ap_worst", "ap_best", "ndcg"])
    return {"method": method, "objective": objective, "smoothing": smoothing, "split": split, "seed": seed, **figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, help="the Packages file of a Debian release, unpacked")
    parser.add_argument("--sets", default="", help="only data whose name contains this")
    options = parser.parse_args()
    sets = {}
    for name, protocol in (("mirflickr", "mirflickr"), ("cifar_gist", "5k")):
        data = load_dataset(name, protocol=protocol, random_state=0)
        sets[name] = np.asarray(data.X_train, dtype=np.float32), data.y_train
    if options.packages:
        sets["debian packages"] = package_words(options.packages)
    for name, (X, y) in ((name, rows) for name, rows in sets.items() if options.sets in name):
        print(f"{name}: {X.shape[1]} features, {np.mean(X != 0):.2%} of the entries are not zero", flush=True)
        tasks = [("talr", "ap"), *([("talr", "ndcg"), *((rival, "ap") for rival in RIVALS)] if y.ndim > 1 else [])]
        for method, objective in tasks:
            for smoothing in SMOOTHING:
                splits = [(split, seed) for split in (0, 1) for seed in (0, 1)]
                rows = [{"data": name, **run_split(X, y, method, objective, smoothing, *both)} for both in splits]
                print(
                    f"{name:16} {method:8} {objective:5} smoothing {smoothing}  {figure(rows, objective)}", flush=True
                )
                keep(RESULTS / "smoothing.json", rows, ("data", "method", "objective", "smoothing"))


if __name__ == "__main__":
    main()
