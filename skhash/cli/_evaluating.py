"""The command ``skhash evaluate``."""

import argparse
from itertools import chain

import numpy as np

from skhash.cli._options import split
from skhash.metrics import Metric, evaluate_histograms
from skhash.trec import histogram_of_run, read_qrels, read_run

_ORDERS = {"mean": "average", "worst": "worst", "best": "best"}


def evaluate(options: argparse.Namespace) -> int:
    """Print the metrics of a run, and their range over the orders of items of equal score."""
    metrics = [Metric.parse(name) for name in split(options.metrics or ["ap,ndcg_at_10_linear"])]
    if ordered := [metric.name for metric in metrics if metric.ties != "average"]:
        raise ValueError(f"--metrics must be names without _best and _worst, which are columns. Got {ordered[0]}.")
    rows = {metric.name: [metric.with_ties(ties) for ties in _ORDERS.values()] for metric in metrics}
    run, qrels = read_run(options.run), read_qrels(options.qrels)
    H = histogram_of_run(run, qrels, empty=options.empty)
    values = evaluate_histograms([H], [*chain(*rows.values())], empty=options.empty)
    width = max(map(len, ["metric", *rows]))
    print("  ".join([f"{'metric':{width}}", *(f"{head:>6}" for head in _ORDERS)]))
    for name, orders in rows.items():
        print("  ".join([f"{name:{width}}", *(f"{values[order.name]:.4f}" for order in orders)]))

    query = np.repeat(np.arange(H.n_queries), np.diff(H.indptr))
    n_tied, n_mixed = (
        len(np.unique(query[is_so])) for is_so in (H.counts.sum(axis=1) > 1, (H.counts > 0).sum(axis=1) > 1)
    )
    print(f"\nWith items of equal score: {n_tied} of {H.n_queries} queries; of different levels: {n_mixed}.")
    if n_lacking := sum(not run.get(query) for query in qrels):
        kept = "count 0" if options.empty == "zero" else "are left out"
        print(f"Without items in the run: {n_lacking} of {len(qrels)} queries, which {kept}.")
    return 0
