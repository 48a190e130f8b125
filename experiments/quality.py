"""TALR, ITQ and LSH with default settings on every task, or the relaxations of TALR.

    export SKHASH_DATA=FOLDER
    python experiments/quality.py                    # TALR, ITQ and LSH
    python experiments/quality.py --relaxations      # the exact, paper's and simplified objectives of TALR
    python experiments/quality.py --tasks usps       # the tasks whose name contains usps

Prints means over three random splits. The results are in experiments/results/quality.json and
relaxations.json.
"""

import argparse

import numpy as np
from _results import RESULTS, mean_text, store

from skhash import ITQHasher, LSHHasher, TALRHasher
from skhash.comparison import evaluate_hasher
from skhash.datasets import load_dataset

MLP = {"backbone": "mlp"}
NDCG = {"objective": "ndcg"}
#: name, data set, protocol, number of bits, parameters of TALR
TASKS = [
    ("mnist linear", "mnist", "5k", 32, {}),
    ("mnist mlp", "mnist", "5k", 32, MLP),
    ("usps linear", "usps", "5k", 32, {}),
    ("cifar gist linear", "cifar_gist", "5k", 32, {}),
    ("cifar gist mlp", "cifar_gist", "5k", 32, MLP),
    ("mirflickr ap", "mirflickr", "mirflickr", 32, {}),
    ("mirflickr ndcg", "mirflickr", "mirflickr", 32, NDCG),
    *(("labelme gist", "cifar_gist", "labelme", nbits, NDCG) for nbits in (16, 32, 48, 64)),
]


def make_hashers(nbits, parameters, relaxations):
    """Hashers by name."""
    if relaxations:
        kinds = ("exact", "paper", "simplified")
        return {kind: TALRHasher(nbits, relaxation=kind, **parameters) for kind in kinds}
    return {"talr": TALRHasher(nbits, **parameters), "itq": ITQHasher(nbits), "lsh": LSHHasher(nbits)}


def run_task(name, dataset, protocol, nbits, parameters, *, relaxations, n_seeds):
    """Results of one task, one per method and seed."""
    results = []
    for seed in range(n_seeds):
        data = load_dataset(dataset, protocol=protocol, random_state=seed)
        for method, hasher in make_hashers(nbits, parameters, relaxations).items():
            hasher.set_params(affinity=data.affinity, store_database=False, random_state=seed)
            setting = {"task": name, "nbits": nbits, "method": method, "seed": seed}
            results.append(setting | evaluate_hasher(hasher, data))
    for method in dict.fromkeys(result["method"] for result in results):
        chosen = [result for result in results if result["method"] == method]
        seconds = np.mean([result["fit_seconds"] for result in chosen])
        print(
            f"{name:18} {nbits:3} bits  {method:12} NDCG_T {mean_text(chosen, 'ndcg')}  AP_T {mean_text(chosen)}"
            f"  fit {seconds:6.1f} s",
            flush=True,
        )
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="", help="only tasks whose name contains this")
    parser.add_argument("--relaxations", action="store_true", help="compare TALR's three relaxations")
    parser.add_argument("--bits", type=int, help="only tasks with this number of bits")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    path = RESULTS / ("relaxations.json" if options.relaxations else "quality.json")
    for task in TASKS:
        if options.tasks in task[0] and options.bits in (None, task[3]):
            results = run_task(*task, relaxations=options.relaxations, n_seeds=options.seeds)
            store(path, results, ("task", "nbits", "method"))


if __name__ == "__main__":
    main()
