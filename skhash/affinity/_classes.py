"""Affinity of class labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.affinity._targets import as_labels

_KINDS = dict.fromkeys("biuf", "numbers") | {"U": "text", "M": "dates", "m": "durations"}


@dataclass(frozen=True)
class ClassAffinity:
    """Level 1 for samples of the same class, 0 otherwise.

    Examples
    --------
    >>> from skhash.affinity import ClassAffinity
    >>> ClassAffinity()(["cat", "dog"], ["dog", "dog", "cat"])
    array([[0, 0, 1],
           [1, 1, 0]], dtype=uint8)
    """

    requires_y = True

    def fit(self, y: npt.ArrayLike) -> "ClassAffinity":
        """Affinity itself: it learns nothing. ValueError for targets that are no classes."""
        one_per_sample(y)
        return self

    def possible_levels(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Levels that can occur, ascending: 0 and 1."""
        return np.array([0, 1])

    def __call__(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """Levels of all pairs, shape (len a, len b)."""
        a = _comparable(y_a)
        b = a if y_b is y_a else _comparable(y_b)
        kinds = {_KINDS.get(classes.dtype.kind, "other objects") for classes in (a, b)}
        if len(kinds) > 1:
            raise ValueError(f"`y` must hold classes of one kind. Got {' and '.join(sorted(kinds))} instead.")
        levels: npt.NDArray[np.uint8] = (a[:, None] == b[None, :]).view(np.uint8)
        return levels


def class_codes(y: Any) -> npt.NDArray[Any]:
    """Index of the class of each sample, shape (n,), in the smallest integer type, which is compared fastest."""
    classes, codes = np.unique(one_per_sample(y), return_inverse=True)
    return codes.astype(np.min_scalar_type(len(classes)))


def _comparable(y: Any) -> npt.NDArray[Any]:
    """Classes, shape (n,); integers from 0 to 255 as bytes, which are compared faster (`benchmarks/talr_step.py`)."""
    classes = one_per_sample(y)
    fit_bytes = classes.dtype.kind in "iu" and len(classes) > 0 and classes.min() >= 0 and classes.max() < 256
    return classes.astype(np.uint8) if fit_bytes else classes


def one_per_sample(y: Any) -> npt.NDArray[Any]:
    """Targets as an array of shape (n,), from an array of shape (n,) or (n, 1)."""
    y = as_labels(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"`y` must hold one value per sample, shape (n,). Got shape {y.shape} instead.")
    return y  # type: ignore[no-any-return]
