"""
TALR, table 3 and figure 3: graded relevance, and what ties hide
================================================================

He, Cakir, Bargal and Sclaroff (CVPR 2018) hash GIST features without any labels: the
nearest 5, 1, 0.2 and 0.1 % of the training pairs are relevant at the levels 1, 2, 5 and
10, and NDCG is learned and measured. Their figure 3 shows, method by method, how far a
figure moves with the order inside the ties, which no method has control of.

Without arguments this runs on the pixels of scikit-learn's digits. The full form takes
22,000 GIST features of CIFAR-10 images, and about 35 minutes on two cores::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_talr_table_3.py --full
"""

# %%
# One protocol, many methods
# --------------------------
#
# The protocol "labelme" draws queries, database and training rows, centres the features and
# scales them to unit length, and learns the four distances from the training rows. The
# affinity that it returns is all the supervision there is, for every method: TALR learns
# from its levels, the others from relevant or not. SDH and ITQ-CCA are missing, for they
# regress on labels.

from dataclasses import replace
from functools import lru_cache

import matplotlib.pyplot as plt
from _common import Study, rank

from skhash.affinity import DistanceAffinity
from skhash.comparison import make_hasher
from skhash.datasets import PROTOCOLS, load_dataset
from skhash.displays import TieRangeDisplay

study = Study("talr_table_3", "TALR, table 3 and figure 3")

DATASETS = {"cifar_gist": PROTOCOLS["labelme"]}
BITS = [16, 32, 48, 64]
METHODS = {
    "talr-ndcg": {},
    "talr": {},
    "mihash": {},
    "hashnet": {},
    "dpsh": {},
    "structhash": {"affinity": DistanceAffinity(percentiles=(2,), levels=(1,))},
    "ksh": {},
    "itq": {},
    "spherical": {},
    "agh": {},
    "spectral": {},
    "lsh": {},
}
if not study.full:
    DATASETS = {
        "digits": replace(PROTOCOLS["labelme"], name="labelme, small", n_samples=None, n_query=297, n_train=1500)
    }
    BITS = [16, 32]
    METHODS = {"talr-ndcg": {"n_epochs": 30}, "itq": {}, "lsh": {}}

FIGURES = [f"{name}{order}" for name in ("ndcg", "ap") for order in ("", "_worst", "_best")]

split = lru_cache(maxsize=1)(load_dataset)


def measure(dataset, seed, nbits, method):
    """Fit a method on one split and rank the database."""
    data = split(dataset, protocol=DATASETS[dataset], random_state=seed)
    hasher = make_hasher(method, nbits, seed, data.affinity).set_params(**METHODS[method])
    return rank(hasher.fit(data.X_train, data.y_train), data, FIGURES)


study.run(measure, dataset=DATASETS, seed=study.seeds, nbits=BITS, method=METHODS)

# %%
# Table 3: NDCG of tied rankings
# ------------------------------
#
# The order inside the ties is averaged over exactly: these are the figures that another run,
# another sort or another machine gives as well.

study.table(
    "ndcg",
    ties=True,
    note="The paper's LabelMe features are other data, and its figures are not at hand.",
)

# %%
# Figure 3: the range of the ties
# -------------------------------
#
# A bar runs from the relevant items last to the relevant items first inside every
# tie. With 16 bits two methods may well trade places by nothing but the order in which
# items of equal distance are listed.

for rows, ax in study.panels(height=5 if study.kept else 2.6, nbits=16):
    TieRangeDisplay.from_results(rows, metric="ndcg", ax=ax)
plt.show()
