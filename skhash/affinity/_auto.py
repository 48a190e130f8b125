"""Choice of the affinity that suits the targets, and its labels for methods that regress on labels."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash.affinity._labels import ClassAffinity, SharedLabelsAffinity, label_indicator, one_per_sample
from skhash.affinity._targets import as_labels


def resolve_affinity(affinity: str | Callable[[Any, Any], Any], y: Any) -> Callable[[Any, Any], Any]:
    """Affinity for the targets: the given one, or for "auto" the one that suits them.

    Parameters
    ----------
    affinity : "auto" or callable
        A callable is returned as it is.
    y : array-like of shape (n,) or (n, n_labels)
        Class labels, or a 0/1 matrix of labels.

    Returns
    -------
    callable
        ClassAffinity, SharedLabelsAffinity, or `affinity` itself.

    Raises
    ------
    ValueError
        If `affinity` is unknown, or `y` is neither of the two kinds.

    Examples
    --------
    >>> from skhash.affinity import resolve_affinity
    >>> resolve_affinity("auto", [[0, 1], [1, 1], [1, 0]])
    SharedLabelsAffinity(binary=False)
    """
    if isinstance(affinity, type):
        raise TypeError(f"`affinity` must be an instance, {affinity.__name__}(). Got the class itself instead.")
    if callable(affinity):
        return affinity
    if not isinstance(affinity, str) or affinity != "auto":
        raise ValueError(
            f"`affinity` must be 'auto' or a callable on targets, see skhash.affinity. Got {affinity!r} instead."
        )
    if y is None:
        raise ValueError("`y` must hold class labels or a 0/1 matrix of labels for affinity='auto'. Got None instead.")
    y = as_labels(y)
    _check_not_continuous(y)
    if y.ndim == 1 or y.shape[1] == 1:
        return ClassAffinity()
    y = label_indicator(y)
    n, n_labels = y.shape
    if n == n_labels and n > 2:
        remedy = "pass affinity=PrecomputedAffinity(matrix) and y=numpy.arange(n)"
        if abs(y - y.T).sum() == 0:
            raise ValueError(f"`y` must hold labels. Got a symmetric {n} x {n} matrix, which is an affinity: {remedy}.")
        warnings.warn(
            f"y is a {n} x {n} matrix and is taken for {n} labels of each sample. If it says which samples are "
            f"relevant to which, {remedy}.",
            UserWarning,
            stacklevel=2,
        )
    return SharedLabelsAffinity()


def fit_affinity(affinity: Callable[[Any, Any], Any], y: Any) -> Callable[[Any, Any], Any]:
    """Affinity that has learned from the training targets, if it has a `fit` method.

    Parameters
    ----------
    affinity : callable
        An affinity, or a plain function, which learns nothing.
    y : array-like of shape (n, ...)
        Targets of the training samples.

    Returns
    -------
    callable
        The affinity to use; the argument does not change.

    Examples
    --------
    >>> from skhash.affinity import ClassAffinity, fit_affinity
    >>> fit_affinity(ClassAffinity(), [0, 1])
    ClassAffinity()
    """
    return affinity.fit(y) if hasattr(affinity, "fit") else affinity


def label_matrix(affinity: Callable[[Any, Any], Any], y: Any) -> npt.NDArray[np.float64]:
    """Labels behind an affinity as a 0/1 matrix, for methods that regress on labels.

    Parameters
    ----------
    affinity : callable
        A ClassAffinity or a SharedLabelsAffinity.
    y : array-like of shape (n,) or (n, n_labels)
        Its targets.

    Returns
    -------
    ndarray of shape (n, n_labels), float64
        1 where a sample has a label; the labels of classes are the classes, ascending.

    Raises
    ------
    ValueError
        If the affinity is of another kind: not every affinity comes from labels.

    Examples
    --------
    >>> from skhash.affinity import ClassAffinity, label_matrix
    >>> label_matrix(ClassAffinity(), ["dog", "cat", "dog"])
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """
    if isinstance(affinity, ClassAffinity):
        classes, group = np.unique(one_per_sample(y), return_inverse=True)
        return np.eye(len(classes))[group]
    if isinstance(affinity, SharedLabelsAffinity):
        labels = label_indicator(y)
        return np.asarray(labels.toarray() if sparse.issparse(labels) else labels, dtype=np.float64)
    raise ValueError(
        "`affinity` must be 'auto', ClassAffinity() or SharedLabelsAffinity(), with class labels or a 0/1 matrix of "
        f"labels as y, for a method that learns from labels. Got {affinity!r} instead."
    )


def _check_not_continuous(y: Any) -> None:
    """Raise ValueError for real-valued targets, which are not labels."""
    if y.dtype.kind in "biuU":
        return
    from sklearn.utils.multiclass import type_of_target

    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind.startswith("continuous"):
        raise ValueError(
            f"`y` must hold class labels or a 0/1 matrix of labels for affinity='auto'. Got {kind!r} values instead. "
            "For other targets pass affinity=DistanceAffinity() or any function of two sets of targets; for a data "
            "set use protocol 'labelme'."
        )
