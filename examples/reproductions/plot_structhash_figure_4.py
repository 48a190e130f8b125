"""
StructHash, figure 4: what the kernel gains, and KSH with the same kernel
=========================================================================

Figure 4 of Lin, Shen and Wu (ECCV 2014) gives StructHash the kernel hash functions of KSH:
with the same functions, a ranking measure as the loss is set against pairwise labels.

Without arguments this runs on scikit-learn's digits; the full form on USPS and GIST features
of CIFAR-10 under the paper's protocol, in about 15 minutes on two cores::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_structhash_figure_4.py --full
"""

# %%
# One fit, every length
# ---------------------
#
# StructHash finds its bits one after another and weighs all of them anew each time.
# ``truncate(m)`` is the hasher that ``nbits=m`` would have given, so that one fit makes the
# whole curve; KSH plans for a length and is fitted for each.

from functools import lru_cache

import matplotlib.pyplot as plt
from _common import Study, rank

from skhash import KSHHasher, StructHashHasher
from skhash.datasets import load_dataset
from skhash.displays import MetricByBitsDisplay

study = Study("structhash_figure_4", "StructHash, figure 4: kernels")

DATASETS, PROTOCOL, BITS, LISTS = ["usps", "cifar_gist"], "struct", [8, 16, 24, 32, 48, 64], {}
if not study.full:
    DATASETS, PROTOCOL, BITS = ["digits"], "holdout", [4, 8, 16]
    LISTS = {"n_relevant": 15, "n_irrelevant": 15, "n_queries": 300, "tol": 0.01}
FIGURES = ["ndcg_at_100_structhash", "precision_at_100", "ap"]

split = lru_cache(maxsize=1)(load_dataset)


def measure(dataset, seed, method):
    """Fit a method for all code lengths and rank the database by plain distances; a row a length."""
    data = split(dataset, protocol=PROTOCOL, random_state=seed)
    options = {"n_anchors": 300, "random_state": seed, "store_database": False}
    if method == "ksh":
        hashers = [KSHHasher(nbits, **options).fit(data.X_train, data.y_train) for nbits in BITS]
    else:
        functions = method.removeprefix("structhash, ")
        longest = StructHashHasher(BITS[-1], hash_function=functions, **options, **LISTS)
        longest.fit(data.X_train, data.y_train)
        hashers = [longest.truncate(nbits) for nbits in BITS]
    return [{"nbits": hasher.nbits, **rank(hasher, data, FIGURES, weighted=False)} for hasher in hashers]


METHODS = ["structhash, kernel", "structhash, linear", "ksh"]
study.run(measure, dataset=DATASETS, seed=study.seeds, method=METHODS)
study.table("ndcg_at_100_structhash", note="The values of the paper's figure are not at hand.")
study.table("ap")

# %%
# Figure 4
# --------

for rows, ax in study.panels():
    MetricByBitsDisplay.from_results(rows, metric="ndcg_at_100_structhash", ax=ax)
plt.show()
