"""What precision and recall share: relevant items until a rank, or within a radius.

At a rank the tie that the rank splits counts in proportion, which is the exact
expectation over its orders. Within a radius no tie is split.
"""

import math
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from skhash._validation.options import check_option
from skhash.metrics._queries import TIES, check_cutoff, check_histogram
from skhash.metrics._ties import divide, merge_relevant, ranks_within, tied_relevance
from skhash.metrics.histogram import RelevanceHistogram


def check_rank_or_radius(H: RelevanceHistogram, k: int | None, radius: float | None, ties: str) -> None:
    """Raise ValueError unless exactly one of `k` and `radius` is given, and it is valid."""
    check_option("ties", ties, TIES)
    check_cutoff(k)
    if (k is None) == (radius is None):
        raise ValueError(f"Exactly one of `k` and `radius` must be given. Got k={k!r} and radius={radius!r}.")
    if radius is not None and (isinstance(radius, bool) or not isinstance(radius, Real) or math.isnan(radius)):
        raise ValueError(f"`radius` must be None or a number. Got {radius!r} instead.")
    check_histogram(H)


def retrieved(
    H: RelevanceHistogram, counts: Any, distances: Any, k: int | None, radius: float | None, ties: str
) -> tuple[Any, Any, Any]:
    """Numbers of hits, of retrieved items and of relevant items in the database, each of shape (n_queries,).

    Items are retrieved up to rank `k`, or within `radius` if `k` is None.
    """
    if radius is None:
        n, p = tied_relevance(counts, ties)
        return relevant_until(n, p, k), ranks_within(n, k)[:, -1], p.sum(-1)
    counts = merge_relevant(counts)
    # weighted distances are rounded, by much less than this
    reach = radius + (1e-12 * float(np.abs(H.distances).max(initial=0)) if H.is_ragged else 0)
    inside = array_namespace(counts).asarray(distances <= reach, device=counts.device)
    relevant = counts[..., 1]
    return (relevant * inside).sum(-1), (counts.sum(-1) * inside).sum(-1), relevant.sum(-1)


def relevant_until(n: Any, p: Any, k: Any) -> Any:
    """Expected number of relevant items among the first k; the split tie counts in proportion."""
    xp = array_namespace(n)
    return xp.sum(divide(p, n) * xp.diff(ranks_within(n, k), axis=-1), axis=-1)
