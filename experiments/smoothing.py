"""Which smoothing is good for tags, and for GIST features: held-out training samples, two splits and two seeds.

    export SKHASH_DATA=FOLDER
    python experiments/smoothing.py                          # training samples of MIRFlickr and of CIFAR-10
    python experiments/smoothing.py --packages Packages      # and packages of Debian

`Packages` is the index of any Debian release (dists/NAME/main/binary-amd64/Packages, unpacked).
Its features are the words of the one-line descriptions, its labels the 40 most frequent debtags
without the roles. A method learns from 3,000 samples, and 2,000 others are ranked for each other;
queries are not used. Methods without smoothing (ITQ-CCA, SDH, KSH) receive samples that are already
smoothed. The results are in experiments/results/smoothing.json.
"""

import argparse
import re
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import torch
from _results import RESULTS, mean_text, rank, store
from _splits import rank_held_out

from skhash import ITQCCAHasher, KSHHasher, SDHHasher, TALRHasher
from skhash.affinity import Relevance
from skhash.datasets import load_dataset
from skhash.engine.layers import N_MAX_DIRECTIONS, Smoothing

SMOOTHING = (0.0, 0.2, 0.4, 0.6)
BASELINES = {"itq-cca": ITQCCAHasher, "sdh": SDHHasher, "ksh": KSHHasher}
N_SAMPLES, N_LEARNED = 5000, 3000


def package_words(path):
    """Words of the descriptions and debtags of packages in random order, as two 0/1 matrices."""
    packages = []
    for block in path.read_text(errors="ignore").split("\n\n"):
        fields = dict(re.findall(r"^(Tag|Description): (.*(?:\n .*)*)", block, re.MULTILINE))
        if len(fields) == 2:
            words = set(re.findall(r"[a-z0-9+#]{2,}", fields["Description"].split("\n")[0].lower()))
            packages.append((words, {tag for tag in re.split(r"[,\s]+", fields["Tag"]) if "role::" not in tag}))
    np.random.default_rng(0).shuffle(packages)
    words, tags = zip(*packages, strict=True)
    X, y = indicators(words, 1400).astype(np.float32), indicators(tags, 40).astype(int)
    known = (X.sum(axis=1) > 1) & (y.sum(axis=1) > 0)
    return X[known][:N_SAMPLES], y[known][:N_SAMPLES]


def indicators(sets, n_columns):
    """Matrix of whether each set holds each of the most frequent items."""
    counts = Counter(item for items in sets for item in sorted(items))
    chosen = [item for item, _ in counts.most_common(n_columns)]
    return np.array([[item in items for item in chosen] for items in sets])


def run_split(X, y, method, objective, smoothing, split, seed):
    """Result of one fit on one split."""
    order = np.random.default_rng(split).permutation(N_SAMPLES)
    learned, held_out = order[:N_LEARNED], order[N_LEARNED:]
    options = {"store_database": False, "random_state": seed}
    if method in BASELINES:
        X = torch.tensor(X - X[learned].mean(axis=0))
        X = Smoothing(X.shape[1], N_MAX_DIRECTIONS).learn(X[learned], smoothing, np.random.RandomState(seed))(X).numpy()
        hasher = BASELINES[method](**options)
    else:
        hasher = TALRHasher(objective=objective, smoothing=smoothing, **options)
    data = rank_held_out(X, y, learned, held_out, Relevance.of(y).affinity)
    metrics = rank(hasher.fit(data.X_train, data.y_train), data, ["ap", "ap_worst", "ap_best", "ndcg"])
    return {"method": method, "objective": objective, "smoothing": smoothing, "split": split, "seed": seed, **metrics}


def load_sets(packages):
    """Training samples and targets of each data set."""
    sets = {}
    for name, protocol in (("mirflickr", "mirflickr"), ("cifar_gist", "5k")):
        data = load_dataset(name, protocol=protocol, random_state=0)
        sets[name] = np.asarray(data.X_train, dtype=np.float32), data.y_train
    if packages:
        sets["debian packages"] = package_words(packages)
    return sets


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, help="the Packages file of a Debian release, unpacked")
    parser.add_argument("--sets", default="", help="only data whose name contains this")
    options = parser.parse_args()
    for name, (X, y) in load_sets(options.packages).items():
        if options.sets not in name:
            continue
        print(f"{name}: {X.shape[1]} features, {np.mean(X != 0):.2%} of the entries are not zero", flush=True)
        tasks = [("talr", "ap")]
        if y.ndim > 1:
            tasks += [("talr", "ndcg"), *((baseline, "ap") for baseline in BASELINES)]
        for (method, objective), smoothing in product(tasks, SMOOTHING):
            results = [
                {"data": name, **run_split(X, y, method, objective, smoothing, split, seed)}
                for split, seed in product((0, 1), (0, 1))
            ]
            text = mean_text(results, objective)
            print(f"{name:16} {method:8} {objective:5} smoothing {smoothing}  {text}", flush=True)
            store(RESULTS / "smoothing.json", results, ("data", "method", "objective", "smoothing"))


if __name__ == "__main__":
    main()
