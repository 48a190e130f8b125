"""Defaults of deep hashers for a network of the user, searched for all methods alike, on training samples alone.

    export SKHASH_DATA=FOLDER      # with cifar10_jpeg_bytes.npz
    python experiments/networks.py                             # what is stored is not measured again
    python experiments/networks.py --methods hashnet --sets mnist_strided
    python experiments/networks.py table                       # the table of the stored results

The networks have random weights (`_networks.py`) and come as a module; codes have 32 bits. Only training samples of
protocol "5k" are used: 1,000 to learn from, and 1,000 others that are ranked for each other. The results are in
experiments/results/networks.json, the table in experiments/results/networks.md.
"""

import argparse
import io
import os
import time
import warnings
from pathlib import Path

import numpy as np
from _networks import dense, make_network, pooled, residual, strided
from _results import RESULTS, as_markdown, measure_missing, rank, read, write_table
from _splits import rank_held_out
from PIL import Image
from sklearn.model_selection import train_test_split

from skhash.comparison import make_hasher
from skhash.datasets import load_dataset, split

NBITS, N_TRAIN, N_RANKED = 32, 1000, 1000
PATH, TABLE = RESULTS / "networks.json", RESULTS / "networks.md"
#: set to its name, the data, the shape of a sample, and the layers of the network
SETS = {
    "cifar_strided": ("CIFAR-10, strided convolutions", "cifar10", (3, 32, 32), strided),
    "cifar_residual": ("CIFAR-10, residual network", "cifar10", (3, 32, 32), residual),
    "mnist_strided": ("MNIST, strided convolutions", "mnist", (1, 28, 28), strided),
    "fashion_pooled": ("Fashion-MNIST, convolutions without batch norm", "fashion_mnist", (1, 28, 28), pooled),
    "gist_dense": ("CIFAR-10 GIST, dense layers", "cifar_gist", (512,), dense),
    "usps_dense": ("USPS, dense layers", "usps", (256,), dense),
}
#: method to its values for "mlp": batch size, weight decay; all have a learning rate of 0.003. Those with None keep
#: their values for any network.
METHODS = {
    "talr": (256, 0.1),
    "hashnet": (256, 3.0),
    "dpsh": (256, 1.0),
    "dtsh": (128, 1.0),
    "dhn": (256, 1.0),
    "greedyhash": (256, 0.1),
    "orthohash": (256, 0.1),
    "mihash": (1000, 0.1),
    "fastap": (256, 0.1),
    "csq": (256, 0.1),
    "bihalf": (256, 0.1),
    "cibhash": None,
    "greedyhash-unsupervised": (256, 0.1),
    "nsh": None,
    "tbh": (256, 1e-4),
}
CANDIDATES = {
    "batches of 64": {"learning_rate": 0.001, "weight_decay": 0.1, "batch_size": 64},
    "batches of 256": {"learning_rate": 0.001, "weight_decay": 0.1, "batch_size": 256},
}
KEYS = ("set", "method", "candidate", "seed")


def load_cifar10(seed, shape):
    """Training images of protocol "5k" and their classes; an image is decoded when it is indexed."""
    with np.load(Path(os.environ["SKHASH_DATA"], "cifar10_jpeg_bytes.npz")) as file:
        data, offsets, y = file["data"], file["offsets"], file["y"]
    indices = split(np.arange(len(y), dtype=np.float32)[:, None], y, "5k", seed, name="cifar10 images")
    order = indices.X_train[:, 0].astype(int)

    def images(chosen):
        streams = (data[offsets[i] : offsets[i + 1]].tobytes() for i in order[chosen])
        return np.stack([np.asarray(Image.open(io.BytesIO(stream))).transpose(2, 0, 1) for stream in streams])

    return images, indices.y_train


def load(name, seed):
    """Split of the training samples alone."""
    _, source, shape, _ = SETS[name]
    if source == "cifar10":
        read_samples, y = load_cifar10(seed, shape)
    else:
        data = load_dataset(source, protocol="5k", random_state=seed)
        y = data.y_train

        def read_samples(chosen):
            return data.X_train[chosen].reshape(-1, *shape)

    learned, rest = train_test_split(np.arange(len(y)), train_size=N_TRAIN, random_state=seed, stratify=y)
    chosen = np.concatenate([learned, rest[:N_RANKED]])
    parts = np.split(np.arange(len(chosen)), [N_TRAIN])
    return rank_held_out(read_samples(chosen), y[chosen], *parts, "auto")


def measure(name, method, candidate, seed):
    """AP_T of one fit on held-out training samples."""
    data, (_, _, shape, layers) = load(name, seed), SETS[name]
    as_mlp = {}
    if METHODS[method] is not None:
        batch_size, weight_decay = METHODS[method]
        as_mlp = {"learning_rate": 0.003, "weight_decay": weight_decay, "batch_size": batch_size}
    parameters = {"as mlp": as_mlp, **CANDIDATES}[candidate]
    hasher = make_hasher(method, NBITS, seed, "auto", backbone=make_network(layers, shape, seed), **parameters)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of codes that classes share
        hasher.fit(data.X_train, data.y_train)
    seconds = round(time.process_time() - start, 1)
    cell = dict(zip(KEYS, (name, method, candidate, seed), strict=True))
    return cell | {"cpu_seconds": seconds} | rank(hasher, data, ["ap"])


def make_table(results):
    """Markdown of mean AP_T of each method with each setting, on the sets where all methods were measured."""
    sets = [name for name in SETS if name in {result["set"] for result in results}]
    rows = [["method", "settings", *(SETS[name][0] for name in sets)]]
    for method in METHODS:
        for candidate in ("as mlp", *CANDIDATES):
            aps = {name: [] for name in sets}
            for result in results:
                if (result["method"], result["candidate"]) == (method, candidate) and result["set"] in aps:
                    aps[result["set"]].append(result["ap"])
            means = [f"{np.mean(values):.3f}" if values else "" for values in aps.values()]
            rows += [[method, candidate, *means]] if any(means) else []
    return "AP_T on held-out training samples, means over the seeds:\n\n" + as_markdown(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--candidates", nargs="+", default=["as mlp", *CANDIDATES])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    cells = [
        (name, method, candidate, seed)
        for seed in range(options.seeds)
        for name in options.sets
        for method in options.methods
        for candidate in options.candidates
    ]
    if options.command == "measure":
        measure_missing(PATH, KEYS, cells, measure)
    write_table(TABLE, make_table(read(PATH)))


if __name__ == "__main__":
    main()
