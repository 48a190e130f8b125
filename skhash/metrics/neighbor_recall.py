"""Recall of the nearest neighbors: how many of the k true ones a search by codes finds."""

from typing import Any

from skhash._validation import as_count, as_count_or_none
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.recall import recall


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
    the space of the original vectors, as :class:`skhash.affinity.NeighborAffinity` names them. Scorers make this
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
    return recall(H, candidates or k, ties=ties, empty=empty, average=average)
