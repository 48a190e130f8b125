"""Arrays of numbers from what users give, with one error for anything else that names the argument."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

_WORDS = {"c": "complex numbers", "U": "text", "S": "bytes", "O": "other objects", "M": "dates", "m": "durations"}


def numeric(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array of real numbers.

    Parameters
    ----------
    values : array-like
        Integers, booleans or floats; NaN and infinity are let through.
    name : str
        Name of the argument in the message.

    Returns
    -------
    ndarray
        The array, not copied if it is one already.

    Raises
    ------
    ValueError
        If the values are lists of different lengths, or not real numbers.

    Examples
    --------
    >>> from skhash._validation.numeric import numeric
    >>> numeric([[1, 0]], "codes")
    array([[1, 0]])
    >>> numeric("1100", "codes")
    Traceback (most recent call last):
    ...
    ValueError: `codes` must be an array of numbers. Got text instead.
    """
    array = as_array(values, name)
    if array.dtype.kind not in "biuf":
        given = type(values).__name__ if array.ndim == 0 and array.dtype == np.dtype(object) else None
        found = given or _WORDS.get(array.dtype.kind, f"values of dtype {array.dtype}")
        raise ValueError(f"`{name}` must be an array of numbers. Got {found} instead.")
    return array


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array of whatever they are.

    Parameters
    ----------
    values : array-like
        The values.
    name : str
        Name of the argument in the message.

    Returns
    -------
    ndarray
        The array, not copied if it is one already.

    Raises
    ------
    ValueError
        If values are masked, or lists of different lengths.
    TypeError
        If numpy cannot read them, such as a tensor on a GPU or with gradients.

    Examples
    --------
    >>> from skhash._validation.numeric import as_array
    >>> as_array(["cat", "dog"], "y")
    array(['cat', 'dog'], dtype='<U3')
    """
    check_not_masked(values, name)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must have the same number of values in each row. Got lists of several lengths."
        ) from error
    except (RuntimeError, TypeError) as error:  # of torch, which says what to do
        raise TypeError(
            f"`{name}` must be an array. Got a {type(values).__name__}, which numpy cannot read: {error}"
        ) from error


def check_not_masked(values: Any, name: str) -> None:
    """Raise ValueError for an array with masked values: numpy would use what lies under the mask."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"`{name}` must have no missing values. Got {np.count_nonzero(np.ma.getmaskarray(values))} masked ones "
            f"instead. Fill them, as {name}.filled(0) does, or leave their samples out."
        )


def sum_of_squares(values: Any) -> float | None:
    """Sum of the squares of floats, which is not finite if one of them is not; in one fast pass.

    Parameters
    ----------
    values : ndarray
        Values.

    Returns
    -------
    float or None
        The sum, NaN if a value is NaN, and infinity if it is too large for the dtype; None if the values are no
        contiguous floats.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash._validation.numeric import sum_of_squares
    >>> sum_of_squares(np.array([1.0, 2.0])), sum_of_squares(np.array([1.0, np.inf]))
    (5.0, inf)
    """
    if not isinstance(values, np.ndarray) or values.dtype not in (np.float32, np.float64):
        return None
    if not values.flags.c_contiguous:
        return None
    flat = values.reshape(-1)
    with np.errstate(all="ignore"):
        return float(np.dot(flat, flat))


def is_count(value: object, largest: float = math.inf) -> bool:
    """Whether a value is an integer from 1 to `largest`; True and False are not.

    Parameters
    ----------
    value : object
        Value to check.
    largest : int, default=inf
        Largest integer that is accepted.

    Returns
    -------
    bool
        True for such an integer.

    Examples
    --------
    >>> from skhash._validation.numeric import is_count
    >>> [is_count(value, 64) for value in (64, 65, 0, 8.0, True)]
    [True, False, False, False, False]
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(1 <= value <= largest)
