"""Retrieval quality of the default settings on real data, three random splits each.

    export SKHASH_DATA=FOLDER
    python benchmarks/quality.py                    # TALR, ITQ and LSH on every task
    python benchmarks/quality.py --relaxations      # exact against paper and simplified
    python benchmarks/quality.py --tasks usps       # the tasks whose name contains usps

Fitted on the training rows alone. Prints a table, and writes it to
benchmarks/results/NAME.json with every single figure.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from skhash import ITQHasher, LSHHasher, TALRHasher
from skhash.comparison import evaluate_hasher
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


def run_task(name, dataset, protocol, nbits, parameters, figure, goal, methods, n_seeds):
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
                    "figure": figure,
                    "goal": goal,
                    **figures,
                }
            )
    for method in methods:
        chosen = [row for row in rows if row["method"] == method]
        values = [row[figure] for row in chosen]
        ap, worst, best = (np.mean([row[key] for row in chosen]) for key in ("ap", "ap_worst", "ap_best"))
        print(
            f"{name:18} {nbits:3} bits  {method:12} {figure:4} {np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"
            f"  AP_T {ap:.4f} [{worst:.4f}, {best:.4f}]  fit {np.mean([row['fit_seconds'] for row in chosen]):6.1f} s"
            f"  goal {'ITQ' if goal is None else goal}",
            flush=True,
        )
    return rows


def markdown(rows):
    """Means and standard deviations over the splits, one line a task."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [f"| task | bits | figure | {' | '.join(methods)} |", "|---" * (3 + len(methods)) + "|"]
    for task, nbits in dict.fromkeys((row["task"], row["nbits"]) for row in rows):
        cells = []
        for method in methods:
            chosen = [row for row in rows if (row["task"], row["nbits"], row["method"]) == (task, nbits, method)]
            figure = chosen[0]["figure"]
            values = [row[figure] for row in chosen]
            cell = f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"
            if figure == "ap":
                worst, best = (np.mean([row[name] for row in chosen]) for name in ("ap_worst", "ap_best"))
                cell += f" ({worst:.3f} to {best:.3f})"
            cells.append(cell)
        lines.append(f"| {task} | {nbits} | {figure.upper()}_T | {' | '.join(cells)} |")
    return "\n".join(lines)


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
    rows = [row for task in tasks for row in run_task(*task, methods, options.seeds)]
    name = "relaxations" if options.relaxations else "quality"
    path = (
        Path(__file__).parent
        / "results"
        / f"{name}{'_' + options.tasks.replace(' ', '_') if options.tasks else ''}.json"
    )
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"written: {path}\n\n{markdown(rows)}")


if __name__ == "__main__":
    main()
