"""Plots of the cards of the front page: recall against bytes, images that are found, and AP_T against bits."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from results import ROOT, read_results

from skhash import TALRHasher
from skhash.datasets import load_dataset
from skhash.neighbors import HammingNeighbors

SIZE = (3.6, 2.6)
TEAL, ORANGE, GRAY = "#0a7d91", "#d9480f", "#6b7280"


def embeddings():
    """Plot R@10 of WordNet against bytes, of two hashers and of the signs of the vectors."""
    results = read_results(ROOT / "experiments/results/neighbors/wordnet.json")
    names = {"embedding": ("Embedding", TEAL), "itq": ("ITQ", ORANGE), "centered-sign": ("signs", GRAY)}
    _, axes = plt.subplots(figsize=SIZE, layout="constrained")
    for method, (label, color) in names.items():
        sizes = [16, 32, 48]
        chosen = [[r for r in results if (r["method"], r["bytes_per_item"]) == (method, size)] for size in sizes]
        means = [np.mean([result["real_neighbor_recall_at_10"] for result in group]) for group in chosen]
        axes.plot(sizes, means, "o-", color=color, label=label)
    axes.set_xticks(sizes, [f"{size} bytes" for size in sizes])
    axes.set(ylabel="recall of 10 neighbors", ylim=(0, 1))
    axes.legend(frameon=False, loc="lower right")


def images():
    """Plot three digits and the five nearest ones by codes of 32 bits."""
    data = load_dataset("digits")
    index = HammingNeighbors(TALRHasher(32, n_epochs=20, random_state=0)).fit(data.X_database, data.y_database)
    chosen = [np.flatnonzero(data.y_query == digit)[0] for digit in (3, 5, 8)]
    _, found = index.kneighbors(data.X_query[chosen], 5)
    _, axes = plt.subplots(3, 6, figsize=SIZE, layout="constrained")
    for query, line, items in zip(chosen, axes, found, strict=True):
        samples = [data.X_query[query], *data.X_database[items]]
        for ax, sample in zip(line, samples, strict=True):
            ax.imshow(np.reshape(sample, (8, 8)), cmap="gray_r")
            ax.set_axis_off()
        for ax, item in zip(line[1:], items, strict=True):
            color = TEAL if data.y_database[item] == data.y_query[query] else ORANGE
            ax.add_patch(Rectangle((-0.5, -0.5), 8, 8, fill=False, edgecolor=color, linewidth=2))
    axes[0, 0].set_title("query", fontsize=10)
    axes[0, 3].set_title("found", fontsize=10)


def labels():
    """Plot AP_T of the digits against bits, with the range of the orders of ties."""
    results = read_results(ROOT / "experiments/results/digits.json")
    nbits = sorted({result["nbits"] for result in results})
    _, axes = plt.subplots(figsize=SIZE, layout="constrained")
    for method, color in {"talr": TEAL, "itq": ORANGE, "lsh": GRAY}.items():
        values = {
            key: [np.mean([r[key] for r in results if (r["method"], r["nbits"]) == (method, bits)]) for bits in nbits]
            for key in ("ap", "ap_worst", "ap_best")
        }
        axes.fill_between(nbits, values["ap_worst"], values["ap_best"], color=color, alpha=0.2, linewidth=0)
        axes.plot(nbits, values["ap"], "o-", color=color, label=method.upper())
    axes.set_xscale("log", base=2)
    axes.set_xticks(nbits, [f"{bits}" for bits in nbits])
    axes.set(xlabel="bits", ylabel="average precision", ylim=(0, 1))
    axes.legend(frameon=False, loc="lower right", ncols=3)
