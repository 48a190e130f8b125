"""
NSH, tables 1 to 3: hashing without labels
==========================================

Yu, Shen, Wang, Zhang and Torr (IJCAI 2022) sort the items of a batch softly by their codes
and contrast what comes first with the rest. Table 1 compares MAP at 16, 32 and 64 bits,
table 2 precision and MAP at rank 1,000, and table 3 takes the parts of the method away.

The paper fine-tunes a pretrained ResNet-50 on photographs (CIFAR-10, NUS-WIDE, MS-COCO).
Here a small network learns MNIST from scratch, from 5,000 images: none of the paper's figures
is of the same data, and none is at hand; what can be compared is the order.

Without arguments this runs on scikit-learn's digits, as vectors; the full form takes about
35 minutes on two cores (``--only comparison`` and ``--only ablation`` split it)::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_nsh_tables.py --full
"""

# %%
# Settings
# --------
#
# The network and the weak augmentation are those of ``experiments/nsh.py``; vectors get an mlp
# and a little noise. No label is seen before the evaluation.

import matplotlib.pyplot as plt
import torch
from _common import Study, load_script, rank

from skhash.comparison import make_hasher
from skhash.datasets import load_dataset
from skhash.displays import MetricByBitsDisplay

study = Study("nsh_tables", "NSH, tables 1 to 3")
benchmark = load_script("experiments/nsh")

DATASET, BITS, K = "mnist", [16, 32, 64], 1000
METHODS = ["nsh", "itq", "pca", "agh", "spectral", "spherical", "lsh"]
VARIANTS = ["full", "hard_sort", "no_quantization", "decoding", "single_bottleneck", "no_softsort", "multi_label"]
EPOCHS = {"comparison": benchmark.FULL_EPOCHS, "ablation": benchmark.ABLATION_EPOCHS}
if not study.full:
    DATASET, BITS, K, METHODS = "digits", [16, 32], 100, ["nsh", "itq", "lsh"]
    VARIANTS, EPOCHS = ["full", "hard_sort", "no_softsort"], {"comparison": 5, "ablation": 2}
FIGURES = ["ap", "ap_worst", "ap_best", f"ap_at_{K}_retrieved", f"precision_at_{K}"]


def fit_nsh(dataset, seed, nbits, n_epochs, variant="full"):
    """Train a variant of NSH without labels; return it with the split that it belongs to."""
    as_images = dataset == "mnist"
    data = benchmark.load(dataset, True, seed) if as_images else load_dataset(dataset, random_state=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # a module that is handed in brings its first weights
        hasher = benchmark.make(variant, as_images, n_epochs, seed).set_params(nbits=nbits)
        return hasher.fit(data.X_train), data


# %%
# Tables 1 and 2: the methods
# ---------------------------


def compare(part, dataset, seed, nbits, method):
    """Fit an unsupervised method on one split and rank the database."""
    if method == "nsh":
        return rank(*fit_nsh(dataset, seed, nbits, EPOCHS[part]), FIGURES)
    data = load_dataset(dataset, random_state=seed)
    return rank(make_hasher(method, nbits, seed, data.affinity).fit(data.X_train), data, FIGURES)


study.run(compare, part=["comparison"], dataset=[DATASET], seed=study.seeds, nbits=BITS, method=METHODS)
for name in ("ap", f"ap_at_{K}_retrieved", f"precision_at_{K}"):
    study.table(name, ties=name == "ap", part="comparison")

# %%
# Table 3: the ablations
# ----------------------
#
# A hard sort sends the codes no gradient, which leaves them to the distance of the
# activations from their signs alone; without it ("no_quantization") nothing else asks for
# binary codes.


def ablate(part, dataset, seed, nbits, method):
    """Fit a variant of NSH and rank the database."""
    return rank(*fit_nsh(dataset, seed, nbits, EPOCHS[part], variant=method), FIGURES)


study.run(ablate, part=["ablation"], dataset=[DATASET], seed=study.seeds, nbits=[32], method=VARIANTS)
study.table("ap", ties=True, part="ablation")

# %%
# The methods by code length
# --------------------------

for rows, ax in study.panels(part="comparison"):
    MetricByBitsDisplay.from_results(rows, metric="ap", ax=ax)
plt.show()
