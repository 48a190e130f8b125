"""Targets of any kind, in the form that affinities compare."""

from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._names import check_columns, composed, names_of
from skhash._validation import as_array

_BINARIZE = "from sklearn.preprocessing import MultiLabelBinarizer; y = MultiLabelBinarizer().fit_transform(y)"
_BYTES = "values of type bytes"


def as_targets(y: Any, name: str = "y") -> Any:
    """Targets of any kind, as an array or a CSR matrix with one row per sample; a sparse column becomes dense."""
    if sparse.issparse(y):
        return y.toarray() if y.ndim != 2 or y.shape[1] == 1 else _as_csr(y)
    array = _of_list(y, name) if isinstance(y, list | tuple) else as_array(y, name)
    if array.ndim == 0:
        found = "None" if y is None else f"a value of type {type(y).__name__}"
        raise TypeError(f"`{name}` must be an array with one target per sample. Got {found} instead.")
    if array.dtype.kind in "OT":
        array = _uniform(array.astype(object, copy=False))
    # bytes that are no text stay different from each other
    array = np.char.decode(array, "utf-8", "backslashreplace") if array.dtype.kind == "S" else array
    return _composed(array) if array.dtype.kind == "U" and array.size else array


def as_labels(y: Any, name: str = "y") -> Any:
    """Targets of :func:`as_targets`, checked as labels: classes or a 0/1 matrix, of one kind and none missing."""
    y = as_targets(y, name)
    if y.dtype.kind == "c":
        raise ValueError("Complex data not supported: `y` must hold class labels or a 0/1 matrix of labels.")
    if len(y.shape) > 2:  # the error of scikit-learn does not say that it is about y
        raise ValueError(f"`y` must hold class labels or a 0/1 matrix of labels. Got shape {y.shape} instead.")
    if y.shape[1:] == (0,):
        raise ValueError(f"`y` must hold at least one label per sample. Got shape {y.shape} instead.")
    check_complete(y)
    if y.dtype.kind == "f" and not np.isfinite(y.data if sparse.issparse(y) else y).all():
        raise ValueError("`y` must hold finite values. Got infinity.")
    if y.dtype.kind in "OU":
        types = set(map(type, y.flat)) if y.dtype.kind == "O" else {str}
        is_rows = y.ndim == 2 and y.shape[1] > 1 and str in types  # lists of one length
        if is_rows or any(issubclass(kind, list | set | frozenset | np.ndarray) for kind in types):
            raise ValueError(
                "`y` must hold one class per sample, or a 0/1 matrix of labels. Got lists of labels instead. "
                f"Convert them first:\n{_BINARIZE}"
            )
        if len(kinds := {_kind(kind) for kind in types}) > 1:
            raise ValueError(
                f"`y` must hold values of one type. Got {' and '.join(sorted(kinds))} instead. Convert them first: "
                "y = [str(target) for target in y]"
            )
    return y


def both(read: Callable[[Any, str], Any], y_a: Any, y_b: Any, names: tuple[str, str] = ("y_a", "y_b")) -> Any:
    """Targets of two sides, read by one of the functions above; columns that both sides name must be the same."""
    check_columns(y_a, names_of(y_b).columns, f"`{names[0]}`", f"`{names[1]}`", "label")
    a = read(y_a, names[0])
    return a, a if y_b is y_a else read(y_b, names[1])


def check_complete(y: Any) -> None:
    """Raise ValueError if targets of :func:`as_targets` have missing values: NaN, NaT, None or pandas.NA."""
    if (missing := np.flatnonzero(missing_targets(y))).size:
        keep = "pandas.notna(y)" if len(y.shape) == 1 else "pandas.notna(y).all(axis=1)"
        raise ValueError(
            "`y` must hold a target for each sample. Got missing values such as NaT, None or NaN for "
            f"{len(missing)} of {y.shape[0]} samples instead, the first of which is sample {missing[0]}. Leave these "
            f"samples out: keep = {keep}; X, y = X[keep], y[keep]"
        )


def missing_targets(y: Any) -> npt.NDArray[np.bool_]:
    """Mask of the samples whose targets of :func:`as_targets` have missing values."""
    values = y.data if sparse.issparse(y) else y
    if values.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in values.flat], dtype=bool).reshape(values.shape)
    elif values.dtype.kind in "fmM":
        missing = np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values)
    else:
        return np.zeros(y.shape[0], dtype=bool)
    if sparse.issparse(y):
        mask = np.zeros(y.shape[0], dtype=bool)
        mask[y.tocoo().row[missing]] = True
        return mask
    return np.asarray(missing.any(axis=tuple(range(1, missing.ndim))))


def distinct_targets(y: Any) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Index of one sample of each distinct target, and for each sample which distinct target it has."""
    if not sparse.issparse(y):
        column = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if column.ndim == 1 and column.dtype.kind in "biufUmM":
            return _distinct_integers(column) or np.unique(column, return_index=True, return_inverse=True)[1:]
        if y.ndim == 2 and y.dtype.kind == "f" and ((y == 0) | (y == 1)).all():
            y = y.astype(np.uint8)
        if y.ndim == 2 and y.dtype.kind in "biu":
            values = np.ascontiguousarray(y).view(f"V{y.dtype.itemsize * y.shape[1]}").ravel()
            return np.unique(values, return_index=True, return_inverse=True)[1:]
    all_samples = np.arange(y.shape[0])
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
    first = np.full(high - low + 1, -1)
    first[values[::-1]] = np.arange(len(values))[::-1]  # the last assignment wins: that of the first sample
    is_there = first >= 0
    return first[is_there], (np.cumsum(is_there) - 1)[values]


def _as_csr(y: Any) -> Any:
    """CSR matrix of a sparse one; repeated entries of a COO matrix stay, as in the other formats."""
    if y.format != "coo":
        return y.tocsr()
    order = np.argsort(y.row, kind="stable")
    ends = np.cumsum(np.bincount(y.row, minlength=y.shape[0]))
    return sparse.csr_array((y.data[order], y.col[order], np.append(0, ends)), shape=y.shape)


def _of_list(y: Any, name: str) -> npt.NDArray[Any]:
    """Array of a list, of dtype object if numpy would turn numbers or None into text, or if lists differ in length."""
    try:
        array = as_array(y, name)
    except ValueError:
        return np.array(y, dtype=object)
    return np.array(y, dtype=object) if array.dtype.kind in "OUS" else array


def _uniform(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Array of objects as an array of numbers, text or bytes if all are; lists of one length become rows."""
    values = array.ravel().tolist()
    types = set(map(type, values))
    if array.ndim == 1 and types and types <= {list, np.ndarray} and len(set(map(len, values))) == 1:
        rows = np.array(values, dtype=object)
        return _uniform(rows) if rows.ndim > 1 else array
    kinds = {_kind(kind) for kind in types}
    if kinds in ({"text"}, {_BYTES}):
        return array.astype(str if kinds == {"text"} else bytes)
    # as a class True differs from 1, but in a matrix of labels it is 1
    is_number = kinds in ({"numbers"}, {"booleans"}) or (array.ndim > 1 and kinds == {"numbers", "booleans"})
    return np.array(values).reshape(array.shape) if is_number else array


def _composed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Text in which an accented letter is one character, since other systems write the same label with two."""
    if np.ascontiguousarray(array).view(np.uint32).max(initial=0) < 128:  # ASCII
        return array
    names, places = np.unique(array, return_inverse=True)
    return np.array([composed(name) for name in names.tolist()])[places].reshape(array.shape)


def _kind(kind: type) -> str:
    """Kind of targets in words, by their Python type."""
    for types, word in (
        ((bool, np.bool_), "booleans"),
        ((int, float, np.integer, np.floating), "numbers"),
        (str, "text"),
        (bytes, _BYTES),
    ):
        if issubclass(kind, types):
            return word
    return f"values of type {kind.__name__}"


def _is_missing(value: Any) -> bool:
    """Whether an object stands for a missing target."""
    is_nan = isinstance(value, Number | np.datetime64) and bool(value != value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")
