"""
Make embeddings 32 times smaller
================================

A table of float vectors is too large. How good are its nearest neighbors after scalar quantization
to 8, 4 or 1 bits per feature, and after hashing to as many bytes or fewer? The answer depends on
what you search: the same items as with the floats, or items of the same class.

The vectors are embeddings of the glosses of WordNet by all-MiniLM-L6-v2, if their file
``wordnet_minilm384.npz`` is in the folder ``SKHASH_DATA``. It is too large to come with skhash.
Without it, the script uses scikit-learn's digits: 64 pixels of an image. Replace them by embeddings
of your own model. To search them, read :doc:`/guide/embeddings`.
"""

# %%
# The vectors, and two kinds of relevance
# ---------------------------------------
#
# The vectors have length 1, so their Euclidean distance ranks items as the cosine does. Some are
# held out as queries.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from skhash import EmbeddingHasher, ITQHasher, TALRHasher
from skhash.codes import binarize
from skhash.metrics import (
    average_precision,
    histogram_from_distances,
    recall,
    relevance_histogram,
)
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

path = Path(os.environ.get("SKHASH_DATA", "."), "wordnet_minilm384.npz")
if path.exists():
    name, (X, y) = "WordNet", (np.load(path)[key] for key in "Xy")
else:
    name, (X, y) = "digits", load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))[:4300]
X, y = normalize(X[order].astype(np.float32)), y[order]
queries, X, query_y, y = X[:300], X[300:], y[:300], y[300:]
print(f"{name}: {len(X):,} items of {X.shape[1]} features, {len(queries)} queries")

# %%
# First, the ten nearest float vectors of each query are relevant. Any function of two arrays of
# targets is an affinity; here the targets are indices, and the function looks them up in a
# table. Second, items of the same class are relevant.

indices = np.arange(len(queries)), np.arange(len(X))
nearest = (
    NearestNeighbors(n_neighbors=10).fit(X).kneighbors(queries, return_distance=False)
)
is_nearest = np.zeros((len(queries), len(X)), dtype=np.int64)
np.put_along_axis(is_nearest, nearest, 1, axis=1)


def among_the_nearest(query_indices, indices):
    """Level 1 for items among the ten nearest float vectors of a query."""
    return is_nearest[np.ix_(query_indices, indices)]


# %%
# All metrics are computed from a relevance histogram, of distances or of codes.

results = {}


def measure(name, n_bits, histogram, *ranked):
    """Recall of the ten nearest vectors at ranks 10 and 100, and AP_T of classes."""
    by_floats = histogram(*ranked, *indices, affinity=among_the_nearest)
    by_class = histogram(*ranked, query_y, y)
    values = recall(by_floats, k=10), recall(by_floats, k=100)
    values += (average_precision(by_class),)
    results.setdefault(name, {})[n_bits // 8] = values


n_features = X.shape[1]
distances = pairwise_distances(queries, X)
measure("floats", 32 * n_features, histogram_from_distances, distances)

# %%
# Scalar quantization
# -------------------
#
# Each feature is rounded to 256 or 16 values between its minimum and its maximum, and distances
# are those of the rounded vectors. With one bit, it is the sign of the centered feature.

low, high = X.min(axis=0), X.max(axis=0)
width = np.where(high > low, high - low, 1)
for bits in (8, 4):
    steps = 2**bits - 1
    rounded, rounded_queries = (
        np.round((vectors - low) / width * steps) / steps * width
        for vectors in (X, queries)
    )
    distances = pairwise_distances(rounded_queries, rounded)
    measure("scalar", bits * n_features, histogram_from_distances, distances)

signs = [binarize(vectors - X.mean(axis=0)) for vectors in (queries, X)]
measure("sign", n_features, relevance_histogram, *signs)

# %%
# Learned codes
# -------------
#
# ITQ rotates the principal components so that their signs lose little. EmbeddingHasher learns
# codes and real queries that keep the neighbors: a query is not rounded to bits, and ranks the
# codes by its inner product with them. TALR learns which items have the same class. One bit per
# feature is 1/32 of the floats.

for nbits in (n_features // 2, n_features):
    itq = ITQHasher(nbits, random_state=0).fit(X)
    embedding = EmbeddingHasher(nbits, random_state=0).fit(X)
    talr = TALRHasher(nbits, n_epochs=15, random_state=0).fit(X, y)
    hashers = {"ITQ": itq, "Embedding, code": embedding, "TALR, by class": talr}
    for name, hasher in hashers.items():
        codes = hasher.transform(queries), hasher.transform(X)
        measure(name, nbits, relevance_histogram, *codes)
    scores = embedding.project_queries(queries) @ (2.0 * embedding.transform(X) - 1).T
    measure("Embedding, real", nbits, histogram_from_distances, -scores)

# %%
# Results
# -------

print(f"{'':15} {'bytes':>5}  recall@10  recall@100  AP_T of classes")
for name, by_size in results.items():
    for size, (at_10, at_100, ap) in by_size.items():
        print(f"{name:15} {size:5}  {at_10:9.3f}  {at_100:10.3f}  {ap:15.3f}")

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
    sizes = sorted({size for by_size in results.values() for size in by_size})
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.set(xlabel="bytes per item", title=title)
    ax.grid(color="0.9")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()

# %%
# Eight bits per feature lose almost nothing, in 1/4 of the bytes. Four bits lose some of the ten
# nearest vectors, but all are among the first hundred, and AP_T hardly changes. With one bit per
# feature, real queries find the most: with half as many bytes they still find more than signs do.
# The first hundred items contain nearly all neighbors. Their vectors, kept on a disk, can put them
# in the order of the floats. Codes trained on labels rank the classes better than the floats,
# because they store nothing else, and lose most of the neighbors.
