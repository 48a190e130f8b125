"""Tied rankings, and the functions on them that all tie-aware metrics share.

A *tied ranking* is two arrays over the ties of each query, nearest first: the number of
items ``n``, and their ``mass`` (the number of relevant items, or the gain). The mean of
a metric over all orders inside the ties needs only these. The best and the worst order
are tied rankings, too. Each tie is split into its levels, highest first or last, and
the items that remain tied have the same level. So the same formulas give the extremes.

Everything here accepts counts in numpy and soft counts in torch.
"""

import functools
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_namespace


def tied_ranking(counts: Any, level_mass: Any, ties: str = "average") -> tuple[Any, Any]:
    """Number of items and mass of each tie, of shape (n_queries, n_ties); "best" and "worst" have n_ties * n_levels.

    `level_mass` of shape (n_levels,) is the mass of one item of each level.
    """
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

    D(t) is 1 / log2(t + 1) for "log2", and 1 / log2(max(t, 2)) for "structhash".
    """
    xp = array_namespace(x)
    largest = int(xp.max(x)) if np.prod(x.shape) else 0
    table = xp.asarray(discount_table(1 << (largest + 1).bit_length(), discount), device=x.device)
    below = xp.floor(x)
    index = xp.astype(below, xp.int64)
    return table[index] + (x - below) * (table[index + 1] - table[index])


@functools.lru_cache(maxsize=4)
def discount_table(size, discount):
    ranks = np.arange(1, size, dtype=np.float64)
    logs = np.log2(ranks + 1) if discount == "log2" else np.log2(np.maximum(ranks, 2))
    return np.concatenate([[0.0], np.cumsum(1 / logs)])
