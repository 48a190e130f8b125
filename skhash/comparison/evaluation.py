"""Fit one hasher on the training samples of a split, and rank its database."""

import hashlib
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from skhash._estimators import find_hasher, named_warnings, packed_codes
from skhash.metrics import Ranking, evaluate_ranking, evaluate_with_curve

#: metrics of every result
METRICS = ("ap", "ap_worst", "ap_best", "ndcg", "precision_at_100", "precision_radius_2")
_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # of the curve of precision by rank


def evaluate_hasher(hasher: Any, data: Any, *, details: bool = False) -> dict[str, Any]:
    """Metrics of a hasher, fitted on the training samples of a split, on the database of the split.

    Parameters
    ----------
    hasher : BaseHasher
        Fitted here. Also a Pipeline or a search that ends in one, or a transformer that returns bits.
    data : Bunch
        Result of :func:`skhash.datasets.load_dataset`.
    details : bool, default=False
        Whether to add the curves and the hash of the codes.

    Returns
    -------
    dict
        The metrics in `METRICS`, fit_seconds and codes_per_second. If the hasher has learned
        weights of its bits, metrics of ranks use the weighted distance. With `details` also
        codes_sha256, the SHA-256 of the packed codes of the database in hex digits; and
        curves, a dict of lists: radius_precision and radius_recall, means over the queries
        within each radius 0, 1, ..., nbits; rank_precision at the ranks in `ranks`.

    Examples
    --------
    >>> from skhash import PCAHasher
    >>> from skhash.comparison import evaluate_hasher
    >>> from skhash.datasets import load_dataset
    >>> values = evaluate_hasher(PCAHasher(nbits=8), load_dataset("digits"), details=True)
    >>> values["curves"]["radius_recall"][8], len(values["codes_sha256"])
    (1.0, 64)
    """
    start = time.perf_counter()
    with named_warnings(hasher):
        hasher.fit(data.X_train, data.y_train)
    fit_seconds = time.perf_counter() - start
    queries, nbits = packed_codes(hasher, data.X_query)
    start = time.perf_counter()
    database, _ = packed_codes(hasher, data.X_database)
    encode_seconds = time.perf_counter() - start
    weights = getattr(find_hasher(hasher), "bit_weights_", None)
    ranking = Ranking(queries, database, nbits, data.y_query, data.y_database, data.affinity, weights)
    speed = {"fit_seconds": fit_seconds, "codes_per_second": len(database) / encode_seconds}
    if not details:
        return evaluate_ranking(ranking, METRICS) | speed
    values, *by_radius = evaluate_with_curve(ranking, [*METRICS, *(f"precision_at_{k}" for k in _RANKS)])
    by_rank = [values[f"precision_at_{k}"] for k in _RANKS]
    names = ("ranks", "rank_precision", "radius_precision", "radius_recall")
    curves: Iterable[tuple[str, Any]] = zip(names, (_RANKS, by_rank, *by_radius), strict=True)
    return {
        **{name: values[name] for name in METRICS},
        **speed,
        "codes_sha256": hashlib.sha256(database.tobytes()).hexdigest(),
        "curves": {name: np.round(curve, 6).tolist() for name, curve in curves},
    }
