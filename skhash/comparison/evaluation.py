"""Fit one hasher on the training rows of a split, rank its database, and keep the figures."""

import hashlib
import time

import numpy as np

from skhash.metrics import Ranking, evaluate_ranking, evaluate_with_curve

FIGURES = ("ap", "ap_worst", "ap_best", "ndcg", "precision_at_100", "precision_radius_2")
RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # of the curve of precision by rank


def evaluate_hasher(hasher, data, *, details=False):
    """Fit a hasher on the training rows of a split and rank its database.

    Parameters
    ----------
    hasher : BaseHasher
        Fitted here.
    data : Bunch
        As :func:`skhash.datasets.load_dataset` returns it.
    details : bool, default=False
        Add the curves and the hash of the codes.

    Returns
    -------
    dict
        The names in `FIGURES`, those of ranks by weighted distances where the hasher has learned
        weights of its bits; fit_seconds, codes_per_second. With `details` also
        codes_sha256, the SHA-256 in hex digits of the packed codes of the database; and
        curves, a dict of lists: radius_precision and radius_recall, means over the queries
        within each radius 0, 1, ..., nbits; rank_precision at the ranks in `ranks`.

    Examples
    --------
    >>> from skhash import PCAHasher
    >>> from skhash.comparison import evaluate_hasher
    >>> from skhash.datasets import load_dataset
    >>> row = evaluate_hasher(PCAHasher(nbits=8), load_dataset("digits"), details=True)
    >>> row["curves"]["radius_recall"][8], len(row["codes_sha256"])
    (1.0, 64)
    """
    start = time.perf_counter()
    hasher.fit(data.X_train, data.y_train)
    fit_seconds = time.perf_counter() - start
    queries = hasher.encode(data.X_query)
    start = time.perf_counter()
    database = hasher.encode(data.X_database)
    encode_seconds = time.perf_counter() - start
    weights = getattr(hasher, "bit_weights_", None)
    ranking = Ranking(queries, database, hasher.nbits, data.y_query, data.y_database, data.affinity, weights)
    speed = {"fit_seconds": fit_seconds, "codes_per_second": len(database) / encode_seconds}
    if not details:
        return evaluate_ranking(ranking, FIGURES) | speed
    names = [*FIGURES, *(f"precision_at_{k}" for k in RANKS)]
    values, *by_radius = evaluate_with_curve(ranking, names)
    row: dict = {name: values[name] for name in FIGURES} | speed
    by_rank = [values[f"precision_at_{k}"] for k in RANKS]
    names = ["ranks", "rank_precision", "radius_precision", "radius_recall"]
    curves = zip(names, (RANKS, by_rank, *by_radius), strict=True)
    return row | {
        "codes_sha256": hashlib.sha256(database.tobytes()).hexdigest(),
        "curves": {name: np.round(curve, 6).tolist() for name, curve in curves},
    }
