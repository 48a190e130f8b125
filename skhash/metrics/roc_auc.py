"""Area under the ROC curve."""

from typing import Any

from array_api_compat import array_namespace

from skhash._validation import check_option
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ties import NO_PAIR, TIES, check_histogram, divide, items_before, over_queries, tied_relevance


def roc_auc(H: RelevanceHistogram, *, ties: str = "average", empty: str = "skip", average: bool = True) -> Any:
    """Probability that a relevant item is nearer than an irrelevant item.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant.
    ties : "average", "best" or "worst", default="average"
        A tied pair counts 1/2, 1 or 0.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of a query without a relevant or without an irrelevant item; "skip" leaves it
        out, with a warning.
    average : bool, default=True
        Mean over the queries; False returns one value per query, NaN where skipped.

    Returns
    -------
    float or array of shape (n_queries,), float64
        In [0, 1].

    Raises
    ------
    ValueError
        On a ranking of a part of the items, such as a run, since nobody knows what is irrelevant among the others.

    Examples
    --------
    >>> from skhash.metrics import relevance_histogram, roc_auc
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> roc_auc(H), roc_auc(H, ties="worst")
    (0.75, 0.5)
    """
    check_option("ties", ties, TIES)
    check_histogram(H)
    if H.is_partial:
        raise ValueError(
            "`H` must rank all items for roc_auc, which compares pairs of a relevant and an irrelevant item. Got one "
            "with unretrieved items; use another metric."
        )

    def formula(counts: Any, *_: Any) -> tuple[Any, Any]:
        n, p = tied_relevance(counts, ties)
        xp = array_namespace(n)
        irrelevant = n - p
        total = xp.sum(irrelevant, axis=-1, keepdims=True)
        ordered = xp.sum(p * (total - items_before(irrelevant) - irrelevant / 2), axis=-1)
        pairs = xp.sum(p, axis=-1) * total[:, 0]
        return divide(ordered, pairs), pairs > 0

    return over_queries(H, formula, empty, average, NO_PAIR)
