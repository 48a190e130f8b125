"""HashNet: the ordering of the paper's table 3, and its quantisation gap.

    export SKHASH_DATA=FOLDER
    python experiments/hashnet.py                    # every task, three random splits
    python experiments/hashnet.py --tasks linear     # the tasks whose name contains linear

32 bits, protocol "5k", default settings, fitted on the training rows alone. In the
"imbalanced" tasks the training rows of class c are thinned to a share of 0.6 ** c.
TALR on the same splits, with the same encoders and steps, is in quality.py. Each task
takes its place in experiments/results/hashnet.json.
"""

import argparse

import numpy as np
from _results import RESULTS, figure, keep

from skhash import HashNetHasher
from skhash.comparison import evaluate_hasher
from skhash.datasets import load_dataset

NBITS = 32
VARIANTS = {
    "full": {},
    "no continuation": {"n_stages": 1},
    "unweighted": {"class_ratio": 1.0},
    "steady rise to 20": {"max_beta": 20.0, "last_beta": 20.0},
}
#: name, data set, backbone, imbalanced, variants
TASKS = [
    ("mnist linear", "mnist", None, False, ["full", "no continuation"]),
    ("mnist mlp", "mnist", "mlp", False, ["full", "no continuation", "steady rise to 20"]),
    ("mnist mlp imbalanced", "mnist", "mlp", True, ["full", "unweighted"]),
    ("cifar gist linear", "cifar_gist", None, False, ["full", "no continuation"]),
    ("cifar gist mlp", "cifar_gist", "mlp", False, ["full", "no continuation", "unweighted", "steady rise to 20"]),
    ("cifar gist mlp imbalanced", "cifar_gist", "mlp", True, ["full", "unweighted"]),
]


def thin_out(data, rng):
    kept = rng.random(len(data.y_train)) < 0.6**data.y_train
    data.X_train, data.y_train = data.X_train[kept], data.y_train[kept]


def run_task(task, dataset, backbone, imbalanced, variants, n_seeds):
    rows = []
    for seed in range(n_seeds):
        data = load_dataset(dataset, protocol="5k", random_state=seed)
        if imbalanced:
            thin_out(data, np.random.default_rng(seed))
        for variant in variants:
            options = {"affinity": data.affinity, "random_state": seed, "store_database": False}
            hasher = HashNetHasher(NBITS, backbone=backbone, **options, **VARIANTS[variant])
            figures = evaluate_hasher(hasher, data)
            row = {"task": task, "variant": variant, "seed": seed, "n_train": len(data.X_train), **figures}
            row |= {
                name: value
                for name, value in hasher.history_[-1].items()
                if name in ("beta", "relaxed_loss", "binary_loss", "quantization_gap")
            }
            rows.append(row)
    for variant in variants:
        chosen = [row for row in rows if row["variant"] == variant]
        line = f"{task:26} {variant:16} AP_T {figure(chosen)}"
        gaps = [100 * abs(row["quantization_gap"]) / row["binary_loss"] for row in chosen]
        print(f"{line}  gap {np.mean(gaps):.2f} % (at most {max(gaps):.2f} %) of L", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="", help="only tasks whose name contains this")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for task in TASKS:
        if options.tasks in task[0]:
            keep(RESULTS / "hashnet.json", run_task(*task, options.seeds), ("task", "variant"))


if __name__ == "__main__":
    main()
