"""Recall at a rank, or within a Hamming radius."""

from typing import Any

from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ties import checked_rank_or_radius, divide, over_queries, retrieved


def recall(
    H: RelevanceHistogram,
    k: int | None = None,
    *,
    radius: float | None = None,
    ties: str = "average",
    empty: str = "skip",
    average: bool = True,
) -> Any:
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
        Unless exactly one of `k` and `radius` is given.

    Examples
    --------
    >>> from skhash.metrics import recall, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> recall(H, k=2), recall(H, radius=0)
    (0.75, 0.5)
    """
    k, radius = checked_rank_or_radius(H, k, radius, ties)

    def formula(*block: Any) -> tuple[Any, Any]:
        hits, _, relevant = retrieved(H, block, k, radius, ties)
        return divide(hits, relevant), relevant > 0

    return over_queries(H, formula, empty, average)
