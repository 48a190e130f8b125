"""CIFAR-10 images: the convolutional backbone from scratch, for each deep method.

    export SKHASH_DATA=FOLDER      # with cifar10_jpeg_bytes.npz
    python experiments/images.py                                       # 5,000 labelled images, 32 bits, three splits
    python experiments/images.py --train all --bits 16 32 64 --epochs 100   # the whole set, for a GPU
    python experiments/images.py --held-out --epochs 30 60 90 --seeds 0     # how long to train, by training rows alone

Protocol "5k": 1,000 queries, the rest is the database, 5,000 rows of it for training ("all":
the whole database). Images are shifted and flipped in training. Prints AP_T with its tie
range, seconds an epoch and images a second; writes experiments/results/images.json. With --held-out
the training rows are all there is: a tenth of them are the queries, a fifth the database, and
neither is trained on.
"""

import argparse
import io
import os
from itertools import product
from pathlib import Path

import numpy as np
import torch
from _results import RESULTS, keep
from PIL import Image
from sklearn.model_selection import train_test_split

from skhash import HashNetHasher, NSHHasher, TALRHasher
from skhash.comparison import evaluate_hasher
from skhash.datasets import split

METHODS = {"talr": TALRHasher, "hashnet": HashNetHasher, "nsh": NSHHasher}


def load_images():
    """Read all images, uint8 of shape (60000, 3, 32, 32), and their classes."""
    with np.load(Path(os.environ["SKHASH_DATA"], "cifar10_jpeg_bytes.npz")) as file:
        data, offsets, y = file["data"], file["offsets"], file["y"]
    images = np.empty((len(y), 3, 32, 32), np.uint8)
    for i in range(len(y)):
        stream = io.BytesIO(data[offsets[i] : offsets[i + 1]].tobytes())
        images[i] = np.asarray(Image.open(stream)).transpose(2, 0, 1)
    return images, y


def split_images(images, y, seed, whole):
    """Split by row numbers, so that the images stay bytes."""
    data = split(np.arange(len(y), dtype=np.float32)[:, None], y, "5k", seed, name="cifar10 images")
    for part in ("train", "query", "database"):
        data[f"X_{part}"] = images[data[f"X_{part}"][:, 0].astype(int)]
    if whole:
        data.X_train, data.y_train = data.X_database, data.y_database
    return data


def hold_out(data, seed):
    """Let training rows act as queries and database, evenly over the classes."""
    parts = [data.X_train, data.y_train]
    for part, share in (("query", 0.1), ("database", 2 / 9)):
        X, held_X, y, held_y = train_test_split(*parts, test_size=share, random_state=seed, stratify=parts[1])
        data[f"X_{part}"], data[f"y_{part}"] = held_X, held_y
        parts = [X, y]
    data.X_train, data.y_train = parts
    return data


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["talr", "hashnet"], choices=list(METHODS))
    parser.add_argument("--bits", nargs="+", type=int, default=[32])
    parser.add_argument("--train", default="5k", choices=["5k", "all"])
    parser.add_argument("--held-out", action="store_true", help="rank training rows that are held out, not the queries")
    parser.add_argument("--epochs", nargs="+", type=int, default=[60])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="one split each")
    parser.add_argument("--out", default=str(RESULTS / "images.json"))
    options = parser.parse_args()
    images, y = load_images()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu, one thread"
    for seed in options.seeds:
        data = split_images(images, y, seed, options.train == "all")
        data = hold_out(data, seed) if options.held_out else data
        for method, nbits, epochs in product(options.methods, options.bits, options.epochs):
            hasher = METHODS[method](nbits, backbone="conv", augment="auto", n_epochs=epochs)
            hasher.set_params(mixed_precision=True, store_database=False, random_state=seed)
            figures = evaluate_hasher(hasher, data)
            seconds = figures["fit_seconds"] / epochs
            row = {"method": method, "nbits": nbits, "seed": seed, "epochs": epochs, "held_out": options.held_out}
            row |= {"device": device, "n_train": len(data.X_train), "seconds_per_epoch": seconds} | figures
            row["images_per_second"] = len(data.X_train) / seconds
            keep(Path(options.out), [row], ("method", "nbits", "seed", "epochs", "held_out", "n_train", "device"))
            print(
                f"{method:8} {nbits:3} bits  seed {seed}  {len(data.X_train):,} images  {epochs} epochs  "
                f"{'held-out ' if options.held_out else ''}AP_T {row['ap']:.4f} "
                f"[{row['ap_worst']:.4f}, {row['ap_best']:.4f}]  {seconds:.2f} s/epoch  "
                f"{row['images_per_second']:,.0f} images/s  ({device})",
                flush=True,
            )


if __name__ == "__main__":
    main()
