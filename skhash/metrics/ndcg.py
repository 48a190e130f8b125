r"""Tie-aware NDCG (He et al., CVPR 2018, section 3.1).

With the gain G(v) = 2^v - 1 and S(x) = sum_{t <= x} D(t), every item of tie d is
expected to receive the mean discount of the tie's ranks:

    DCG_T = sum_d [sum_v G(v) n_{d,v} / n_d] * [S(min(N_d, k)) - S(min(N_{d-1}, k))].

The ideal ranking, levels descending, is a tied ranking as well: one tie a level.
"""

import numpy as np
from array_api_compat import array_namespace

from skhash.metrics._ties import (
    check_cutoff,
    check_options,
    cumulative_discount,
    divide,
    over_queries,
    per_item,
    ranks_within,
    tied_ranking,
)

DISCOUNTS = ("log2", "structhash")
TABLE = 2**20  # ranks whose discounts are summed one by one; beyond, the sum is an integral but for 1e-14 of it


def ndcg(H, k=None, *, ties="average", discount="log2", empty="skip", average=True):
    """Normalised discounted cumulative gain, its expectation over tie orders.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; a level v gains 2^v - 1. Soft counts give the training objective.
    k : int, default=None
        Cut-off rank; None ranks the whole database.
    ties : "average", "best" or "worst", default="average"
        Exact mean over all orders inside the ties, or high levels first or last.
    discount : "log2" or "structhash", default="log2"
        1 / log2(t + 1), which with these gains equals ``sklearn.metrics.ndcg_score``
        on 2^v - 1, or the one of Lin et al. (ECCV 2014): 1, 1, 1/log2(3), ... on
        binary gains.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Queries with nothing relevant: leave out (with a warning), or that value.
    average : bool, default=True
        Mean over the queries; False gives one value a query, NaN where skipped.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1].

    Raises
    ------
    ValueError
        For an unknown option.

    References
    ----------
    He, Cakir, Bargal, Sclaroff: Hashing as Tie-Aware Learning to Rank. CVPR 2018, eq. 8.

    Examples
    --------
    >>> from skhash.metrics import ndcg, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [1, 1]], [[1, 1]], [[1, 0], [1, 1]])
    >>> H.levels, round(ndcg(H), 4)  # one shared label before two: (1 + 3 / log2(3)) / (3 + 1 / log2(3))
    (array([0, 1, 2]), 0.7967)
    """
    check_options(ties, empty, discount=(discount, DISCOUNTS))
    check_cutoff(k)

    def per_block(counts, distances):
        gains = level_gains(H.levels, discount)
        xp = array_namespace(counts)
        level_totals = xp.sum(counts, axis=1)[:, None, :]
        reached = expected_gain(tied_ranking(counts, gains, ties), k, discount)
        ideal = expected_gain(tied_ranking(level_totals, gains, "best"), k, discount)
        return divide(reached, ideal), ideal > 0

    return over_queries(H, per_block, empty, average)


def level_gains(levels, discount="log2"):
    """Compute the gain of each level, up to a factor: NDCG is a ratio.

    Parameters
    ----------
    levels : array-like of shape (n_levels,)
        Levels, ascending.
    discount : "log2" or "structhash", default="log2"
        The latter takes binary gains.

    Returns
    -------
    float64 array of shape (n_levels,)
        Gains 2^v - 1, or these times a power of two where their sums would overflow.

    Raises
    ------
    ValueError
        For a level above 1023.

    Examples
    --------
    >>> from skhash.metrics.ndcg import level_gains
    >>> level_gains([0, 1, 2])
    array([0., 1., 3.])
    """
    levels = np.asarray(levels, dtype=np.float64)
    if discount == "structhash":
        return (levels > 0).astype(np.float64)
    if levels[-1] > 1023:
        raise ValueError(f"H has a level of {levels[-1]:g}, and 2^v - 1 overflows; levels up to 1023 are wanted.")
    shift = max(levels[-1] - 512, 0)  # sums of the highest gains stay finite
    return np.exp2(levels - shift) - np.exp2(-shift)


def expected_gain(ranking, k=None, discount="log2"):
    """DCG_T of tied rankings.

    Parameters
    ----------
    ranking : tuple of two float64 arrays of shape (n_queries, n_ties)
        Items of each tie, whole or soft, and the sum of their gains.
    k : int, default=None
        Cut-off rank.
    discount : "log2" or "structhash", default="log2"
        The discount D.

    Returns
    -------
    float64 array of shape (n_queries,)
        The expected discounted gain.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.metrics.ndcg import expected_gain
    >>> n, gain = np.array([[2.0, 1.0]]), np.array([[1.0, 3.0]])  # a gain of 1 at rank 1 or 2, one of 3 at rank 3
    >>> expected_gain((n, gain)).round(4)  # (1 + 1 / log2(3)) / 2 + 3 / 2
    array([2.3155])
    """
    n, gain = ranking
    xp = array_namespace(n)
    discounts = xp.diff(_summed_discounts(ranks_within(n, k), discount), axis=-1)
    return xp.sum(per_item(gain, n) * discounts, axis=-1)


def _summed_discounts(x, discount):
    """S(x), in memory that does not grow with the ranks; soft counts, those of a batch, are never so many."""
    if not isinstance(x, np.ndarray) or x.max(initial=0) <= TABLE:
        return cumulative_discount(x, discount)
    beyond = _integral(np.maximum(x, TABLE), discount) - _integral(TABLE, discount)
    return cumulative_discount(np.minimum(x, TABLE), discount) + beyond


def _integral(x, discount):
    """Integral of D up to x and D(x) / 2, the first terms of Euler and Maclaurin; that of ln 2 / ln t is ln 2 li(t)."""
    from scipy.special import expi

    log = np.log(x + 1.0 if discount == "log2" else x)
    return np.log(2) * (expi(log) + 0.5 / log)  # li(t) = Ei(ln t)
