"""
Evaluate a database that lies in shards
=======================================

A metric of a ranking by Hamming distance needs counts only: how many items of each level
lie at each distance from a query. Counts add. So each shard counts for itself, on its own
machine if need be, and the sum gives every metric of the whole database, exactly.
"""

# %%
# Codes, a shard at a time
# ------------------------
#
# One hasher encodes all shards; nothing but packed codes and targets stays.

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed

from skhash import TALRHasher
from skhash.datasets import load_dataset
from skhash.metrics import average_precision, ndcg, precision, relevance_histogram

data = load_dataset("digits")
hasher = TALRHasher(16, n_epochs=15, store_database=False, random_state=0).fit(data.X_train[:500], data.y_train[:500])
queries = hasher.encode(data.X_query)
shards = [
    (hasher.encode(X), y)
    for X, y in zip(np.array_split(data.X_database, 6), np.array_split(data.y_database, 6), strict=True)
]


def count(codes, y):
    """Histogram of one shard for all queries."""
    return relevance_histogram(queries, codes, data.y_query, y, nbits=16)


# %%
# Count apart, then add
# ---------------------
#
# ``sum`` adds histograms as it adds numbers; joblib, dask or Spark will do as well. A histogram takes
# (nbits + 1) counts for each query and level, whatever the size of the shard.

histograms = Parallel(n_jobs=2, backend="threading")(delayed(count)(*shard) for shard in shards)
total = sum(histograms)

whole = relevance_histogram(
    queries, np.concatenate([codes for codes, _ in shards]), data.y_query, data.y_database, nbits=16
)
print("equal to counting all at once:", np.array_equal(total.counts, whole.counts))
print(f"AP_T {average_precision(total):.4f}  NDCG_T {ndcg(total):.4f}  P@100 {precision(total, k=100):.4f}")
print(f"{total.counts.nbytes / len(queries):.0f} bytes a query, for {len(data.y_database):,} items or for a billion")

# %%
# The mean of the shards is not the whole
# ---------------------------------------
#
# Metrics of the parts do not average to the metric of the whole: each part has its own ranks. Adding one
# shard after another shows a growing database instead.

partial_sums = [sum(histograms[: n + 1]) for n in range(len(histograms))]
growing = {ties: [average_precision(H, ties=ties) for H in partial_sums] for ties in ("average", "worst", "best")}
sizes = np.cumsum([len(y) for _, y in shards])
mean_of_parts = np.mean([average_precision(H) for H in histograms])

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(sizes, growing["average"], "o-", label="AP$_T$ of the shards so far")
ax.fill_between(sizes, growing["worst"], growing["best"], alpha=0.2, label="range over the ties")
ax.axhline(mean_of_parts, color="0.4", linestyle="--", label="mean of the shards' own AP$_T$")
ax.set(xlabel="items in the database", ylabel="AP")
ax.legend(frameon=False)
plt.show()
