"""Two more metrics of a whole ranking: the area under the ROC curve, and the reciprocal rank."""

import numpy as np
from array_api_compat import array_namespace

from skhash.metrics._ties import (
    NOTHING_TO_COMPARE,
    check_options,
    divide,
    items_before,
    merge_relevant,
    over_queries,
    require_whole,
    tied_ranking,
)


def roc_auc(H, *, ties="average", empty="skip", average=True):
    """Probability that a relevant item is nearer than an irrelevant one.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant.
    ties : "average", "best" or "worst", default="average"
        A tied pair counts 1/2, 1 or 0.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Queries without a relevant or without an irrelevant item.
    average : bool, default=True
        Mean over the queries; False gives one value a query, NaN where skipped.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1].

    Examples
    --------
    >>> from skhash.metrics import relevance_histogram, roc_auc
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> roc_auc(H), roc_auc(H, ties="worst")
    (0.75, 0.5)
    """
    check_options(ties, empty)

    def per_block(counts, distances):
        n, p = tied_ranking(merge_relevant(counts, H.levels), [0.0, 1.0], ties)
        xp = array_namespace(n)
        irrelevant = n - p
        total = xp.sum(irrelevant, axis=-1, keepdims=True)
        ordered = xp.sum(p * (total - items_before(irrelevant) - irrelevant / 2), axis=-1)
        pairs = xp.sum(p, axis=-1) * total[:, 0]
        return divide(ordered, pairs), pairs > 0

    return over_queries(H, per_block, empty, average, what=NOTHING_TO_COMPARE)


def reciprocal_rank(H, *, ties="average", empty="skip", average=True):
    """Expectation of 1 / rank of the first relevant item.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts of whole items; those of a level above 0 are relevant.
    ties : "average", "best" or "worst", default="average"
        Exact mean over all orders inside the ties, or the relevant items first or last.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Queries with nothing relevant in the database.
    average : bool, default=True
        Mean over the queries; False gives one value a query, NaN where skipped.

    Returns
    -------
    float or ndarray of shape (n_queries,), float64
        In [0, 1].

    Raises
    ------
    ValueError
        On soft counts: it needs whole items.

    Examples
    --------
    >>> from skhash.metrics import reciprocal_rank, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [0, 1], [1, 0]], [7], [7, 5, 7])
    >>> round(reciprocal_rank(H), 4)  # two relevant items among three tied ones: (2/3) 1 + (1/3) (1/2)
    0.8333
    """
    check_options(ties, empty)

    def per_block(counts, distances):
        n, p = tied_ranking(merge_relevant(counts, H.levels), [0.0, 1.0], ties)
        require_whole(n, p, "reciprocal_rank")
        relevant = p.sum(axis=1) > 0
        tie = (p > 0).argmax(axis=1)
        rows = np.arange(len(n))
        first = zip(n[rows, tie], p[rows, tie], items_before(n)[rows, tie], strict=True)
        return np.array([_expected_reciprocal(*query) if query[1] else 0.0 for query in first]), relevant

    return over_queries(H, per_block, empty, average)


def _expected_reciprocal(n, p, before):
    """Mean of 1 / (before + j), j the place of the first of p relevant among n tied items."""
    from scipy.special import gammaln

    j = np.arange(1, n - p + 2)
    # P(j) = binomial(n - j, p - 1) / binomial(n, p)
    log_probability = (
        gammaln(n - j + 1)
        - gammaln(n - j - p + 2)
        - gammaln(p)
        - (gammaln(n + 1) - gammaln(n - p + 1) - gammaln(p + 1))
    )
    return float(np.exp(log_probability) @ (1 / (before + j)))
