"""Reciprocal rank of the first relevant item."""

from typing import Any

import numpy as np

from skhash._validation import check_option
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ties import TIES, check_whole, items_before, over_queries, relevant_beyond, tied_relevance


def reciprocal_rank(H: RelevanceHistogram, *, ties: str = "average", empty: str = "skip", average: bool = True) -> Any:
    """Expectation of 1 / rank of the first relevant item.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts of whole items; those of a level above 0 are relevant.
    ties : "average", "best" or "worst", default="average"
        Exact mean over all orders inside the ties, or the relevant items first or last.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of a query with nothing relevant; "skip" leaves it out, with a warning.
    average : bool, default=True
        Mean over the queries; False returns one value per query, NaN where skipped.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1].

    Raises
    ------
    ValueError
        On soft counts, since it needs whole items.

    Examples
    --------
    >>> from skhash.metrics import reciprocal_rank, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [0, 1], [1, 0]], [7], [7, 5, 7])
    >>> # two relevant items among three tied items: (2/3) 1 + (1/3) (1/2)
    >>> round(reciprocal_rank(H), 4)
    0.8333
    """
    check_option("ties", ties, TIES)

    def formula(counts: Any, _: Any, unretrieved: Any) -> tuple[Any, Any]:
        n, p = tied_relevance(counts, ties)
        check_whole(n, p, "reciprocal_rank")
        relevant = p.sum(axis=1) + relevant_beyond(unretrieved) > 0
        tie = (p > 0).argmax(axis=1)
        queries = np.arange(len(n))
        first = zip(n[queries, tie], p[queries, tie], items_before(n)[queries, tie], strict=True)
        return np.array([_expected_reciprocal(*query) if query[1] else 0.0 for query in first]), relevant

    return over_queries(H, formula, empty, average)


def _expected_reciprocal(n: float, p: float, before: float) -> float:
    """Mean of 1 / (before + j), with j the place of the first of p relevant items among n tied items."""
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
