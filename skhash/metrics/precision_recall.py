"""Precision and recall: at a rank, within a Hamming radius, over all radii.

At a rank the tie on the boundary counts in proportion, which is the exact
expectation over its orders. Within a radius there are no ties to break.
"""

import math
from numbers import Real

import numpy as np
from array_api_compat import array_namespace

from skhash.metrics._ties import (
    check_cutoff,
    check_histogram,
    check_options,
    divide,
    mean_over_queries,
    merge_relevant,
    over_queries,
    ranks_within,
    tied_ranking,
)


def precision(H, k=None, *, radius=None, ties="average", empty="skip", average=True):
    """Precision among the first k items, or within a radius.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant.
    k : int, default=None
        Rank; a database of fewer items counts as it is.
    radius : float, default=None
        Distance, inclusive. Give either `k` or `radius`.
    ties : "average", "best" or "worst", default="average"
        Order inside the tie that rank k splits.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Queries with nothing relevant in the database.
    average : bool, default=True
        Mean over the queries; False gives one value a query, NaN where skipped.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1]; an empty ball has precision 0, as in HashNet.

    Raises
    ------
    ValueError
        Unless exactly one of `k` and `radius` is given.

    Examples
    --------
    >>> from skhash.metrics import precision, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> precision(H, k=2), precision(H, radius=0)
    (0.75, 1.0)
    """
    return _fraction(H, k, radius, ties, empty, average, of_retrieved=True)


def recall(H, k=None, *, radius=None, ties="average", empty="skip", average=True):
    """Share of the relevant items among the first k items, or within a radius.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant.
    k : int, default=None
        Rank.
    radius : float, default=None
        Distance, inclusive. Give either `k` or `radius`.
    ties : "average", "best" or "worst", default="average"
        Order inside the tie that rank k splits.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Queries with nothing relevant in the database.
    average : bool, default=True
        Mean over the queries; False gives one value a query, NaN where skipped.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1].

    Raises
    ------
    ValueError
        Unless exactly one of `k` and `radius` is given.

    Examples
    --------
    >>> from skhash.metrics import recall, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> recall(H, k=2), recall(H, radius=0)
    (0.75, 0.5)
    """
    return _fraction(H, k, radius, ties, empty, average, of_retrieved=False)


def r_precision(H, *, ties="average", empty="skip", average=True):
    """Precision at the rank R = number of relevant items of each query.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant.
    ties : "average", "best" or "worst", default="average"
        Order inside the tie that rank R splits.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Queries with nothing relevant in the database.
    average : bool, default=True
        Mean over the queries; False gives one value a query, NaN where skipped.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1].

    Examples
    --------
    >>> from skhash.metrics import r_precision, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> r_precision(H)
    0.75
    """
    check_options(ties, empty)

    def per_block(counts, distances):
        n, p = tied_ranking(merge_relevant(counts, H.levels), [0.0, 1.0], ties)
        relevant = array_namespace(p).sum(p, axis=-1)
        return divide(_relevant_until(n, p, relevant[:, None]), relevant), relevant > 0

    return over_queries(H, per_block, empty, average)


def precision_recall_curve(H, *, radii=None, empty="skip", average=True):
    """Precision and recall within each radius.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant.
    radii : array-like of shape (n_radii,), default=None
        Radii. None takes every Hamming distance, or 101 evenly spaced ones over the
        distances of a ragged histogram.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Queries with nothing relevant in the database.
    average : bool, default=True
        Means over the queries; False returns one curve per query, NaN where skipped.

    Returns
    -------
    precision : ndarray of shape (n_radii,) or (n_queries, n_radii), float64
        Precision within each radius.
    recall : ndarray of shape (n_radii,) or (n_queries, n_radii), float64
        Recall within each radius.
    radii : ndarray of shape (n_radii,)
        The radii.

    Examples
    --------
    >>> from skhash.metrics import precision_recall_curve, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> precision_recall_curve(H)
    (array([1.        , 0.66666667, 0.66666667]), array([0.5, 1. , 1. ]), array([0, 1, 2]))
    """
    check_histogram(H)
    if radii is None and H.is_ragged:
        radii = np.linspace(H.distances.min(), H.distances.max(), 101)
    elif radii is None:
        radii = np.arange(H.counts.shape[1])
    radii = np.atleast_1d(radii)
    if H.is_ragged or not isinstance(H.counts, np.ndarray):
        metrics = [[metric(H, radius=r, empty=empty, average=False) for r in radii] for metric in (precision, recall)]
        per_query = np.moveaxis(np.array([[_as_numpy(v) for v in values] for values in metrics]), -1, 0)
    else:
        check_options("average", empty)
        per_query = np.concatenate([_within_each(radii, merge_relevant(c, H.levels), d) for c, d in H.dense_blocks()])
        per_query[np.isnan(per_query)] = {"zero": 0.0, "one": 1.0}.get(empty, np.nan)
    if average:
        return *mean_over_queries(per_query, empty), radii
    return per_query[:, 0], per_query[:, 1], radii


def _as_numpy(values):
    """Values of queries, from torch, any device and a graph of gradients, too."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def _within_each(radii, counts, distances):
    """Precision and recall of each query within all radii at once, (n, 2, n_radii); NaN without relevant items."""
    nearer = np.cumsum(np.pad(counts, [(0, 0), (1, 0), (0, 0)]), axis=1)
    inside = nearer[:, np.searchsorted(distances, radii, side="right")]
    hits, relevant = inside[..., 1], nearer[:, -1:, 1]
    values = np.stack([divide(hits, inside.sum(-1)), divide(hits, relevant)], axis=1)
    return np.where(relevant[..., None] > 0, values, np.nan)


def _fraction(H, k, radius, ties, empty, average, of_retrieved):
    check_options(ties, empty)
    check_cutoff(k)
    if (k is None) == (radius is None):
        raise ValueError(f"k={k!r} and radius={radius!r}: exactly one of them is wanted.")
    if radius is not None:
        check_histogram(H)
        reach = _reach(radius, H)

    def per_block(counts, distances):
        counts = merge_relevant(counts, H.levels)
        if radius is None:
            n, p = tied_ranking(counts, [0.0, 1.0], ties)
            relevant = p.sum(-1)
            retrieved = ranks_within(n, k)[:, -1]
            hits = _relevant_until(n, p, k)
        else:
            relevant = counts[..., 1].sum(-1)
            inside = array_namespace(counts).asarray(distances <= reach, device=counts.device)
            retrieved, hits = (counts.sum(-1) * inside).sum(-1), (counts[..., 1] * inside).sum(-1)
        return divide(hits, retrieved if of_retrieved else relevant), relevant > 0

    return over_queries(H, per_block, empty, average)


def _reach(radius, H):
    """Largest distance within a radius: weighted distances are rounded, by far less than this."""
    if isinstance(radius, bool) or not isinstance(radius, Real) or math.isnan(radius):
        raise ValueError(f"radius={radius!r}; a number is wanted.")
    return radius + (1e-12 * float(np.abs(H.distances).max(initial=0)) if H.is_ragged else 0)


def _relevant_until(n, p, k):
    """Expected number of relevant items among the first k, the split tie in proportion."""
    xp = array_namespace(n)
    return xp.sum(divide(p, n) * xp.diff(ranks_within(n, k), axis=-1), axis=-1)
