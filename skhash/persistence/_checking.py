"""What a file may hold: checks of types, dtypes, shapes and finite numbers, and the one error of a bad file."""

import os
import types
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt

from skhash._validation import Array
from skhash.exceptions import InvalidFileError

MAX_FEATURES = 2**24
#: what set_output chose
OUTPUT = "_sklearn_output_config"


class ArgumentError(ValueError):
    """Error about an argument of `load`, not about the file."""


@contextmanager
def errors_name(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Context manager that turns each error about the content of a file into an InvalidFileError with its path."""
    try:
        yield
    except (InvalidFileError, ArgumentError, OSError, MemoryError):
        raise
    except ModuleNotFoundError as error:
        raise ImportError(f"{error.name} must be installed to load {path}: pip install {error.name}") from error
    except RecursionError as error:
        raise InvalidFileError(path, f"{what}: values are nested too deeply.") from error
    except Exception as error:  # also those of numpy, scipy and torch for values that they do not take
        raise InvalidFileError(
            path, f"{what}: {short(error if isinstance(error, ValueError) else repr(error))}"
        ) from error


def short(value: Any) -> str:
    """Text of a value for a message, cut if it is long."""
    text = str(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


def check_value(name: str, value: Any, hint: Any, lengths: dict[str, int]) -> None:
    """Raise ValueError unless a value has an annotated type; new lengths of arrays are added to `lengths`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return
    if origin is Annotated:
        arrays = [mark for mark in arguments[1:] if isinstance(mark, Array)]
        if arrays:
            arrays[0].check(name, value, lengths)
        else:
            check_value(name, value, arguments[0], lengths)
    elif origin in (Union, types.UnionType):
        if not (value is None and types.NoneType in arguments):
            check_value(name, value, next(kind for kind in arguments if kind is not types.NoneType), lengths)
    elif origin in (np.ndarray, npt.NDArray):  # the latter since numpy 2.5; an Array annotation also checks the shape
        Array("...", "biuf").check(name, value, lengths)
    elif origin is Literal:
        require(value in arguments, name, f"one of {arguments}", value)
    elif origin is dict:
        require(type(value) is dict and all(isinstance(key, str) for key in value), name, "a dict with str keys", value)
        for key, item in value.items():
            check_value(f"{name}.{key}", item, arguments[1], lengths)
    elif origin in (list, tuple):
        require(type(value) is origin, name, f"a {origin.__name__}", value)
        for item in value:
            check_value(name, item, arguments[0], lengths)
    elif hint in (int, float):
        is_number = isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
        require(is_number and bool(np.isfinite(float(value))), name, f"a finite {hint.__name__}", value)
    else:
        require(isinstance(value, hint), name, f"a {hint.__name__}", value)


def require(holds: bool, name: str, what: str, value: Any) -> None:
    """Raise ValueError unless a value is what it must be."""
    if not holds:
        raise ValueError(f"`{name}` must be {what}. Got {repr(value)[:60]} instead.")


def check_names_and_output(estimator: Any) -> None:
    """Raise ValueError unless `feature_names_in_` and the output of `set_output` are valid."""
    names, n_features = getattr(estimator, "feature_names_in_", None), getattr(estimator, "n_features_in_", None)
    if names is not None and not (
        type(names) is np.ndarray and names.shape == (n_features,) and all(isinstance(name, str) for name in names)
    ):
        raise ValueError(f"`feature_names_in_` must be {n_features} strings. Got {short(repr(names))} instead.")
    if vars(estimator).get(OUTPUT, {}) not in ({}, *({"transform": name} for name in ("default", "pandas", "polars"))):
        raise ValueError(f"`{OUTPUT}` must name a container of scikit-learn. Got {vars(estimator)[OUTPUT]!r} instead.")
