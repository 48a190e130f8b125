"""
TALR, appendix C: errors of the relaxations
===========================================

He, Cakir, Bargal and Sclaroff (CVPR 2018) train on relaxations of AP_T and DCG_T: sums over the
ranks inside a tie become integrals, and their released code simplifies these further. skhash
trains on the metric itself, because its closed form is already smooth. This measures the errors of
both relaxations on the soft histograms of training batches.

Without arguments this runs on the digits of scikit-learn. The full form runs on the training
samples of CIFAR-10 GIST features and MNIST, and takes about 2 minutes on two cores::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_talr_appendix_c.py --full
"""

# %%
# Soft histograms
# ---------------
#
# The activations of a batch give soft distances. Each is divided between the two nearest bins, so
# integer distances give integer counts. The same histogram is the input of
# :func:`skhash.metrics.average_precision`, which is exact, and of the relaxations.

from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
import torch
from _common import Study
from skhash import LSHHasher, TALRHasher
from skhash.affinity import Relevance
from skhash.datasets import load_dataset
from skhash.displays import MetricByBitsDisplay
from skhash.hashers.deep import soft_metric
from skhash.metrics.soft_histogram import soft_histogram

study = Study("talr_appendix_c", "TALR, appendix C: errors of the relaxations")

DATASETS, NBITS = ["cifar_gist", "mnist"], [16, 32, 48, 64]
if not study.full:
    DATASETS, NBITS = ["digits"], [16, 64]
STAGES = {
    "first step": LSHHasher,
    "trained": TALRHasher,
}  # random directions, and those after training

split = lru_cache(maxsize=1)(load_dataset)


def activations(hasher, data, n_epochs):
    """Activations of a hasher for a batch of 256 training samples, as in training."""
    if hasattr(hasher, "n_epochs"):
        hasher.set_params(n_epochs=n_epochs)
    projected = hasher.fit(data.X_train, data.y_train).project(data.X_train[:256])
    return np.tanh(projected / projected.std())


def errors(dataset, seed, nbits, stage):
    """Mean absolute errors of both relaxations, on soft and on integer counts."""
    data = split(dataset, random_state=seed)
    phi = activations(
        STAGES[stage](nbits, random_state=seed), data, 30 if study.full else 5
    )
    index, levels = Relevance.of(data.y_train[:256], data.affinity).levels()
    np.fill_diagonal(index, 0)  # no sample is relevant to itself
    results = []
    for counts, codes in {"soft": phi, "whole": np.where(phi >= 0, 1.0, -1.0)}.items():
        distances = torch.from_numpy((nbits - codes @ codes.T) / 2)
        H = soft_histogram(
            distances,
            torch.from_numpy(index.astype(np.int64)),
            levels,
            max_distance=nbits,
        )
        for metric in ("ap", "ndcg"):
            exact = soft_metric(H, metric)
            for relaxation in ("paper", "simplified"):
                error = (soft_metric(H, metric, relaxation) - exact).abs().mean().item()
                results.append(
                    {
                        "method": f"{metric}, {relaxation}",
                        "counts": counts,
                        "error": error,
                    }
                )
    return results


study.run(errors, dataset=DATASETS, seed=study.seeds, nbits=NBITS, stage=STAGES)

# %%
# Errors of the relaxations
# -------------------------
#
# On integer counts the exact objective *is* the metric. The relaxations alone are singular in the
# first tie of each ranking. skhash computes this tie exactly, and the errors below include this
# correction. The paper states the order of the error of a tie, n / (2 N²) for n items behind
# N others, and no measured errors that we know of.

for stage in STAGES:
    for counts in ("soft", "whole"):
        print(f"mean absolute error on {counts} counts, {stage}")
        study.table("error", stage=stage, counts=counts)
study.print_cost()

# %%
# Errors by number of bits
# ------------------------
#
# With more bits the ties are smaller. The error of the simplified form, which evaluates a tie at
# its middle, decreases. The error of the paper's integrals, which approximate sums over many
# ranks, increases.

for results, ax in study.panels(stage="trained", counts="soft"):
    MetricByBitsDisplay.from_results(results, metric="error", ax=ax)
    ax.set(ylabel="mean absolute error", yscale="log")
plt.show()
