"""Values of queries: options of metrics, queries without a value, and means over all queries."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from skhash._validation.numeric import is_count
from skhash._validation.options import check_option
from skhash.metrics.histogram import RelevanceHistogram

TIES = ("average", "best", "worst")
EMPTY = ("skip", "zero", "one", "nan")
DISCOUNTS = ("log2", "structhash")

#: what a query without a value lacks, for warnings
NO_RELEVANT_ITEM = "relevant item"
NO_PAIR = "pair of a relevant and an irrelevant item"


def check_cutoff(k: object) -> None:
    """Raise ValueError unless `k` is None or an integer >= 1."""
    if k is not None and not is_count(k):
        raise ValueError(f"`k` must be None or an int >= 1. Got {k!r} instead.")


def check_histogram(H: object) -> None:
    """Raise TypeError unless this is a RelevanceHistogram, and ValueError unless it has queries."""
    if not isinstance(H, RelevanceHistogram):
        raise TypeError(
            f"`H` must be a RelevanceHistogram, as relevance_histogram makes it from codes and "
            f"histogram_from_distances from distances (or -scores). Got {type(H).__name__} instead."
        )
    if not len(H.counts):
        raise ValueError("`H` must have at least one query. Got none.")


def check_whole(n: Any, p: Any, where: str) -> None:
    """Raise ValueError unless the numbers of items are whole and in numpy; `where` names what needs this."""
    if not isinstance(n, np.ndarray) or (n % 1).any() or (p % 1).any():
        raise ValueError(f"`H` must have whole counts for {where}. Got soft counts instead.")


def over_queries(
    H: RelevanceHistogram,
    formula: Callable[[Any, Any], tuple[Any, Any]],
    empty: str,
    average: bool,
    lacking: str = NO_RELEVANT_ITEM,
) -> Any:
    """Values of a metric per query, or their mean.

    `formula` maps (counts, distances) of some queries to their values and to a mask of the queries that have one.
    """
    check_option("empty", empty, EMPTY)
    check_histogram(H)
    blocks = [formula(*block) for block in H.dense_blocks()]
    xp = array_namespace(blocks[0][0])
    values, defined = (xp.concat(parts) for parts in zip(*blocks, strict=True))
    filler = {"zero": 0.0, "one": 1.0}.get(empty, float("nan"))
    values = xp.where(defined, values, xp.full_like(values, filler))
    return mean_over_queries(values, empty, lacking, stacklevel=4) if average else values


def mean_over_queries(
    values: Any, empty: str = "skip", lacking: str = NO_RELEVANT_ITEM, warn: bool = True, stacklevel: int = 3
) -> Any:
    """Mean of values per query; with "skip" without NaN, with a warning that says what the queries lack."""
    xp = array_namespace(values)
    if empty == "skip":
        defined = ~xp.any(xp.isnan(xp.reshape(values, (values.shape[0], -1))), axis=-1)
        n_empty = values.shape[0] - int(xp.sum(xp.astype(defined, xp.int64)))
        if n_empty and warn:
            warnings.warn(
                f"{n_empty} of {values.shape[0]} queries have no {lacking} in the database and are left out "
                "of the mean (empty='skip').",
                UserWarning,
                stacklevel=stacklevel,
            )
        values = values[defined]
    if values.shape[0]:
        mean = xp.mean(values, axis=0)
    else:
        mean = xp.full(values.shape[1:], float("nan"), dtype=values.dtype, device=values.device)
    return float(mean) if isinstance(values, np.ndarray) and mean.ndim == 0 else mean
