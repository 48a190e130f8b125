"""Checks of results that come from files: types, finite numbers, and values that agree with each other."""

import sys
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from numbers import Integral, Real
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from skhash.codes import MAX_NBITS
from skhash.comparison._layouts import LAYOUTS
from skhash.metrics import Metric

if TYPE_CHECKING:
    from skhash.comparison.results import Result
    from skhash.comparison.store import Record

_KEYS = ("dataset", "protocol", "method", "nbits", "seed")  # of settings and results
_CURVES = {"ranks", "rank_precision", "radius_precision", "radius_recall"}
_ROUNDING = 1e-6
_LARGEST = sys.float_info.max


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Raise ValueError unless all values have the types of the fields of a dataclass, and numbers are finite."""
    for field in fields(kind):
        if field.name in values and not _is_of(values[field.name], field.type):
            name = getattr(field.type, "__name__", str(field.type)) if isinstance(field.type, type) else field.type
            got = repr(values[field.name])
            got = got if len(got) <= 100 else f"{got[:100]}..."
            raise ValueError(f"`{field.name}` must be of type {name}. Got {got} instead.")


def _is_of(value: Any, hint: Any) -> bool:
    arguments = get_args(hint)
    if hint is Any:
        return True
    if isinstance(hint, UnionType):
        return any(_is_of(value, argument) for argument in arguments)
    origin = get_origin(hint) or hint
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _is_of(key, arguments[0]) and _is_of(item, arguments[1]) for key, item in value.items()
        )
    if origin is list:
        return isinstance(value, list) and all(_is_of(item, arguments[0]) for item in value)
    if origin is int:
        return isinstance(value, Integral) and not isinstance(value, bool) and -(2**63) <= int(value) < 2**63
    if origin is float:
        return isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
    return isinstance(value, origin)


def _is_finite(value: Any) -> bool:
    return bool(abs(value) <= _LARGEST)  # also of ints that are too large for math.isfinite


def check_record(record: "Record") -> None:
    """Raise ValueError if values of a record are missing, out of range, or do not agree with each other."""
    settings, result = record.settings, record.result
    for name in _KEYS:
        if getattr(settings, name) != getattr(result, name):
            raise ValueError(f"`{name}` must be the same in its settings and its result.")
    datetime.fromisoformat(record.finished)
    if settings.tuning is not None:
        Metric.parse(settings.tuning.metric)  # raises for an unknown name
    if not 1 <= result.nbits <= MAX_NBITS or result.seed < 0:
        raise ValueError(f"`nbits` must be from 1 to {MAX_NBITS:,}, and `seed` must be >= 0.")
    if result.task not in LAYOUTS:
        raise ValueError(f"`task` must be one of {', '.join(LAYOUTS)}. Got {result.task!r} instead.")
    layout = LAYOUTS[result.task]
    if result[layout.headline] is None:
        if result.error is None and result.not_applicable is None:
            raise ValueError(f"`{layout.headline}` must be a number, since the fit did not fail.")
        return
    for name in layout.metrics:
        value = result[name]
        if value is None and name in layout.optional:
            continue
        if value is None or not -_ROUNDING <= value <= 1 + _ROUNDING:
            raise ValueError(f"`{name}` must be from 0 to 1. Got {value} instead.")
    if result.fit_seconds is None or result.codes_per_second is None:
        raise ValueError("`fit_seconds` and `codes_per_second` must be numbers, since the fit did not fail.")
    _check_curves(result)


def _check_curves(result: "Result") -> None:
    curves = result.curves
    if curves is None:
        return
    if set(curves) != _CURVES:
        raise ValueError(f"`curves` must have the keys {', '.join(sorted(_CURVES))}.")
    n_radii, n_ranks = result.nbits + 1, len(curves["ranks"])
    lengths = (len(curves["radius_precision"]), len(curves["radius_recall"]), len(curves["rank_precision"]))
    if lengths != (n_radii, n_radii, n_ranks):
        raise ValueError("`curves` must have one value per radius or rank.")
