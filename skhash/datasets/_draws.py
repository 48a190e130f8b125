"""Functions that draw samples: each maps (class or labels of each sample, size, rng) to indices."""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def randomly(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of random samples."""
    return rng.permutation(len(classes))[:size]


def first(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of the first samples, in their order."""
    return np.arange(size)


def evenly(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of equally many samples per class; if a class is too small, the others fill up."""
    order, rank, _ = _shuffle_by_class(classes, rng)
    return order[np.argsort(rank, kind="stable")[:size]]


def evenly_up_to_half(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices as of `evenly`, but a class keeps half of its samples as long as others can fill up."""
    order, rank, class_size = _shuffle_by_class(classes, rng)
    in_second_half = rank >= class_size // 2
    return order[np.lexsort((rank, in_second_half))[:size]]


def proportionally(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of the same share of each class, rounded; a class with one sample is skipped."""
    order, rank, class_size = _shuffle_by_class(classes, rng)
    return order[np.argsort((rank + 0.5) / class_size, kind="stable")[:size]]


def evenly_by_label(labels: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of equally many samples per label, drawn for the rarest label first; random samples fill up."""
    order = rng.permutation(len(labels))
    shuffled = np.asarray(labels)[order] > 0
    n_per_label = size // shuffled.shape[1]
    chosen = np.zeros(len(order), dtype=bool)
    for label in np.argsort(shuffled.sum(axis=0), kind="stable"):
        chosen[np.flatnonzero(shuffled[:, label] & ~chosen)[:n_per_label]] = True
    chosen[np.flatnonzero(~chosen)[: size - chosen.sum()]] = True
    return order[chosen]


def _shuffle_by_class(classes: Indices, rng: np.random.RandomState) -> tuple[Indices, Indices, Indices]:
    """Shuffled indices, the rank of each inside its class (from 0), and the size of its class."""
    order = rng.permutation(len(classes))
    shuffled = classes[order]
    by_class = np.argsort(shuffled, kind="stable")
    sizes = np.bincount(classes)
    rank = np.empty(len(order), dtype=np.int64)
    rank[by_class] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order, rank, sizes[shuffled]
