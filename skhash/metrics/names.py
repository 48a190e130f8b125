"""Metrics by name: one spelling for scorers, reports and the command line."""

import re

import numpy as np

from skhash.metrics._ties import NOTHING_TO_COMPARE, NOTHING_TO_FIND, mean_over_queries
from skhash.metrics.average_precision import average_precision
from skhash.metrics.ndcg import ndcg
from skhash.metrics.precision_recall import precision, r_precision, recall
from skhash.metrics.ranking import reciprocal_rank, roc_auc

METRICS = {
    "ap": average_precision,
    "ndcg": ndcg,
    "precision": precision,
    "recall": recall,
    "r_precision": r_precision,
    "reciprocal_rank": reciprocal_rank,
    "roc_auc": roc_auc,
}
_CUT = ("ap", "ndcg", "precision", "recall")
_NAME = re.compile(
    rf"(?P<metric>{'|'.join(sorted(METRICS, key=len, reverse=True))})"
    r"(_at_(?P<k>[1-9]\d*)|_radius_(?P<radius>\d+(\.\d+)?))?(_(?P<ties>best|worst))?"
    r"(_(?P<discount>structhash)|_(?P<normalizer>min|retrieved))?"
)


def parse_metric(name, k=None):
    """Turn a metric's name into the function and its options.

    Parameters
    ----------
    name : str
        ``ap``, ``ndcg``, ``precision``, ``recall``, ``r_precision``, ``reciprocal_rank``
        or ``roc_auc``; then ``_at_K`` or ``_radius_R`` where the metric has one; then
        ``_best`` or ``_worst`` for the order inside the ties; for ``ndcg`` then
        ``_structhash`` for that discount, for ``ap`` with a cut-off ``_min`` or
        ``_retrieved`` for that normaliser.
    k : int, default=None
        Cut-off for a name that carries none.

    Returns
    -------
    function : callable
        The metric, a function of a RelevanceHistogram.
    options : dict
        Its keyword arguments.

    Raises
    ------
    ValueError
        If the name says no metric.

    Examples
    --------
    >>> from skhash.metrics.names import parse_metric
    >>> parse_metric("precision_at_100_worst")[1]
    {'k': 100, 'ties': 'worst'}
    >>> parse_metric("ap_at_5000_retrieved")[1]  # what many papers call mAP@5000
    {'k': 5000, 'normalizer': 'retrieved'}
    """
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise ValueError(
            f"metric={name!r}; one of {', '.join(METRICS)} is wanted, with _at_K or _radius_R "
            "and _best or _worst, for ndcg _structhash, and for ap_at_K _min or _retrieved, appended."
        )
    metric = match["metric"]
    options: dict = {}
    if match["radius"]:
        options["radius"] = float(match["radius"])
    elif match["k"] or k:
        options["k"] = int(match["k"] or k)
    if match["ties"]:
        options["ties"] = match["ties"]
    if match["discount"]:
        options["discount"] = match["discount"]
        if metric != "ndcg":
            raise ValueError(f"metric={name!r}: {metric} has no discount.")
    if match["normalizer"]:
        options["normalizer"] = match["normalizer"]
        if metric != "ap" or "k" not in options:
            raise ValueError(f"metric={name!r}: only ap with a cut-off has this normaliser.")
    ranked = metric in ("precision", "recall")
    if (match["k"] and metric not in _CUT) or (match["radius"] and not ranked):
        raise ValueError(f"metric={name!r}: {metric} has no such cut-off.")
    if metric not in _CUT:
        options.pop("k", None)
    if ranked and not options.keys() & {"k", "radius"}:
        raise ValueError(f"metric={name!r} wants a cut-off: {metric}_at_100, {metric}_radius_2, or the parameter k.")
    return METRICS[metric], options


def evaluate(histograms, names, *, k=None, empty="skip"):
    """Compute several metrics in one pass over the histograms of successive queries.

    Parameters
    ----------
    histograms : iterable of RelevanceHistogram
        As :func:`skhash.metrics.iter_histograms` yields them.
    names : list of str
        Names that :func:`parse_metric` reads.
    k : int, default=None
        Cut-off for the names that carry none.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of queries with nothing relevant.

    Returns
    -------
    dict of str to float
        The mean over all queries of each metric.

    Examples
    --------
    >>> from skhash.metrics import relevance_histogram
    >>> from skhash.metrics.names import evaluate
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [0, 1], [1, 1]], [7], [7, 5, 7])
    >>> {name: round(value, 4) for name, value in evaluate([H], ["ap_worst", "ap_best"]).items()}
    {'ap_worst': 0.5833, 'ap_best': 0.8333}
    """
    metrics = {name: parse_metric(name, k) for name in names}
    values: dict[str, list] = {name: [] for name in names}
    for histogram in histograms:
        ranked = histogram.by_ranks()
        for name, (metric, options) in metrics.items():
            H = histogram if "radius" in options else ranked
            values[name].append(metric(H, empty=empty, average=False, **options))
    means: dict[str, float] = {}
    told: set = set()
    for name, parts in values.items():
        # all metrics but the area under the curve leave out the same queries: one warning is enough
        lacking = NOTHING_TO_COMPARE if metrics[name][0] is roc_auc else NOTHING_TO_FIND
        means[name] = mean_over_queries(np.concatenate(parts), empty, lacking, warn=lacking not in told)
        told.add(lacking)
    return means


def by_distance(names, bit_weights):
    """Divide metrics by the distance that ranks for them: a radius counts bits, whatever they weigh.

    Parameters
    ----------
    names : list of str
        Names that :func:`parse_metric` reads.
    bit_weights : array-like of shape (nbits,), or None
        Weights of the bits that a hasher has learned.

    Returns
    -------
    list of (array-like or None, list of str)
        Weights, and the names of the metrics that take them.

    Examples
    --------
    >>> from skhash.metrics.names import by_distance
    >>> by_distance(["ap", "recall_radius_2"], [0.5, 1.0])
    [([0.5, 1.0], ['ap']), (None, ['recall_radius_2'])]
    """
    if bit_weights is None:
        return [(None, names)]
    within = [name for name in names if "_radius_" in name]
    passes = [(bit_weights, [name for name in names if name not in within]), (None, within)]
    return [(weights, some) for weights, some in passes if some]
