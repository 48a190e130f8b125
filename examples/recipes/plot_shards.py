"""
Evaluate a database in shards
=============================

A metric of a ranking by Hamming distance needs only counts: how many items of each relevance
level are at each distance from a query. Counts can be added. So each shard can be counted alone,
even on its own machine, and the sum gives the exact value of each metric on the whole database.
"""

# %%
# Codes of each shard
# -------------------
#
# One hasher encodes all shards. Only packed codes and targets are needed after that.

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed
from skhash import TALRHasher
from skhash.datasets import load_dataset
from skhash.metrics import average_precision, ndcg, precision, relevance_histogram

data = load_dataset("digits")
hasher = TALRHasher(16, n_epochs=15, store_database=False, random_state=0).fit(
    data.X_train[:500], data.y_train[:500]
)
queries = hasher.encode(data.X_query)
shards = [
    (hasher.encode(X), y)
    for X, y in zip(
        np.array_split(data.X_database, 6),
        np.array_split(data.y_database, 6),
        strict=True,
    )
]


def count(codes, y):
    """Histogram of one shard for all queries."""
    return relevance_histogram(queries, codes, data.y_query, y, nbits=16)


# %%
# Count the shards, then add
# --------------------------
#
# ``sum`` adds histograms like numbers. Instead of joblib you can use dask or Spark. A histogram
# has (nbits + 1) counts per query and level, for a shard of any size.

histograms = Parallel(n_jobs=2, backend="threading")(
    delayed(count)(*shard) for shard in shards
)
total = sum(histograms)

whole = relevance_histogram(
    queries,
    np.concatenate([codes for codes, _ in shards]),
    data.y_query,
    data.y_database,
    nbits=16,
)
print(
    "equal to the histogram of the whole database:",
    np.array_equal(total.counts, whole.counts),
)
print(f"AP_T   {average_precision(total):.4f}")
print(f"NDCG_T {ndcg(total):.4f}")
print(f"P@100  {precision(total, k=100):.4f}")
n_bytes = total.counts.nbytes // len(queries)
print(f"{n_bytes} bytes per query, for {len(data.y_database):,} items or for a billion")

# %%
# The mean over the shards is not the metric
# ------------------------------------------
#
# The mean of a metric over the shards is not its value on the whole database, because each shard
# has its own ranks. Partial sums show a growing database instead.

partial_sums = [sum(histograms[: n + 1]) for n in range(len(histograms))]
growing = {
    ties: [average_precision(H, ties=ties) for H in partial_sums]
    for ties in ("average", "worst", "best")
}
sizes = np.cumsum([len(y) for _, y in shards])
mean_of_shards = np.mean([average_precision(H) for H in histograms])

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(sizes, growing["average"], "o-", label="AP$_T$ of the first shards")
ax.fill_between(sizes, growing["worst"], growing["best"], alpha=0.2, label="tie range")
ax.axhline(
    mean_of_shards, color="0.4", linestyle="--", label="mean of AP$_T$ over the shards"
)
ax.set(xlabel="items in the database", ylabel="AP")
ax.legend(frameon=False)
plt.show()
