"""Fit one hasher on the training rows of a split, rank its database, and keep the figures."""

import hashlib
import time
import warnings

import numpy as np

from skhash.metrics._ties import merge_relevant
from skhash.metrics.counting import iter_histograms
from skhash.metrics.histogram import RelevanceHistogram, concatenate
from skhash.metrics.names import by_distance, evaluate
from skhash.metrics.precision_recall import precision_recall_curve

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
    names = [*FIGURES, *(f"precision_at_{k}" for k in RANKS if details)]
    values: dict = {}
    for bit_weights, wanted in by_distance(names, getattr(hasher, "bit_weights_", None)):
        options = {"affinity": data.affinity, "bit_weights": bit_weights, "nbits": hasher.nbits}
        histograms = iter_histograms(queries, database, data.y_query, data.y_database, **options)
        relevant: list = []  # in the end, those of plain distances
        values |= evaluate(_noting(histograms, relevant) if details else histograms, wanted)
    row: dict = {name: values[name] for name in FIGURES}
    row |= {"fit_seconds": fit_seconds, "codes_per_second": len(database) / encode_seconds}
    if not details:
        return row
    by_rank = [values[f"precision_at_{k}"] for k in RANKS]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*in the database and are left out")  # as `evaluate` has said
        by_radius = precision_recall_curve(concatenate(relevant))[:2]
    names = ["ranks", "rank_precision", "radius_precision", "radius_recall"]
    curves = zip(names, (RANKS, by_rank, *by_radius), strict=True)
    return row | {
        "codes_sha256": hashlib.sha256(database.tobytes()).hexdigest(),
        "curves": {name: np.round(curve, 6).tolist() for name, curve in curves},
    }


def _noting(histograms, relevant):
    """Pass histograms on, noting how many items of theirs are relevant at each distance; plain ones only."""
    for H in histograms:
        if not H.is_ragged:
            relevant.append(RelevanceHistogram(merge_relevant(H.counts, H.levels), np.array([0, 1])))
        yield H
