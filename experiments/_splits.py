"""Splits that are not protocols of skhash: held-out training samples, and fewer samples per class."""

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch


def thin_out(data, rng):
    """Make the classes of a split imbalanced: keep each training sample of class c with probability 0.6 ** c."""
    kept = rng.random(len(data.y_train)) < 0.6**data.y_train
    data.X_train, data.y_train = data.X_train[kept], data.y_train[kept]


def take_per_class(y, n_samples, random_state):
    """Indices of `n_samples` samples of each class, and of all others, both in random order."""
    order = np.random.default_rng(random_state).permutation(len(y))
    first = np.concatenate([order[y[order] == label][:n_samples] for label in np.unique(y)])
    learned = np.random.default_rng(random_state).permutation(first)
    return learned, order[~np.isin(order, first)]


def join_digits(data, rng, n_query=500, n_database=5000, n_train=5000):
    """Make two-digit numbers of a split of digits: two random images side by side, with one of 100 classes."""
    for part, n_samples in (("query", n_query), ("database", n_database), ("train", n_train)):
        X, y = data[f"X_{part}"], data[f"y_{part}"]
        tens, units = rng.integers(len(y), size=(2, n_samples))
        data[f"X_{part}"], data[f"y_{part}"] = np.hstack([X[tens], X[units]]), 10 * y[tens] + y[units]


def keep_tens(data, rng):
    """Make two-digit numbers as `join_digits` does, with the 10 classes of their first digits."""
    join_digits(data, rng)
    for part in ("query", "database", "train"):
        data[f"y_{part}"] //= 10


def without_labels(data, shape=None):
    """Split without the labels of its training samples, and with samples reshaped to images of `shape`."""
    parts = {name: data[name] for name in ("X_train", "X_query", "X_database")}
    if shape is not None:
        parts = {name: X.reshape(-1, *shape) for name, X in parts.items()}
    return Bunch(affinity=data.affinity, y_train=None, y_query=data.y_query, y_database=data.y_database, **parts)


def rank_training_samples(data):
    """Split whose training samples are its database."""
    return Bunch(**data | {"X_database": data.X_train, "y_database": data.y_train})


def rank_held_out(X, y, learned, held_out, affinity):
    """Split that learns from some samples and ranks the held-out samples for each other."""
    ranked = {"X_query": X[held_out], "y_query": y[held_out], "X_database": X[held_out], "y_database": y[held_out]}
    return Bunch(X_train=X[learned], y_train=y[learned], affinity=affinity, exclude_self=True, **ranked)


def hold_out_samples(data, random_state, test_size=0.3):
    """Split of the training samples: 70 % to learn from, and 30 % that are ranked for each other."""
    indices = np.arange(len(data.X_train))
    learned, held_out = train_test_split(indices, test_size=test_size, random_state=random_state)
    return rank_held_out(data.X_train, data.y_train, learned, held_out, data.affinity)


def hold_out_queries(data, random_state):
    """Split of the training samples: a tenth as queries, a fifth as database, the rest to learn from."""
    parts = {"train": (data.X_train, data.y_train)}
    for part, test_size in (("query", 0.1), ("database", 2 / 9)):
        X, y = parts["train"]
        X, X_part, y, y_part = train_test_split(X, y, test_size=test_size, random_state=random_state, stratify=y)
        parts |= {"train": (X, y), part: (X_part, y_part)}
    named = {f"{axis}_{part}": pair[i] for part, pair in parts.items() for i, axis in enumerate("Xy")}
    return Bunch(**data | named)
