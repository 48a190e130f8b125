"""
Shrink a set of embeddings 32-fold
==================================

A table of float vectors is there, and it is too large. What do its neighbours look like
after 8-bit, 4-bit and 1-bit scalar quantisation, and after hashing to as many bytes or
fewer? The answer depends on what a neighbour is *for*: the same rows that the floats would
find, or rows of the same kind.

The vectors are the 64 pixels of scikit-learn's digits, 256 bytes an item: put the
embeddings of your own model in their place, as a float array or a memmap.
"""

# %%
# The vectors, and two kinds of truth
# -----------------------------------
#
# The first truth is the floats themselves: the ten nearest rows of each query. Any function
# of two sets of targets is an affinity; here the targets are row numbers, to look up in a
# table. The second truth is the class.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from skhash import ITQHasher, TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.codes import binarize
from skhash.datasets import load_dataset
from skhash.metrics import average_precision, histogram_from_distances, recall, relevance_histogram

data = load_dataset("digits")
X, y, queries, query_y = data.X_database, data.y_database, data.X_query, data.y_query
row_numbers = np.arange(len(queries)), np.arange(len(X))

nearest = NearestNeighbors(n_neighbors=10).fit(X).kneighbors(queries, return_distance=False)
is_nearest = np.zeros((len(queries), len(X)), dtype=np.int64)
np.put_along_axis(is_nearest, nearest, 1, axis=1)


def among_the_nearest(query_rows, rows):
    """Level 1 for rows that are among the ten nearest float vectors of a query."""
    return is_nearest[np.ix_(query_rows, rows)]


# %%
# From distances or from codes, all metrics come from a histogram of relevance.


def measure(count, *ranked):
    """Recall of the ten true neighbours at ranks 10 and 100, and AP_T of the classes."""
    by_floats = count(*ranked, *row_numbers, affinity=among_the_nearest)
    by_class = count(*ranked, query_y, y)
    return recall(by_floats, k=10), recall(by_floats, k=100), average_precision(by_class)


results = {"floats": {X.shape[1] * 4: measure(histogram_from_distances, pairwise_distances(queries, X))}}

# %%
# Scalar quantisation
# -------------------
#
# Each feature is rounded to 256 or 16 steps between its extremes, and distances are those
# of the rounded values; the last bit that remains is the sign of the centred feature.

low, high = X.min(axis=0), X.max(axis=0)
width = np.where(high > low, high - low, 1)
results["scalar"] = {}
for bits in (8, 4):
    steps = 2**bits - 1
    rounded, rounded_queries = (np.round((rows - low) / width * steps) / steps * width for rows in (X, queries))
    distances = pairwise_distances(rounded_queries, rounded)
    results["scalar"][X.shape[1] * bits // 8] = measure(histogram_from_distances, distances)

signs = [binarize(rows - X.mean(axis=0)) for rows in (queries, X)]
results["sign"] = {X.shape[1] // 8: measure(relevance_histogram, *signs)}

# %%
# Learned codes
# -------------
#
# ITQ rotates principal components so that their signs lose little. TALR learns the ranking
# itself: with `DistanceAffinity` that of the float distances, without labels, and with
# labels that of the classes. 64 bits are 8 bytes, a 32nd of the floats.

LENGTHS = (16, 32, 64)
for nbits in LENGTHS:
    hashers = {
        "ITQ": ITQHasher(nbits, random_state=0).fit(X),
        "TALR on distances": TALRHasher(
            nbits, objective="ndcg", affinity=DistanceAffinity(), n_epochs=15, random_state=0
        ).fit(X),
        "TALR on labels": TALRHasher(nbits, n_epochs=15, random_state=0).fit(X, y),
    }
    for name, hasher in hashers.items():
        figures = measure(relevance_histogram, hasher.transform(queries), hasher.transform(X))
        results.setdefault(name, {})[nbits // 8] = figures

# %%
# What is left
# ------------

print(f"{'':18} {'bytes':>5}  recall@10  recall@100  AP_T of classes")
for name, by_size in results.items():
    for size, figures in by_size.items():
        print(f"{name:18} {size:5}  {figures[0]:9.3f}  {figures[1]:10.3f}  {figures[2]:15.3f}")

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for ax, place, title in zip(axes, (0, 2), ("recall@10 of the float neighbours", "AP$_T$ of the classes"), strict=True):
    for name, by_size in results.items():
        ax.plot(list(by_size), [figures[place] for figures in by_size.values()], "o-", label=name)
    ax.set_xscale("log", base=2)
    ax.set_xticks([2, 4, 8, 32, 64, 256], ["2", "4", "8", "32", "64", "256"])
    ax.set(xlabel="bytes per item", title=title)
    ax.grid(color="0.9")
axes[0].legend(frameon=False)
plt.show()

# %%
# Four bits a feature lose next to nothing, at an eighth of the bytes. Below one bit a feature
# what was learned decides: codes that were trained on distances find more of the true neighbours
# than ITQ in the same bytes, and codes that were trained on labels rank the classes better than
# the floats do, in a hundredth of their bytes, because they forget everything else.
