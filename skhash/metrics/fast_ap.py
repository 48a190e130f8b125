r"""FastAP, deep metric learning to rank (Cakir, He, Xia, Kulis, Sclaroff, CVPR 2019).

Of the items of a query c_d lie at distance d, relevant ones c+_d, and C_d = c_0 + ... + c_d. AP_T
averages over the orders inside each tie. FastAP takes the precision C+_d / C_d at the end of the tie for
all its relevant items:

    FastAP = (1 / C+) sum_d c+_d C+_d / C_d

The paper writes h and H for the counts c_d and C_d, and N+ for C+. This is the mean over the relevant
items of the precision within the Hamming radius at which they lie. Without ties it is AP. In the worst
order of a tie, the last relevant item has this precision, and the others have at most this precision:
FastAP is at least the AP of the worst order, and equal to it where no tie holds two relevant items. No
order is an upper bound: p relevant items in a tie after N irrelevant items count p / (N + p) each, and in
any order 1 / (N + 1), 2 / (N + 2), ... On soft counts it is an objective of :class:`skhash.TALRHasher`.
"""

from typing import Any

from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ties import divide, items_before, over_queries, relevant_beyond, tied_relevance


def fast_ap(H: RelevanceHistogram, *, empty: str = "skip", average: bool = True) -> Any:
    """FastAP: mean over the relevant items of the precision within their distance.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant. Soft counts give the training objective.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of a query with nothing relevant; "skip" leaves it out, with a warning.
    average : bool, default=True
        Mean over the queries; False returns one value per query, NaN where skipped.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1].

    References
    ----------
    Cakir, He, Xia, Kulis, Sclaroff: Deep Metric Learning to Rank. CVPR 2019.

    Examples
    --------
    >>> from skhash.metrics import fast_ap, relevance_histogram
    >>> H = relevance_histogram([[0]], [[0], [0], [1], [1]], [7], [7, 5, 7, 7])
    >>> # one relevant item among 2 items, then two among 4: (1/2 + 3/4 + 3/4) / 3
    >>> fast_ap(H)
    0.666...
    """

    def formula(counts: Any, _: Any, unretrieved: Any) -> tuple[Any, Any]:
        return fast_ap_of_ties(*tied_relevance(counts), relevant_beyond(unretrieved))

    return over_queries(H, formula, empty, average)


def fast_ap_of_ties(n: Any, p: Any, beyond: Any = 0.0) -> tuple[Any, Any]:
    """FastAP of hard or soft ties with `beyond` relevant items outside, and whether something is relevant."""
    relevant = p.sum(-1) + beyond
    precision = divide(items_before(p) + p, items_before(n) + n)
    return divide((p * precision).sum(-1), relevant), relevant > 0
