"""Arrays of numbers from arguments of users; the error for anything else names the argument."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

_WORDS = {"c": "complex numbers", "U": "text", "S": "bytes", "O": "other objects", "M": "dates", "m": "durations"}


def numeric(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array of real numbers, without a copy of an array; ValueError for anything else."""
    array = as_array(values, name)
    if array.dtype.kind not in "biuf":
        given = type(values).__name__ if array.ndim == 0 and array.dtype == np.dtype(object) else None
        found = given or _WORDS.get(array.dtype.kind, f"values of dtype {array.dtype}")
        raise ValueError(f"`{name}` must be an array of numbers. Got {found} instead.")
    return array


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array of any dtype, without a copy of an array; an error names the argument."""
    check_not_masked(values, name)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must have the same number of values in each row. Got lists of several lengths."
        ) from error
    except (RuntimeError, TypeError) as error:  # the error of torch says what to do
        raise TypeError(
            f"`{name}` must be an array. Got a {type(values).__name__}, which numpy cannot read: {error}"
        ) from error


def check_not_masked(values: Any, name: str) -> None:
    """Raise ValueError for an array with masked values, since numpy would use the values below the mask."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"`{name}` must have no missing values. Got {np.count_nonzero(np.ma.getmaskarray(values))} masked ones "
            f"instead. Fill them, as {name}.filled(0) does, or leave their samples out."
        )


def sum_of_squares(values: Any) -> float | None:
    """Sum of squares, which is not finite if a value is not; None unless the values are contiguous floats."""
    if not isinstance(values, np.ndarray) or values.dtype not in (np.float32, np.float64):
        return None
    if not values.flags.c_contiguous:
        return None
    flat = values.reshape(-1)
    with np.errstate(all="ignore"):
        return float(np.dot(flat, flat))


def is_count(value: object, largest: float = math.inf) -> bool:
    """Whether a value is an integer from 1 to `largest`; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(1 <= value <= largest)
