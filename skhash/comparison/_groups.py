"""Results in groups, and methods in the order of their results."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

R = TypeVar("R", bound=Mapping[str, Any])


def by_dataset(results: Iterable[R]) -> dict[tuple[Any, ...], list[R]]:
    """Results of each (data set, protocol), in the order of the first ones."""
    return _group(results, "dataset", "protocol")


def by_method(results: Iterable[R]) -> dict[tuple[Any, ...], list[R]]:
    """Results of each (method, number of bits), in the order of the first ones."""
    return _group(results, "method", "nbits")


def _group(results: Iterable[R], *names: str) -> dict[tuple[Any, ...], list[R]]:
    groups: dict[tuple[Any, ...], list[R]] = {}
    for result in results:
        groups.setdefault(tuple(result[name] for name in names), []).append(result)
    return groups


def ranked_methods(results: Sequence[Mapping[str, Any]], metric: str = "ap") -> list[str]:
    """Methods by their mean of a metric over all results of one data set, the best first; those without any last."""
    values: dict[str, list[float]] = {}
    for result in results:
        values.setdefault(result["method"], []).extend([] if result[metric] is None else [result[metric]])
    return sorted(values, key=lambda method: -float(np.mean(values[method])) if values[method] else np.inf)
