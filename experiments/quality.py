"""Retrieval quality of the default settings on real data, three random splits each.

    export SKHASH_DATA=FOLDER
    python experiments/quality.py                    # TALR, ITQ and LSH on every task
    python experiments/quality.py --relaxations      # exact against paper and simplified
    python experiments/quality.py --tasks usps       # the tasks whose name contains usps

Fitted on the training rows alone. Prints a table; each task takes its place, with every single
figure, in experiments/results/quality.json or relaxations.json.
"""

import argparse
import json

import numpy as np
from _results import RESULTS, figure, keep

from skhash import ITQHasher, LSHHasher, TALRHasher
from skhash.comparison import evaluate_hasher
from skhash.comparison.tables import lay_out
from skhash.datasets import load_dataset

MLP = {"backbone": "mlp"}
NDCG = {"objective": "ndcg"}
#: name, data set, protocol, bits, TALR's parameters, figure to look at, goal (None: ITQ's figure)
TASKS = [
    ("mnist linear", "mnist", "5k", 32, {}, "ap", 0.84),
    ("mnist mlp", "mnist", "5k", 32, MLP, "ap", 0.95),
    ("usps linear", "usps", "5k", 32, {}, "ap", 0.92),
    ("cifar gist linear", "cifar_gist", "5k", 32, {}, "ap", 0.325),
    ("cifar gist mlp", "cifar_gist", "5k", 32, MLP, "ap", 0.43),
    ("mirflickr ap", "mirflickr", "mirflickr", 32, {}, "ap", 0.71),
    ("mirflickr ndcg", "mirflickr", "mirflickr", 32, NDCG, "ndcg", 0.865),
    *(("labelme gist", "cifar_gist", "labelme", bits, NDCG, "ndcg", None) for bits in (16, 32, 48, 64)),
]


def run_task(name, dataset, protocol, nbits, parameters, target, goal, methods, n_seeds):
    rows = []
    for seed in range(n_seeds):
        data = load_dataset(dataset, protocol=protocol, random_state=seed)
        for method, make in methods.items():
            hasher = make(nbits, parameters).set_params(affinity=data.affinity, store_database=False, random_state=seed)
            figures = evaluate_hasher(hasher, data)
            rows.append(
                {
                    "task": name,
                    "nbits": nbits,
                    "method": method,
                    "seed": seed,
                    "metric": target,
                    "goal": goal,
                    **figures,
                }
            )
    for method in methods:
        chosen = [row for row in rows if row["method"] == method]
        seconds = np.mean([row["fit_seconds"] for row in chosen])
        print(
            f"{name:18} {nbits:3} bits  {method:12} NDCG_T {figure(chosen, 'ndcg')}  AP_T {figure(chosen)}"
            f"  fit {seconds:6.1f} s  goal {target} {'ITQ' if goal is None else goal}",
            flush=True,
        )
    return rows


def markdown(rows):
    """Means and standard deviations over the splits, one line a task."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [["task", "bits", "metric", *methods]]
    for task, nbits in dict.fromkeys((row["task"], row["nbits"]) for row in rows):
        groups = [
            [row for row in rows if (row["task"], row["nbits"], row["method"]) == (task, nbits, method)]
            for method in methods
        ]
        target = groups[0][0]["metric"]
        cells = [figure(chosen, target, digits=3) for chosen in groups]
        lines.append([task, str(nbits), f"{target.upper()}_T", *cells])
    return lay_out(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="", help="only tasks whose name contains this")
    parser.add_argument("--relaxations", action="store_true", help="compare TALR's three relaxations")
    parser.add_argument("--bits", type=int, help="only tasks of that code length")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.relaxations:
        methods = {
            kind: lambda nbits, parameters, kind=kind: TALRHasher(nbits, relaxation=kind, **parameters)
            for kind in ("exact", "paper", "simplified")
        }
    else:
        methods = {
            "talr": lambda nbits, parameters: TALRHasher(nbits, **parameters),
            "itq": lambda nbits, parameters: ITQHasher(nbits),
            "lsh": lambda nbits, parameters: LSHHasher(nbits),
        }
    tasks = [task for task in TASKS if options.tasks in task[0] and options.bits in (None, task[3])]
    path = RESULTS / ("relaxations.json" if options.relaxations else "quality.json")
    for task in tasks:
        keep(path, run_task(*task, methods, options.seeds), ("task", "nbits", "method"))
    print(f"written: {path}\n\n{markdown(json.loads(path.read_text()))}")


if __name__ == "__main__":
    main()
