"""Affinity of class labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._validation.numeric import as_array

_KINDS = dict.fromkeys("biuf", "numbers") | {"U": "text", "S": "bytes"}


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
        """Affinity itself: it learns nothing."""
        return self

    def possible_levels(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Levels that can occur, ascending: 0 and 1."""
        return np.array([0, 1])

    def __call__(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """Levels of all pairs, shape (len a, len b)."""
        a = _comparable(y_a)
        b = a if y_b is y_a else _comparable(y_b)
        _check_kinds(_kinds(a) if b is a else _kinds(a) | _kinds(b))
        levels: npt.NDArray[np.uint8] = (a[:, None] == b[None, :]).view(np.uint8)
        return levels


def class_codes(y: Any) -> npt.NDArray[Any]:
    """Index of each sample's class, shape (n,), in the smallest type: small integers are compared most quickly."""
    y = one_per_sample(y)
    _check_kinds(_kinds(y))
    classes, codes = np.unique(y, return_inverse=True)
    return codes.astype(np.min_scalar_type(len(classes)))


def _comparable(y: Any) -> npt.NDArray[Any]:
    """Classes, shape (n,); integers from 0 to 255 as bytes, which are compared in a quarter of the time."""
    classes = one_per_sample(y)
    fit_bytes = classes.dtype.kind in "iu" and len(classes) > 0 and classes.min() >= 0 and classes.max() < 256
    return classes.astype(np.uint8) if fit_bytes else classes


def one_per_sample(y: Any) -> npt.NDArray[Any]:
    """Targets as an array of shape (n,), from an array of shape (n,) or (n, 1)."""
    y = y.toarray() if sparse.issparse(y) else as_array(y, "y")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"`y` must hold one value per sample, shape (n,). Got shape {y.shape} instead.")
    return np.asarray(y)


def _check_kinds(kinds: set[str]) -> None:
    if len(kinds) > 1:
        raise ValueError(f"`y` must hold classes of one kind. Got {' and '.join(sorted(kinds))} instead.")


def _kinds(y: npt.NDArray[Any]) -> set[str]:
    """Kinds of the classes in an array: numbers, text, ...; no class may be missing."""
    if y.dtype.kind == "O":  # as pandas makes it; it can hold several kinds
        examples = {type(value): value for value in y}
        missing = any(kind.__name__ in ("NoneType", "NAType") for kind in examples)
        floats = np.asarray([value for value in y if isinstance(value, float | np.floating)])
        codes = {np.asarray(example).dtype.kind for example in examples.values()}
    else:
        missing, floats, codes = False, y, {y.dtype.kind}
    if missing or (floats.dtype.kind == "f" and not np.isfinite(floats).all()):
        raise ValueError("`y` must hold a class for each sample. Got None, NaN or infinity.")
    return {_KINDS.get(code, f"type {code!r}") for code in codes}
