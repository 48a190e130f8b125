"""The methods that lead at one number of bits: the best mean, and those within two standard errors of it.

The difference of two methods is taken on the same splits. Its standard error is that of
these paired differences, s / sqrt(n).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def find_leaders(results: Sequence[Mapping[str, Any]], metric: str = "ap") -> list[str]:
    """Methods with the best mean of a metric, and those whose distance to it is not significant.

    Parameters
    ----------
    results : sequence of Result or of dict
        Results of one data set and number of bits, with "method", "seed" and the metric.
    metric : str, default="ap"
        The metric, a key of the results.

    Returns
    -------
    list of str
        The method with the best mean first, then those whose mean is at most two standard errors
        of the paired differences below it. With a single seed, those of equal value alone. A
        method that has results for some of the seeds only is not among them. Empty if no method
        has results.

    Examples
    --------
    >>> from skhash.comparison import find_leaders
    >>> values = {"a": [0.5, 0.75], "b": [0.25, 0.25], "c": [0.5, 0.625]}
    >>> results = [
    ...     {"method": name, "seed": seed, "ap": ap}
    ...     for name in values
    ...     for seed, ap in enumerate(values[name])
    ... ]
    >>> find_leaders(results)
    ['a', 'c']
    """
    values: dict[str, dict[int, float]] = {}
    for result in results:
        if result[metric] is not None:
            values.setdefault(result["method"], {})[result["seed"]] = result[metric]
    if not values:
        return []
    seeds = max((sorted(own) for own in values.values()), key=len)
    paired = {name: np.array([own[seed] for seed in seeds]) for name, own in values.items() if sorted(own) == seeds}
    best, *others = sorted(paired, key=lambda name: -paired[name].mean())
    return [best, *(name for name in others if _is_level(paired[best] - paired[name]))]


def _is_level(differences: Any) -> bool:
    """Whether the mean of paired differences is at most two standard errors."""
    n = len(differences)
    error = differences.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    return bool(differences.mean() <= 2 * error)
