"""Curves and codes of a fitted hasher, as stored results, and their figures."""

from functools import lru_cache

import numpy as np
from _common import heading
from skhash.datasets import load_dataset
from skhash.displays import CodeMapDisplay, PrecisionAtNDisplay, PrecisionRecallDisplay
from skhash.metrics import (
    evaluate_histograms,
    precision_recall_curve,
    relevance_histogram,
)

METRICS = ["ap", "ap_worst", "ap_best", "precision_radius_2", "precision_at_10"]
RANKS = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000]
IMAGES = "cifar10_efficientnet1280"
CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
NAMES = {IMAGES: CLASSES.split()}


@lru_cache(maxsize=1)
def load(dataset, seed):
    """Split of a data set, with 5,000 training samples."""
    protocol = "5k" if dataset == IMAGES else None  # of the other data sets by default
    return load_dataset(dataset, protocol=protocol, random_state=seed)


def measure_curves(hasher, data, curves):
    """Metrics of a fitted hasher on a split, and on request its curves of precision."""
    codes = hasher.encode(data.X_query), hasher.encode(data.X_database)
    targets = data.y_query, data.y_database, data.affinity
    H = relevance_histogram(*codes, *targets, nbits=hasher.nbits)
    result = evaluate_histograms([H], METRICS)
    if curves:
        at_n = evaluate_histograms([H], [f"precision_at_{n}" for n in RANKS])
        precision, recall, _ = precision_recall_curve(H)
        lists = {"precision": precision, "recall": recall, "at_n": [*at_n.values()]}
        result |= {name: np.round(values, 4).tolist() for name, values in lists.items()}
    return result


def sample_codes(hasher, data, n_samples=500):
    """Codes of the first queries as hexadecimal numbers, and their classes."""
    codes = [code.tobytes().hex() for code in hasher.encode(data.X_query[:n_samples])]
    return {"codes": codes, "classes": data.y_query[:n_samples].tolist()}


def plot_curves(study):
    """Plot precision against recall, and precision at N, on each data set."""
    for key in ("precision", "at_n"):
        for results, ax in study.panels():
            results = [result for result in results if key in result]
            methods = list(dict.fromkeys(result["method"] for result in results))
            precision, recall, at_n = (
                [_mean(results, method, name) for method in methods]
                for name in ("precision", "recall", "at_n")
            )
            if key == "precision":
                PrecisionRecallDisplay(precision, recall, methods).plot(ax=ax)
            else:
                ranks = [RANKS] * len(methods)
                PrecisionAtNDisplay(ranks, at_n, methods).plot(ax=ax)
            ax.set_title(f"{ax.get_title()}, {results[0]['nbits']} bits")


def plot_code_maps(study, figsize):
    """Plot stored codes in the plane, a figure for each data set and number of bits."""
    from matplotlib import pyplot

    results = [result for result in study.select(seed=0) if "codes" in result]
    groups = {}
    for result in results:
        groups.setdefault((result["dataset"], result["nbits"]), []).append(result)
    for (dataset, nbits), group in groups.items():
        figure, axes = pyplot.subplots(
            1, len(group), figsize=figsize, layout="constrained"
        )
        figure.suptitle(f"{heading(dataset)}, {nbits} bits")
        for ax, result in zip(axes, group, strict=True):
            codes = [list(bytes.fromhex(code)) for code in result["codes"]]
            names = np.array(NAMES.get(dataset, range(10)))
            y = names[result["classes"]]
            CodeMapDisplay.from_codes(np.array(codes, np.uint8), y, nbits=nbits, ax=ax)
            ax.set_title(result["method"])


def _mean(results, method, key):
    """Mean of a curve of a method over the seeds."""
    return np.mean(
        [result[key] for result in results if result["method"] == method], axis=0
    )
