"""How much smoothing is good for tags: held-out training rows, two splits and two starts.

    export SKHASH_DATA=FOLDER
    python benchmarks/smoothing.py                          # the training rows of MIRFlickr
    python benchmarks/smoothing.py --packages Packages      # and Debian's packages

`Packages` is the index of any Debian release (dists/NAME/main/binary-amd64/Packages, unpacked):
the words of a one-line description are the features, the 40 commonest debtags but for the roles
are the labels. TALR learns from 3,000 rows, 2,000 others rank each other. Queries are not used.
Every figure goes to benchmarks/results/smoothing.json.
"""

import argparse
import re
from collections import Counter
from pathlib import Path

import numpy as np
from _rows import RESULTS, figure, keep

from skhash import TALRHasher
from skhash.affinity import SharedLabelsAffinity
from skhash.datasets import load_dataset
from skhash.metrics import relevance_histogram
from skhash.metrics.named import evaluate

SMOOTHING = (0.0, 0.2, 0.4, 0.6)
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


def run_split(X, y, objective, smoothing, split, seed):
    rows = np.random.default_rng(split).permutation(N_ROWS)
    learned, held_out = rows[:N_LEARNED], rows[N_LEARNED:]
    affinity = SharedLabelsAffinity()
    hasher = TALRHasher(objective=objective, smoothing=smoothing, affinity=affinity, random_state=seed)
    codes = hasher.set_params(store_database=False).fit(X[learned], y[learned]).encode(X[held_out])
    targets = (y[held_out], y[held_out])
    histogram = relevance_histogram(codes, codes, *targets, affinity=affinity, nbits=32, exclude_self=True)
    figures = evaluate([histogram], ["ap", "ap_worst", "ap_best", "ndcg"])
    return {"objective": objective, "smoothing": smoothing, "split": split, "seed": seed, **figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, help="the Packages file of a Debian release, unpacked")
    options = parser.parse_args()
    train = load_dataset("mirflickr", protocol="mirflickr", random_state=0)
    sets = {"mirflickr": (np.asarray(train.X_train, dtype=np.float32), train.y_train)}
    if options.packages:
        sets["debian packages"] = package_words(options.packages)
    for name, (X, y) in sets.items():
        print(f"{name}: {X.shape[1]} tags, {np.mean(X != 0):.2%} of the entries are not zero", flush=True)
        for objective in ("ap", "ndcg"):
            for smoothing in SMOOTHING:
                runs = [run_split(X, y, objective, smoothing, split, seed) for split in (0, 1) for seed in (0, 1)]
                rows = [{"data": name, **run} for run in runs]
                print(f"{name:16} {objective:5} smoothing {smoothing}  {figure(rows, objective)}", flush=True)
                keep(RESULTS / "smoothing.json", rows, ("data", "objective", "smoothing"))


if __name__ == "__main__":
    main()
