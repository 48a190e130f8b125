"""Plots of the page on finding items: what a query costs, and how many candidates a recall takes."""

import json

import matplotlib.pyplot as plt
from results import ROOT
from sklearn.datasets import load_digits

from skhash import ITQHasher
from skhash.displays import RecallByCandidatesDisplay
from skhash.neighbors import choose_code


def candidates():
    """Plot the recall of the ten nearest digits against the number of candidates."""
    X, _ = load_digits(return_X_y=True)
    hasher = ITQHasher(random_state=0)
    chosen = choose_code(hasher, X, nbits=(16, 32, 64, 128), candidates=(10, 20, 40, 80, 160), random_state=0)
    RecallByCandidatesDisplay.from_choice(chosen)


def cost():
    """Plot the CPU time of a query against the number of items, as `benchmarks/search.py --json` has measured it."""
    stored = json.loads((ROOT / "experiments/results/search.json").read_text())
    rows = [row for row in stored["rows"] if row["bits"] == 64 and row["k"] == 10]
    _, axes = plt.subplots()
    for color, (n_queries, kind) in enumerate([(1, "one query"), (128, "in a batch")]):
        chosen = [row for row in rows if row["queries"] == n_queries]
        items = [row["items"] for row in chosen]
        for name, style in (("skhash", "-"), ("faiss", "--")):
            times = [row[f"{name}_ms"] / n_queries for row in chosen]
            axes.loglog(items, times, style, color=f"C{color}", marker=".", label=f"{name}, {kind}")
    axes.set(xlabel="items", ylabel="ms of CPU per query")
    axes.legend()
