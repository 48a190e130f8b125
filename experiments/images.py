"""CIFAR-10 images: the convolutional backbone from scratch, for each deep method.

    export SKHASH_DATA=FOLDER      # with cifar10_jpeg_bytes.npz
    python experiments/images.py                                       # 5,000 images, 32 bits, three splits
    python experiments/images.py --train all --bits 16 32 64 --epochs 100   # all images, for a GPU
    python experiments/images.py --held-out --epochs 30 60 90 --seeds 0     # how long to train

Protocol "5k": 1,000 queries, the rest is the database, 5,000 images of it for training ("all":
the whole database). Training shifts and flips images. Prints AP_T with its tie range, seconds per
epoch and images per second. With --held-out the training images alone are split: a tenth are the
queries, a fifth the database, and the others are for training. The results are in
experiments/results/images.json.
"""

import argparse
import io
import os
from itertools import product
from pathlib import Path

import numpy as np
import torch
from _results import RESULTS, mean_text, store
from _splits import hold_out_queries
from PIL import Image

from skhash import HashNetHasher, NSHHasher, TALRHasher
from skhash.comparison import evaluate_hasher
from skhash.datasets import split

METHODS = {"talr": TALRHasher, "hashnet": HashNetHasher, "nsh": NSHHasher}


def load_images():
    """All images, uint8 of shape (60000, 3, 32, 32), their classes, and which are test images."""
    with np.load(Path(os.environ["SKHASH_DATA"], "cifar10_jpeg_bytes.npz")) as file:
        data, offsets, y, is_test = (file[name] for name in ("data", "offsets", "y", "test"))
    images = np.empty((len(y), 3, 32, 32), np.uint8)
    for i in range(len(y)):
        stream = io.BytesIO(data[offsets[i] : offsets[i + 1]].tobytes())
        images[i] = np.asarray(Image.open(stream)).transpose(2, 0, 1)
    return images, y, is_test


def split_images(images, y, seed, train_on_all):
    """Split of the indices, so that the images stay uint8."""
    data = split(np.arange(len(y), dtype=np.float32)[:, None], y, "5k", seed, name="cifar10 images")
    for part in ("train", "query", "database"):
        data[f"X_{part}"] = images[data[f"X_{part}"][:, 0].astype(int)]
    if train_on_all:
        data.X_train, data.y_train = data.X_database, data.y_database
    return data


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["talr", "hashnet"], choices=list(METHODS))
    parser.add_argument("--bits", nargs="+", type=int, default=[32])
    parser.add_argument("--train", default="5k", choices=["5k", "all"])
    parser.add_argument("--held-out", action="store_true", help="rank held-out training images, not the queries")
    parser.add_argument("--epochs", nargs="+", type=int, default=[60])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="one split per seed")
    parser.add_argument("--out", default=str(RESULTS / "images.json"))
    options = parser.parse_args()
    images, y, _ = load_images()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu, one thread"
    for seed in options.seeds:
        data = split_images(images, y, seed, options.train == "all")
        data = hold_out_queries(data, seed) if options.held_out else data
        for method, nbits, epochs in product(options.methods, options.bits, options.epochs):
            hasher = METHODS[method](nbits, backbone="conv", augment="auto", n_epochs=epochs)
            hasher.set_params(mixed_precision=True, store_database=False, random_state=seed)
            setting = {"method": method, "nbits": nbits, "seed": seed, "epochs": epochs, "held_out": options.held_out}
            setting |= {"device": device, "n_train": len(data.X_train)}
            metrics = evaluate_hasher(hasher, data)
            seconds = metrics["fit_seconds"] / epochs
            speed = {"seconds_per_epoch": seconds, "images_per_second": len(data.X_train) / seconds}
            store(Path(options.out), [setting | metrics | speed], list(setting))
            print(
                f"{method:8} {nbits:3} bits  seed {seed}  {len(data.X_train):,} images  {epochs} epochs  "
                f"{'held-out ' if options.held_out else ''}AP_T {mean_text([metrics])}  {seconds:.2f} s/epoch  "
                f"{speed['images_per_second']:,.0f} images/s  ({device})",
                flush=True,
            )


if __name__ == "__main__":
    main()
