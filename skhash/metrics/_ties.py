"""What every tie-aware metric shares: tied rankings, truncation, empty queries.

A *tied ranking* is two arrays over the ties of each query, nearest first: the
number of items ``n`` and a ``mass`` (of relevant items, or of gain). Averaging a
metric over all orders inside the ties needs no more than these. The best and
the worst order are rankings too: each tie is split into its levels, highest
first or last, and what remains tied is of one level, so that the very same
formulas give the extremes.

Everything here runs on numpy counts and on torch soft counts alike.
"""

import functools
import warnings

import numpy as np
from array_api_compat import array_namespace, is_torch_namespace

from skhash.codes import is_count

TIES = ("average", "best", "worst")
EMPTY = ("skip", "zero", "one", "nan")


def tied_ranking(counts, level_mass, ties="average"):
    """Turn counts into a tied ranking.

    Parameters
    ----------
    counts : array of shape (n_queries, n_ties, n_levels)
        Counts of a RelevanceHistogram.
    level_mass : array of shape (n_levels,)
        Mass of one item of each level, ascending.
    ties : "average", "best" or "worst", default="average"
        Order inside the ties.

    Returns
    -------
    n : float64 array of shape (n_queries, n_ties) or (n_queries, n_ties * n_levels)
        Number of items of each tie.
    mass : float64 array, of the shape of `n`
        Their mass.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.metrics._ties import tied_ranking
    >>> counts = np.array([[[2, 1], [0, 3]]])  # a tie of 2 + 1 items, a tie of 0 + 3
    >>> tied_ranking(counts, np.array([0.0, 1.0]))
    (array([[3., 3.]]), array([[1., 3.]]))
    >>> tied_ranking(counts, np.array([0.0, 1.0]), ties="best")[0]
    array([[1., 2., 3., 0.]])
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


def merge_relevant(counts, levels):
    """Merge the levels into two: irrelevant (level 0) and relevant (above 0)."""
    xp = array_namespace(counts)
    if len(levels) == 2:
        return counts
    return xp.stack([counts[..., 0], xp.sum(counts[..., 1:], axis=-1)], axis=-1)


def items_before(n):
    """Number of items before each tie: N_{d-1}."""
    return array_namespace(n).cumulative_sum(n, axis=-1) - n


def ranks_within(n, k=None):
    """Last rank of each tie, preceded by 0 and cut at rank `k`; shape (..., n_ties + 1)."""
    xp = array_namespace(n)
    last = xp.cumulative_sum(n, axis=-1, include_initial=True)
    if k is None:
        return last
    return xp.minimum(last, xp.asarray(k, dtype=last.dtype, device=last.device))


def divide(a, b):
    """``a / b`` where b > 0, and 0 elsewhere, with gradients free of NaN."""
    xp = array_namespace(a, b)
    positive = b > 0
    return xp.where(positive, a / xp.where(positive, b, 1.0), 0.0)


def per_item(mass, n):
    """Mean mass of an item of each tie, 0 for a tie that holds none (or a trace of soft counts)."""
    return mass / array_namespace(n).clip(n, min=1e-9)


def digamma(x):
    """The digamma function psi on numpy arrays and torch tensors."""
    if is_torch_namespace(array_namespace(x)):
        return x.digamma()
    from scipy.special import digamma

    return digamma(x)


def polygamma(order, x):
    """The polygamma functions psi', psi'', ... on numpy arrays and torch tensors."""
    if is_torch_namespace(array_namespace(x)):
        return x.polygamma(order)
    from scipy.special import polygamma

    return polygamma(order, x)


def cumulative_discount(x, discount):
    """S(x) = D(1) + ... + D(x), interpolated linearly between whole ranks.

    Parameters
    ----------
    x : array
        Ranks >= 0.
    discount : "log2" or "structhash"
        D(t) = 1 / log2(t + 1), or StructHash's 1 / log2(max(t, 2)).

    Returns
    -------
    array
        Of the shape of `x`.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.metrics._ties import cumulative_discount
    >>> cumulative_discount(np.array([0.0, 1.0, 1.5, 2.0]), "log2").round(4)
    array([0.    , 1.    , 1.3155, 1.6309])
    """
    xp = array_namespace(x)
    largest = int(xp.max(x)) if np.prod(x.shape) else 0
    table = xp.asarray(_discount_table(1 << (largest + 1).bit_length(), discount), device=x.device)
    below = xp.floor(x)
    index = xp.astype(below, xp.int64)
    return table[index] + (x - below) * (table[index + 1] - table[index])


@functools.lru_cache(maxsize=4)
def _discount_table(size, discount):
    ranks = np.arange(1, size, dtype=np.float64)
    logs = np.log2(ranks + 1) if discount == "log2" else np.log2(np.maximum(ranks, 2))
    return np.concatenate([[0.0], np.cumsum(1 / logs)])


def check_options(ties, empty, **more):
    """Raise ValueError for an unknown option of a metric.

    Parameters
    ----------
    ties : str
        One of "average", "best", "worst".
    empty : str
        One of "skip", "zero", "one", "nan".
    **more : dict of (value, allowed)
        Further options of the caller.

    Raises
    ------
    ValueError
        Naming the option, what came and what is wanted.
    """
    for name, (value, allowed) in {"ties": (ties, TIES), "empty": (empty, EMPTY), **more}.items():
        if value not in allowed:
            raise ValueError(f"{name}={value!r}; one of {', '.join(map(repr, allowed))} is wanted.")


def check_cutoff(k):
    """Raise ValueError unless `k` is None or an integer >= 1."""
    if k is not None and not is_count(k):
        raise ValueError(f"k={k!r}; None or an integer of at least 1 is wanted.")


def check_histogram(histogram):
    """Raise TypeError unless this is a RelevanceHistogram."""
    if not hasattr(histogram, "dense_blocks"):
        raise TypeError(
            f"H is a {type(histogram).__name__}; a RelevanceHistogram is wanted, made by relevance_histogram from "
            "codes or by histogram_from_distances from distances (or -scores)."
        )
    if not len(histogram.counts):
        raise ValueError("H counts no query; at least one is wanted.")


#: what a query lacks that has no value
NOTHING_TO_FIND = "relevant item"
NOTHING_TO_COMPARE = "pair of a relevant and an irrelevant item"


def over_queries(histogram, per_block, empty, average, what=NOTHING_TO_FIND):
    """Evaluate a metric on every block of queries and apply the policy for empty ones.

    Parameters
    ----------
    histogram : RelevanceHistogram
        Counts.
    per_block : callable
        Maps (counts, distances) to values and a mask of the queries with a value.
    empty : "skip", "zero", "one" or "nan"
        Value of the other queries; "skip" leaves them out of the mean.
    average : bool
        Mean over the queries, or one value a query ("skip" then reads as NaN).
    what : str, default="relevant item"
        What an empty query lacks, for the warning.

    Returns
    -------
    float or array of shape (n_queries,)
        The metric.
    """
    check_histogram(histogram)
    blocks = [per_block(*block) for block in histogram.dense_blocks()]
    xp = array_namespace(blocks[0][0])
    values, defined = (xp.concat(parts) for parts in zip(*blocks, strict=True))
    filler = {"zero": 0.0, "one": 1.0}.get(empty, float("nan"))
    values = xp.where(defined, values, xp.full_like(values, filler))
    return mean_over_queries(values, empty, what) if average else values


def require_whole(n, p, where):
    """Raise ValueError unless numbers of items are whole ones in numpy.

    Parameters
    ----------
    n, p : arrays of shape (n_queries, n_ties)
        Items and relevant items of each tie.
    where : str
        What needs them, for the message.

    Raises
    ------
    ValueError
        For tensors and soft counts.
    """
    if not isinstance(n, np.ndarray) or (n % 1).any() or (p % 1).any():
        raise ValueError(f"{where} needs whole counts; H holds soft ones.")


def mean_over_queries(values, empty="skip", what=NOTHING_TO_FIND, warn=True):
    """Average one value a query; under "skip" those that are NaN are left out.

    Parameters
    ----------
    values : array of shape (n_queries, ...)
        Values, NaN for an empty query under "skip" and "nan".
    empty : "skip", "zero", "one" or "nan", default="skip"
        The policy that made the values.
    what : str, default="relevant item"
        What an empty query lacks, for the warning.
    warn : bool, default=True
        Whether to warn of queries that are left out.

    Returns
    -------
    float, a tensor without axes, or an array of the further axes
        The mean; NaN if no query has a value.
    """
    xp = array_namespace(values)
    if empty == "skip":
        defined = ~xp.any(xp.isnan(xp.reshape(values, (values.shape[0], -1))), axis=-1)
        n_empty = values.shape[0] - int(xp.sum(xp.astype(defined, xp.int64)))
        if n_empty and warn:
            warnings.warn(
                f"{n_empty} of {values.shape[0]} queries have no {what} in the database and are left out "
                "of the mean (empty='skip').",
                UserWarning,
                stacklevel=4,
            )
        values = values[defined]
    if values.shape[0]:
        mean = xp.mean(values, axis=0)
    else:
        mean = xp.full(values.shape[1:], float("nan"), dtype=values.dtype, device=values.device)
    return float(mean) if isinstance(values, np.ndarray) and mean.ndim == 0 else mean
