"""StructHash: NDCG loss against AUC loss, by the NDCG of held-out queries.

    export SKHASH_DATA=FOLDER
    python experiments/structhash_losses.py             # the paper's protocol, ten splits
    python experiments/structhash_losses.py --held-out  # over C, on training rows alone

64 bits, kernel functions, weighted and plain distances, NDCG with the paper's discount. By the protocol
("struct", NDCG@100) with the default C; prints the mean difference on the same splits and its standard error, as if
splits of one data set were independent, and keeps each split's figures in experiments/results/structhash_losses.json.
--held-out learns from 1,400 training rows of a split and lets the other 600 rank each other (NDCG@50), with C at
multiples of the one below which the first bit has no weight.
"""

import argparse

from _results import RESULTS, figure, keep
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch

from skhash import StructHashHasher
from skhash.comparison.leaders import find_lead
from skhash.datasets import load_dataset
from skhash.hashers.structhash.structhash import SLACK
from skhash.metrics import evaluate_histograms, iter_histograms

NBITS = 64
LOSSES = ("ndcg", "auc")
FACTORS = (7, SLACK, 50, 150)


def held_out(data, seed):
    """1,400 training rows of a split to learn from, 600 to rank each other."""
    X, held_X, y, held_y = train_test_split(data.X_train, data.y_train, test_size=0.3, random_state=seed)
    both = {"X_query": held_X, "y_query": held_y, "X_database": held_X, "y_database": held_y}
    return Bunch(X_train=X, y_train=y, affinity=data.affinity, exclude_self=True, **both)


def run(data, loss, factor, seed, k):
    """Fit with C at `factor` times the least; weighted and plain NDCG@k, and the loss minimised."""
    options = {"loss": loss, "store_database": False, "random_state": seed}
    C = None  # the default
    if factor != SLACK:
        C = factor / SLACK * StructHashHasher(1, **options).fit(data.X_train, data.y_train).C_
    hasher = StructHashHasher(NBITS, C=C, **options).fit(data.X_train, data.y_train)
    queries, database = hasher.encode(data.X_query), hasher.encode(data.X_database)
    row = {"seed": seed, "hinge": hasher.history_[-1]["loss"]}
    for name, weights in {"ndcg": hasher.bit_weights_, "plain_ndcg": None}.items():
        compared = queries, database, data.y_query, data.y_database
        options = {"affinity": data.affinity, "exclude_self": data.get("exclude_self", False)}
        histograms = iter_histograms(*compared, bit_weights=weights, nbits=NBITS, **options)
        (row[name],) = evaluate_histograms(histograms, [f"ndcg_at_{k}_structhash"]).values()
    return row


def difference(rows, name):
    """Who is ahead, and the mean difference on the same splits with its standard error."""
    lead, _ = find_lead(rows, name)
    error = "none, of one split" if lead.standard_error is None else f"{lead.standard_error:.4f}"
    return f"{lead.leader} by {lead.lead:.4f} (standard error {error})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["usps", "mnist", "cifar_gist"])
    parser.add_argument("--held-out", action="store_true", help="compare on training rows, over C")
    parser.add_argument("--seeds", type=int, help="random splits; 10, or 5 for --held-out")
    options = parser.parse_args()
    seeds, k = range(options.seeds or (5 if options.held_out else 10)), 50 if options.held_out else 100
    for dataset in options.datasets:
        splits = [load_dataset(dataset, protocol="struct", random_state=seed) for seed in seeds]
        if options.held_out:
            splits = [held_out(data, seed) for seed, data in enumerate(splits)]
        for factor in FACTORS if options.held_out else (SLACK,):
            rows = []
            for loss in LOSSES:
                about = {"dataset": dataset, "nbits": NBITS, "k": k, "method": f"{loss} loss"}
                new = [about | run(data, loss, factor, seed, k) for seed, data in enumerate(splits)]
                print(
                    f"{dataset:10} C {factor:3g} x least, {loss:4} loss: NDCG@{k} {figure(new, 'ndcg')}, "
                    f"plain {figure(new, 'plain_ndcg')}, minimised loss {figure(new, 'hinge')}",
                    flush=True,
                )
                rows += new
            print(f"  ahead: {difference(rows, 'ndcg')}; plain {difference(rows, 'plain_ndcg')}")
            if not options.held_out:
                keep(RESULTS / "structhash_losses.json", rows, ("dataset", "method"))


if __name__ == "__main__":
    main()
