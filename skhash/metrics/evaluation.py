"""Metrics of a ranking of codes: for scorers, for validation during training, and for comparisons."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.metrics.histogram import Ranking, RelevanceHistogram
from skhash.metrics.metric import Metric
from skhash.metrics.ties import check_histogram, means_over_queries


def evaluate_ranking(ranking: Ranking, metrics: Sequence[str | Metric], *, empty: str = "skip") -> dict[str, float]:
    """Mean over the queries of each metric of a ranking.

    Metrics within a radius count bits, whatever the weights of the bits.

    Parameters
    ----------
    ranking : Ranking
        Codes and targets.
    metrics : sequence of str or Metric
        Metrics, or names as :meth:`Metric.parse` reads them.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of a query with nothing relevant in the database.

    Returns
    -------
    dict of str to float
        Value by name of the metric.

    Examples
    --------
    >>> from skhash.affinity import Relevance
    >>> from skhash.metrics import Ranking, evaluate_ranking
    >>> codes, database = [[0, 0]], [[0, 1], [0, 1], [1, 1]]
    >>> ranking = Ranking(codes, database, Relevance.between([7], [7, 5, 7]))
    >>> {
    ...     name: round(value, 4)
    ...     for name, value in evaluate_ranking(ranking, ["ap_worst", "ap_best"]).items()
    ... }
    {'ap_worst': 0.5833, 'ap_best': 0.8333}
    """
    parsed = _parse(metrics)
    return mean_values(parsed, values_of_queries(ranking, parsed, empty), empty)


def evaluate_queries(
    ranking: Ranking, metrics: Sequence[str | Metric], *, empty: str = "skip"
) -> tuple[dict[str, float], dict[str, npt.NDArray[np.float64]]]:
    """Metrics of a ranking: the means over the queries, and the value of each query.

    Parameters
    ----------
    ranking : Ranking
        Codes and targets.
    metrics : sequence of str or Metric
        As in :func:`evaluate_ranking`.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of a query with nothing relevant in the database.

    Returns
    -------
    means : dict of str to float
        Mean by name of the metric.
    values : dict of str to ndarray of shape (n_queries,)
        Values by name of the metric; NaN for a query that is skipped.

    Examples
    --------
    >>> from skhash.affinity import Relevance
    >>> from skhash.metrics import Ranking
    >>> from skhash.metrics.evaluation import evaluate_queries
    >>> queries, database = [[0, 0], [1, 1]], [[0, 1], [0, 0], [1, 1]]
    >>> ranking = Ranking(queries, database, Relevance.between([7, 5], [7, 5, 7]))
    >>> means, values = evaluate_queries(ranking, ["recall_at_1"])
    >>> means["recall_at_1"], values["recall_at_1"]
    (0.0, array([0., 0.]))
    """
    parsed = _parse(metrics)
    values = values_of_queries(ranking, parsed, empty)
    return mean_values(parsed, values, empty), values


def evaluate_histograms(
    histograms: Iterable[RelevanceHistogram], metrics: Sequence[str | Metric], *, empty: str = "skip"
) -> dict[str, float]:
    """Mean over the queries of each metric, in one pass over the histograms of successive queries.

    Parameters
    ----------
    histograms : iterable of RelevanceHistogram
        As :meth:`Ranking.histograms` yields them.
    metrics : sequence of str or Metric
        As in :func:`evaluate_ranking`.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of a query with nothing relevant in the database.

    Returns
    -------
    dict of str to float
        Value by name of the metric.

    Examples
    --------
    >>> from skhash.metrics import evaluate_histograms, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [0, 1], [1, 1]], [7], [7, 5, 7])
    >>> {
    ...     name: round(value, 4)
    ...     for name, value in evaluate_histograms([H], ["ap_worst", "ap_best"]).items()
    ... }
    {'ap_worst': 0.5833, 'ap_best': 0.8333}
    """
    parsed = _parse(metrics)
    return mean_values(parsed, _values_per_query(histograms, parsed, empty), empty)


def _parse(metrics: Sequence[str | Metric]) -> list[Metric]:
    """Metrics from metrics or names, each name once."""
    parsed = [Metric.parse(metric) if isinstance(metric, str) else metric for metric in metrics]
    return list({metric.name: metric for metric in parsed}.values())


def values_of_queries(ranking: Ranking, metrics: Sequence[Metric], empty: str) -> dict[str, npt.NDArray[np.float64]]:
    """Values per query, by name, from one pass, or from two if bits have weights and some metrics count bits."""
    values: dict[str, npt.NDArray[np.float64]] = {}
    for weighted in (True, False):
        if some := [metric for metric in metrics if (ranking.has_weights and metric.radius is None) == weighted]:
            values |= _values_per_query(ranking.histograms(weighted=weighted), some, empty)
    return values


def _values_per_query(
    histograms: Iterable[RelevanceHistogram], metrics: Sequence[Metric], empty: str
) -> dict[str, npt.NDArray[np.float64]]:
    """Values per query of each metric, by name."""
    parts: dict[str, list[Any]] = {metric.name: [] for metric in metrics}
    for H in histograms:
        check_histogram(H)
        by_ranks = H.by_ranks()
        for metric in metrics:
            values = metric(by_ranks if metric.radius is None else H, empty=empty, average=False)
            parts[metric.name].append(values)
    return {name: np.concatenate(values) for name, values in parts.items()}


def mean_values(metrics: Sequence[Metric], values: dict[str, npt.NDArray[np.float64]], empty: str) -> dict[str, Any]:
    """Means over all queries, by name, with one warning at the caller of the caller if queries are left out."""
    return means_over_queries({m.name: (values[m.name], m._required) for m in metrics}, empty, stacklevel=4)
