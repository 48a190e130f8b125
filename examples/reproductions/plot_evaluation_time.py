"""
TALR, section 3: evaluation in O(bN) without sorting
====================================================

A metric of a ranking with ties depends only on counts: how many relevant and irrelevant items
are at each of b + 1 Hamming distances (He, Cakir, Bargal, Sclaroff, CVPR 2018). An exact
evaluation of N codes is therefore one pass, O(bN). A ranked list must be sorted, O(N log N), and
its metric depends on how the sort orders ties.

Without arguments the database has up to 80,000 codes. The full form has up to two million, and
takes about 2 minutes on two idle cores::

    python examples/reproductions/plot_evaluation_time.py --full
"""

# %%
# Two ways to compute average precision
# -------------------------------------
#
# Both are in ``benchmarks/evaluation_growth.py``. The one by sorting also uses the Hamming
# distances of skhash.

import matplotlib.pyplot as plt
import numpy as np
from _common import Study, load_script
from threadpoolctl import threadpool_limits

study = Study("evaluation_time", "TALR, section 3: time of an evaluation")
growth = load_script("benchmarks/evaluation_growth")

WAYS = {"by histogram": growth.by_histogram, "by sorting": growth.by_sorting}
DATASET = "random codes" if study.full else "random codes, small form"
SIZES = growth.SIZES if study.full else [10_000, 20_000, 40_000, 80_000]


def measure(dataset, size, method):
    """Milliseconds for 64 queries of 64 bits, the best of three runs on one core."""
    rng = np.random.default_rng(0)
    query, database = (
        rng.integers(0, 256, (n, growth.NBITS // 8), dtype=np.uint8)
        for n in (growth.N_QUERIES, size)
    )
    query_y, database_y = (
        rng.integers(0, 10, growth.N_QUERIES),
        rng.integers(0, 10, size),
    )
    with threadpool_limits(1):
        WAYS[method](query[:2], database, query_y[:2], database_y)  # compiles
        return {
            "milliseconds": 1e3
            * growth.best_time(WAYS[method], query, database, query_y, database_y)
        }


study.run(measure, dataset=[DATASET], size=SIZES, method=WAYS)
study.table("milliseconds", column="size")

# %%
# Time per pair
# -------------
#
# With histograms it does not depend on the size, except for small databases, where the cost of the
# call itself matters. With sorting it grows.

for results, ax in study.panels():
    for way in WAYS:
        times = {
            result["size"]: result["milliseconds"]
            for result in results
            if result["method"] == way
        }
        ax.plot(
            list(times),
            [1e6 * ms / size / growth.N_QUERIES for size, ms in times.items()],
            "o-",
            label=way,
        )
    ax.set(
        xlabel="codes in the database",
        ylabel="nanoseconds per pair",
        xscale="log",
        yscale="log",
    )
    ax.legend(frameon=False)
plt.show()
