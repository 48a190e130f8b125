"""Recall of the nearest neighbors: how many of the k true ones a search by codes finds."""

from typing import Any

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace
from scipy.special import betaln

from skhash._validation import as_count, as_count_or_none
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ties import (
    checked_rank_or_radius,
    divide,
    over_queries,
    relevant_beyond,
    relevant_until,
    tied_relevance,
)


def neighbor_recall(
    H: RelevanceHistogram,
    k: int | None = None,
    *,
    candidates: int | None = None,
    ties: str = "average",
    empty: str = "skip",
    average: bool = True,
) -> Any:
    """Share of the k nearest items that are among the first k, or among the first `candidates`.

    It is :func:`recall` at rank `candidates` on a histogram whose relevant items are the k nearest neighbors in
    the space of the original vectors, as :class:`skhash.affinity.NeighborAffinity` names them. Where more than k items
    are relevant, since some are as near as the k-th, any k of them are all that can be found. Scorers make this
    histogram for the names ``neighbor_recall_at_10`` and ``neighbor_recall_at_10_of_50``.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; the items of a level above 0 are the true neighbors.
    k : int, default=None
        Number of true neighbors of each query. It must be given.
    candidates : int, default=None
        How many items the search returns; None returns k.
    ties : "average", "best" or "worst", default="average"
        Order inside the tie that the last returned item belongs to.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of a query without a true neighbor.
    average : bool, default=True
        Mean over the queries; False returns one value per query.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1].

    Raises
    ------
    ValueError
        If `k` is not given, or `candidates` is smaller.

    Examples
    --------
    >>> from skhash.affinity import NeighborAffinity
    >>> from skhash.metrics import neighbor_recall, relevance_histogram
    >>> query, items = [[0.0]], [[0.1], [0.2], [5.0]]
    >>> codes = [[0, 0]], [[0, 0], [0, 1], [0, 1]]
    >>> H = relevance_histogram(*codes, query, items, affinity=NeighborAffinity(2))
    >>> neighbor_recall(H, k=2), neighbor_recall(H, k=2, candidates=3)
    (0.75, 1.0)
    """
    k = as_count(k, "k", "an int >= 1, the number of true neighbors")
    candidates = as_count_or_none(candidates, "candidates", what=f"an int of at least k={k}", least=k)
    rank = candidates or k
    checked_rank_or_radius(H, rank, None, ties)

    def formula(counts: Any, _: Any, unretrieved: Any) -> tuple[Any, Any]:
        xp = array_namespace(counts)
        n, p = tied_relevance(counts, ties)
        most = xp.asarray(float(k), device=n.device)
        ranked = p.sum(-1)
        relevant = ranked + relevant_beyond(unretrieved)
        found = xp.minimum(relevant_until(n, p, rank), most)
        if isinstance(n, np.ndarray) and ties == "average":
            for query in np.flatnonzero(ranked > k):
                found[query] = mean_of_at_most(n[query], p[query], rank, k)
        return divide(found, xp.minimum(relevant, most)), relevant > 0

    return over_queries(H, formula, empty, average)


def mean_of_at_most(n: npt.NDArray[Any], p: npt.NDArray[Any], rank: int, k: int) -> float:
    """Mean, over the orders inside the tie that a rank splits, of the number of relevant items, where at most k count.

    The relevant items that the rank takes of the tie have a hypergeometric distribution.
    """
    ends = np.cumsum(n)
    tie = min(int(np.searchsorted(ends, rank)), len(n) - 1)
    before, size, relevant = p[:tie].sum(), n[tie], p[tie]
    taken = min(rank - (ends[tie] - size), size)
    hits = np.arange(max(0, taken + relevant - size), min(taken, relevant) + 1)
    log_ways = -(betaln(1 + relevant - hits, 1 + hits) + betaln(1 + size - relevant - taken + hits, 1 + taken - hits))
    log_ways -= np.log1p(relevant) + np.log1p(size - relevant)
    ways = np.exp(log_ways - log_ways.max())
    return float((np.minimum(before + hits, k) * ways).sum() / ways.sum())
