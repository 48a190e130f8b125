r"""Tie-aware NDCG (He et al., CVPR 2018, section 3.2; DCG_T is eq. 7).

With the gain G(v) = 2^v - 1, or v, and S(x) = sum_{t <= x} D(t), the expected discount of every
item of tie d is the mean discount of the ranks of the tie:

    DCG_T = sum_d [sum_v G(v) n_{d,v} / n_d] * [S(min(N_d, k)) - S(min(N_{d-1}, k))].

The ideal ranking, levels descending, is a tied ranking as well: one tie per level.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace

from skhash._validation import as_count_or_none, check_option
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ties import (
    DISCOUNTS,
    TIES,
    cumulative_discount,
    divide,
    over_queries,
    per_item,
    ranks_within,
    tied_ranking,
)

_GAINS = ("exponential", "linear")
_TABLE = 2**20  # discounts are summed one by one up to this rank, and integrated beyond, with an error of 1e-14


def ndcg(
    H: RelevanceHistogram,
    k: int | None = None,
    *,
    ties: str = "average",
    discount: str = "log2",
    gain: str = "exponential",
    empty: str = "skip",
    average: bool = True,
) -> Any:
    """Normalized discounted cumulative gain, its expectation over the orders inside the ties.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; an item of level v has the gain 2^v - 1, or v. Soft counts give the training objective.
    k : int, default=None
        Cutoff rank; None ranks the whole database.
    ties : "average", "best" or "worst", default="average"
        Exact mean over all orders inside the ties, or high levels first or last.
    discount : "log2" or "delayed_log2", default="log2"
        "log2": 1 / log2(t + 1), which with these gains equals ``sklearn.metrics.ndcg_score``
        on 2^v - 1. "delayed_log2": 1 / log2(max(t, 2)), that is 1, 1, 1 / log2(3), ..., on
        binary gains, as in Lin et al. (ECCV 2014).
    gain : "exponential" or "linear", default="exponential"
        Gain of an item of level v: 2^v - 1, or v as in trec_eval. "delayed_log2" has binary gains of its own.
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
        For an unknown option, or linear gains with "delayed_log2".

    References
    ----------
    He, Cakir, Bargal, Sclaroff: Hashing as Tie-Aware Learning to Rank. CVPR 2018. Eq. 7 is
    DCG_T; NDCG_T, which divides it by the ideal of eq. 5, has no number.

    Examples
    --------
    >>> from skhash.metrics import ndcg, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [1, 1]], [[1, 1]], [[1, 0], [1, 1]])
    >>> # one shared label before two: (1 + 3 / log2(3)) / (3 + 1 / log2(3))
    >>> H.levels, round(ndcg(H), 4)
    (array([0, 1, 2]), 0.7967)
    """
    k = as_count_or_none(k, "k")
    check_option("ties", ties, TIES)
    check_option("discount", discount, DISCOUNTS)
    check_option("gain", gain, _GAINS)
    if gain == "linear" and discount == "delayed_log2":
        raise ValueError(
            "`gain` must be 'exponential' with discount='delayed_log2', whose gains are 0 and 1. Got 'linear'."
        )

    def formula(counts: Any, _: Any, unretrieved: Any) -> tuple[Any, Any]:
        return expected_ndcg(counts, H.levels, k, discount, ties, gain, unretrieved)

    return over_queries(H, formula, empty, average)


def expected_ndcg(
    counts: Any,
    levels: Any,
    k: int | None = None,
    discount: str = "log2",
    ties: str = "average",
    gain: str = "exponential",
    unretrieved: Any = None,
) -> tuple[Any, Any]:
    """NDCG_T per query of hard or soft counts, of shape (n_queries, n_ties, n_levels), and whether it is defined."""
    gains = level_gains(levels, discount, gain)
    level_totals = array_namespace(counts).sum(counts, axis=1)
    if unretrieved is not None:
        level_totals = level_totals + unretrieved
    reached = expected_gain(tied_ranking(counts, gains, ties), k, discount)
    ideal = expected_gain(tied_ranking(level_totals[:, None, :], gains, "best"), k, discount)
    return divide(reached, ideal), ideal > 0


def level_gains(levels: Any, discount: str = "log2", gain: str = "exponential") -> npt.NDArray[np.float64]:
    """Gain of each level; 2^v - 1 is times a power of two where sums would overflow, which cancels in NDCG."""
    levels = np.asarray(levels, dtype=np.float64)
    if discount == "delayed_log2":
        return np.asarray(levels > 0, dtype=np.float64)
    if gain == "linear":
        return np.asarray(levels)
    if levels[-1] > 1023:
        raise ValueError(f"`H` must have levels up to 1023, since 2^v - 1 overflows. Got a level of {levels[-1]:g}.")
    shift = max(levels[-1] - 512, 0)  # sums of the highest gains stay finite
    return np.asarray(np.exp2(levels - shift) - np.exp2(-shift))


def expected_gain(ranking: tuple[Any, Any], k: int | None = None, discount: str = "log2") -> Any:
    """DCG_T per query of ties with n items and a sum of gains, both of shape (n_queries, n_ties)."""
    n, gain = ranking
    xp = array_namespace(n)
    discounts = xp.diff(_summed_discounts(ranks_within(n, k), discount), axis=-1)
    return xp.sum(per_item(gain, n) * discounts, axis=-1)


def _summed_discounts(x: Any, discount: str) -> Any:
    """S(x), in memory that does not grow with the ranks."""
    if not isinstance(x, np.ndarray) or x.max(initial=0) <= _TABLE:
        return cumulative_discount(x, discount)
    beyond = _integral(np.maximum(x, _TABLE), discount) - _integral(_TABLE, discount)
    return cumulative_discount(np.minimum(x, _TABLE), discount) + beyond


def _integral(x: Any, discount: str) -> Any:
    """Integral of D up to x, which is ln 2 li(x + 1), plus D(x) / 2: the first terms of the Euler-Maclaurin formula."""
    from scipy.special import expi

    log = np.log(x + 1.0 if discount == "log2" else x)
    return np.log(2) * (expi(log) + 0.5 / log)  # li(t) = Ei(ln t)
