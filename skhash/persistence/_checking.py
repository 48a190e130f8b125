"""Checks that a hasher has the fitted attributes of its class, and that they agree."""

import types
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from skhash._validation.numeric import is_count
from skhash._validation.schema import OPTIONAL, Array
from skhash.base import BaseHasher
from skhash.codes import MAX_NBITS
from skhash.persistence._format import OUTPUT
from skhash.persistence._reading import short

MAX_FEATURES = 2**24


def fitted_hints(kind: type[BaseHasher]) -> dict[str, Any]:
    """Annotations of the fitted attributes of a class, with the types and shapes that a file may hold."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if kind._is_fitted_name(name)}


def check_hasher(hasher: BaseHasher) -> None:
    """Raise ValueError unless the fitted attributes are those of the class, and agree with each other."""
    hints, stored = fitted_hints(type(hasher)), hasher._fitted_attributes()
    if missing := [name for name, hint in hints.items() if name not in stored and not _is_optional(hint)]:
        raise ValueError(f"`{missing[0]}` is missing.")
    if unknown := sorted(stored.keys() - hints.keys()):
        raise ValueError(f"`{unknown[0]}` is not an attribute of a fitted {type(hasher).__name__}.")
    if not is_count(hasher._nbits, MAX_NBITS):
        raise ValueError(f"`_nbits` must be an int from 1 to {MAX_NBITS:,}. Got {hasher._nbits!r} instead.")
    lengths = {"nbits": hasher._nbits, "n_bytes": -(-hasher._nbits // 8)}
    if "n_features_in_" in stored:
        if not is_count(hasher.n_features_in_, MAX_FEATURES):
            raise ValueError(f"`n_features_in_` must be at most {MAX_FEATURES:,}. Got {hasher.n_features_in_} instead.")
        lengths["n_features"] = hasher.n_features_in_
    for name, value in stored.items():
        check_value(name, value, hints[name], lengths)
    hasher._check_stored(lengths)
    _check_database(hasher)
    check_names_and_output(hasher)


def check_names_and_output(estimator: Any) -> None:
    """Raise ValueError unless `feature_names_in_` and the output of `set_output` are valid."""
    names, n_features = getattr(estimator, "feature_names_in_", None), getattr(estimator, "n_features_in_", None)
    if names is not None and not (
        type(names) is np.ndarray and names.shape == (n_features,) and all(isinstance(name, str) for name in names)
    ):
        raise ValueError(f"`feature_names_in_` must be {n_features} strings. Got {short(repr(names))} instead.")
    if vars(estimator).get(OUTPUT, {}) not in ({}, *({"transform": name} for name in ("default", "pandas", "polars"))):
        raise ValueError(f"`{OUTPUT}` must name a container of scikit-learn. Got {vars(estimator)[OUTPUT]!r} instead.")


def check_activations(hasher: BaseHasher) -> None:
    """Raise ValueError unless a sample of zeros has finite activations; images and backbone modules are not checked."""
    is_vector = len(getattr(hasher, "input_shape_", (0,))) == 1  # images may have an old n_features_in_
    if is_vector and "n_features_in_" in vars(hasher) and isinstance(getattr(hasher, "backbone", None), str | None):
        with np.errstate(all="ignore"), hasher._environment():
            activations = hasher._project(np.zeros((1, hasher.n_features_in_), hasher._dtypes[0]))
        Array("1 nbits").check("project", activations, {"nbits": hasher._nbits})


def check_value(name: str, value: Any, hint: Any, lengths: dict[str, int]) -> None:
    """Raise ValueError unless a value has an annotated type; new lengths of arrays are added to `lengths`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return
    if origin is Annotated:
        if arrays := [mark for mark in arguments[1:] if isinstance(mark, Array)]:
            arrays[0].check(name, value, lengths)
        else:
            check_value(name, value, arguments[0], lengths)
    elif origin in (Union, types.UnionType):
        if not (value is None and types.NoneType in arguments):
            check_value(name, value, next(kind for kind in arguments if kind is not types.NoneType), lengths)
    elif origin is np.ndarray:  # an Array annotation also checks the shape
        Array("...", "biuf").check(name, value, lengths)
    elif origin is Literal:
        _require(value in arguments, name, f"one of {arguments}", value)
    elif origin is dict:
        _require(type(value) is dict, name, "a dict", value)
        _require(all(isinstance(key, str) for key in value), name, "a dict with str keys", value)
        for key, item in value.items() if arguments[1] is not Any else ():
            check_value(f"{name}.{key}", item, arguments[1], lengths)
    elif origin in (list, tuple):
        _require(type(value) is origin, name, f"a {origin.__name__}", value)
        for item in value:
            check_value(name, item, arguments[0], lengths)
    elif hint is float:
        is_finite = isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
        _require(is_finite, name, "a finite number", value)
    elif hint is int:
        _require(isinstance(value, Integral) and not isinstance(value, bool), name, "an int", value)
    else:
        _require(isinstance(value, hint), name, f"a {hint.__name__}", value)


def _require(holds: bool, name: str, what: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"`{name}` must be {what}. Got {repr(value)[:60]} instead.")


def _is_optional(hint: Any) -> bool:
    return OPTIONAL in getattr(hint, "__metadata__", ())


def _check_database(hasher: BaseHasher) -> None:
    codes, targets = hasher.database_codes_, hasher.database_y_
    if targets is not None:
        is_array = (type(targets) is np.ndarray and targets.ndim > 0) or sparse.issparse(targets)
        _require(
            is_array and codes is not None and targets.shape[0] == len(codes),
            "database_y_",
            "one target per code",
            targets,
        )
    if codes is not None and hasher._nbits % 8 and (codes[:, -1] & (0xFF >> hasher._nbits % 8)).any():
        raise ValueError("`database_codes_` must have zeros after the last bit.")
    affinity = hasher.affinity_
    _require(affinity is None or callable(affinity), "affinity_", "callable or None", affinity)
