"""
TALR, table 3 and figure 3: graded relevance and tie ranges
===========================================================

He, Cakir, Bargal and Sclaroff (CVPR 2018) hash GIST features without labels: the nearest 5, 1, 0.2
and 0.1 % of the training pairs have the relevance levels 1, 2, 5 and 10, and NDCG is both the
objective and the metric. Their figure 3 shows how much the AP of each method on CIFAR-10 images
depends on the order of the ties, which no method controls. Here it is the NDCG of the same codes.

Without arguments this runs on the pixels of scikit-learn's digits. The full form runs on 22,000
GIST features of CIFAR-10 images, and takes about 35 minutes on two cores::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_talr_table_3.py --full
"""

# %%
# One protocol, many methods
# --------------------------
#
# The protocol "labelme" draws queries, database and training samples, centers the features and
# scales them to unit length, and learns the four distances from the training samples. Its
# affinity is the only supervision. TALR learns from its levels, the other methods from relevant
# and irrelevant pairs. SDH and ITQ-CCA are missing because they need labels.

from dataclasses import replace
from functools import lru_cache

import matplotlib.pyplot as plt
from _common import Study, rank
from _papers import TALR
from skhash.affinity import DistanceAffinity
from skhash.comparison import make_hasher
from skhash.datasets import PROTOCOLS, load_dataset
from skhash.displays import TieRangeDisplay

study = Study("talr_table_3", "TALR, table 3 and figure 3")

DATASETS = {"cifar_gist": PROTOCOLS["labelme"]}
NBITS = [16, 32, 48, 64]
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
        "digits": replace(
            PROTOCOLS["labelme"],
            name="labelme, small",
            n_samples=None,
            n_query=297,
            n_train=1500,
        )
    }
    NBITS = [16, 32]
    METHODS = {"talr-ndcg": {"n_epochs": 30}, "itq": {}, "lsh": {}}

LABELME = "table 3, LabelMe, GIST, NDCG_T"
METRICS = [
    f"{name}{order}" for name in ("ndcg", "ap") for order in ("", "_worst", "_best")
]

split = lru_cache(maxsize=1)(load_dataset)


def measure(dataset, seed, nbits, method):
    """Metrics of a method on one split."""
    data = split(dataset, protocol=DATASETS[dataset], random_state=seed)
    hasher = make_hasher(method, nbits, seed, data.affinity).set_params(
        **METHODS[method]
    )
    return rank(hasher.fit(data.X_train, data.y_train), data, METRICS)


study.run(measure, dataset=DATASETS, seed=study.seeds, nbits=NBITS, method=METHODS)

# %%
# Table 3: NDCG of tied rankings
# ------------------------------
#
# The values are exact averages over all orders of the ties. They do not depend on a sort.

study.table(
    "ndcg",
    ties=True,
    paper={LABELME: TALR[LABELME]},
    note="The paper has the GIST features of LabelMe images, which are other data. Its "
    "StructHash has boosted trees. * marks an evaluation on the training samples.",
)

# %%
# Tie ranges, as in figure 3
# --------------------------
#
# A bar goes from the value with the relevant items of each tie last to the value with them first.
# With 16 bits the order of two methods can depend on the order of tied items alone.

for rows, ax in study.panels(height=4.4 if study.stored else 2.6, nbits=16):
    TieRangeDisplay.from_results(rows, metric="ndcg", ax=ax)
plt.show()
