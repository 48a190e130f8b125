"""
HashNet, table 2: queries of classes that training has not seen
===============================================================

A hasher that learns from classes may store little more than the class. Table 2 of Cao,
Long, Wang and Yu (ICCV 2017) therefore asks for classes that training has not seen: with
the labels of seven classes, are the images of the other three found?

Without arguments this runs on scikit-learn's digits; the full form takes MNIST and GIST
features of CIFAR-10, other data than the paper's, and about 45 minutes on two cores::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_hashnet_zero_shot.py --full
"""

# %%
# A split by classes
# ------------------
#
# The seed draws the unseen classes. The database keeps rows of all classes: what was
# trained for competes with what was not.

from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
from _common import Study, rank
from sklearn.utils import Bunch

from skhash.comparison import make_hasher
from skhash.datasets import load_dataset
from skhash.displays import MetricByBitsDisplay

study = Study("hashnet_zero_shot", "HashNet, table 2: zero-shot retrieval")

DATASETS, BITS, BRIEF = ["mnist", "cifar_gist"], [16, 32, 48, 64], {}
METHODS = ["hashnet-mlp", "dhn-mlp", "talr-mlp", "sdh", "ksh", "itq-cca", "itq", "lsh"]
if not study.full:
    DATASETS, BITS, BRIEF = ["digits"], [16, 32], {"n_epochs": 8}
    METHODS = ["hashnet-mlp", "talr-mlp", "sdh", "itq", "lsh"]
FIGURES = ["ap", "ap_worst", "ap_best"]


def zero_shot_split(data, n_unseen=3, random_state=0):
    """Keep training rows of some classes, and queries of the others.

    Parameters
    ----------
    data : Bunch
        As :func:`skhash.datasets.load_dataset` returns it, with class labels.
    n_unseen : int, default=3
        Number of classes that training does not see.
    random_state : int, default=0
        Draws them.

    Returns
    -------
    Bunch
        Of the same form, with ``unseen``, the classes. The database is the same.
    """
    unseen = np.random.default_rng(random_state).choice(np.unique(data.y_database), n_unseen, replace=False)
    kept, asked = ~np.isin(data.y_train, unseen), np.isin(data.y_query, unseen)
    rows = {"X_train": data.X_train[kept], "y_train": data.y_train[kept]}
    rows |= {"X_query": data.X_query[asked], "y_query": data.y_query[asked]}
    return Bunch(**data | rows, unseen=unseen)


data = zero_shot_split(load_dataset("digits"))
print(f"Unseen: {data.unseen}; {len(data.X_query)} queries, {len(data.X_train)} training rows of the other classes")

# %%
# Table 2
# -------

split = lru_cache(maxsize=1)(load_dataset)


def measure(dataset, seed, nbits, method):
    """Fit a method on the seen classes and rank the database for queries of the unseen ones."""
    data = zero_shot_split(split(dataset, random_state=seed), random_state=seed)
    hasher = make_hasher(method, nbits, seed, data.affinity)
    if "-mlp" in method:
        hasher.set_params(**BRIEF)
    return rank(hasher.fit(data.X_train, data.y_train), data, FIGURES)


study.run(measure, dataset=DATASETS, seed=study.seeds, nbits=BITS, method=METHODS)
study.table("ap", ties=True, note="The figures of the paper's table 2 are not at hand.")

# %%
# What labels of other classes are worth
# --------------------------------------
#
# ITQ and LSH have seen the same training rows, and none of their labels.

for rows, ax in study.panels():
    MetricByBitsDisplay.from_results(rows, metric="ap", ax=ax)
    ax.set_ylabel("AP$_T$ of unseen classes")
plt.show()
