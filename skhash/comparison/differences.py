"""Differences between methods over queries: a paired bootstrap interval and a paired randomization test.

Both hold for the fitted models and the splits as they are: methods are paired by query within each split, queries are
drawn within splits, and a difference is the mean over the splits of the mean over the queries. If all splits have the
same queries, the values of a query are averaged over the splits first, and the queries are drawn once.

    d_sq   = value of the method - value of the baseline      of query q in split s
    D      = mean over s of mean over q of d_sq               the difference
    interval: percentiles of D over queries drawn with replacement in each split
    p-value : share of sign flips of the d_sq with |D| at least as large; Holm's correction for the methods at a length
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.comparison.results import Result
from skhash.comparison.tables import (
    find_leaders,
    group_by,
    head_of,
    pipe_table,
    ranked_methods,
    size_of,
    split_asked,
    unit_of,
    with_all_seeds,
)
from skhash.datasets import PROTOCOLS

Floats = npt.NDArray[np.float64]
#: results by the names of data set and protocol
Groups = Mapping[tuple[Any, ...], list[Result]]

LEVEL = 0.05  # p-values below it are marked, and intervals cover 1 - LEVEL
_N_DRAWS, _N_FLIPS = 9999, 9999
_MAX_VALUES = 10_000_000  # in memory at a time
_ABOUT = (
    "± is the standard deviation over the splits. The interval (95 %) and p are over the queries, for these fits and "
    "splits; * p below 0.05, with Holm's correction for the methods of one size."
)


@dataclass(frozen=True)
class Difference:
    """Difference of a method to a baseline over the queries of all splits.

    Parameters
    ----------
    metric : str
        Name of the metric.
    nbits : int
        Number of bits.
    method, baseline : str
        Names of the two methods.
    mean : float
        Mean of the method minus that of the baseline.
    low, high : float
        Bounds of the interval, which covers 95 %.
    p_value : float
        Of the randomization test, with Holm's correction for the methods at this number of bits.
    spread : float
        Standard deviation of the difference over the splits; NaN with one split.
    n_splits, n_queries : int
        Number of splits, and number of queries in all splits, or in one split if all have the same queries.

    Examples
    --------
    >>> from skhash.comparison import Difference
    >>> difference = Difference(
    ...     "ap", 16, "itq", "talr", -0.2, -0.21, -0.19, 2e-4, 0.01, 3, 900
    ... )
    >>> difference.is_significant
    True
    """

    metric: str
    nbits: int
    method: str
    baseline: str
    mean: float
    low: float
    high: float
    p_value: float
    spread: float
    n_splits: int
    n_queries: int

    @property
    def is_significant(self) -> bool:
        """Whether the corrected p-value is below 0.05."""
        return self.p_value < LEVEL


#: differences by method and number of bits, of a group and a metric
Tests = Callable[[tuple[Any, ...], str], Mapping[tuple[str, int], Difference]]


def find_differences(
    results: Iterable[Mapping[str, Any]], metric: str = "ap", baseline: str | None = None, random_state: int = 0
) -> list[Difference]:
    """Difference of each method to a baseline, with an interval and a test over the queries.

    Parameters
    ----------
    results : iterable of Result
        Results of one data set with their values of queries, from :func:`compare` or :func:`read_results`.
    metric : str, default="ap"
        The metric.
    baseline : str, default=None
        Method that the others are compared with. None is the best one at each number of bits. The same
        queries choose it, so the differences to it are a little too large: name the baseline if you know it
        in advance.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    list of Difference
        By number of bits, the best method first. A method is left out, also as the baseline, if it lacks seeds, if
        the last comparison was not asked for it, if it has no values of queries, or if it has them in
        other splits than the baseline; a split must have two queries. With more than 10,000 queries the list is
        empty, unless :func:`compare` keeps the values (`per_query`).

    Raises
    ------
    ValueError
        If the comparison was asked for no method that is called `baseline`.

    Notes
    -----
    A query with nothing relevant has no value and is left out. 9,999 sign flips and samples of queries are drawn.
    ``scipy.stats.permutation_test`` and ``bootstrap`` do the same in ten times the time.

    References
    ----------
    Smucker, Allan, Carterette: A Comparison of Statistical Significance Tests for Information Retrieval Evaluation.
    CIKM 2007. Holm: A Simple Sequentially Rejective Multiple Test Procedure. 1979.

    Examples
    --------
    >>> from skhash.comparison import compare, find_differences
    >>> results, description = compare(methods=["itq", "lsh"], nbits=[16], n_seeds=1)
    >>> (difference,) = find_differences(results)
    >>> difference.method, difference.baseline, difference.is_significant
    ('lsh', 'itq', True)
    """
    asked, _ = split_asked(results)
    check_baseline(asked, baseline)
    groups = sorted(group_by(with_all_seeds(asked, metric), "nbits").items())
    return [each for _, group in groups for each in _differences_of(group, metric, baseline, random_state)]


def _differences_of(
    results: Sequence[Result], metric: str, baseline: str | None, random_state: int
) -> Iterator[Difference]:
    """Differences between codes of one size."""
    values = _values_of(results, metric)
    reference = baseline or next((name for name in find_leaders(results, metric) if name in values), "")
    splits = values.get(reference, {})
    others = [
        name
        for name in ranked_methods(results, metric)
        if name in values and name != reference and values[name].keys() == splits.keys()
    ]
    if not others:
        return
    per_split = [_pair(own, np.stack([values[name][seed] for name in others])) for seed, own in splits.items()]
    means = np.stack([part.mean(axis=1) for part in per_split])  # (n_splits, n_methods)
    protocol = PROTOCOLS.get(results[0].protocol)
    if protocol is not None and protocol.has_fixed_queries:
        per_split = [np.mean(per_split, axis=0)]
    n_queries = [part.shape[1] for part in per_split]
    if min(n_queries) < 2:
        return
    spreads = means.std(axis=0, ddof=1) if len(means) > 1 else np.full(len(others), np.nan)
    tested = _test(per_split, random_state)
    for name, mean, low, high, p_value, spread in zip(others, means.mean(axis=0), *tested, spreads, strict=True):
        yield Difference(
            metric=metric,
            nbits=results[0].nbits,
            method=name,
            baseline=reference,
            mean=float(mean),
            low=float(low),
            high=float(high),
            p_value=float(p_value),
            spread=float(spread),
            n_splits=len(means),
            n_queries=sum(n_queries),
        )


def _values_of(results: Sequence[Result], metric: str) -> dict[str, dict[int, Floats]]:
    """Values of the queries by method and seed, without splits in which no query has a value."""
    values: dict[str, dict[int, Floats]] = {}
    for result in results:
        of_metric = (result.per_query or {}).get(metric)
        if of_metric is not None and not np.isnan(of_metric).all():
            values.setdefault(result.method, {})[result.seed] = np.asarray(of_metric, dtype=np.float64)
    return values


def _pair(reference: Floats, values: Floats) -> Floats:
    """Differences of shape (n_methods, n_queries) of the queries that have values."""
    differences = values - reference
    return differences[:, ~np.isnan(differences).any(axis=0)]


def _test(per_split: Sequence[Floats], random_state: int) -> tuple[Floats, Floats, Floats]:
    """Bounds and corrected p-values of differences of shape (n_methods, n_queries) in each split."""
    rng = np.random.default_rng(random_state)
    draws = np.mean([_bootstrap(part, rng) for part in per_split], axis=0)
    low, high = np.quantile(draws, [LEVEL / 2, 1 - LEVEL / 2], axis=0)
    return low, high, holm(_randomize(per_split, rng))


def _bootstrap(differences: Floats, rng: np.random.Generator) -> Floats:
    """Means of shape (n_draws, n_methods) over queries that are drawn with replacement."""
    n_queries = differences.shape[1]
    n_at_once = max(1, _MAX_VALUES // n_queries)
    means = []
    for start in range(0, _N_DRAWS, n_at_once):
        n = min(n_at_once, _N_DRAWS - start)
        drawn = rng.integers(0, n_queries, size=(n, n_queries)) + n_queries * np.arange(n)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=n * n_queries).reshape(n, n_queries)
        means.append(counts @ differences.T / n_queries)
    return np.concatenate(means)


def _randomize(per_split: Sequence[Floats], rng: np.random.Generator) -> Floats:
    """p-values: the share of sign flips whose difference is at least as large, including the given signs."""
    weighted = np.concatenate([part / part.shape[1] for part in per_split], axis=1)  # their sum is n_splits D
    n_methods, n_queries = weighted.shape
    least = np.abs(weighted.sum(axis=1)) - 1e-12  # rounding decides no tie
    n_extreme = np.ones(n_methods)
    n_left = _N_FLIPS
    while n_left:
        n = min(n_left, max(1, _MAX_VALUES // n_queries))
        bits = np.unpackbits(rng.integers(0, 256, size=(n, -(-n_queries // 8)), dtype=np.uint8), axis=1)
        sums = (2.0 * bits[:, :n_queries] - 1.0) @ weighted.T
        n_extreme += (np.abs(sums) >= least).sum(axis=0)
        n_left -= n
    return n_extreme / (_N_FLIPS + 1)


def grouped_tests(results: Sequence[Result], baseline: str | None) -> tuple[Groups, Tests]:
    """Results by data set and protocol, and the function that tests them, each metric once."""
    check_baseline(split_asked(results)[0], baseline)
    groups = group_by(results, "dataset", "protocol")

    @cache
    def differences(name: tuple[Any, ...], metric: str) -> dict[tuple[str, int], Difference]:
        asked, _ = split_asked(groups[name])
        if baseline is not None and all(result.method != baseline for result in asked):
            return {}
        return {(each.method, each.nbits): each for each in find_differences(groups[name], metric, baseline)}

    return groups, differences


def check_baseline(results: Iterable[Mapping[str, Any]], baseline: str | None) -> None:
    """Raise ValueError if no result is that of the baseline."""
    names = dict.fromkeys(result["method"] for result in results)
    if baseline not in (None, *names):
        raise ValueError(f"`baseline` must be one of {', '.join(names)}. Got {baseline!r} instead.")


def holm(p_values: npt.ArrayLike) -> Floats:
    """p-values with Holm's correction, which bounds the chance of a single false difference among all.

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        p-values.

    Returns
    -------
    ndarray of shape (n_tests,)
        The i-th smallest of n is multiplied by n - i + 1. The results ascend like the p-values, up to 1.

    Examples
    --------
    >>> from skhash.comparison.differences import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)), 1)
    return corrected


def differences_table(differences: Sequence[Difference]) -> str:
    """Markdown table of differences, followed by its meaning; empty for none.

    Parameters
    ----------
    differences : sequence of Difference
        Result of :func:`find_differences`.

    Returns
    -------
    str
        The table.

    Examples
    --------
    >>> from skhash.comparison import Difference, differences_table
    >>> difference = Difference(
    ...     "ap", 16, "itq", "talr", -0.2, -0.21, -0.19, 2e-4, 0.01, 3, 900
    ... )
    >>> print(differences_table([difference]).splitlines()[2])
    | itq    | 16   | talr    | -0.200 ± 0.010     | -0.210 to -0.190 | <0.001 * |
    """
    if not differences:
        return ""
    table = pipe_table([difference_head(differences), *map(difference_cells, differences)])
    return f"{table}\n\n{difference_note(differences)}"


def difference_head(differences: Sequence[Difference]) -> list[str]:
    """Head of the table of differences."""
    metric = differences[0].metric
    return ["method", unit_of(metric), "against", f"difference of {head_of(metric)}", "interval", "p"]


def difference_cells(difference: Difference) -> list[str]:
    """Cells of a line of the table of differences."""
    spread = "" if np.isnan(difference.spread) else f" ± {difference.spread:.3f}"
    p_value = "<0.001" if difference.p_value < 0.001 else f"{difference.p_value:.3f}"
    return [
        difference.method,
        size_of(difference.nbits, unit_of(difference.metric)),
        difference.baseline,
        f"{difference.mean:+.3f}{spread}",
        f"{difference.low:+.3f} to {difference.high:+.3f}",
        p_value + " *" * difference.is_significant,
    ]


def difference_note(differences: Sequence[Difference]) -> str:
    """What the table of differences means."""
    first = differences[0]
    splits = f", {first.n_splits} splits" if first.n_splits > 1 else ""
    return f"{first.n_queries:,} queries{splits}. {_ABOUT}"
