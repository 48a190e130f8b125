"""
NSH, figures 3 and 5: curves without labels, and codes in the plane
===================================================================

Figure 3 of Yu, Shen, Wang, Zhang and Torr (IJCAI 2022) compares NSH with other methods without labels on
CIFAR-10, by curves of precision and recall, and by the precision within Hamming radius 2 for each number of
bits. Figure 5 shows codes of 32 and 64 bits in the plane, by t-SNE.

The rows are of one split, so small differences say little. Within radius 2, NSH with the query of the paper is not
first: it has 0.429, 0.454 and 0.427 with 16, 32 and 64 bits. ITQ is first with 16 bits (0.443), CIBHash with 32
(0.501) and AGH with 64 (0.515). From 32 to 64 bits most methods fall far, ITQ from 0.350 to 0.016, but CIBHash and NSH
fall by 0.01 and 0.03, and AGH rises by 0.05.

By precision and recall, with 64 bits, NSH is first at recalls of 0.4, 0.6 and 0.8 (0.402, 0.330 and 0.221; CIBHash
has 0.390, 0.311 and 0.212). At 0.2 CIBHash is first (0.456; NSH 0.447). By AP_T the two are level, with 0.392 and
0.390. By precision at N, ITQ is first at N = 1 (0.603), and CIBHash at N = 1,000 (0.499; NSH 0.485). In the tables of
the paper NSH is first on CIFAR-10, by more than 0.1. There it trains the network, which is frozen here.

In the plane, neither NSH nor CIBHash separates the ten classes.

Without arguments this runs on scikit-learn's digits. The full form takes about 15 minutes on two cores.
``--seeds 1`` shows the stored results, which are of one split, and measures no other::

    export SKHASH_DATA=FOLDER
    python examples/reproductions/plot_nsh_figures_3_5.py --full --seeds 1
"""

# %%
# Settings
# --------
#
# The methods of :doc:`plot_nsh_tables`, with their default settings, which learn from vectors here. The paper
# trains a ResNet-50 on 50,000 images of CIFAR-10. Here the samples are features of these images, of a frozen
# EfficientNet-Lite0, with 5,000 training samples and 1,000 queries. The other 59,000 images are the database.
# NSH and CIBHash have two hidden layers, and learn from features with noise. "nsh (query of the paper)" is by
# the paper's equations 3 to 5. Labels are used in the evaluation only.

import matplotlib.pyplot as plt
from _common import Study
from _figures import (
    IMAGES,
    load,
    measure_curves,
    plot_code_maps,
    plot_curves,
    sample_codes,
)
from skhash.comparison import make_hasher
from skhash.displays import MetricByBitsDisplay

study = Study("nsh_figures_3_5", "NSH, figures 3 and 5")

PAPER = "nsh (query of the paper)"
METHODS = ["lsh", "itq", "pca", "spectral", "spherical", "agh"]
METHODS += ["greedyhash-unsupervised", "tbh", "cibhash", PAPER]
DATASETS, NBITS, SHORT = [IMAGES], [16, 32, 64], {}
PLANNED = {"planned": dict.fromkeys(DATASETS, METHODS), "columns": NBITS}
if not study.full:
    METHODS, DATASETS = ["lsh", "itq", "cibhash", PAPER], ["digits"]
    NBITS, SHORT = [16, 32], {"n_epochs": 10}


def measure(dataset, seed, nbits, method):
    """Metrics of a method on one split, with most bits its curves, and some codes."""
    data = load(dataset, seed)
    hasher = make_hasher(method.partition(" ")[0], nbits, seed, data.affinity)
    in_plane = method in ("cibhash", PAPER)
    if in_plane:
        hasher.set_params(**SHORT)
    if method == PAPER:
        hasher.set_params(query_view="items")
    hasher.fit(data.X_train)
    result = measure_curves(hasher, data, curves=nbits == NBITS[-1])
    if in_plane and nbits in NBITS[-2:]:
        result |= sample_codes(hasher, data)
    return result


study.run(measure, dataset=DATASETS, seed=study.seeds, nbits=NBITS, method=METHODS)
study.table(
    "precision_radius_2",
    **PLANNED,
    note="The paper has images, a network that is trained, and plots without numbers. "
    "Tuning: one candidate per method, its defaults.",
)
study.table("ap", ties=True, **PLANNED)
study.print_cost()

# %%
# Figure 3: precision within radius 2
# -----------------------------------
#
# A query without items within this radius counts as 0, so the precision of long codes can fall.

for results, ax in study.panels():
    MetricByBitsDisplay.from_results(results, metric="precision_radius_2", ax=ax)

# %%
# Figure 3: precision and recall
# ------------------------------
#
# Each point of the first curve is a Hamming radius. The second one is not in the paper.

plot_curves(study)

# %%
# Figure 5
# --------
#
# The codes of up to 500 queries. Points at a small Hamming distance are close to each other.

plot_code_maps(study, figsize=(10, 4.2))
plt.show()
