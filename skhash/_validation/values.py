"""The values of samples: the range in which every hasher computes, and features that are far from 0."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._validation.numeric import sum_of_squares

#: largest value, and smallest range of the training samples: float32 holds both, and float64 their fourth powers
MAX_VALUE, MIN_RANGE = 1e30, 1e-30
#: between these, sums of squares fit into float32
MAX_FLOAT32, MIN_FLOAT32 = 1e15, 1e-15
#: features whose mean is this many scales from 0 are shifted before they are multiplied or rounded
FAR = 1024.0


def check_values(X: Any, *, fit: bool = False) -> Any:
    """Samples whose values are within range; for `fit` in a type that holds the sums of their squares.

    Parameters
    ----------
    X : array, sparse array or DatasetArray of shape (n_samples, ...)
        Validated samples. Integers, and the items of a Dataset, are not checked.
    fit : bool, default=False
        Whether these are training samples, whose range is checked, too.

    Returns
    -------
    array, sparse array or DatasetArray
        `X`, or a copy in float64.

    Raises
    ------
    ValueError
        If a value is beyond 1e30, or if the training samples differ, but by less than 1e-30.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash._validation.values import check_values
    >>> check_values(np.array([[0.0], [1e154]]))
    Traceback (most recent call last):
    ...
    ValueError: `X` must have values between -1e+30 and 1e+30. Got 1e+154 instead. Multiply all samples by one number,
    such as 1 / numpy.abs(X_train).max().
    """
    remedy = "Multiply all samples by one number, such as 1 / numpy.abs(X_train).max()."
    values = getattr(X, "data", X) if hasattr(X, "tocsr") else X
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.size == 0:
        return X
    if not fit and are_within(values):
        return X
    lowest, highest = values.min(axis=0), values.max(axis=0)
    largest = max(float(highest.max()), -float(lowest.min()))
    if largest > MAX_VALUE:
        extreme = largest if highest.max() == largest else -largest
        raise ValueError(
            f"`X` must have values between {-MAX_VALUE:g} and {MAX_VALUE:g}. Got {extreme:g} instead. {remedy}"
        )
    if not fit:
        return X
    extent = float((highest - lowest).max()) if values is X else largest
    if 0 < extent < MIN_RANGE:
        raise ValueError(
            f"`X` must have a feature whose values differ by {MIN_RANGE:g} or more. Got differences of at most "
            f"{extent:g} instead. {remedy}"
        )
    if values.dtype == np.float32 and (largest > MAX_FLOAT32 or 0 < extent < MIN_FLOAT32):
        return X.astype(np.float64)
    return X


def are_within(values: Any) -> bool:
    """Whether values are known to be finite and in range, from one fast pass.

    Parameters
    ----------
    values : object
        Samples of any type.

    Returns
    -------
    bool
        False for values out of range, and for all that are not contiguous floats.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash._validation.values import are_within
    >>> [are_within(np.array([value])) for value in (1e15, -1e31, np.nan, 1)]
    [True, False, False, False]
    """
    total = sum_of_squares(values)
    return total is not None and total <= MAX_VALUE**2


def check_activations(activations: npt.NDArray[Any], hasher: Any) -> npt.NDArray[Any]:
    """Activations, which have a bit each: they are finite.

    Parameters
    ----------
    activations : ndarray of shape (n_samples, nbits)
        Activations of samples.
    hasher : BaseHasher
        The hasher, for the message.

    Returns
    -------
    ndarray of shape (n_samples, nbits)
        `activations`.

    Raises
    ------
    ValueError
        If an activation is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash import ITQHasher
    >>> from skhash._validation.values import check_activations
    >>> check_activations(np.array([[0.0, np.nan]]), ITQHasher())
    Traceback (most recent call last):
    ...
    ValueError: `X` must have finite activations. Got NaN or infinity for 1 of 1 samples instead. Look for extreme
    values in X, or fit again.
    """
    total = sum_of_squares(activations)
    if total is not None and np.isfinite(total):
        return activations
    finite = np.isfinite(activations).all(axis=1)
    if not finite.all():
        lower = " with a lower `learning_rate`" if hasattr(hasher, "learning_rate") else ""
        raise ValueError(
            f"`X` must have finite activations. Got NaN or infinity for {(~finite).sum()} of {len(finite)} samples "
            f"instead. Look for extreme values in X, or fit again{lower}."
        )
    return activations


def far_offset(mean: npt.NDArray[Any], scale: float) -> npt.NDArray[np.float64] | None:
    """What to subtract from features that are far from 0, before they lose digits.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Means of the features.
    scale : float
        Standard deviation of all values around these means.

    Returns
    -------
    ndarray of shape (n_features,), float64, or None
        Means of the far features, in the digits of float32, and 0 for the others; None if none is far,
        so that ordinary samples are rounded as they are. Whole numbers minus the offset are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash._validation.values import far_offset
    >>> far_offset(np.array([1e9 + 3, 5.0]), scale=2.0)
    array([1.e+09, 0.e+00])
    >>> far_offset(np.array([5.0, 5.0]), scale=2.0)
    """
    is_far = np.abs(mean) > FAR * scale
    return np.where(is_far, mean, 0.0).astype(np.float32).astype(np.float64) if is_far.any() else None
