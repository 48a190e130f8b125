"""The baselines beside published values on data that we also have, and beside FAISS.

    export SKHASH_DATA=FOLDER
    python experiments/comparators.py                 # every task, three random splits; tens of minutes
    python experiments/comparators.py --tasks agh     # the tasks whose name contains agh
    python experiments/comparators.py --tasks faiss   # LSH, ITQ and signs of principal components of FAISS
    python experiments/comparators.py --draw          # only the tables of the stored results

_published.py holds the published values, their sources and the settings that are not the defaults.
The results are in experiments/results/comparators.json, the tables in comparators.md beside it.
Needs faiss.
"""

import argparse
import json
import time

import faiss
import numpy as np
from _published import FIVE_K, TASKS
from _results import RESULTS, mean_text, rank, store
from _splits import rank_training_samples

from skhash.affinity import Relevance
from skhash.codes import Codes
from skhash.comparison import make_hasher
from skhash.datasets import load_dataset
from skhash.metrics import Ranking, evaluate_ranking

PATH = RESULTS / "comparators.json"
FAISS = {"lsh": "LSHr", "pca": "PCA{},LSH", "itq": "ITQ{},LSH"}
FAISS_DATASETS, FAISS_NBITS = {"mnist": "MNIST", "cifar_gist": "CIFAR-10, GIST features"}, (16, 32)
METRICS = ["ap", "ap_worst", "ap_best", "precision_radius_2"]


def run_task(name, n_seeds):
    """Results of one task, one per method, number of bits and seed."""
    task, results = TASKS[name], []
    metrics = METRICS + ([f"ap_at_{task.k}_retrieved"] if task.k else [])
    for seed in range(n_seeds):
        data = load_dataset(task.dataset, protocol=task.protocol, random_state=seed)
        if task.ranks_training_samples:
            data = rank_training_samples(data)
        for method in task.methods:
            for nbits in task.nbits:
                start = time.perf_counter()
                hasher = make_hasher(method, nbits, seed, data.affinity, **dict(task.parameters))
                hasher.fit(data.X_train, data.y_train)
                seconds = time.perf_counter() - start
                setting = {"task": name, "method": method, "nbits": nbits, "seed": seed}
                results.append(setting | rank(hasher, data, metrics) | {"fit_seconds": seconds})
                text = mean_text(results[-1:])
                print(f"{name:16} {method:10} {nbits:3} bits  AP_T {text}  fit {seconds:6.1f} s", flush=True)
    return results


def faiss_codes(recipe, nbits, seed, X_train, *parts):
    """Codes by FAISS, of samples centered by the training mean."""
    mean = X_train.mean(axis=0)
    if recipe == "LSHr":
        index = faiss.IndexLSH(X_train.shape[1], nbits, True, False)
        index.rrot.init(seed)
    else:
        index = faiss.index_factory(X_train.shape[1], recipe.format(nbits))
        chain = faiss.downcast_VectorTransform(index.chain.at(0))
        if hasattr(chain, "itq"):
            chain.itq.seed = seed
    index.train(X_train - mean)
    return [Codes.of(index.sa_encode(np.ascontiguousarray(X - mean)), nbits) for X in parts]


def run_faiss(n_seeds):
    """Results of FAISS and of skhash on the same splits."""
    results = []
    for dataset in FAISS_DATASETS:
        for seed in range(n_seeds):
            data = load_dataset(dataset, protocol=FIVE_K, random_state=seed)
            for method, recipe in FAISS.items():
                for nbits in FAISS_NBITS:
                    hasher = make_hasher(method, nbits, seed, data.affinity).fit(data.X_train)
                    codes = faiss_codes(recipe, nbits, seed, data.X_train, data.X_query, data.X_database)
                    ranking = Ranking(*codes, Relevance.between(data.y_query, data.y_database, data.affinity))
                    metrics = {"skhash": rank(hasher, data, METRICS), "faiss": evaluate_ranking(ranking, METRICS)}
                    setting = {"task": "faiss", "method": method, "nbits": nbits, "seed": seed}
                    for by, values in metrics.items():
                        more = {"by": by, "dataset": dataset, "version": faiss.__version__}
                        results.append(setting | more | values)
                        print(f"{dataset} {method:4} {nbits:3} bits {by:6} AP_T {mean_text(results[-1:])}", flush=True)
    return results


def distance_to_range(published, results):
    """How far a published AP is above our tie range, below it (negative), or 0.0 if it is inside."""
    worst, best = (np.mean([result[end] for result in results]) for end in ("ap_worst", "ap_best"))
    return max(published - best, 0.0) + min(published - worst, 0.0)


def task_table(task, results):
    """Markdown of one setting with its published values beside ours, and the `distance_to_range` of each AP."""
    lines, distances, cutoff = [], [], f"ap_at_{task.k}_retrieved"
    for method, published in task.methods.items():
        label, difference = method, published.difference
        for nbits, value in zip(task.nbits, published.values, strict=True):
            chosen = [result for result in results if (result["method"], result["nbits"]) == (method, nbits)]
            if not chosen:
                continue
            if task.metric == "ap":
                distances.append(distance_to_range(value, chosen))
                side = "above" if distances[-1] > 0 else "below"
                where = f"{abs(distances[-1]):.3f} {side}" if distances[-1] else "inside"
            else:
                where = f"{value - np.mean([result[task.metric] for result in chosen]):+.3f}"
            at_k = [f"{np.mean([result[cutoff] for result in chosen]):.3f}"] if task.k else []
            ours = mean_text(chosen, task.metric, 3)
            lines.append([label, str(nbits), f"{value:.3f}", ours, *at_k, where, difference])
            label, difference = "", ""
    ours, where = ("AP_T, tie range", "published is") if task.metric == "ap" else (task.metric, "published minus ours")
    at_k = [f"ours, AP@{task.k:,}"] if task.k else []
    columns = ["method", "bits", "published", f"ours ({ours})", *at_k, where, "what differs"]
    return f"**{task.title}.** Source: {task.source}.\n\n{markdown_table([columns, *lines])}", distances


def faiss_table(results):
    """Markdown of AP_T of FAISS beside ours on the same splits."""
    keys = ("dataset", "method", "nbits")
    lines = []
    for group in dict.fromkeys(tuple(result[key] for key in keys) for result in results):
        chosen = [result for result in results if tuple(result[key] for key in keys) == group]
        sides = [mean_text([result for result in chosen if result["by"] == by], digits=3) for by in ("faiss", "skhash")]
        lines.append([FAISS_DATASETS[group[0]], group[1], str(group[2]), *sides])
    versions = ", ".join(dict.fromkeys(result["version"] for result in results))
    title = f"**FAISS {versions}, protocol 5k, samples centered by the training mean.** AP_T with its tie range."
    return f"{title}\n\n{markdown_table([['data', 'method', 'bits', 'FAISS', 'ours'], *lines])}"


def markdown_table(cells):
    """Markdown of a table, with columns aligned for plain reading."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    rule = "-|-".join("-" * width for width in widths)
    return "\n".join([f"| {rows[0]} |", f"|-{rule}-|", *(f"| {row} |" for row in rows[1:])])


def make_tables(results):
    """Markdown of all tables."""
    by_task = {name: [result for result in results if result["task"] == name] for name in (*TASKS, "faiss")}
    tables, distances = zip(*(task_table(task, by_task[name]) for name, task in TASKS.items()), strict=True)
    signs = np.sign(np.concatenate(distances))
    inside, below, above = ((signs == sign).sum() for sign in (0, -1, 1))
    count = f"Of {len(signs)} published values of AP, {inside} are inside our tie range, {below} below, {above} above."
    return "\n\n".join([count, *tables, faiss_table(by_task["faiss"])]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="", help="only tasks whose name contains this")
    parser.add_argument("--draw", action="store_true", help="only make the tables of the stored results")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for name in (*TASKS, "faiss"):
        if options.tasks in name and not options.draw:
            store(PATH, run_faiss(options.seeds) if name == "faiss" else run_task(name, options.seeds), ("task",))
    tables = make_tables(json.loads(PATH.read_text(encoding="utf-8")))
    PATH.with_suffix(".md").write_text(tables, encoding="utf-8")
    print(f"written: {PATH}\n\n{tables}")


if __name__ == "__main__":
    main()
