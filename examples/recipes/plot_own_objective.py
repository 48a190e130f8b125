"""
Compare a loss of your own
==========================

A new method is a loss of one batch. skhash does everything else: training, codes, metrics and
tuning. This script compares a loss of its own with TALR and CSQ, with the same number of
candidates for the parameters of each, and says which differences are real.
"""

# %%
# The loss, and a hasher that learns with it
# ------------------------------------------
#
# The loss is that of neighborhood components analysis. A sample picks another one with a
# probability that grows with the inner product of their activations, and it should pick a
# relevant one. `QuantizedObjective` adds a penalty for activations far from -1 and 1. The
# recipes are the defaults, chosen on training samples: steps, batch size, learning rate,
# weight decay, weight of the penalty.

import warnings
from functools import partial

import matplotlib.pyplot as plt
import torch
from skhash.comparison import (
    Result,
    differences_table,
    evaluate_hasher,
    find_differences,
    make_hasher,
)
from skhash.comparison.tuning import best_candidate, tune
from skhash.datasets import load_dataset
from skhash.displays import MetricByBitsDisplay
from skhash.exceptions import DegenerateCodesWarning
from skhash.hashers.deep import QuantizedDeepHasher, QuantizedObjective
from skhash.registry import METHODS

warnings.simplefilter("ignore", DegenerateCodesWarning)  # of some candidates


class NeighborLoss(QuantizedObjective):
    """Minus the log-probability that a sample picks a relevant one."""

    def data_loss(self, u, relevance):
        """Loss of the activations of a batch, of shape (n_batch, nbits)."""
        relevant = torch.as_tensor(relevance.levels()[0] > 0)
        itself = torch.eye(len(u), dtype=torch.bool)
        scores = (4 / u.shape[1] * u @ u.T).masked_fill(itself, -torch.inf)
        hits = scores.masked_fill(~relevant, -torch.inf)
        return (scores.logsumexp(1) - hits.logsumexp(1)).mean()


class NeighborHasher(QuantizedDeepHasher):
    """Hasher that learns with the loss above."""

    _recipes = {
        "linear": (500, 256, 0.03, 0.5, 1.0),
        "deep": (500, 256, 0.003, 0.5, 1.0),
    }

    def _objective(self):
        return NeighborLoss(self.settings_["quantization_weight"])


# %%
# The same budget for each method
# -------------------------------
#
# `tune` divides the training samples, and compares the default with three random candidates.
# The queries are not used. The own method searches the same parameters as CSQ.


def make(method, nbits, seed, affinity, **parameters):
    """Hasher of a method."""
    if method == "mine":
        return NeighborHasher(nbits, random_state=seed, affinity=affinity, **parameters)
    return make_hasher(method, nbits, seed, affinity, **parameters)


results = []
for seed in range(2):
    data = load_dataset("digits", random_state=seed)
    names = {"dataset": data.name, "protocol": str(data.protocol), "seed": seed}
    for nbits in (16, 32):
        for method in ("mine", "talr", "csq"):
            space = METHODS["csq" if method == "mine" else method].search_space
            new = partial(make, method, nbits, seed, data.affinity, n_epochs=30)
            best = best_candidate(tune(new, space, data, budget=4, seed=seed))
            values = evaluate_hasher(new(**best.parameters), data, details=True)
            entry = {"method": method, "nbits": nbits, "parameters": best.parameters}
            results.append(Result.from_dict(names | entry | values))

MetricByBitsDisplay.from_results(results)
plt.show()

# %%
# Which differences are real
# --------------------------
#
# :doc:`/guide/comparing` says what the columns mean.

differences = find_differences(results, "ap", baseline="mine")
print(differences_table(differences).partition("\n\n")[0])
