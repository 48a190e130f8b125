"""Targets of any kind: arrays, lists, sparse matrices, with one row per sample."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

N_HEAD = 4096  # samples that are looked at first


def distinct_targets(y: Any) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Indices of the distinct targets, so that each pair of levels is computed once.

    Parameters
    ----------
    y : array-like of shape (n, ...)
        Targets.

    Returns
    -------
    first : ndarray of shape (n_distinct,)
        Index of one sample of each distinct target.
    group : ndarray of shape (n,)
        Which distinct target each sample has. Targets of several real values all count as distinct.

    Examples
    --------
    >>> from skhash._targets import distinct_targets
    >>> distinct_targets(["b", "a", "b"])
    (array([1, 0]), array([1, 0, 1]))
    """
    if not sparse.issparse(y):
        y = np.asarray(y)
        column = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if column.ndim == 1 and (column.dtype.kind in "biufUS" or all(isinstance(value, str) for value in column)):
            return _distinct_integers(column) or np.unique(column, return_index=True, return_inverse=True)[1:]
        if y.ndim == 2 and y.dtype.kind == "f" and ((y == 0) | (y == 1)).all():
            y = y.astype(np.uint8)
        if y.ndim == 2 and y.dtype.kind in "biu":
            values = np.ascontiguousarray(y).view(f"V{y.dtype.itemsize * y.shape[1]}").ravel()
            return np.unique(values, return_index=True, return_inverse=True)[1:]
    all_samples = np.arange(n_targets(y))
    return all_samples, all_samples


def _distinct_integers(column: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None:
    """`distinct_targets` of integers from a small range, without a sort; None for others."""
    if column.dtype.kind not in "iu" or not len(column):
        return None
    low, high = int(column.min()), int(column.max())
    if high - low >= len(column) or not -(2**62) <= low <= high < 2**62:
        return None
    values = np.require(column, np.intp, ["C", "W"])  # what the kernels are compiled for
    values = values - low if low else values
    for some in (values[:N_HEAD], values):  # the first samples often have all values
        first = np.full(high - low + 1, -1)
        first[some[::-1]] = np.arange(len(some))[::-1]  # the last assignment, that of the first sample, stays
        is_there = first >= 0
        if is_there.all():
            return first, values
    return first[is_there], (np.cumsum(is_there) - 1)[values]


def take_targets(y: Any, indices: Any) -> Any:
    """Targets of some samples.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, ...)
        Targets.
    indices : array-like of int, or slice
        Which samples.

    Returns
    -------
    ndarray or sparse matrix
        Their targets.

    Examples
    --------
    >>> from skhash._targets import take_targets
    >>> take_targets(["a", "b", "c"], [2, 0])
    array(['c', 'a'], dtype='<U1')
    """
    return y.tocsr()[indices] if sparse.issparse(y) else np.asarray(y)[indices]


def n_targets(y: Any) -> int:
    """Number of targets, which `len` does not know for sparse matrices.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, ...)
        Targets.

    Returns
    -------
    int
        Their number.

    Examples
    --------
    >>> from skhash._targets import n_targets
    >>> n_targets(["a", "b"])
    2
    """
    return int(y.shape[0]) if hasattr(y, "shape") else len(y)
