r"""Tie-aware average precision, AP_T (He et al., CVPR 2018, section 3.1).

For tie d of n_d items, n+_d of them relevant, after N_{d-1} items, N+_{d-1} of
them relevant, the expectation over all orders inside the tie is

    n+_d / n_d * sum_{t = N_{d-1}+1}^{N_d} [N+_{d-1} + (t - N_{d-1} - 1) r_d + 1] / t,
    r_d = (n+_d - 1) / (n_d - 1)

and, since sums of 1/t are differences of the digamma function psi,

    = n+_d / n_d * { r_d m + [N+_{d-1} + 1 - r_d (N_{d-1} + 1)] * [psi(T + 1) - psi(N_{d-1} + 1)] }

with T = min(N_d, k) the last rank counted and m = T - N_{d-1}. The formula is
smooth in real counts: on soft counts it is TALR's training objective.
"""

import numpy as np
from array_api_compat import array_namespace

from skhash.metrics._precision_sums import bracket_term, tie_terms
from skhash.metrics._ties import (
    check_cutoff,
    check_options,
    divide,
    items_before,
    merge_relevant,
    over_queries,
    per_item,
    require_whole,
    tied_ranking,
)

NORMALIZERS = ("relevant", "min", "retrieved")


def average_precision(H, k=None, *, normalizer="relevant", ties="average", empty="skip", average=True):
    """Average precision, its expectation over the orders inside the ties.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant. Soft counts give the objective.
    k : int, default=None
        Cut-off rank; None ranks the whole database.
    normalizer : "relevant", "min" or "retrieved", default="relevant"
        With a cut-off, divide by all relevant items, by ``min(relevant, k)``, or by
        the relevant items among the first k (HashNet and TALR report that one).
    ties : "average", "best" or "worst", default="average"
        Exact mean over all orders inside the ties, or the relevant items first or last.
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
        For an unknown option, or "retrieved" on soft counts, which needs whole items.

    References
    ----------
    He, Cakir, Bargal, Sclaroff: Hashing as Tie-Aware Learning to Rank. CVPR 2018, eq. 7.

    Examples
    --------
    >>> from skhash.metrics import average_precision, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [0, 1], [1, 1]], [7], [7, 5, 7])
    >>> round(average_precision(H), 4)  # the mean of (1 + 2/3)/2 and (1/2 + 2/3)/2
    0.7083
    >>> [round(average_precision(H, ties=t), 4) for t in ("worst", "best")]
    [0.5833, 0.8333]
    """
    check_options(ties, empty, normalizer=(normalizer, NORMALIZERS))
    check_cutoff(k)

    def per_block(counts, distances):
        n, p = tied_ranking(merge_relevant(counts, H.levels), [0.0, 1.0], ties)
        xp = array_namespace(n)
        relevant = xp.sum(p, axis=-1)
        if normalizer == "retrieved" and k is not None:
            values = _over_retrieved(n, p, k)
        else:
            limit = relevant if k is None or normalizer == "relevant" else xp.clip(relevant, max=k)
            values = divide(xp.sum(precision_sums(n, p, k), axis=-1), limit)
        return values, relevant > 0

    return over_queries(H, per_block, empty, average)


def precision_sums(n, p, k=None):
    """Expected sum of the precisions at the relevant ranks of each tie, up to rank k.

    Parameters
    ----------
    n : float64 array of shape (n_queries, n_ties)
        Items of each tie, whole or soft.
    p : float64 array of shape (n_queries, n_ties)
        Relevant items of each tie.
    k : int, default=None
        Cut-off rank.

    Returns
    -------
    float64 array of shape (n_queries, n_ties)
        The bracket term above times n+_d / n_d.
    """
    if k is None and getattr(n, "requires_grad", False):
        from skhash.metrics._precision_sums_torch import PrecisionSums  # the same line, with its derivative by hand

        return PrecisionSums.apply(n, p)
    return per_item(p, n) * bracket_term(p, tie_terms(n, p, k))


def _over_retrieved(n, p, k):
    """AP@k divided by the relevant items among the first k, whole items only.

    Of the tie that the cut-off splits, r relevant items fall inside it with a
    hypergeometric probability; given r, their order is uniform again.
    """
    require_whole(n, p, 'normalizer="retrieved" (use "min" as a training objective)')
    from scipy.stats import hypergeom

    sums = precision_sums(n, p, k)
    before, relevant_before = items_before(n), items_before(p)
    inside = np.clip(k - before, 0, n)
    whole = inside == n
    cut = ~whole & (inside > 0)
    values = divide((sums * whole).sum(axis=1), (p * whole).sum(axis=1))
    for q in np.flatnonzero(cut.any(axis=1)):
        d = np.flatnonzero(cut[q])[0]
        m = inside[q, d]
        r = np.arange(max(0, m - (n[q, d] - p[q, d])), min(m, p[q, d]) + 1)
        boundary = precision_sums(
            np.stack([np.full_like(r, before[q, d]), np.full_like(r, m)], axis=1),
            np.stack([np.full_like(r, relevant_before[q, d]), r], axis=1),
        )[:, 1]
        probability = hypergeom.pmf(r, n[q, d], p[q, d], m)
        gathered = sums[q, whole[q]].sum() + boundary
        values[q] = probability @ divide(gathered, relevant_before[q, d] + r)
    return values
