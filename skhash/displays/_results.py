"""Select and average results of :func:`skhash.comparison.compare`."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from numbers import Real

import numpy as np

_SETTINGS = {"dataset", "protocol", "method", "nbits", "seed"}


def as_dicts(results):
    """Results as dicts, from dataclasses or dicts as in results.json."""
    results = list(results)
    for result in results:
        if not isinstance(result, Mapping) and not is_dataclass(result):
            raise TypeError(
                "`results` must be those of compare, or dicts as in its results.json. "
                f"Got an instance of {type(result).__name__} instead."
            )
    return [dict(result) if isinstance(result, Mapping) else asdict(result) for result in results]


def choose_results(results, metrics, **chosen):
    """Results with metrics as dicts, of one data set, and of one number of bits if `chosen` has it.

    None in `chosen` selects the only value that occurs. ValueError if there are several values, or no result.
    """
    results = as_dicts(results)
    for name, value in (chosen | {"protocol": None}).items():
        known = list(dict.fromkeys(result.get(name) for result in results))
        listed = ", ".join(map(str, known)) or "none"
        if value is None and len(known) > 1:
            remedy = f"Choose one: {name}={known[0]!r}." if name in chosen else "Pass the results of one of them."
            raise ValueError(f"`results` must have a single {name}. Got {listed} instead. {remedy}")
        if value is not None and value not in known:
            raise ValueError(f"`{name}` must be one of those of `results`: {listed}. Got {value!r} instead.")
        results = [result for result in results if value in (None, result.get(name))]
    known = [key for key in dict.fromkeys(key for result in results for key in result) if _is_metric(results, key)]
    for metric in metrics:
        if results and metric not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(f"`metric` must have a value in all results: {listed}. Got {metric!r} instead.")
    results = [result for result in results if all(result[metric] is not None for metric in metrics)]
    if not results:
        raise ValueError("`results` must hold at least one result with metrics. Got none.")
    return results


def _is_metric(results, key):
    """Whether a key has a number in at least one result, and a number or None in all results."""
    values = [result.get(key, "") for result in results]
    return (
        key not in _SETTINGS
        and all(value is None or isinstance(value, Real) for value in values)
        and any(value is not None for value in values)
    )


def methods_of(results):
    """Names of the methods, in the order of the results."""
    return list(dict.fromkeys(result["method"] for result in results))


def means_by(results, metric, key):
    """Methods, values of a key of shape (n_values,), and means and deviations of shape (n_methods, n_values)."""
    names, values = methods_of(results), sorted({result[key] for result in results})
    cells = [[mean_and_deviation(results, metric, method=name, **{key: value}) for value in values] for name in names]
    return names, np.array(values), *np.moveaxis(np.array(cells), -1, 0)


def mean_and_deviation(results, metric, **chosen):
    """Mean and standard deviation of a metric over the chosen results; NaN where there are too few."""
    values = [result[metric] for result in results if all(result[name] == value for name, value in chosen.items())]
    mean = float(np.mean(values)) if values else np.nan
    return mean, float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
