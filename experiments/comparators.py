"""Comparators beside the figures that others print for them on data that are at hand, and beside FAISS.

    export SKHASH_DATA=FOLDER
    python experiments/comparators.py                 # every task, three random splits; tens of minutes
    python experiments/comparators.py --tasks agh     # the tasks whose name contains agh
    python experiments/comparators.py --tasks faiss   # LSH, ITQ and signs of principal components of FAISS
    python experiments/comparators.py --draw          # the tables of what is there

Default settings but where _published.py says otherwise, which holds what others print, and where.
Fitted on the training rows alone. Each task takes its place in experiments/results/comparators.json;
the tables are printed, and written to comparators.md beside the rows. Needs faiss.
"""

import argparse
import json
import time

import faiss
import numpy as np
from _published import FIVE_K, TASKS
from _results import RESULTS, figure, keep

from skhash.comparison import make_hasher
from skhash.comparison.tables import lay_out
from skhash.datasets import load_dataset
from skhash.metrics import evaluate_histograms, relevance_histogram

PATH = RESULTS / "comparators.json"
FAISS = {"lsh": "LSHr", "pca": "PCA{},LSH", "itq": "ITQ{},LSH"}
FAISS_DATASETS, FAISS_BITS = {"mnist": "MNIST", "cifar_gist": "CIFAR-10, GIST features"}, (16, 32)


def load(task, seed):
    """A split; where a task ranks the training rows, they are the database."""
    data = load_dataset(task.dataset, protocol=task.protocol, random_state=seed)
    if task.own_rows:
        data.X_database, data.y_database = data.X_train, data.y_train
    return data


def rank(queries, database, data, nbits, cut=None):
    """AP_T and its tie range, precision in radius 2, and AP of the first `cut` over the relevant items among them."""
    H = relevance_histogram(queries, database, data.y_query, data.y_database, affinity=data.affinity, nbits=nbits)
    cut_figure = [f"ap_at_{cut}_retrieved"] if cut else []
    return evaluate_histograms([H], ["ap", "ap_worst", "ap_best", "precision_radius_2", *cut_figure])


def run_task(name, n_seeds):
    task, rows = TASKS[name], []
    for seed in range(n_seeds):
        data = load(task, seed)
        for method in task.methods:
            for nbits in task.bits:
                start = time.perf_counter()
                hasher = make_hasher(method, nbits, seed, data.affinity, **dict(task.parameters))
                hasher.fit(data.X_train, data.y_train)
                seconds = time.perf_counter() - start
                figures = rank(hasher.encode(data.X_query), hasher.encode(data.X_database), data, nbits, task.cut)
                rows.append(
                    {"task": name, "method": method, "nbits": nbits, "seed": seed, **figures, "fit_seconds": seconds}
                )
                print(
                    f"{name:10} {method:10} {nbits:3} bits  AP_T {figure(rows[-1:])}  fit {seconds:6.1f} s", flush=True
                )
    return rows


def faiss_codes(recipe, nbits, seed, X_train, *parts):
    """Codes by FAISS, of rows relative to the mean of the training rows."""
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
    return [index.sa_encode(np.ascontiguousarray(X - mean)) for X in parts]


def run_faiss(n_seeds):
    rows = []
    for dataset in FAISS_DATASETS:
        for seed in range(n_seeds):
            data = load_dataset(dataset, protocol=FIVE_K, random_state=seed)
            for method, recipe in FAISS.items():
                for nbits in FAISS_BITS:
                    theirs = faiss_codes(recipe, nbits, seed, data.X_train, data.X_query, data.X_database)
                    hasher = make_hasher(method, nbits, seed, data.affinity).fit(data.X_train)
                    ours = [hasher.encode(data.X_query), hasher.encode(data.X_database)]
                    for by, codes in (("skhash", ours), ("faiss", theirs)):
                        figures = rank(*codes, data, nbits)
                        rows.append(
                            {"task": "faiss", "method": method, "nbits": nbits, "seed": seed, "by": by}
                            | {"dataset": dataset, "version": faiss.__version__, **figures}
                        )
                        print(f"{dataset} {method:4} {nbits:3} bits {by:6} AP_T {figure(rows[-1:])}", flush=True)
    return rows


def beyond(printed, rows):
    """How far a printed AP lies above the tie range of ours, below it (negative), or 0.0 inside."""
    worst, best = (np.mean([row[end] for row in rows]) for end in ("ap_worst", "ap_best"))
    return max(printed - best, 0.0) + min(printed - worst, 0.0)


def task_page(task, rows):
    """One setting in Markdown, its source, each printed figure beside ours; and how far each AP is `beyond` ours."""
    lines, distances, cut_figure = [], [], f"ap_at_{task.cut}_retrieved"
    for method, published in task.methods.items():
        label, why = method, published.why
        for nbits, printed in zip(task.bits, published.figures, strict=True):
            chosen = [row for row in rows if (row["method"], row["nbits"]) == (method, nbits)]
            if not chosen:
                continue
            if task.figure == "ap":
                distances.append(beyond(printed, chosen))
                side = "above" if distances[-1] > 0 else "below"
                where = f"{abs(distances[-1]):.3f} {side}" if distances[-1] else "inside"
            else:
                where = f"{printed - np.mean([row[task.figure] for row in chosen]):+.3f}"
            cut = [f"{np.mean([row[cut_figure] for row in chosen]):.3f}"] if task.cut else []
            ours = figure(chosen, task.figure, 3)
            lines.append([label, str(nbits), f"{printed:.3f}", ours, *cut, where, why])
            label, why = "", ""
    name, lies = ("AP_T, tie range", "printed lies") if task.figure == "ap" else (task.figure, "printed less ours")
    cut = [f"ours, AP@{task.cut:,}"] if task.cut else []
    columns = ["method", "bits", "printed", f"ours ({name})", *cut, lies, "what differs"]
    return f"**{task.title}.** Printed: {task.source}.\n\n{lay_out([columns, *lines])}", distances


def faiss_page(rows):
    """AP_T of FAISS beside ours on the same splits, in Markdown."""
    groups = dict.fromkeys((row["dataset"], row["method"], row["nbits"]) for row in rows)
    lines = []
    for group in groups:
        chosen = [row for row in rows if (row["dataset"], row["method"], row["nbits"]) == group]
        sides = [figure([row for row in chosen if row["by"] == by], digits=3) for by in ("faiss", "skhash")]
        lines.append([FAISS_DATASETS[group[0]], group[1], str(group[2]), *sides])
    versions = ", ".join(dict.fromkeys(row["version"] for row in rows))
    title = (
        f"**FAISS {versions}, protocol 5k, rows relative to the mean of the training rows.** AP_T with its tie range."
    )
    return f"{title}\n\n{lay_out([['data', 'method', 'bits', 'FAISS', 'ours'], *lines])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="", help="only tasks whose name contains this")
    parser.add_argument("--draw", action="store_true", help="measure nothing, draw the tables anew")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for name in (*TASKS, "faiss"):
        if options.tasks in name and not options.draw:
            rows = run_faiss(options.seeds) if name == "faiss" else run_task(name, options.seeds)
            keep(PATH, rows, ("task",))
    rows = {name: [] for name in (*TASKS, "faiss")}
    for row in json.loads(PATH.read_text()):
        rows[row["task"]].append(row)
    pages, distances = zip(*(task_page(task, rows[name]) for name, task in TASKS.items()), strict=True)
    signs = np.sign(np.concatenate(distances))
    inside, below, above = ((signs == sign).sum() for sign in (0, -1, 1))
    count = (
        f"Of {len(signs)} printed figures of AP {inside} lie inside our tie range, {below} below and {above} above it."
    )
    text = "\n\n".join([count, *pages, faiss_page(rows["faiss"])]) + "\n"
    PATH.with_suffix(".md").write_text(text)
    print(f"written: {PATH}\n\n{text}")


if __name__ == "__main__":
    main()
