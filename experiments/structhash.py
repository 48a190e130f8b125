"""StructHash under the protocol of its paper, with weighted and with plain Hamming distances.

    export SKHASH_DATA=FOLDER
    python experiments/structhash.py                    # every task, three random splits
    python experiments/structhash.py --tasks usps       # the tasks whose name contains usps

Protocol "struct": 2,000 random queries, the rest is the database, 2,000 samples of it for training,
with 50 relevant and 50 irrelevant samples per query; 64 bits. The "labelme" tasks learn from GIST
features without labels: the nearest 2 % (or 5 %) of the training pairs are relevant. Prints NDCG
(NDCG_T for the labelme tasks, else NDCG@100 with the paper's discount), precision@100 and AP_T with
its tie range. "linear, as in the paper" has no ridge, and no limit of the iterations of L-BFGS in the search for a bit;
both are ours. The results are in experiments/results/structhash.json.
"""

import argparse
import time
from unittest.mock import patch

import numpy as np
from _results import RESULTS, mean_text, rank, store

from skhash import ITQHasher, LSHHasher, StructHashHasher
from skhash.affinity import DistanceAffinity
from skhash.datasets import load_dataset
from skhash.hashers.structhash import _columns

VARIANTS = {
    "structhash": {},
    "structhash, linear": {"hash_function": "linear"},
    "structhash, linear, as in the paper": {"hash_function": "linear", "ridge": 0.0},
    "structhash, AUC loss": {"objective": "auc"},
    "structhash, linear, AUC loss": {"hash_function": "linear", "objective": "auc"},
    "structhash, AP loss": {"objective": "ap"},
    "structhash, precision loss": {"objective": "precision"},
    "structhash, NDCG@10 loss": {"k": 10},
    "structhash, trees": {"hash_function": "trees"},
    "structhash, stumps": {"hash_function": "stump"},
    "structhash, stage-wise": {"fully_corrective": False},
    # chosen on held-out training samples at 32 bits: with many relevant samples a large C and long lists are better
    "structhash, 5 %": {
        "affinity": DistanceAffinity(percentiles=(5,), levels=(1,)),
        "C": 250.0,
        "ridge": 3.0,
        "n_relevant": 100,
        "n_irrelevant": 100,
    },
}
#: methods whose search for a bit ends at a minimum, as in the paper, and not after a number of iterations
WITHOUT_LIMIT = {"structhash, linear, as in the paper": 15_000}
METRICS = ["precision_at_100", "ap", "ap_worst", "ap_best"]
BASELINES = {"itq": ITQHasher, "lsh": LSHHasher}
MAIN = ["structhash", "structhash, AUC loss", "structhash, linear", "structhash, linear, AUC loss"]
MAIN += ["structhash, linear, as in the paper"]
#: name, data set, protocol, number of bits, variants
TASKS = [
    ("usps", "usps", "struct", 64, MAIN),
    ("mnist", "mnist", "struct", 64, MAIN),
    ("cifar gist", "cifar_gist", "struct", 64, MAIN),
    ("labelme gist 32", "cifar_gist", "labelme", 32, ["structhash", "structhash, 5 %"]),
    ("labelme gist 64", "cifar_gist", "labelme", 64, ["structhash", "structhash, 5 %"]),
    ("variants on usps", "usps", "struct", 64, list(VARIANTS)[5:-1]),
]


def run_method(method, data, nbits, seed):
    """Results of one method on one split: by weighted distances if it has learned weights, and by plain ones."""
    options = {"store_database": False, "random_state": seed}
    labels, ndcg = data.y_train, "ndcg_at_100_delayed_log2"
    if data.protocol.name == "labelme":
        options["affinity"], labels, ndcg = DistanceAffinity(percentiles=(2,), levels=(1,)), None, "ndcg"
    hasher = (BASELINES.get(method) or StructHashHasher)(nbits, **options).set_params(**VARIANTS.get(method, {}))
    start = time.perf_counter()
    with patch.object(_columns, "LBFGS_ITERATIONS", WITHOUT_LIMIT.get(method, _columns.LBFGS_ITERATIONS)):
        hasher.fit(data.X_train, labels)
    shared = {"method": method, "nbits": nbits, "seed": seed, "fit_seconds": time.perf_counter() - start}
    has_weights = hasattr(hasher, "bit_weights_")
    if has_weights:
        last = {name: hasher.history_[-1][name] for name in ("loss", "gap", "n_cuts", "n_nonzero", "effective_bits")}
        shared |= {"C": hasher.C_, "nbits_learned": len(hasher.history_), **last}
        shared["largest_violation"] = max(entry["violation"] for entry in hasher.history_)
    results = []
    for distances in ["weighted", "plain"] if has_weights else ["plain"]:
        metrics = rank(hasher, data, [ndcg, *METRICS], weighted=distances == "weighted")
        results.append(shared | {"distances": distances, "ndcg": metrics.pop(ndcg), **metrics})
    return results


def summary(results):
    """Means and standard deviations over the splits, in one line."""
    first = results[0]
    mean = {name: np.mean([result[name] for result in results]) for name in first if not isinstance(first[name], str)}
    line = f"{first['task']:16} {first['method']:27} {first['distances']:8} NDCG {mean_text(results, 'ndcg')}"
    line += f"  P@100 {mean_text(results, 'precision_at_100')}  AP_T {mean_text(results)}"
    if "n_nonzero" in mean:
        line += f"  non-zero {mean['n_nonzero']:.1f}, effective {mean['effective_bits']:.1f} bits"
    return f"{line}  {mean['fit_seconds']:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="", help="only tasks whose name contains this")
    parser.add_argument("--methods", nargs="+", help="only these variants and baselines")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for task, dataset, protocol, nbits, variants in TASKS:
        if options.tasks not in task:
            continue
        splits = [load_dataset(dataset, protocol=protocol, random_state=seed) for seed in range(options.seeds)]
        for method in [*variants, *BASELINES]:
            if options.methods and method not in options.methods:
                continue
            by_seed = [run_method(method, data, nbits, seed) for seed, data in enumerate(splits)]
            results = [{"task": task, **result} for part in by_seed for result in part]
            for distances in dict.fromkeys(result["distances"] for result in results):
                print(summary([result for result in results if result["distances"] == distances]), flush=True)
            store(RESULTS / "structhash.json", results, ("task", "method"))


if __name__ == "__main__":
    main()
