"""
NSH, tables 1 to 3: hashing without labels
==========================================

Yu, Shen, Wang, Zhang and Torr (IJCAI 2022) sort the items of a batch softly by their codes, and
contrast the first items with the others. Table 1 compares MAP at 16, 32 and 64 bits, table 2
precision and MAP at rank 1,000, and table 3 is an ablation.

The paper trains a pretrained ResNet-50 on photographs (CIFAR-10, NUS-WIDE, MS-COCO). Here a small
network learns from scratch, from 5,000 images of MNIST. The values of the paper are of other data,
so that only the order can be compared.

Without arguments this runs on scikit-learn's digits, as vectors. The full form takes about 35
minutes on two cores (``--only comparison`` and ``--only ablation`` run a part)::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_nsh_tables.py --full
"""

# %%
# Settings
# --------
#
# The network and the weak augmentation are those of ``experiments/nsh.py``. Vectors have an mlp and
# weak noise. Labels are used in the evaluation only.

import matplotlib.pyplot as plt
import torch
from _common import Study, load_script, rank
from _papers import NSH, printed
from skhash.comparison import make_hasher
from skhash.datasets import load_dataset
from skhash.displays import MetricByBitsDisplay

study = Study("nsh_tables", "NSH, tables 1 to 3")
experiment = load_script("experiments/nsh")

DATASET, NBITS, K = "mnist", [16, 32, 64], 1000
METHODS = ["nsh", "itq", "pca", "agh", "spectral", "spherical", "lsh"]
VARIANTS = [
    "full",
    "hard_sort",
    "no_quantization",
    "decoding",
    "single_bottleneck",
    "no_softsort",
    "multi_label",
]
EPOCHS = {"comparison": experiment.FULL_EPOCHS, "ablation": experiment.ABLATION_EPOCHS}
if not study.full:
    DATASET, NBITS, K, METHODS = "digits", [16, 32], 100, ["nsh", "itq", "lsh"]
    VARIANTS, EPOCHS = (
        ["full", "hard_sort", "no_softsort"],
        {"comparison": 5, "ablation": 2},
    )
METRICS = ["ap", "ap_worst", "ap_best", f"ap_at_{K}_retrieved", f"precision_at_{K}"]


def fit_nsh(dataset, seed, nbits, n_epochs, variant="full"):
    """Fitted variant of NSH, and its split."""
    as_images = dataset == "mnist"
    data = (
        experiment.load(dataset, True, seed)
        if as_images
        else load_dataset(dataset, random_state=seed)
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # the initial weights of a given module are drawn here
        hasher = experiment.make(variant, as_images, n_epochs, seed).set_params(
            nbits=nbits
        )
        return hasher.fit(data.X_train), data


# %%
# Tables 1 and 2: the methods
# ---------------------------


def compare(part, dataset, seed, nbits, method):
    """Metrics of an unsupervised method on one split."""
    if method == "nsh":
        return rank(*fit_nsh(dataset, seed, nbits, EPOCHS[part]), METRICS)
    data = load_dataset(dataset, random_state=seed)
    return rank(
        make_hasher(method, nbits, seed, data.affinity).fit(data.X_train), data, METRICS
    )


study.run(
    compare,
    part=["comparison"],
    dataset=[DATASET],
    seed=study.seeds,
    nbits=NBITS,
    method=METHODS,
)
study.table("ap", ties=True, part="comparison")
study.table(f"ap_at_{K}_retrieved", part="comparison", paper=printed(NSH, "table 1"))
study.table(f"precision_at_{K}", part="comparison", paper=printed(NSH, "table 2"))

# %%
# Table 3: the ablations
# ----------------------
#
# A hard sort has no gradient, so that the codes learn only from the quantization loss. Without
# this loss ("no_quantization") nothing else makes the activations binary.


def ablate(part, dataset, seed, nbits, method):
    """Metrics of a variant of NSH."""
    return rank(*fit_nsh(dataset, seed, nbits, EPOCHS[part], variant=method), METRICS)


study.run(
    ablate,
    part=["ablation"],
    dataset=[DATASET],
    seed=study.seeds,
    nbits=[32],
    method=VARIANTS,
)
study.table("ap", ties=True, part="ablation")
study.table(f"ap_at_{K}_retrieved", part="ablation", paper=printed(NSH, "table 3"))

# %%
# Number of bits
# --------------

for rows, ax in study.panels(part="comparison"):
    MetricByBitsDisplay.from_results(rows, metric="ap", ax=ax)
plt.show()
