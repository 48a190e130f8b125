"""StructHash: the NDCG loss against the AUC loss, by the NDCG of held-out queries.

    export SKHASH_DATA=FOLDER
    python experiments/structhash_losses.py             # the protocol of the paper, ten splits
    python experiments/structhash_losses.py --held-out  # several values of C, on training samples alone

64 bits, kernel functions, weighted and plain distances, NDCG with the paper's discount. Without
options: protocol "struct", NDCG@100 and the default C. Prints the mean difference on the same splits
and its standard error, as if the splits of a data set were independent. The results are in
experiments/results/structhash_losses.json.

--held-out learns from 1,400 training samples and ranks the other 600 for each other (NDCG@50). C is
a multiple of the smallest value at which the first bit has a weight.
"""

import argparse

import numpy as np
from _results import RESULTS, mean_text, rank, store
from _splits import hold_out_samples

from skhash import StructHashHasher
from skhash.datasets import load_dataset

NBITS = 64
LOSSES = ("ndcg", "auc")
DEFAULT_FACTOR = StructHashHasher._default_c_factor
FACTORS = (7, DEFAULT_FACTOR, 50, 150)


def run(data, objective, factor, seed, k):
    """Weighted and plain NDCG@k and the minimized loss, with C at `factor` times the smallest useful value."""
    options = {"objective": objective, "store_database": False, "random_state": seed}
    C = None  # the default
    if factor != DEFAULT_FACTOR:
        C = factor / DEFAULT_FACTOR * StructHashHasher(1, **options).fit(data.X_train, data.y_train).C_
    hasher = StructHashHasher(NBITS, C=C, **options).fit(data.X_train, data.y_train)
    result = {"seed": seed, "hinge": hasher.history_[-1]["loss"]}
    for name, weighted in {"ndcg": True, "plain_ndcg": False}.items():
        (result[name],) = rank(hasher, data, [f"ndcg_at_{k}_delayed_log2"], weighted=weighted).values()
    return result


def difference(results, name):
    """Text of the better loss, and of the mean difference on the same splits with its standard error."""
    ndcg, auc = ([result[name] for result in results if result["method"] == f"{loss} loss"] for loss in LOSSES)
    differences = np.subtract(ndcg, auc)
    leader = LOSSES[int(differences.mean() < 0)]
    error = f"{differences.std(ddof=1) / np.sqrt(len(ndcg)):.4f}" if len(ndcg) > 1 else "unknown with one split"
    return f"{leader} loss by {abs(differences.mean()):.4f} (standard error {error})"


def run_losses(dataset, splits, factor, k):
    """Results of both losses on each split."""
    results = []
    for loss in LOSSES:
        setting = {"dataset": dataset, "nbits": NBITS, "k": k, "method": f"{loss} loss"}
        new = [setting | run(data, loss, factor, seed, k) for seed, data in enumerate(splits)]
        print(
            f"{dataset:10} C {factor:3g} x smallest, {loss:4} loss: NDCG@{k} {mean_text(new, 'ndcg')}, "
            f"plain {mean_text(new, 'plain_ndcg')}, minimized loss {mean_text(new, 'hinge')}",
            flush=True,
        )
        results += new
    print(f"  better: {difference(results, 'ndcg')}; plain: {difference(results, 'plain_ndcg')}")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["usps", "mnist", "cifar_gist"])
    parser.add_argument("--held-out", action="store_true", help="compare on training samples, with several values of C")
    parser.add_argument("--seeds", type=int, help="random splits; 10, or 5 for --held-out")
    options = parser.parse_args()
    n_seeds = options.seeds or (5 if options.held_out else 10)
    for dataset in options.datasets:
        splits = [load_dataset(dataset, protocol="struct", random_state=seed) for seed in range(n_seeds)]
        if options.held_out:
            for factor in FACTORS:
                run_losses(dataset, [hold_out_samples(data, seed) for seed, data in enumerate(splits)], factor, k=50)
        else:
            results = run_losses(dataset, splits, DEFAULT_FACTOR, k=100)
            store(RESULTS / "structhash_losses.json", results, ("dataset", "method"))


if __name__ == "__main__":
    main()
