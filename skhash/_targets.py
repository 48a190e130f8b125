"""Rows of targets of any kind: arrays, lists, sparse matrices."""

import numpy as np
from scipy import sparse


def distinct_targets(y):
    """Find the distinct target rows, so that each pair of levels is computed once.

    Parameters
    ----------
    y : array-like of shape (n, ...)
        Target rows.

    Returns
    -------
    first : ndarray of shape (n_distinct,), dtype int64
        A row number of each distinct row.
    group : ndarray of shape (n,), dtype int64
        Which distinct row each row is. Rows of several real values are all taken as distinct.

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
            return np.unique(column, return_index=True, return_inverse=True)[1:]
        if y.ndim == 2 and y.dtype.kind == "f" and ((y == 0) | (y == 1)).all():
            y = y.astype(np.uint8)
        if y.ndim == 2 and y.dtype.kind in "biu":
            rows = np.ascontiguousarray(y).view(f"V{y.dtype.itemsize * y.shape[1]}").ravel()
            return np.unique(rows, return_index=True, return_inverse=True)[1:]
    everything = np.arange(n_rows(y))
    return everything, everything


def take_targets(y, rows):
    """Rows of targets of any kind: arrays, lists, sparse matrices.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, ...)
        Targets.
    rows : ndarray of int or slice
        Which rows.

    Returns
    -------
    ndarray or sparse matrix
        Those rows.

    Examples
    --------
    >>> from skhash._targets import take_targets
    >>> take_targets(["a", "b", "c"], [2, 0])
    array(['c', 'a'], dtype='<U1')
    """
    return y.tocsr()[rows] if sparse.issparse(y) else np.asarray(y)[rows]


def n_rows(y):
    """Number of rows of targets of any kind.

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
    >>> from skhash._targets import n_rows
    >>> n_rows(["a", "b"])
    2
    """
    return y.shape[0] if hasattr(y, "shape") else len(y)
