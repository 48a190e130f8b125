"""Fit one hasher on the training samples of a split, and rank its database."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.affinity import Relevance
from skhash.metrics import Metric, Ranking, precision_recall_curve
from skhash.metrics.evaluation import evaluate_queries
from skhash.metrics.histogram import RelevanceHistogram
from skhash.unwrap import codes_of, find_hasher, named_warnings

#: default metrics of a comparison
METRICS = ("ap", "ap_worst", "ap_best", "ndcg", "precision_at_100", "precision_radius_2")
#: metrics that a comparison takes: names, metrics or functions of a histogram, or functions by name
Metrics = Iterable[str | Metric | Callable[..., Any]] | Mapping[str, str | Metric | Callable[..., Any]]

_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # of the curve of precision by rank


class _OwnFunction:
    """A function of a histogram that returns values per query or their mean, called as the metrics of skhash are."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function, self.gives_means = name, function, False
        has_options = "average" in signature(function).parameters  # that of skhash's metrics
        self.options = {"average": False, "empty": "nan"} if has_options else {}

    def __call__(self, H: RelevanceHistogram, **_: Any) -> npt.NDArray[np.float64]:
        """Values of shape (n_queries,)."""
        values = np.asarray(self.function(H, **self.options), dtype=np.float64)
        if values.shape not in ((), (H.n_queries,)):
            raise ValueError(
                f"`metrics` must hold functions that return a number, or one per query. Got shape {values.shape} for "
                f"{H.n_queries} queries from {self.name} instead."
            )
        self.gives_means |= values.ndim == 0
        return np.array(np.broadcast_to(values, H.n_queries))


def _by_radius(H: RelevanceHistogram, *, radius: float, **options: Any) -> npt.NDArray[np.float64]:
    """Precision and recall within all radii, of shape (n_queries, 2, nbits + 1)."""
    return np.stack(precision_recall_curve(H, **options)[:2], axis=1)


_CURVE = Metric("radius_curve", _by_radius, radius=np.inf)


def as_metrics(metrics: Metrics) -> dict[str, Metric]:
    """Metrics by name, from names, metrics and functions; ValueError for one that is none of these or has no name."""
    if isinstance(metrics, str):
        raise TypeError(f"`metrics` must be a list of metrics. Got {metrics!r} instead. Pass [{metrics!r}].")
    named: Any = metrics.items() if isinstance(metrics, Mapping) else ((None, metric) for metric in metrics)
    found: dict[str, Metric] = {}
    for given, metric in named:
        if callable(metric) and not isinstance(metric, Metric):
            name: str = given or getattr(metric, "__name__", "<lambda>")
            if name == "<lambda>":
                raise ValueError(
                    f"`metrics` must name a function, as {{'name': function}}. Got {metric!r} without a name."
                )
            metric = Metric(name, _OwnFunction(name, metric))
        elif not isinstance(metric, Metric):
            metric = Metric.parse(metric)
        found[given or metric.name] = metric
    if not found:
        raise ValueError("`metrics` must hold at least one metric. Got none.")
    return found


def evaluate_hasher(hasher: Any, data: Any, *, metrics: Metrics = METRICS, details: bool = False) -> dict[str, Any]:
    """Metrics of a hasher, fitted on the training samples of a split, on the database of the split.

    Parameters
    ----------
    hasher : BaseHasher
        Fitted here. Also a Pipeline or a search that ends in one, or a transformer that returns bits.
    data : Bunch
        Result of :func:`skhash.datasets.load_dataset`.
    metrics : list or dict, default=METRICS
        Names as :meth:`skhash.metrics.Metric.parse` reads them, and functions of a
        :class:`~skhash.metrics.RelevanceHistogram`, which return one value per query or their mean. A dict has their
        names as keys.
    details : bool, default=False
        Whether to add the curves, the values of each query, and the hash of the codes.

    Returns
    -------
    dict
        The metrics, fit_seconds and codes_per_second. If the hasher has learned
        weights of its bits, metrics of ranks use the weighted distance. With `details` also
        codes_sha256, the SHA-256 of the packed codes of the database in hex digits;
        per_query, a dict of arrays of shape (n_queries,) by name of the metric; and
        curves, a dict of lists: radius_precision and radius_recall, means over the queries
        within each radius 0, 1, ..., nbits; rank_precision at the ranks in `ranks`.

    Examples
    --------
    >>> from skhash import PCAHasher
    >>> from skhash.comparison import evaluate_hasher
    >>> from skhash.datasets import load_dataset
    >>> data = load_dataset("digits")
    >>> values = evaluate_hasher(
    ...     PCAHasher(nbits=8), data, metrics=["ap", "ndcg_at_10"], details=True
    ... )
    >>> values["curves"]["radius_recall"][8], len(values["codes_sha256"])
    (1.0, 64)
    >>> bool(abs(values["per_query"]["ndcg_at_10"].mean() - values["ndcg_at_10"]) < 1e-12)
    True
    """
    chosen = as_metrics(metrics)
    start = time.perf_counter()
    with named_warnings(hasher):
        hasher.fit(data.X_train, data.y_train)
    fit_seconds = time.perf_counter() - start
    queries = codes_of(hasher, data.X_query)
    if queries.nbits != getattr(find_hasher(hasher), "nbits", queries.nbits):
        raise ValueError(f"`hasher` must return nbits={find_hasher(hasher).nbits} bits. Got {queries.nbits} instead.")
    start = time.perf_counter()
    database = codes_of(hasher, data.X_database)
    encode_seconds = time.perf_counter() - start
    weights = getattr(find_hasher(hasher), "bit_weights_", None)
    relevance = Relevance.between(data.y_query, data.y_database, data.affinity)
    ranking = Ranking(queries, database, relevance, weights)
    measured = list(chosen.values())
    if details:
        measured += [_CURVE, *(Metric.parse(f"precision_at_{k}") for k in _RANKS)]
    means, of_queries = evaluate_queries(ranking, measured)
    values: dict[str, Any] = {name: means[metric.name] for name, metric in chosen.items()}
    values |= {"fit_seconds": fit_seconds, "codes_per_second": len(database) / encode_seconds}
    if not details:
        return values
    by_radius: Any = means[_CURVE.name]
    curves: dict[str, Any] = dict(zip(("radius_precision", "radius_recall"), by_radius, strict=True))
    curves |= {"ranks": _RANKS, "rank_precision": [means[f"precision_at_{k}"] for k in _RANKS]}
    values["codes_sha256"] = hashlib.sha256(database.rows.tobytes()).hexdigest()
    values["curves"] = {name: np.round(curve, 6).tolist() for name, curve in curves.items()}
    values["per_query"] = {
        name: of_queries[metric.name]
        for name, metric in chosen.items()
        if not getattr(metric.function, "gives_means", False)
    }
    return values
