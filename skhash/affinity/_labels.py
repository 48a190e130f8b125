"""Affinities of labels: of classes, and of samples with several labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash.affinity.targets import as_labels, both

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
        one_per_sample(as_labels(y))
        return self

    def possible_levels(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Levels that can occur, ascending: 0 and 1."""
        return np.array([0, 1])

    def __call__(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """Levels of all pairs, shape (len a, len b)."""
        return self._compare(*self._checked(*both(as_labels, y_a, y_b)))[0]

    def _checked(self, y_a: Any, y_b: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Classes of two sets of labels, each of shape (n,), as `_compare` takes them."""
        a = one_per_sample(y_a)
        b = a if y_b is y_a else one_per_sample(y_b)
        kinds = {_KINDS.get(classes.dtype.kind, "other objects") for classes in (a, b)}
        if len(kinds) > 1:
            raise ValueError(f"`y` must hold classes of one kind. Got {' and '.join(sorted(kinds))} instead.")
        return a, b

    def _compare(self, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Index of the level of each pair of checked classes, and the levels."""
        return (a[:, None] == b).view(np.uint8), np.array([0, 1])


def one_per_sample(y: Any) -> npt.NDArray[Any]:
    """Labels as an array of shape (n,), from an array of shape (n,) or (n, 1)."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"`y` must hold one value per sample, shape (n,). Got shape {y.shape} instead.")
    return y  # type: ignore[no-any-return]


@dataclass(frozen=True)
class SharedLabelsAffinity:
    """Level = number of labels that two multi-label samples share.

    Parameters
    ----------
    binary : bool, default=False
        If True, the level is 1 for one or more shared labels.

    Examples
    --------
    >>> from skhash.affinity import SharedLabelsAffinity
    >>> SharedLabelsAffinity()([[1, 1, 0]], [[1, 1, 1], [0, 1, 0], [0, 0, 1]])
    array([[2, 1, 0]])
    """

    binary: bool = False
    requires_y = True

    def fit(self, y: Any) -> "SharedLabelsAffinity":
        """Affinity itself: it learns nothing. ValueError for targets that are no labels."""
        label_indicator(as_labels(y))
        return self

    def possible_levels(self, y_a: Any, y_b: Any) -> npt.NDArray[np.int64]:
        """Levels that can occur, ascending: 0 to the largest number of labels of a sample."""
        return self._levels(*self._checked(*both(as_labels, y_a, y_b)))

    def __call__(self, y_a: Any, y_b: Any) -> npt.NDArray[np.int64]:
        """Levels of all pairs, shape (len a, len b)."""
        return self._shared(*self._checked(*both(as_labels, y_a, y_b))).astype(np.int64)

    def _checked(self, y_a: Any, y_b: Any) -> tuple[Any, Any]:
        """0/1 matrices of two sets of labels, as `_compare` takes them."""
        a = label_indicator(y_a)
        b = a if y_b is y_a else label_indicator(y_b)
        if a.shape[1] != b.shape[1]:
            raise ValueError(
                f"`y_a` and `y_b` must have the same labels. Got {a.shape[1]} and {b.shape[1]} labels instead."
            )
        return a, b

    def _compare(self, a: Any, b: Any) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Index of the level of each pair of checked labels, and the levels."""
        return self._shared(a, b).astype(np.uint32), self._levels(a, b)

    def _levels(self, a: Any, b: Any) -> npt.NDArray[np.int64]:
        largest = 1 if self.binary else min(int(labels.sum(axis=1).max()) for labels in (a, b))
        return np.arange(largest + 1)

    def _shared(self, a: Any, b: Any) -> npt.NDArray[np.float32]:
        # float32 products go through BLAS and are exact far beyond any number of labels
        shared = a.astype(np.float32) @ b.astype(np.float32).T
        levels: npt.NDArray[np.float32] = shared if isinstance(shared, np.ndarray) else np.asarray(shared.toarray())
        return np.minimum(levels, 1) if self.binary else levels


def label_indicator(y: Any) -> Any:
    """Checked 0/1 matrix of labels, dense or sparse; a repeated entry of a sparse matrix counts once."""
    stored = y.data if sparse.issparse(y) else y
    if y.ndim != 2 or stored.dtype.kind not in "biuf" or not ((stored == 0) | (stored == 1)).all():
        found = f"shape {y.shape} of type {stored.dtype}"
        if y.ndim == 2 and stored.size and stored.dtype.kind in "biuf":
            found += f" with values from {stored.min()} to {stored.max()}"
        raise ValueError(
            "`y` must be a 0/1 matrix of labels, shape (n, n_labels), for SharedLabelsAffinity. "
            f"Got {found} instead. For vectors pass affinity=DistanceAffinity()."
        )
    if sparse.issparse(y) and not y.has_canonical_format:
        y = y.astype(bool)
        y.sum_duplicates()
    return y.astype(np.uint8) if y.dtype.kind == "b" else y
