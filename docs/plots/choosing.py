"""Plots of the page on choosing a method: the digits of scikit-learn, one split, default settings."""

from functools import cache

import matplotlib.pyplot as plt

import skhash
from skhash.datasets import load_dataset
from skhash.metrics import average_precision, precision, relevance_histogram

NBITS = [8, 16, 32, 64]
UNSUPERVISED = {"LSH": "#6b7280", "PCA": "#2b8a3e", "ITQ": "#d9480f", "AGH": "#7048b6"}
SUPERVISED = {"TALR": "#0a7d91", "ITQ-CCA": "#b08900", "SDH": "#c2255c"}


@cache
def _histogram(name, nbits):
    data = load_dataset("digits")
    hasher = getattr(skhash, f"{name.replace('-', '')}Hasher")(nbits)
    parameters = {"random_state": 0} | ({"n_epochs": 20} if name == "TALR" else {})
    hasher.set_params(**parameters).fit(data.X_train, data.y_train)
    queries, database = hasher.transform(data.X_query), hasher.transform(data.X_database)
    return relevance_histogram(queries, database, data.y_query, data.y_database)


def methods():
    """Plot AP_T against the number of bits, without and with labels."""
    _, panels = plt.subplots(1, 2, figsize=(5.6, 3.9), sharey=True, layout="constrained")
    for axes, names, title in zip(panels, (UNSUPERVISED, SUPERVISED), ("no labels", "labels"), strict=True):
        for name, color in names.items():
            values = [average_precision(_histogram(name, nbits)) for nbits in NBITS]
            axes.plot(NBITS, values, "o-", color=color, label=name, clip_on=False)
        axes.set_xscale("log", base=2)
        axes.set_xticks(NBITS, NBITS)
        axes.set(title=title, xlabel="bits", ylim=(0, 1))
        axes.legend(frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.25))
    panels[0].set_ylabel("AP_T")


def radius():
    """Plot AP_T and the precision within radius 2 against the number of bits."""
    _, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    for name, color in (("ITQ", UNSUPERVISED["ITQ"]), ("TALR", SUPERVISED["TALR"])):
        ranked = [average_precision(_histogram(name, nbits)) for nbits in NBITS]
        inside = [precision(_histogram(name, nbits), radius=2) for nbits in NBITS]
        axes.plot(NBITS, ranked, "o-", color=color, label=f"{name}: AP_T")
        axes.plot(NBITS, inside, "s--", color=color, label=f"{name}: P@radius 2")
    axes.set_xscale("log", base=2)
    axes.set_xticks(NBITS, NBITS)
    axes.set(xlabel="bits", ylim=(0, 1))
    axes.legend(frameon=False, ncols=2, loc="lower left")
