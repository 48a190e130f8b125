"""Checks of y before scikit-learn's own, each error with a line that repairs it."""

from collections.abc import Iterator, Mapping, Sized
from typing import Any

import numpy as np
from scipy import sparse

from skhash.registry import METHODS

_DISTANCES = (
    "from skhash.affinity import DistanceAffinity; hasher = {name}(nbits={nbits}, affinity=DistanceAffinity()).fit(X)"
)
_BINARIZE = "from sklearn.preprocessing import MultiLabelBinarizer; y = MultiLabelBinarizer().fit_transform(y)"


def missing_targets(hasher: Any) -> ValueError:
    """Error of a supervised hasher that is fitted without y.

    Parameters
    ----------
    hasher : BaseHasher
        The hasher.

    Returns
    -------
    ValueError
        Its message begins as scikit-learn's, and ends in a line that can be pasted.

    Examples
    --------
    >>> from skhash import KSHHasher
    >>> from skhash._validation.targets import missing_targets
    >>> print(str(missing_targets(KSHHasher(8))).splitlines()[1])
    from skhash.affinity import DistanceAffinity; hasher = KSHHasher(nbits=8, affinity=DistanceAffinity()).fit(X)
    """
    name = type(hasher).__name__
    message = f"This {name} estimator requires y to be passed, but the target y is None. "
    if not isinstance(hasher.affinity, str):
        return ValueError(f"{message}Pass the targets that {hasher.affinity!r} compares.")
    message += "Pass class labels or a 0/1 matrix of labels as y. "
    learn_labels = {method.class_name for method in METHODS.values() if method.needs_labels}
    if learn_labels.intersection(base.__name__ for base in type(hasher).__mro__):
        return ValueError(f"{message}Without labels use a hasher that learns from X alone, such as ITQHasher.")
    line = _DISTANCES.format(name=name, nbits=hasher.nbits)
    return ValueError(f"{message}Without labels learn from the distances between samples:\n{line}")


def labels_for_affinity(y: Any) -> Any:
    """Targets that "auto" chooses an affinity for, as an array of numbers or text where they are objects.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n_samples,) or (n_samples, n_labels)
        Class labels, or a 0/1 matrix of labels.

    Returns
    -------
    array-like or sparse matrix
        `y`, or a new array if it holds objects.

    Raises
    ------
    TypeError
        If `y` is not an array.
    ValueError
        If a target is missing, or the targets are of several types, or lists of labels, or without any label.

    Examples
    --------
    >>> from skhash._validation.targets import labels_for_affinity
    >>> labels_for_affinity(["cat", None])
    Traceback (most recent call last):
    ...
    ValueError: `y` must hold a target for each sample. Got None or NaN for 1 of 2 samples instead. Leave these
    samples out: keep = pandas.notna(y); X, y = X[keep], y[keep]
    """
    if sparse.issparse(y):
        _check_labels(y)
        return y
    if isinstance(y, str | bytes | Mapping | Iterator | set) or np.isscalar(y):
        raise TypeError(f"`y` must be an array with one target per sample. Got a value of type {type(y).__name__}.")
    if isinstance(y, list | tuple) or getattr(y, "dtype", None) == np.dtype(object):
        lengths = {
            len(target) if isinstance(target, Sized) else 0 for target in y if not isinstance(target, str | bytes)
        }
        if len(lengths) > 1 or any(isinstance(target, set | frozenset) for target in y):
            raise ValueError(
                "`y` must hold one class per sample, or a 0/1 matrix of labels. Got lists of labels instead. "
                f"Convert them first:\n{_BINARIZE}"
            )
    is_list = isinstance(y, list | tuple)
    values = np.array(y, dtype=object) if is_list else np.asarray(y)  # an array of text hides numbers of a list
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: `y` must hold class labels or a 0/1 matrix of labels.")
    _check_labels(values)
    uniform = _uniform(values, y) if values.dtype == np.dtype(object) and values.size else y
    return y if is_list else uniform


def _check_labels(y: Any) -> None:
    if len(y.shape) > 2:  # scikit-learn's error does not tell y from X
        raise ValueError(f"`y` must hold class labels or a 0/1 matrix of labels. Got shape {y.shape} instead.")
    if y.shape[1:] == (0,):
        raise ValueError(f"`y` must hold at least one label per sample. Got shape {y.shape} instead.")


def _uniform(values: Any, y: Any) -> Any:
    """Objects of one type as an array of that type; `y` if scikit-learn knows better."""
    flat = values.ravel().tolist()
    n_missing = sum(_is_missing(value) for value in flat)
    if n_missing:
        raise ValueError(
            f"`y` must hold a target for each sample. Got None or NaN for {n_missing} of {len(flat)} samples instead. "
            "Leave these samples out: keep = pandas.notna(y); X, y = X[keep], y[keep]"
        )
    kinds = {_kind(value) for value in flat}
    if len(kinds) > 1:
        raise ValueError(
            f"`y` must hold values of one type. Got {' and '.join(sorted(kinds))} instead. Convert them first: "
            "y = [str(target) for target in y]"
        )
    return np.asarray(values.tolist()) if kinds <= {"numbers", "booleans"} else y


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _kind(value: Any) -> str:
    """Kind of a class label in words."""
    for types, word in (
        ((bool, np.bool_), "booleans"),
        ((int, float, np.integer, np.floating), "numbers"),
        (str, "text"),
    ):
        if isinstance(value, types):
            return word
    return f"values of type {type(value).__name__}"
