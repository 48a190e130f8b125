"""CPU time of the metrics of a run of a search engine, over all orders of its ties, beside pytrec_eval's single order.

    python benchmarks/runs.py --queries 10000 --items 1000

Each query has 50 judged items of 4 levels, and the run has half of these. Both tools get dicts of dicts. "few ties" has
scores of 24 bits, "many ties" Hamming distances of 64 bits. The best of --repeats is shown; files are read once.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pytrec_eval

from skhash.metrics import Metric, evaluate_histograms
from skhash.trec import histogram_of_run, read_run

N_JUDGED, N_DOCUMENTS = 50, 1_000_000
METRICS = ("ap", "ndcg_at_10_linear", "precision_at_10", "reciprocal_rank")
OF_TREC_EVAL = {"map", "ndcg_cut_10", "P_10", "recip_rank"}
SCORES = {
    "few ties": lambda rng, n: rng.choice(1 << 24, n, replace=False) / (1 << 24),
    "many ties": lambda rng, n: -rng.binomial(64, 0.4, n).astype(float),
}


def make(n_queries, n_items, scores):
    """A run and its qrels."""
    rng = np.random.default_rng(0)
    names = [f"document-{i:07}" for i in range(N_DOCUMENTS)]
    run, qrels = {}, {}
    for query in range(n_queries):
        first = rng.integers(N_DOCUMENTS - n_items - N_JUDGED)
        judged = first + n_items - N_JUDGED // 2 + np.arange(N_JUDGED)
        run[f"q{query}"] = dict(zip(names[first : first + n_items], scores(rng, n_items).tolist(), strict=True))
        levels = rng.integers(0, 4, N_JUDGED).tolist()
        qrels[f"q{query}"] = {names[i]: level for i, level in zip(judged, levels, strict=True)}
    return run, qrels


def seconds(repeats, function, *arguments):
    """Least CPU time of some calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function(*arguments)
        times.append(time.process_time() - start)
    return min(times)


def of_trec_eval(run, qrels):
    pytrec_eval.RelevanceEvaluator(qrels, OF_TREC_EVAL).evaluate(run)


def of_skhash(run, qrels, orders):
    metrics = [Metric.parse(name).with_ties(ties) for name in METRICS for ties in orders]
    evaluate_histograms([histogram_of_run(run, qrels)], metrics, empty="zero")


def times_of(kind, options):
    """Seconds by what is measured."""
    run, qrels = make(options.queries, options.items, SCORES[kind])
    times = {
        "pytrec_eval, one order": seconds(options.repeats, of_trec_eval, run, qrels),
        "skhash, the mean over all orders": seconds(options.repeats, of_skhash, run, qrels, ["average"]),
        "skhash, the mean, the worst and the best order": seconds(
            options.repeats, of_skhash, run, qrels, ["average", "worst", "best"]
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run")
        with open(path, "w", encoding="utf-8") as file:
            for query, items in run.items():
                file.writelines(f"{query} Q0 {item} 0 {score} engine\n" for item, score in items.items())
        del run
        with open(path, encoding="utf-8") as file:
            times["pytrec_eval, read the file"] = seconds(1, pytrec_eval.parse_run, file)
        times["skhash, read the file"] = seconds(1, read_run, path)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    times = {kind: times_of(kind, options) for kind in SCORES}
    print(f"| seconds of CPU | {' | '.join(times)} |\n| --- | {' | '.join(['---'] * len(times))} |")
    for name in times["few ties"]:
        print(f"| {name} | {' | '.join(f'{times[kind][name]:.1f}' for kind in times)} |")


if __name__ == "__main__":
    main()
