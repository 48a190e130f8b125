r"""Tie-aware average precision, AP_T (He et al., CVPR 2018, section 3.2, eq. 6).

For tie d of n_d items, n+_d of them relevant, after N_{d-1} items, N+_{d-1} of
them relevant, the expectation over all orders inside the tie is

    n+_d / n_d * sum_{t = N_{d-1}+1}^{N_d} [N+_{d-1} + (t - N_{d-1} - 1) r_d + 1] / t,
    r_d = (n+_d - 1) / (n_d - 1)

and, since sums of 1/t are differences of the digamma function psi,

    = n+_d / n_d * { r_d m + [N+_{d-1} + 1 - r_d (N_{d-1} + 1)] * [psi(T + 1) - psi(N_{d-1} + 1)] }

with T = min(N_d, k) the last rank counted and m = T - N_{d-1}. The formula is
smooth in real counts: on soft counts it is the training objective of TALR, whose
compiled form for the CPU is in skhash/hashers/deep/_listwise.py.
"""

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from skhash._validation import as_count_or_none, check_option
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ties import (
    TIES,
    check_whole,
    digamma,
    divide,
    items_before,
    over_queries,
    per_item,
    polygamma,
    ranks_within,
    relevant_beyond,
    tied_relevance,
)

_MAX_PAIRS = 2**18  # pairs of a query and a number of relevant items that are computed at once
_NORMALIZERS = ("relevant", "min", "retrieved")


def average_precision(
    H: RelevanceHistogram,
    k: int | None = None,
    *,
    normalizer: str = "relevant",
    ties: str = "average",
    empty: str = "skip",
    average: bool = True,
) -> Any:
    """Average precision, its expectation over the orders inside the ties.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant. Soft counts give the training objective.
    k : int, default=None
        Cutoff rank; None ranks the whole database.
    normalizer : "relevant", "min" or "retrieved", default="relevant"
        With a cutoff, divide by the number of all relevant items, by ``min(relevant, k)``, or
        by the number of relevant items among the first k; see Notes.
    ties : "average", "best" or "worst", default="average"
        Exact mean over all orders inside the ties, or the highest or lowest value of an order. These
        have the relevant items of each tie first or last, except that "retrieved" also divides by the
        number of relevant items inside the cutoff: fewer of them may give a higher value.
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
        For an unknown option, or "retrieved" on soft counts, which needs whole items.

    Notes
    -----
    Evaluations disagree about AP with a cutoff, so say which one you report.
    "relevant" is that of information retrieval: ``map_cut`` of trec_eval and pytrec_eval,
    ``map@k`` of ranx. It is at most k / relevant, and it grows with each relevant item that
    reaches the first k. "retrieved" is the ``mAP@K`` of papers on hashing (HashNet, TALR and the
    scripts that others copied from them) and ``top_k`` of torchmetrics: use it to compare with
    their tables. It can fall when one more relevant item reaches the first k.

    References
    ----------
    He, Cakir, Bargal, Sclaroff: Hashing as Tie-Aware Learning to Rank. CVPR 2018, eq. 6.

    Examples
    --------
    >>> from skhash.metrics import average_precision, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [0, 1], [1, 1]], [7], [7, 5, 7])
    >>> round(average_precision(H), 4)  # the mean of (1 + 2/3)/2 and (1/2 + 2/3)/2
    0.7083
    >>> [round(average_precision(H, ties=t), 4) for t in ("worst", "best")]
    [0.5833, 0.8333]
    """
    k = as_count_or_none(k, "k")
    check_option("normalizer", normalizer, _NORMALIZERS)
    check_option("ties", ties, TIES)

    def formula(counts: Any, _: Any, unretrieved: Any) -> tuple[Any, Any]:
        beyond = relevant_beyond(unretrieved)
        if normalizer == "retrieved" and k is not None:
            n, p = tied_relevance(counts)
            return _over_retrieved(n, p, k, ties), p.sum(axis=1) + beyond > 0
        return expected_ap(*tied_relevance(counts, ties), k, normalizer, beyond)

    return over_queries(H, formula, empty, average)


def expected_ap(
    n: Any, p: Any, k: int | None = None, normalizer: str = "relevant", beyond: Any = 0.0
) -> tuple[Any, Any]:
    """AP_T per query of hard or soft ties, of shape (n_queries, n_ties), and whether something is relevant.

    `beyond` is the number of relevant items that are not in the ranking.
    """
    xp = array_namespace(n)
    relevant = xp.sum(p, axis=-1) + beyond
    limit = relevant if k is None or normalizer == "relevant" else xp.clip(relevant, max=k)
    return divide(xp.sum(_precision_sums(n, p, k), axis=-1), limit), relevant > 0


def _precision_sums(n: Any, p: Any, k: int | None = None) -> Any:
    """Expected sum of the precisions at the relevant ranks of each tie, up to rank k, by the formula above.

    The bracket is written as ``r_d * excess + (N+_{d-1} + 1) * harmonic`` with ``excess = m - (N_{d-1} + 1) *
    harmonic``. Near n_d = 1, where r_d has a pole, ``excess / (n_d - 1)`` is a series.
    """
    xp = array_namespace(n)
    before, ranks = ranks_within(n)[..., :-1], ranks_within(n, k)
    counted = n if k is None else xp.diff(ranks, axis=-1)
    harmonic = xp.diff(digamma(ranks + 1), axis=-1)  # psi(T + 1) - psi(N_{d-1} + 1)
    excess = counted - (before + 1) * harmonic
    single = xp.abs(n - 1) < 1e-3
    divisor = xp.where(single, xp.inf, n - 1)
    if k is not None:
        # ranks are compared, since a difference of soft ranks can be below n by rounding
        is_cut = before + n > k
        single = single & ~is_cut
        # bounds the ratio of a cut tie of fewer than two soft items; exact for whole items
        divisor = xp.where(single, xp.inf, xp.where(is_cut & (n < 2), 1.0, n - 1))
    if isinstance(n, np.ndarray):  # one whole relevant item adds 0, but torch needs the gradient
        single = single & (p > 0) & ((n != 1) | (p != 1))
    bracket = (p - 1) * (1 / divisor) * excess + (items_before(p) + 1) * harmonic
    where = xp.nonzero(single)
    bracket[where] += (p[where] - 1) * _near_one(n[where] - 1, before[where] + 2)
    return per_item(p, n) * bracket


def _near_one(c: Any, x: Any) -> Any:
    """Taylor series of [n_d - (N_{d-1} + 1) harmonic] / c in c = n_d - 1 near 0, at x = N_{d-1} + 2."""
    return 1 - (x - 1) * (polygamma(1, x) + polygamma(2, x) * c / 2 + polygamma(3, x) * c**2 / 6)


def _over_retrieved(n: Any, p: Any, k: int, ties: str) -> Any:
    """AP@k divided by the number of relevant items among the first k, for whole items only.

    Of the tie that the cutoff splits, r relevant items are inside the cutoff with a
    hypergeometric probability; given r, their order is uniform again. The best and the
    worst order have the r with the highest and the lowest value.
    """
    check_whole(n, p, "normalizer='retrieved' (use 'min' as a training objective)")
    sums = _sums_in_order(n, p, ties)
    before, relevant_before = items_before(n), items_before(p)
    inside = np.clip(k - before, 0, n)
    whole = inside == n
    sum_of_whole = (sums * whole).sum(axis=1)
    values = divide(sum_of_whole, (p * whole).sum(axis=1))
    queries, columns = np.nonzero(~whole & (inside > 0))  # the split tie of each query that has one
    if len(queries):
        split = (array[queries, columns] for array in (before, relevant_before, n, p, inside))
        values[queries] = _with_split_tie(ties, sum_of_whole[queries], *split)
    return values


def _with_split_tie(ties: str, sums: Any, before: Any, relevant_before: Any, n: Any, p: Any, m: Any) -> Any:
    """AP@k of queries whose tie of n items, p of them relevant, has m items inside the cutoff."""
    lowest, highest = np.maximum(0, m - (n - p)), np.minimum(m, p)
    n_values = int((highest - lowest).max()) + 1
    n_queries = max(1, _MAX_PAIRS // n_values)
    values = np.empty(len(sums))
    for start in range(0, len(sums), n_queries):
        part = slice(start, start + n_queries)
        r = np.minimum(lowest[part, None] + np.arange(n_values), highest[part, None])  # padded with the highest
        items, relevant = (
            np.stack([np.broadcast_to(first[part, None], r.shape), second], axis=-1).reshape(-1, 2)
            for first, second in ((before, np.broadcast_to(m[part, None], r.shape)), (relevant_before, r))
        )
        of_split = _sums_in_order(items, relevant, ties)[:, 1].reshape(r.shape)
        of_r = divide(sums[part, None] + of_split, relevant_before[part, None] + r)
        if ties == "average":
            values[part] = (_hypergeometric(r, n[part, None], p[part, None], m[part, None]) * of_r).sum(axis=1)
        else:
            values[part] = of_r.max(axis=1) if ties == "best" else of_r.min(axis=1)
    return values


def _hypergeometric(r: Any, n: Any, p: Any, m: Any) -> Any:
    """Probability of each number r of relevant items among m of n items, p of them relevant; r ascends by 1."""
    r = r[:, :-1]
    ratios = (p - r) * (m - r) / ((r + 1) * (n - p - m + r + 1))
    with np.errstate(divide="ignore"):
        logs = np.cumsum(np.log(ratios), axis=1)
    logs = np.concatenate([np.zeros((len(r), 1)), logs], axis=1)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _sums_in_order(n: Any, p: Any, ties: str) -> Any:
    """Sum of the precisions at the relevant ranks of each tie: the mean over its orders, or the best or worst order."""
    if ties == "average":
        return _precision_sums(n, p)
    counts = np.stack([n - p, p], axis=-1)
    return _precision_sums(*tied_relevance(counts, ties)).reshape(counts.shape).sum(axis=-1)
