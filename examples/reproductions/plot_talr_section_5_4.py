"""
TALR, section 5.4: random tie-breaking
======================================

Hamming distances of short codes have many ties, and AP depends on the order inside each. He, Cakir,
Bargal and Sclaroff (CVPR 2018) evaluate AP_T, the mean of AP over all orders of the ties. In section
5.4 they compare it with a common practice: the database is shuffled, and a stable sort leaves ties in
the order of the shuffled database.

The paper finds random orders very close to AP_T. Here the mean AP of twenty orders differs from AP_T by
less than 0.0001, on both data sets, with 8, 16 and 32 bits and for all four methods. The standard deviation
over the orders is at most 0.0012, since each AP is a mean over 1,000 queries; that of the AP of a single
query is at most 0.005. The range from the worst to the best order is wide: with 8 bits on GIST features,
AP_T of TALR is 0.27 and that of MIHash 0.19, but the ranges are 0.20 to 0.43 and 0.12 to 0.65. So by the
best order MIHash would be ahead. All results are of one split.

Without arguments this runs on scikit-learn's digits. The full form takes about 10 minutes on two
cores. With ``--seeds 1`` it shows the stored results, which are of one split, and measures no other::

    export SKHASH_DATA=FOLDER
    python examples/reproductions/plot_talr_section_5_4.py --full --seeds 1
"""

# %%
# Twenty random orders of the database
# ------------------------------------
#
# All queries rank the same shuffled database, as in practice. AP of a ranking without ties is computed here by its
# definition. skhash needs no shuffle: it has AP_T, and the worst and the best order of the ties, from the numbers
# of items at each distance.

from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
from _common import Study
from skhash.codes import hamming_distances
from skhash.comparison import make_hasher
from skhash.datasets import load_dataset
from skhash.displays import TieRangeDisplay
from skhash.metrics import evaluate_histograms, relevance_histogram

study = Study("talr_section_5_4", "TALR, section 5.4: random tie-breaking")

DATASETS, METHODS = ["usps", "cifar_gist"], ["talr", "mihash", "itq", "lsh"]
ALL_NBITS, N_ORDERS = [8, 16, 32], 20
if not study.full:
    DATASETS, METHODS, ALL_NBITS = ["digits"], ["talr", "itq", "lsh"], [4, 8]
METRICS = ["ap", "ap_worst", "ap_best"]

split = lru_cache(maxsize=1)(load_dataset)


def average_precision(distances, relevant):
    """AP of one query that ranks items by distance, ties in the order of the items."""
    order = np.argsort(distances, kind="stable")
    ranks = np.flatnonzero(relevant[order]) + 1
    return (np.arange(1, len(ranks) + 1) / ranks).mean()


def break_ties(codes, data, seed):
    """AP by order of the database and query, of shape (n_orders, n_queries)."""
    shuffles = np.random.default_rng(seed).permuted(
        np.tile(np.arange(len(codes[1])), (N_ORDERS, 1)), axis=1
    )
    values = np.empty((N_ORDERS, len(codes[0])))
    for query, code in enumerate(codes[0]):
        (distances,) = hamming_distances(code[None], codes[1]).astype(np.uint8)
        (relevant,) = data.affinity(data.y_query[[query]], data.y_database) > 0
        for i, shuffle in enumerate(shuffles):
            values[i, query] = average_precision(distances[shuffle], relevant[shuffle])
    return values


def measure(dataset, seed, nbits, method):
    """AP_T, its worst and best order, and AP of random orders."""
    data = split(dataset, random_state=seed)
    hasher = make_hasher(method, nbits, seed, data.affinity)
    hasher.fit(data.X_train, data.y_train)
    codes = hasher.transform(data.X_query), hasher.transform(data.X_database)
    H = relevance_histogram(*codes, data.y_query, data.y_database, data.affinity)
    values = break_ties(codes, data, seed)
    by_order = values.mean(axis=1)
    return evaluate_histograms([H], METRICS) | {
        "random": float(by_order.mean()),
        "random_spread": float(by_order.std(ddof=1)),
        "random_lowest": float(by_order.min()),
        "random_highest": float(by_order.max()),
        "spread_of_a_query": float(values.std(axis=0, ddof=1).mean()),
    }


study.run(measure, dataset=DATASETS, seed=study.seeds, nbits=ALL_NBITS, method=METHODS)

# %%
# AP_T beside random orders
# -------------------------
#
# "random" is the mean of the AP of twenty orders, each a mean over the queries, and "random_spread" its
# standard deviation. "spread_of_a_query" is the standard deviation of the AP of one query, in the mean.

for nbits in ALL_NBITS:
    print(f"{nbits} bits")
    study.table(
        [
            "ap",
            "random",
            "random_spread",
            "spread_of_a_query",
            "ap_worst",
            "ap_best",
        ],
        digits=4,
        nbits=nbits,
        planned=dict.fromkeys(DATASETS, METHODS) if study.full else None,
    )
study.print_cost()

# %%
# The range of the ties
# ---------------------
#
# A bar goes from the worst to the best order, with AP_T as the point. The black line below it goes from the
# lowest to the highest of the twenty random orders.

for results, ax in study.panels(height=3.4, nbits=ALL_NBITS[0]):
    display = TieRangeDisplay.from_results(results, ax=ax)
    for line, method in enumerate(display.names):
        values = [
            [result[f"random_{end}"] for end in ("lowest", "highest")]
            for result in results
            if result["method"] == method
        ]
        ax.hlines(line + 0.25, *np.mean(values, axis=0), color="black", linewidth=3)
plt.show()
