"""Plots of the page on ties. skhash computes all values in them."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

from skhash import ITQHasher, LSHHasher
from skhash.metrics import average_precision, histogram_from_distances, relevance_histogram

RELEVANT, OTHER, DARK, ACCENT = "#0a7d91", "#b9c0cb", "#33363d", "#d9480f"

# One query and ten items: the Hamming distances of the items, and which items are relevant.
DISTANCES = np.array([1, 1, 1, 2, 2, 2, 2, 3, 3, 3])
IS_RELEVANT = np.array([1, 1, 0, 1, 0, 0, 1, 1, 0, 0], dtype=bool)


def orders():
    """Plot three orders of the ties of one query, with their AP."""
    H = histogram_from_distances(DISTANCES[None], levels=IS_RELEVANT[None])
    worst = np.lexsort((IS_RELEVANT, DISTANCES))
    best = np.lexsort((~IS_RELEVANT, DISTANCES))
    rankings = [
        (best, f"best order: AP = {average_precision(H, ties='best'):.3f}"),
        (np.arange(10), "another order: AP = " + _ap_of(np.arange(10))),
        (worst, f"worst order: AP = {average_precision(H, ties='worst'):.3f}"),
    ]
    _, axes = plt.subplots(figsize=(5.8, 3.6), layout="constrained")
    for y, (order, label) in enumerate(rankings):
        axes.text(-0.4, -y * 1.7 + 0.55, label, color=DARK)
        for x, item in enumerate(order):
            _item(axes, x, -y * 1.7, IS_RELEVANT[item])
    for start, stop in ((0, 3), (3, 7), (7, 10)):
        axes.plot([start - 0.4, stop - 0.6], [-4, -4], color=DARK, lw=1.5)
        axes.text((start + stop - 1) / 2, -4.15, f"distance {DISTANCES[start]}", ha="center", va="top", color=DARK)
    axes.set(xlim=(-0.6, 9.6), ylim=(-4.7, 1.1), title=f"mean over all orders: AP_T = {average_precision(H):.3f}")
    axes.set_axis_off()


def _ap_of(order):
    return f"{average_precision_score(IS_RELEVANT[order], -np.arange(10)):.3f}"


def _item(axes, x, y, relevant):
    axes.add_patch(plt.Rectangle((x - 0.4, y - 0.38), 0.8, 0.8, color=RELEVANT if relevant else OTHER))
    if relevant:
        axes.text(x, y, "R", ha="center", va="center", color="white", fontweight="bold")


def _codes(hasher):
    X, y = load_digits(return_X_y=True)
    X_database, X_query, y_database, y_query = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    hasher.fit(X_database)
    return hasher.transform(X_query), hasher.transform(X_database), y_query, y_database


def one_ranking():
    """Plot the ties of one query as bars."""
    queries, database, y_query, y_database = _codes(ITQHasher(16, random_state=0))
    H = relevance_histogram(queries[:1], database, y_query[:1], y_database)
    others, relevant = H.counts[0].T
    _, axes = plt.subplots(figsize=(5.8, 3.4), layout="constrained")
    axes.bar(range(17), relevant, color=RELEVANT, label="same digit")
    axes.bar(range(17), others, bottom=relevant, color=OTHER, label="another digit")
    for distance, n in enumerate(others + relevant):
        if n:
            axes.text(distance, n + 4, n, ha="center", fontsize=9, color=DARK)
    axes.set(xlabel="Hamming distance (16 bits)", ylabel="database items", xticks=range(0, 17, 2))
    axes.legend(frameon=False)


def random_orders():
    """Plot AP of one query under 2,000 random orders of its ties."""
    queries, database, y_query, y_database = _codes(ITQHasher(16, random_state=0))
    H = relevance_histogram(queries[:1], database, y_query[:1], y_database)
    distances = (queries[0] != database).sum(axis=1)
    relevant = y_query[0] == y_database
    rng = np.random.default_rng(0)
    ranks = np.arange(1, len(database) + 1)
    values = []
    for _ in range(2000):
        order = np.lexsort((rng.random(len(database)), distances))
        hits = relevant[order]
        values.append((np.cumsum(hits)[hits] / ranks[hits]).mean())
    _, axes = plt.subplots(figsize=(5.8, 3.4), layout="constrained")
    axes.hist(values, bins=50, color=OTHER)
    lines = {
        "worst": (average_precision(H, ties="worst"), ACCENT, "--"),
        "AP_T": (average_precision(H), RELEVANT, "-"),
        "best": (average_precision(H, ties="best"), ACCENT, "--"),
        "scikit-learn": (average_precision_score(relevant, -distances), DARK, ":"),
    }
    top = axes.get_ylim()[1]
    for name, (value, color, style) in lines.items():
        axes.axvline(value, color=color, ls=style, lw=2)
        axes.annotate(
            f"{name}\n{value:.3f}", (value, top), (0, 4), textcoords="offset points", ha="center", color=color
        )
    axes.set(xlabel="average precision of one query", ylabel="tie orders", ylim=(0, top))


def tie_range_by_bits():
    """Plot the tie range over all queries against the number of bits."""
    all_nbits = [4, 8, 12, 16, 24, 32, 48, 64, 96, 128]
    _, axes = plt.subplots(figsize=(5.8, 3.4), layout="constrained")
    for name, hasher, color in (("ITQ", ITQHasher, RELEVANT), ("LSH", LSHHasher, ACCENT)):
        values = []
        for nbits in all_nbits:
            queries, database, y_query, y_database = _codes(hasher(nbits, random_state=0))
            H = relevance_histogram(queries, database, y_query, y_database)
            values.append([average_precision(H, ties=ties) for ties in ("worst", "average", "best")])
        worst, average, best = np.transpose(values)
        axes.fill_between(all_nbits, worst, best, color=color, alpha=0.2, lw=0)
        axes.plot(all_nbits, average, "o-", color=color, label=f"{name}, AP_T; shaded: worst to best order")
    axes.set_xscale("log", base=2)
    axes.set(xlabel="bits", ylabel="average precision", xticks=[4, 8, 16, 32, 64, 128], ylim=(0, 1))
    axes.set_xticks([4, 8, 16, 32, 64, 128], ["4", "8", "16", "32", "64", "128"])
    axes.legend(frameon=False)
