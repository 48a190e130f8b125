"""
TALR, appendix C: what the relaxations are away from the metric
===============================================================

He, Cakir, Bargal and Sclaroff (CVPR 2018) train on relaxations of AP_T and DCG_T: sums over
the ranks inside a tie become integrals, and their released code simplifies once more.
skhash trains on the metric itself, for its closed form is smooth already. This measures
what either relaxation is away from it, on the soft histograms of training batches.

Without arguments this takes the digits of scikit-learn; the full form the training rows of
CIFAR-10 GIST features and MNIST, in about 2 minutes on two cores::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_talr_appendix_c.py --full
"""

# %%
# Soft histograms
# ---------------
#
# A batch of activations gives soft distances; each is shared between the two nearest bins,
# so that whole distances give whole counts. The same object goes to
# :func:`skhash.metrics.average_precision`, which is exact, and to the relaxations.

from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
import torch
from _common import Study

from skhash import LSHHasher, TALRHasher
from skhash.affinity import level_indices
from skhash.datasets import load_dataset
from skhash.displays import MetricByBitsDisplay
from skhash.hashers.deep.talr import soft_metric
from skhash.metrics.soft_histogram import soft_histogram

study = Study("talr_appendix_c", "TALR, appendix C: errors of the relaxations")

DATASETS, BITS = ["cifar_gist", "mnist"], [16, 32, 48, 64]
if not study.full:
    DATASETS, BITS = ["digits"], [16, 64]
STAGES = {"first step": LSHHasher, "trained": TALRHasher}  # random directions, and what training makes of them

split = lru_cache(maxsize=1)(load_dataset)


def activations(hasher, data, n_epochs):
    """Activations of a fitted hasher for a batch of 256 training rows, scaled as in training."""
    if hasattr(hasher, "n_epochs"):
        hasher.set_params(n_epochs=n_epochs)
    projected = hasher.fit(data.X_train, data.y_train).project(data.X_train[:256])
    return np.tanh(projected / projected.std())


def errors(dataset, seed, nbits, stage):
    """Mean absolute errors of both relaxations, on soft counts and on the whole ones of the codes."""
    data = split(dataset, random_state=seed)
    phi = activations(STAGES[stage](nbits, random_state=seed), data, 30 if study.full else 5)
    index, levels = level_indices(data.affinity, data.y_train[:256], data.y_train[:256])
    np.fill_diagonal(index, 0)  # no row is relevant to itself
    rows = []
    for counts, codes in {"soft": phi, "whole": np.where(phi >= 0, 1.0, -1.0)}.items():
        distances = torch.from_numpy((nbits - codes @ codes.T) / 2)
        H = soft_histogram(distances, torch.from_numpy(index.astype(np.int64)), levels, max_distance=nbits)
        for metric in ("ap", "ndcg"):
            exact = soft_metric(H, metric)
            for relaxation in ("paper", "simplified"):
                error = (soft_metric(H, metric, relaxation) - exact).abs().mean().item()
                rows.append({"method": f"{metric}, {relaxation}", "counts": counts, "error": error})
    return rows


study.run(errors, dataset=DATASETS, seed=study.seeds, nbits=BITS, stage=STAGES)

# %%
# Errors of the relaxations
# -------------------------
#
# On whole counts the exact objective *is* the metric. Plain relaxations would be singular in
# the first tie of every ranking; skhash keeps this tie exact, and the errors below are
# what is left after that patch. The paper's own errors are not at hand.

for stage in STAGES:
    for counts in ("soft", "whole"):
        print(f"mean absolute error on {counts} counts, {stage}")
        study.table("error", stage=stage, counts=counts)

# %%
# Errors by code length
# ---------------------
#
# With more bits the ties get smaller. The simplified forms, which take a tie at its middle,
# gain by that; the paper's integrals, which stand for sums over many ranks, lose.

for rows, ax in study.panels(stage="trained", counts="soft"):
    MetricByBitsDisplay.from_results(rows, metric="error", ax=ax)
    ax.set(ylabel="mean absolute error", yscale="log")
plt.show()
