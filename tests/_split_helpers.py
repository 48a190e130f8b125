"""Small data, and protocols of its size."""

from dataclasses import replace

import numpy as np

from skhash.datasets import PROTOCOLS

SMALL = {
    "holdout": PROTOCOLS["holdout"],
    "5k": replace(PROTOCOLS["5k"], n_query=40, n_train=100),
    "struct": replace(PROTOCOLS["struct"], n_query=30, n_train=50),
    "labelme": replace(PROTOCOLS["labelme"], n_query=20, n_train=50, n_samples=220),
    "mirflickr": replace(PROTOCOLS["mirflickr"], n_query=20, n_train=50),
}
SIZES = {  # queries, database, train, of 320 samples
    "holdout": (64, 256, 256),
    "5k": (40, 280, 100),
    "struct": (30, 290, 50),
    "labelme": (20, 300, 50),
    "mirflickr": (20, 300, 50),
}


def make(n=320, *, labels=False, seed=0):
    """Samples whose first feature is their index, and four classes (or six labels)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 0] = np.arange(n)
    y = rng.integers(0, 2, (n, 6)).astype(np.uint8) if labels else np.arange(n) % 4
    return X, y


def indices_of(X):
    return X[:, 0].astype(int)
