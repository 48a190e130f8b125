"""Affinity from a matrix of levels."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._validation import numeric
from skhash.affinity._labels import one_per_sample
from skhash.affinity.targets import as_labels, as_targets


class PrecomputedAffinity:
    """Levels from a matrix; the targets are indices into that matrix.

    Pass ``y = numpy.arange(n)``: indices survive every cross-validation
    splitter, which a matrix does not. The matrix is never copied: `clone` and
    `deepcopy` return the object itself.

    Parameters
    ----------
    matrix : array-like or sparse matrix of shape (n, n)
        Levels >= 0. Repeated entries of a sparse matrix add up.

    Examples
    --------
    >>> from skhash.affinity import PrecomputedAffinity
    >>> PrecomputedAffinity([[1, 0], [0, 1]])([1], [0, 1])
    array([[0, 1]])
    """

    requires_y = True

    def __init__(self, matrix: Any) -> None:
        levels: Any = matrix.tocsr() if sparse.issparse(matrix) else numeric(as_targets(matrix, "matrix"), "matrix")
        if sparse.issparse(levels) and not levels.has_canonical_format:
            levels = levels.copy()  # the caller's matrix stays as it is
            levels.sum_duplicates()
        self.matrix = levels
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            raise ValueError(f"`matrix` must be square. Got shape {self.matrix.shape} instead.")
        stored = np.asarray(self.matrix.data if sparse.issparse(matrix) else self.matrix)
        self._levels = np.union1d([0], checked_levels(stored, "`matrix` of PrecomputedAffinity"))

    def __repr__(self) -> str:
        return f"PrecomputedAffinity({self.matrix.shape[0]} samples)"

    def __deepcopy__(self, memo: dict[int, Any]) -> "PrecomputedAffinity":
        return self

    def __sklearn_clone__(self) -> "PrecomputedAffinity":
        return self

    def fit(self, y: npt.ArrayLike) -> "PrecomputedAffinity":
        """Affinity itself: it learns nothing. ValueError for targets that are no indices."""
        self._indices(as_labels(y))
        return self

    def possible_levels(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[Any]:
        """Levels that can occur, ascending: those of the matrix, and 0."""
        return self._levels

    def __call__(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[Any]:
        """Levels of all pairs, shape (len a, len b)."""
        return self._entries(*self._checked(as_labels(y_a), as_labels(y_b)))

    def _checked(self, y_a: Any, y_b: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Indices of two sets of labels, each of shape (n,), as `_compare` takes them."""
        a = self._indices(y_a)
        return a, a if y_b is y_a else self._indices(y_b)

    def _compare(self, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Index of the level of each pair of checked indices, and the levels."""
        indices = level_indices(self._entries(a, b), self._levels)
        if indices.max(initial=0) >= len(self._levels):  # compiled passes write where these indices point
            raise ValueError(
                "`matrix` of PrecomputedAffinity must not change. Got a level that it did not have before. Make the "
                "affinity again."
            )
        return indices, self._levels

    def _entries(self, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if sparse.issparse(self.matrix):
            return np.asarray(self.matrix[a][:, b].toarray())
        return np.asarray(self.matrix[np.ix_(a, b)])

    def _indices(self, y: Any) -> npt.NDArray[Any]:
        indices = one_per_sample(y)
        n = self.matrix.shape[0]
        if indices.dtype.kind not in "iu" or (len(indices) and (indices.min() < 0 or indices.max() >= n)):
            raise ValueError(
                f"`y` must hold indices 0 to {n - 1} into the matrix of PrecomputedAffinity, "
                f"as numpy.arange({n}) does. Got {indices} instead."
            )
        return indices


def checked_levels(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Distinct levels, ascending; ValueError unless they are finite and >= 0."""
    values = np.unique(values)
    if len(values) and not (np.isfinite(values).all() and values[0] >= 0):
        raise ValueError(f"{name} must have finite levels >= 0. Got levels from {values[0]} to {values[-1]} instead.")
    return values


def level_indices(values: npt.NDArray[Any], levels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Index of each value among the ascending levels, uint8 for bytes and bools that are their own index, else uint32.

    A value that is no level gets the index of another level, or the number of levels.
    """
    if values.dtype.kind not in "bui" or not np.array_equal(levels, np.arange(len(levels))):
        return np.searchsorted(levels, values).astype(np.uint32)
    return values.astype(np.uint8 if values.dtype in (np.uint8, np.bool_) else np.uint32, copy=False)
