"""
NUS-WIDE, MS-COCO and ImageNet100 from your own folder
======================================================

NUS-WIDE, MS-COCO and ImageNet100 cannot be downloaded here, so the tables of TALR, HashNet and NSH on
them are not measured. If you have the files, this script measures them at the sizes of the papers:
TALR, tables 1 to 3 (He et al., CVPR 2018), HashNet, tables 1 to 3 (Cao et al., ICCV 2017), and NSH,
tables 1 and 2 (Yu et al., IJCAI 2022). :func:`skhash.datasets.load_nus_wide`,
:func:`skhash.datasets.load_ms_coco` and :func:`skhash.datasets.load_imagenet100` describe the folders.

The papers train a pretrained network. Here a network computes the features once, and each method
has these vectors: fc7 of AlexNet with ``--weights FILE``, a state dict as torchvision distributes it,
and without it the pixels of 32 x 32. Deep methods have two hidden layers. All settings are defaults.

Without ``--full`` this runs on a miniature of each folder, or on a few images of yours. The full form
takes about 900 minutes on two cores with all three folders, an estimate that was never tested::

    python examples/reproductions/plot_image_folders.py --full --nus-wide FOLDER
    python examples/reproductions/plot_image_folders.py --full --ms-coco FOLDER
    python examples/reproductions/plot_image_folders.py --full --imagenet100 FOLDER
"""

# %%
# Settings
# --------
#
# TALR has the 21 most frequent concepts of NUS-WIDE, HashNet has all 81. NSH has the split of TALR
# without the labels of its training samples, and on MS-COCO that of HashNet; its paper does not state
# the number of training samples there.
#
# Table 2 of HashNet, queries of unseen classes, states no split, no sizes and no cutoff. Here three
# tenths of the classes of ImageNet100 are unseen, the database has all classes, and whole rankings
# are evaluated.

import tempfile
import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from _common import Study, rank
from _image_folders import (
    AlexNet,
    as_vectors,
    make_imagenet100,
    make_ms_coco,
    make_nus_wide,
    pixels,
    shorten,
)
from _papers import HASHNET, NSH, TALR
from _zero_shot import zero_shot_split
from skhash.comparison import make_hasher
from skhash.datasets import PROTOCOLS, load_imagenet100, load_ms_coco, load_nus_wide
from skhash.exceptions import DegenerateCodesWarning

# 40 samples of a miniature leave some bits constant
warnings.simplefilter("ignore", DegenerateCodesWarning)

OPTIONS = {
    "--nus-wide": "folder of NUS-WIDE",
    "--ms-coco": "folder of MS-COCO",
    "--imagenet100": "folder of ImageNet100",
    "--weights": "weights of AlexNet; without this file, the features are pixels",
}
TITLE = "NUS-WIDE, MS-COCO and ImageNet100 from folders"
study = Study("image_folders", TITLE, OPTIONS)
WEIGHTS = study.options.weights
FOLDERS = {
    "nus_wide": study.options.nus_wide,
    "ms_coco": study.options.ms_coco,
    "imagenet100": study.options.imagenet100,
}
READERS = {
    "nus_wide": load_nus_wide,
    "ms_coco": load_ms_coco,
    "imagenet100": load_imagenet100,
}
ALL_CONCEPTS = replace(PROTOCOLS["ms-coco"], name="nus-wide, 81 concepts")
UNSEEN = "imagenet100, unseen classes"
DATASETS = {  # options of the readers
    "nus_wide": {"protocol": PROTOCOLS["nus-wide"], "n_concepts": 21},
    "nus_wide, 81 concepts": {"protocol": ALL_CONCEPTS, "n_concepts": None},
    "ms_coco": {"protocol": PROTOCOLS["ms-coco"]},
    "imagenet100": {"protocol": PROTOCOLS["imagenet100"]},
    UNSEEN: {"protocol": PROTOCOLS["imagenet100"]},
}
WITHOUT_LABELS = ["lsh", "itq", "spectral", "agh", "greedyhash-unsupervised", "tbh"]
WITHOUT_LABELS += ["cibhash", "nsh"]
SHALLOW = ["itq-cca", "bre", "ksh", "sdh"]
PAIRS = ["dpsh-mlp", "dtsh-mlp", "mihash-mlp"]
METHODS = {
    "nus_wide": [*WITHOUT_LABELS, *SHALLOW, *PAIRS, "talr-mlp", "talr-ndcg-mlp"],
    "nus_wide, 81 concepts": ["lsh", "itq", "spectral", *SHALLOW, "dhn-mlp"],
    "ms_coco": [*WITHOUT_LABELS, *SHALLOW, "dhn-mlp"],
    "imagenet100": ["lsh", "itq", "spectral", *SHALLOW, "dhn-mlp"],
    UNSEEN: ["hashnet-mlp", "dhn-mlp"],
}
VARIANTS = {
    "hashnet-mlp": {},
    "hashnet-mlp, continuous": {"similarity": "continuous"},
    "hashnet-mlp, unweighted": {"class_ratio": 1.0},
    "hashnet-mlp, one stage": {"n_stages": 1},
}
METHODS["nus_wide, 81 concepts"] += VARIANTS
METHODS["ms_coco"] += VARIANTS
METHODS["imagenet100"] += ["mihash-mlp", "talr-mlp", *VARIANTS]
BITS = {name: [16, 32, 48, 64] for name in DATASETS}
BITS["nus_wide"] = [12, 16, 24, 32, 48, 64]
FEATURES = f"fc7 of AlexNet, {Path(WEIGHTS).name}" if WEIGHTS else "32 x 32 pixels"
METRICS = ["ap", "ap_worst", "ap_best", "ap_at_1000_retrieved", "ap_at_5000_retrieved"]
METRICS += ["precision_at_1000"]
PLANNED, PLANNED_BITS, SHORT = METHODS, BITS, {}
if not study.full:
    METHODS = {name: ["talr-mlp", "itq", "lsh"] for name in METHODS if name != UNSEEN}
    METHODS[UNSEEN] = PLANNED[UNSEEN]
    BITS, SHORT = {name: [16] for name in BITS}, {"n_epochs": 5}
    for options in DATASETS.values():
        protocol = options["protocol"]
        n_query = None if protocol.n_query is None else 20
        options["protocol"] = replace(protocol, n_query=n_query, n_train=40)


@lru_cache(maxsize=1)
def split(dataset, seed):
    """Split of the images of a folder, as vectors."""
    name = dataset.partition(",")[0]
    network, size = (AlexNet(WEIGHTS), 224) if WEIGHTS else (pixels, 32)
    options = DATASETS[dataset] | {"size": size, "random_state": seed}
    if name == "imagenet100" and not study.full:
        # 40 training samples of 100 classes have no pairs
        options["classes"] = sorted(
            path.name for path in Path(FOLDERS[name], "train").glob("[!.]*/")
        )[:10]
    data = READERS[name](FOLDERS[name], **options)
    data = as_vectors(data if study.full else shorten(data), network)
    if dataset == UNSEEN:
        return zero_shot_split(data, round(0.3 * len(data.label_names)), seed)
    return data


def measure(features, dataset, seed, nbits, method):
    """Metrics of a method on one split."""
    data = split(dataset, seed)
    name = method.partition(",")[0]
    parameters = VARIANTS.get(method, {}) | (SHORT if "-mlp" in name else {})
    hasher = make_hasher(name, nbits, seed, data.affinity, **parameters)
    metrics = METRICS + (["ndcg"] if dataset == "nus_wide" else [])
    return rank(hasher.fit(data.X_train, data.y_train), data, metrics)


def run_folders():
    """Measure the data sets that have a folder."""
    for dataset in DATASETS:
        if FOLDERS[dataset.partition(",")[0]]:
            study.run(
                measure,
                features=[FEATURES],
                dataset=[dataset],
                seed=study.seeds,
                nbits=BITS[dataset],
                method=METHODS[dataset],
            )


# %%
# A trial
# -------
#
# Without ``--full`` these are a few small fits, which show that the folders can be read.

if study.full or any(FOLDERS.values()):
    run_folders()
else:
    with tempfile.TemporaryDirectory() as home:
        FOLDERS = {name: Path(home, name) for name in FOLDERS}
        make_nus_wide(FOLDERS["nus_wide"])
        make_ms_coco(FOLDERS["ms_coco"])
        make_imagenet100(FOLDERS["imagenet100"])
        run_folders()
if study.measured:
    study.table("ap")
    study.measured.clear()  # the tables below have the sizes of the papers

# %%
# The tables of the papers
# ------------------------
#
# Our features are not those of the papers, so you can compare only the order of the methods.

TABLES = [
    (TALR, "table 1, NUS-WIDE, VGG-F, AP_T", "nus_wide", "ap"),
    (TALR, "table 1, NUS-WIDE, VGG-F, AP@5000", "nus_wide", "ap_at_5000_retrieved"),
    (TALR, "table 2, ImageNet100, AlexNet, AP@1000", "imagenet100", None),
    (TALR, "table 3, NUS-WIDE, VGG-F, NDCG_T", "nus_wide", "ndcg"),
    (HASHNET, "table 1, ImageNet100, AlexNet, MAP@1000", "imagenet100", None),
    (HASHNET, "table 1, NUS-WIDE, AlexNet, MAP@5000", "nus_wide, 81 concepts", None),
    (HASHNET, "table 3, ImageNet100, AlexNet, MAP@1000", "imagenet100", None),
    (HASHNET, "table 3, NUS-WIDE, AlexNet, MAP@5000", "nus_wide, 81 concepts", None),
    (HASHNET, "table 1, MS-COCO, AlexNet, MAP@5000", "ms_coco", None),
    (HASHNET, "table 2, ImageNet, unseen classes, MAP", UNSEEN, "ap"),
    (HASHNET, "table 3, MS-COCO, AlexNet, MAP@5000", "ms_coco", None),
    (NSH, "table 1, NUS-WIDE, MAP@5000", "nus_wide", "ap_at_5000_retrieved"),
    (NSH, "table 1, MS-COCO, MAP@5000", "ms_coco", None),
    (NSH, "table 2, MS-COCO, P@1000", "ms_coco", "precision_at_1000"),
]
kinds = dict.fromkeys([*(result["features"] for result in study.stored), FEATURES])
for paper, title, dataset, metric in TABLES:
    metric = metric or f"ap_at_{1000 if dataset == 'imagenet100' else 5000}_retrieved"
    for kind in kinds:
        if study.stored:
            print(f"Features: {kind}")
        study.table(
            metric,
            dataset=dataset,
            features=kind,
            planned={dataset: PLANNED[dataset]},
            columns=PLANNED_BITS[dataset],
            missing="data not available",
            absent=(),
            paper={title: paper[title]} if kind == FEATURES else None,
        )
study.print_cost()
