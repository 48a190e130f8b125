"""Tied rankings, and the functions on them that all tie-aware metrics share.

A *tied ranking* is two arrays over the ties of each query, nearest first: the number of
items ``n``, and their ``mass`` (the number of relevant items, or the gain). The mean of
a metric over all orders inside the ties needs only these. The best and the worst order
are tied rankings, too. Each tie is split into its levels, highest first or last, and
the items that remain tied have the same level. So the same formulas give the extremes.

Everything here accepts counts in numpy and soft counts in torch.

Below the tied rankings are what all metrics do with the values of queries: checks of their
options, queries without a value, and means.
"""

import functools
import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace, is_torch_namespace

from skhash._validation import as_count_or_none, check_option
from skhash.metrics.histogram import RelevanceHistogram

TIES = ("average", "best", "worst")
EMPTY = ("skip", "zero", "one", "nan")
DISCOUNTS = ("log2", "delayed_log2")

#: what a query without a value lacks, for warnings
NO_RELEVANT_ITEM = "relevant item"
NO_PAIR = "pair of a relevant and an irrelevant item"


def tied_ranking(counts: Any, level_mass: Any, ties: str = "average") -> tuple[Any, Any]:
    """Items and mass of each tie (n_queries, n_ties), or of each tie and level, from the mass of an item by level."""
    xp = array_namespace(counts)
    counts = xp.astype(counts, xp.float64)
    level_mass = xp.asarray(level_mass, dtype=xp.float64, device=counts.device)
    if ties == "average":
        return counts @ xp.ones_like(level_mass), counts @ level_mass
    if ties == "best":
        counts, level_mass = xp.flip(counts, axis=-1), xp.flip(level_mass, axis=0)
    split = (counts.shape[0], counts.shape[1] * counts.shape[2])
    return xp.reshape(counts, split), xp.reshape(counts * level_mass, split)


def tied_relevance(counts: Any, ties: str = "average") -> tuple[Any, Any]:
    """Tied ranking whose mass is the number of relevant items."""
    return tied_ranking(merge_relevant(counts), [0.0, 1.0], ties)


def merge_relevant(counts: Any) -> Any:
    """Counts over two levels: irrelevant (level 0) and relevant (above 0)."""
    if counts.shape[-1] == 2:
        return counts
    xp = array_namespace(counts)
    return xp.stack([counts[..., 0], xp.sum(counts[..., 1:], axis=-1)], axis=-1)


def items_before(n: Any) -> Any:
    """Number of items before each tie, N_{d-1}."""
    return array_namespace(n).cumulative_sum(n, axis=-1) - n


def ranks_within(n: Any, k: int | None = None) -> Any:
    """Last rank of each tie, at most `k`, after a first 0, of shape (..., n_ties + 1)."""
    xp = array_namespace(n)
    last = xp.cumulative_sum(n, axis=-1, include_initial=True)
    if k is None:
        return last
    return xp.minimum(last, xp.asarray(k, dtype=last.dtype, device=last.device))


def divide(a: Any, b: Any) -> Any:
    """``a / b`` where b > 0, else 0; its gradients have no NaN."""
    xp = array_namespace(a, b)
    positive = b > 0
    return xp.where(positive, a / xp.where(positive, b, 1.0), 0.0)


def per_item(mass: Any, n: Any) -> Any:
    """Mean mass of an item of each tie, 0 for a tie without items."""
    return mass / array_namespace(n).clip(n, min=1e-9)


def digamma(x: Any) -> Any:
    """Digamma function psi of numpy arrays and torch tensors."""
    if is_torch_namespace(array_namespace(x)):
        return x.digamma()
    from scipy.special import digamma

    return digamma(x)


def polygamma(order: int, x: Any) -> Any:
    """Polygamma function psi', psi'', ... of numpy arrays and torch tensors."""
    if is_torch_namespace(array_namespace(x)):
        return x.polygamma(order)
    from scipy.special import polygamma

    return polygamma(order, x)


def cumulative_discount(x: Any, discount: str) -> Any:
    """Sum of the discounts up to rank x, S(x) = D(1) + ... + D(x), linear between whole ranks.

    D(t) is 1 / log2(t + 1) for "log2", and 1 / log2(max(t, 2)) for "delayed_log2".
    """
    xp = array_namespace(x)
    largest = int(xp.max(x)) if np.prod(x.shape) else 0
    table = xp.asarray(discount_table(1 << (largest + 1).bit_length(), discount), device=x.device)
    below = xp.floor(x)
    index = xp.astype(below, xp.int64)
    return table[index] + (x - below) * (table[index + 1] - table[index])


@functools.lru_cache(maxsize=4)
def discount_table(size: int, discount: str) -> npt.NDArray[np.float64]:
    """S(0), ..., S(size - 1)."""
    ranks = np.arange(1, size, dtype=np.float64)
    logs = np.log2(ranks + 1) if discount == "log2" else np.log2(np.maximum(ranks, 2))
    return np.concatenate([[0.0], np.cumsum(1 / logs)])


def relevant_until(n: Any, p: Any, k: Any) -> Any:
    """Expected number of relevant items among the first k; the split tie counts in proportion."""
    xp = array_namespace(n)
    return xp.sum(divide(p, n) * xp.diff(ranks_within(n, k), axis=-1), axis=-1)


def relevant_beyond(unretrieved: Any) -> Any:
    """Number of relevant items of each query that the ranking lacks; 0 for a ranking of all items."""
    return 0.0 if unretrieved is None else unretrieved[:, 1:].sum(axis=1)


def check_histogram(H: object) -> None:
    """Raise TypeError unless this is a RelevanceHistogram, and ValueError unless it has queries."""
    if not isinstance(H, RelevanceHistogram):
        raise TypeError(
            f"`H` must be a RelevanceHistogram, as relevance_histogram makes it from codes and "
            f"histogram_from_distances from distances (or -scores). Got {type(H).__name__} instead."
        )
    if not H.n_queries:
        raise ValueError("`H` must have at least one query. Got none.")


def check_whole(n: Any, p: Any, where: str) -> None:
    """Raise ValueError unless the numbers of items are whole and in numpy; `where` names what needs this."""
    if not isinstance(n, np.ndarray) or (n % 1).any() or (p % 1).any():
        raise ValueError(f"`H` must have whole counts for {where}. Got soft counts instead.")


def over_queries(
    H: RelevanceHistogram,
    formula: Callable[[Any, Any, Any], tuple[Any, Any]],
    empty: str,
    average: bool,
    required: str = NO_RELEVANT_ITEM,
) -> Any:
    """Values per query, or their mean, of a `formula` that maps a dense block to values and a mask of them."""
    check_option("empty", empty, EMPTY)
    check_histogram(H)
    blocks = [formula(*block) for block in H.dense_blocks()]
    xp = array_namespace(blocks[0][0])
    values, defined = (xp.concat(parts) for parts in zip(*blocks, strict=True))
    filler = {"zero": 0.0, "one": 1.0}.get(empty, float("nan"))
    values = xp.where(defined, values, xp.full_like(values, filler))
    return means_over_queries({"": (values, required)}, empty, stacklevel=4)[""] if average else values


def means_over_queries(values: dict[str, tuple[Any, str]], empty: str, stacklevel: int = 3) -> dict[str, Any]:
    """Means of metrics, from their values per query and what a query needs; "skip" leaves out NaN with one warning."""
    means: dict[str, Any] = {}
    lacking: dict[str, str] = {}  # by what queries need
    for name, (of_queries, required) in values.items():
        xp, kept = array_namespace(of_queries), of_queries
        if empty == "skip":
            kept = of_queries[~xp.any(xp.isnan(xp.reshape(of_queries, (of_queries.shape[0], -1))), axis=-1)]
            if n_empty := of_queries.shape[0] - kept.shape[0]:
                lacking.setdefault(required, f"{n_empty} of {of_queries.shape[0]} queries have no {required}")
        if kept.shape[0]:
            mean = xp.mean(kept, axis=0)
        else:
            mean = xp.full(kept.shape[1:], float("nan"), dtype=kept.dtype, device=kept.device)
        means[name] = float(mean) if isinstance(kept, np.ndarray) and mean.ndim == 0 else mean
    if lacking:
        warnings.warn(
            f"{', and '.join(lacking.values())} in the database and are left out of the mean (empty='skip').",
            UserWarning,
            stacklevel=stacklevel,
        )
    return means


def checked_rank_or_radius(
    H: RelevanceHistogram, k: int | None, radius: float | None, ties: str
) -> tuple[int | None, float | None]:
    """`k` as an int, and `radius`; ValueError unless exactly one of them is given, and it is valid."""
    check_option("ties", ties, TIES)
    k = as_count_or_none(k, "k")
    if (k is None) == (radius is None):
        raise ValueError(f"Exactly one of `k` and `radius` must be given. Got k={k!r} and radius={radius!r}.")
    if radius is not None and (isinstance(radius, bool) or not isinstance(radius, Real) or math.isnan(radius)):
        raise ValueError(f"`radius` must be None or a number. Got {radius!r} instead.")
    check_histogram(H)
    return k, None if radius is None else float(radius)


def retrieved(
    H: RelevanceHistogram, block: tuple[Any, Any, Any], k: int | None, radius: float | None, ties: str
) -> tuple[Any, Any, Any]:
    """Hits, retrieved items and relevant items of each query, up to rank `k`, or within `radius` if `k` is None."""
    counts, distances, unretrieved = block
    beyond = relevant_beyond(unretrieved)
    if radius is None:
        n, p = tied_relevance(counts, ties)
        n_retrieved = ranks_within(n, k)[:, -1]
        if unretrieved is not None:  # ranks after the end of a run hold other items, as in trec_eval
            n_retrieved = np.full_like(n_retrieved, k)
        return relevant_until(n, p, k), n_retrieved, p.sum(-1) + beyond
    counts = merge_relevant(counts)
    inside = array_namespace(counts).asarray(distances <= radius_to_reach(H, radius), device=counts.device)
    relevant = counts[..., 1]
    return (relevant * inside).sum(-1), (counts.sum(-1) * inside).sum(-1), relevant.sum(-1) + beyond


def radius_to_reach(H: RelevanceHistogram, radius: Any) -> Any:
    """Radius that also holds weighted distances which equal it up to rounding."""
    return radius + (1e-12 * float(np.abs(H.distances).max(initial=0)) if H.is_ragged else 0)
