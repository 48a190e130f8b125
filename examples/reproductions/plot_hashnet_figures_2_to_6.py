"""
HashNet, figures 2 to 6: curves, retrieved images, and codes in the plane
=========================================================================

Figures 2 to 4 of Cao, Long, Wang and Yu (ICCV 2017) compare HashNet with earlier methods on three data
sets: by the precision within Hamming radius 2 for each number of bits, by curves of precision and
recall, and by the precision of the first N images, both with 64 bits. Figure 5 shows the ten images
nearest to a query, and figure 6 codes in the plane by t-SNE, of HashNet and of DHN.

The rows are of one split, so small differences say little. Within radius 2, HashNet is first with 16, 32 and
48 bits, by 0.001, 0.009 and 0.002 (ITQ-CCA and SDH are second), and DHN with 64, by 0.004. As in the paper, HashNet
with 32 bits (0.644) is above DHN with any number of bits (at most 0.634). From 32 to 64 bits, HashNet and DHN stay
within 0.02. The others fall, SDH by 0.05, ITQ-CCA by 0.12 and KSH by 0.23, since fewer items are within the radius.

By precision at N, with 64 bits, HashNet is not on top, as it is in the paper. Up to N = 100 the four best methods are
within 0.012 of each other. At N = 1,000 ITQ-CCA is first (0.689), before SDH, DHN and HashNet (0.670, 0.662 and
0.659). By precision and recall, ITQ-CCA is first at recalls of 0.2 and 0.4 (0.631 and 0.638; HashNet 0.604 and
0.609), and DHN at 0.6 (0.606; HashNet 0.603). At 0.8 SDH and HashNet have 0.394 and 0.393, and DHN 0.243.

The images of figure 5 are those of the first five queries: 52 % are relevant for HashNet, and 56 % for DHN. Over all
queries it is 65 % for both. In the examples of the paper HashNet is ahead by 20 points. In the plane, the classes
of HashNet are not clearer than those of DHN, as they are in the paper.

Without arguments this runs on scikit-learn's digits. The full form takes about 5 minutes on two cores.
``--seeds 1`` shows the stored results, which are of one split, and measures no other::

    export SKHASH_DATA=FOLDER
    python examples/reproductions/plot_hashnet_figures_2_to_6.py --full --seeds 1
"""

# %%
# Settings
# --------
#
# The methods of :doc:`plot_hashnet_tables`, with their default settings. HashNet and DHN have two hidden
# layers. The paper trains AlexNet on images of ImageNet, NUS-WIDE and MS-COCO. Here the samples are features
# of the images of CIFAR-10, from a frozen EfficientNet-Lite0. There are 1,000 queries, 5,000 training
# samples, and 59,000 items in the database. There is no set here whose images have several labels.

import os

import matplotlib.pyplot as plt
import numpy as np
from _common import Study, load_script
from _figures import (
    IMAGES,
    load,
    measure_curves,
    plot_code_maps,
    plot_curves,
    sample_codes,
)
from skhash.comparison import make_hasher
from skhash.displays import MetricByBitsDisplay, RetrievedImagesDisplay
from skhash.neighbors import HammingNeighbors

study = Study("hashnet_figures_2_to_6", "HashNet, figures 2 to 6")

METHODS = ["lsh", "itq", "spectral", "itq-cca", "bre", "ksh", "sdh"]
METHODS += ["hashnet-mlp", "dhn-mlp"]
COMPARED = ["hashnet-mlp", "dhn-mlp"]  # in figures 5 and 6
DATASETS, NBITS, SHORT, N_IMAGES = [IMAGES], [16, 32, 48, 64], {}, 5
PLANNED = {"planned": dict.fromkeys(DATASETS, METHODS), "columns": NBITS}
if not study.full:
    METHODS, DATASETS = ["itq", "sdh", *COMPARED], ["digits"]
    NBITS, SHORT, N_IMAGES = [16, 32], {"n_epochs": 20}, 3


def find_images(hasher, data, seed):
    """Indices in the data set of the first queries and of their ten nearest images."""
    index = HammingNeighbors(n_neighbors=10, nbits=hasher.nbits)
    index.fit(hasher.encode(data.X_database))
    distances, nearest = index.kneighbors(hasher.encode(data.X_query[:N_IMAGES]))
    y = np.load(f"{os.environ['SKHASH_DATA']}/{IMAGES}.npz")["y"]
    indices = load_script("experiments/pretrained").indices_of(y, seed)
    queries, database = (
        indices[name][:, 0].astype(int) for name in ("X_query", "X_database")
    )
    return {
        "queries": queries[:N_IMAGES].tolist(),
        "nearest": database[nearest].tolist(),
        "distances": distances.astype(int).tolist(),
    }


def measure(dataset, seed, nbits, method):
    """Metrics of a method on one split, and with most bits its curves and codes."""
    data = load(dataset, seed)
    hasher = make_hasher(method, nbits, seed, data.affinity, store_database=False)
    if "-mlp" in method:
        hasher.set_params(**SHORT)
    hasher.fit(data.X_train, data.y_train)
    result = measure_curves(hasher, data, curves=nbits == NBITS[-1])
    if nbits == NBITS[-1] and method in COMPARED:
        result |= sample_codes(hasher, data)
        if study.full:
            result |= find_images(hasher, data, seed)
    return result


study.run(measure, dataset=DATASETS, seed=study.seeds, nbits=NBITS, method=METHODS)
study.table(
    "precision_radius_2",
    **PLANNED,
    note="The paper has images, a network that is trained, and plots without numbers. "
    "Tuning: one candidate per method, its defaults.",
)
study.table("precision_at_10", **PLANNED)
study.table("ap", ties=True, **PLANNED)
study.print_cost()

# %%
# Precision within radius 2
# -------------------------
#
# A query without items within this radius counts as 0, so the precision of long codes can fall.

for results, ax in study.panels():
    MetricByBitsDisplay.from_results(results, metric="precision_radius_2", ax=ax)

# %%
# Precision and recall, and precision at N
# ----------------------------------------
#
# Each point of the first curve is a Hamming radius.

plot_curves(study)

# %%
# Figure 6
# --------
#
# The codes of up to 500 queries. Points at a small Hamming distance are close to each other.

plot_code_maps(study, figsize=(10, 4.2))

# %%
# Figure 5
# --------
#
# The images nearest to the first queries, with 64 bits. The full form reads them from the folder SKHASH_DATA.
# Without arguments they are digits.


def plot_stored_images(result):
    """Plot stored neighbors with the images of CIFAR-10."""
    images = load_script("experiments/pretrained").Streams(32)
    queries, nearest = np.array(result["queries"]), np.array(result["nearest"])
    relevant = images.y[nearest] == images.y[queries][:, None]
    pixels = [images[i].transpose(1, 2, 0) for i in [*queries, *nearest.ravel()]]
    display = RetrievedImagesDisplay(
        pixels[: len(queries)],
        np.reshape(pixels[len(queries) :], (*nearest.shape, 32, 32, 3)),
        relevant,
        result["distances"],
        f"{result['method']}, {result['nbits']} bits: "
        f"{relevant.mean():.0%} of these images are relevant",
    )
    display.plot()


if not study.full:
    data = load("digits", 0)
    for method in COMPARED:
        hasher = make_hasher(method, NBITS[-1], 0, data.affinity, **SHORT)
        display = RetrievedImagesDisplay.from_estimator(
            hasher.fit(data.X_train, data.y_train),
            data.X_query[:N_IMAGES],
            data.y_query[:N_IMAGES],
            data.X_database,
            data.y_database,
            image_shape=(8, 8),
        )
        display.ax_.set_title(f"{method}\n{display.title}", fontsize="medium", pad=10)
elif "SKHASH_DATA" in os.environ:
    for result in study.select(dataset=IMAGES, seed=0):
        if "nearest" in result:
            plot_stored_images(result)
else:
    print("Figure 5 needs the images in the folder SKHASH_DATA.")
plt.show()
