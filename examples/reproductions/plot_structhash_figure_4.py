"""
StructHash, figure 4: kernel functions, and KSH with the same functions
=======================================================================

In figure 4 of Lin, Shen and Wu (ECCV 2014) StructHash has the kernel hash functions of KSH. With
the same functions, it compares a loss of rankings with a loss of pairs.

In the paper StructHash with kernel functions is above StructHash with linear ones and above KSH. Both
orders hold here, on both data sets and with each number of bits, over three splits: by NDCG and 64 bits
the gains are 0.034 and 0.008 on USPS, and 0.024 and 0.033 on GIST features.

Without arguments this runs on scikit-learn's digits. The full form runs on USPS and GIST features
of CIFAR-10 under the protocol of the paper, and takes about 5 minutes on two cores::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_structhash_figure_4.py --full
"""

# %%
# One fit for all numbers of bits
# -------------------------------
#
# StructHash learns one bit after another, and the weights of all bits after each. ``prefix(m)``
# returns the hasher of ``nbits=m``, so one fit gives the whole curve. KSH depends on the
# number of bits and is fitted for each.

from functools import lru_cache

import matplotlib.pyplot as plt
from _common import Study, rank
from _lengths import fit_lengths
from skhash.datasets import load_dataset
from skhash.displays import MetricByBitsDisplay

study = Study("structhash_figure_4", "StructHash, figure 4: kernels")

DATASETS, PROTOCOL, ALL_NBITS, LISTS = (
    ["usps", "cifar_gist"],
    "struct",
    [8, 16, 24, 32, 48, 64],
    {},
)
METHODS = ["structhash, kernel", "structhash, linear", "ksh"]
FULL = {"planned": dict.fromkeys(DATASETS, METHODS), "columns": ALL_NBITS}
if not study.full:
    DATASETS, PROTOCOL, ALL_NBITS = ["digits"], "holdout", [4, 8, 16]
    LISTS = {"n_relevant": 15, "n_irrelevant": 15, "n_queries": 300, "tol": 0.01}
METRICS = ["ndcg_at_100_delayed_log2", "precision_at_100", "ap"]

split = lru_cache(maxsize=1)(load_dataset)


def measure(dataset, seed, method):
    """Metrics of a method by plain distances, one result per number of bits."""
    data = split(dataset, protocol=PROTOCOL, random_state=seed)
    name, _, functions = method.partition(", ")
    options = {"n_anchors": 300}
    if name == "structhash":
        options |= {"hash_function": functions, **LISTS}
    hashers = fit_lengths(name, ALL_NBITS, data, seed, **options)
    return [
        {"nbits": hasher.nbits, **rank(hasher, data, METRICS, weighted=False)}
        for hasher in hashers
    ]


study.run(measure, dataset=DATASETS, seed=study.seeds, method=METHODS)
study.table(
    "ndcg_at_100_delayed_log2",
    **FULL,
    note="The paper shows a plot of other data, and no numbers. Tuning: one candidate "
    "per method, its defaults, with the 300 support vectors of the paper.",
)
study.table("ap", **FULL)
study.print_cost()

# %%
# Figure 4
# --------

for results, ax in study.panels():
    MetricByBitsDisplay.from_results(results, metric="ndcg_at_100_delayed_log2", ax=ax)
plt.show()
