"""
TALR, section 3: evaluation in O(bN) instead of sorting
=======================================================

A metric of tied rankings depends on nothing but counts: how many relevant and irrelevant
items lie at each of b + 1 Hamming distances (He, Cakir, Bargal, Sclaroff, CVPR 2018). So an
exact evaluation is one pass over the codes, O(bN) for N of them, where a ranked list has to
be sorted, O(N log N), and then depends on the sort.

Without arguments the database has up to 80,000 codes; the full form goes to two million,
in about 2 minutes on two cores (which should be idle)::

    python examples/reproductions/plot_evaluation_time.py --full
"""

# %%
# Two ways to average precision
# -----------------------------
#
# Both ways stand in ``benchmarks/evaluation_growth.py``; the one by sorting also needs the
# Hamming distances, for which it takes the library's own.

import matplotlib.pyplot as plt
import numba
import numpy as np
from _common import Study, load_script

study = Study("evaluation_time", "TALR, section 3: time of an evaluation")
growth = load_script("benchmarks/evaluation_growth")

WAYS = {"by histogram": growth.by_histogram, "by sorting": growth.by_sorting}
DATASET = "random codes" if study.full else "random codes, small form"
SIZES = growth.SIZES if study.full else [10_000, 20_000, 40_000, 80_000]


def measure(dataset, size, method):
    """Milliseconds for 64 queries of 64 bits, the best of three runs on one core."""
    rng = np.random.default_rng(0)
    query, database = (rng.integers(0, 256, (n, growth.NBITS // 8), dtype=np.uint8) for n in (growth.N_QUERIES, size))
    query_y, database_y = rng.integers(0, 10, growth.N_QUERIES), rng.integers(0, 10, size)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        WAYS[method](query[:2], database, query_y[:2], database_y)  # compiles
        return {"milliseconds": 1e3 * growth.best_time(WAYS[method], query, database, query_y, database_y)}
    finally:
        numba.set_num_threads(threads)


study.run(measure, dataset=[DATASET], size=SIZES, method=WAYS)
study.table("milliseconds", column="size")

# %%
# The time for one pair
# ---------------------
#
# For histograms it is the same whatever the size, once a call costs less than its pairs;
# for sorting it grows.

for rows, ax in study.panels(5, 3.8):
    for way in WAYS:
        times = {row["size"]: row["milliseconds"] for row in rows if row["method"] == way}
        ax.plot(list(times), [1e6 * ms / size / growth.N_QUERIES for size, ms in times.items()], "o-", label=way)
    ax.set(xlabel="codes in the database", ylabel="nanoseconds per pair", xscale="log", yscale="log")
    ax.legend(frameon=False)
plt.show()
