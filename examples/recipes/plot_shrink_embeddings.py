"""
Make embeddings 32 times smaller
================================

A table of float vectors is too large. How good are its nearest neighbors after scalar
quantization to 8, 4 or 1 bits per feature, and after hashing to as many bytes or fewer? The
answer depends on the use of the neighbors: to find the same samples as the floats, or samples of
the same class.

The vectors are the 64 pixels of scikit-learn's digits, 256 bytes per sample. Replace them by some
thousand embeddings of your own model: this script compares every query with every vector. To learn
from all of them, and to search them, read :doc:`/guide/embeddings`.
"""

# %%
# The vectors, and two kinds of relevance
# ---------------------------------------
#
# First, the ten nearest float vectors of each query are relevant. Any function of two arrays of
# targets is an affinity; here the targets are indices, and the function looks them up in a
# table. Second, samples of the same class are relevant.

import matplotlib.pyplot as plt
import numpy as np
from skhash import ITQHasher, TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.codes import binarize
from skhash.datasets import load_dataset
from skhash.metrics import (
    average_precision,
    histogram_from_distances,
    recall,
    relevance_histogram,
)
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

data = load_dataset("digits")
X, y, queries, query_y = data.X_database, data.y_database, data.X_query, data.y_query
indices = np.arange(len(queries)), np.arange(len(X))

nearest = (
    NearestNeighbors(n_neighbors=10).fit(X).kneighbors(queries, return_distance=False)
)
is_nearest = np.zeros((len(queries), len(X)), dtype=np.int64)
np.put_along_axis(is_nearest, nearest, 1, axis=1)


def among_the_nearest(query_indices, indices):
    """Level 1 for samples among the ten nearest float vectors of a query."""
    return is_nearest[np.ix_(query_indices, indices)]


# %%
# All metrics are computed from a relevance histogram, of distances or of codes.


def measure(histogram, *ranked):
    """Recall of the ten nearest vectors at ranks 10 and 100, and AP_T of classes."""
    by_floats = histogram(*ranked, *indices, affinity=among_the_nearest)
    by_class = histogram(*ranked, query_y, y)
    return (
        recall(by_floats, k=10),
        recall(by_floats, k=100),
        average_precision(by_class),
    )


results = {
    "floats": {
        X.shape[1] * 4: measure(
            histogram_from_distances, pairwise_distances(queries, X)
        )
    }
}

# %%
# Scalar quantization
# -------------------
#
# Each feature is rounded to 256 or 16 values between its minimum and its maximum, and distances
# are those of the rounded vectors. With one bit, it is the sign of the centered feature.

low, high = X.min(axis=0), X.max(axis=0)
width = np.where(high > low, high - low, 1)
results["scalar"] = {}
for bits in (8, 4):
    steps = 2**bits - 1
    rounded, rounded_queries = (
        np.round((vectors - low) / width * steps) / steps * width
        for vectors in (X, queries)
    )
    distances = pairwise_distances(rounded_queries, rounded)
    results["scalar"][X.shape[1] * bits // 8] = measure(
        histogram_from_distances, distances
    )

signs = [binarize(vectors - X.mean(axis=0)) for vectors in (queries, X)]
results["sign"] = {X.shape[1] // 8: measure(relevance_histogram, *signs)}

# %%
# Learned codes
# -------------
#
# ITQ rotates the principal components so that their signs lose little. TALR learns the ranking
# itself: by float distances with `DistanceAffinity` and without labels, or by class with labels.
# 64 bits are 8 bytes, 1/32 of the floats.

for nbits in (16, 32, 64):
    hashers = {
        "ITQ": ITQHasher(nbits, random_state=0).fit(X),
        "TALR on distances": TALRHasher(
            nbits,
            objective="ndcg",
            affinity=DistanceAffinity(),
            n_epochs=15,
            random_state=0,
        ).fit(X),
        "TALR on labels": TALRHasher(nbits, n_epochs=15, random_state=0).fit(X, y),
    }
    for name, hasher in hashers.items():
        values = measure(
            relevance_histogram, hasher.transform(queries), hasher.transform(X)
        )
        results.setdefault(name, {})[nbits // 8] = values

# %%
# Results
# -------

print(f"{'':18} {'bytes':>5}  recall@10  recall@100  AP_T of classes")
for name, by_size in results.items():
    for size, (at_10, at_100, ap) in by_size.items():
        print(f"{name:18} {size:5}  {at_10:9.3f}  {at_100:10.3f}  {ap:15.3f}")

figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.6), layout="constrained")
for ax, i, title in zip(
    axes,
    (0, 2),
    ("recall@10 of the float neighbors", "AP$_T$ of the classes"),
    strict=True,
):
    for name, by_size in results.items():
        ax.plot(
            list(by_size), [values[i] for values in by_size.values()], "o-", label=name
        )
    ax.set_xscale("log", base=2)
    ax.set_xticks([2, 4, 8, 32, 64, 256], ["2", "4", "8", "32", "64", "256"])
    ax.set(xlabel="bytes per sample", title=title)
    ax.grid(color="0.9")
axes[0].legend(frameon=False)
plt.show()

# %%
# Eight bits per feature lose almost nothing, in 1/4 of the bytes. Four bits lose five of a hundred
# nearest vectors, and no AP_T. With one bit per feature or less, the training decides. Codes
# trained on distances find more of the float neighbors than ITQ in the same bytes. Codes trained
# on labels rank the classes better than the floats, in 1/100 of the bytes, because they store
# nothing else.
