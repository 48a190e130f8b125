"""R-precision: the precision at rank R, the number of relevant items."""

from typing import Any

from array_api_compat import array_namespace

from skhash._validation import check_option
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ties import TIES, divide, over_queries, relevant_beyond, relevant_until, tied_relevance


def r_precision(H: RelevanceHistogram, *, ties: str = "average", empty: str = "skip", average: bool = True) -> Any:
    """Precision at the rank R = number of relevant items of each query.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant.
    ties : "average", "best" or "worst", default="average"
        Order inside the tie that rank R splits.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of a query with nothing relevant; "skip" leaves it out, with a warning.
    average : bool, default=True
        Mean over the queries; False returns one value per query, NaN where skipped.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1].

    Examples
    --------
    >>> from skhash.metrics import r_precision, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> r_precision(H)
    0.75
    """
    check_option("ties", ties, TIES)

    def formula(counts: Any, _: Any, unretrieved: Any) -> tuple[Any, Any]:
        n, p = tied_relevance(counts, ties)
        relevant = array_namespace(p).sum(p, axis=-1) + relevant_beyond(unretrieved)
        return divide(relevant_until(n, p, relevant[:, None]), relevant), relevant > 0

    return over_queries(H, formula, empty, average)
