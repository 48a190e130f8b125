"""Histograms from distances, and from those of successive queries."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.metrics._arrays import spread_levels
from skhash.metrics.histogram import RelevanceHistogram


def concatenate(histograms: Iterable[RelevanceHistogram]) -> RelevanceHistogram:
    """Histogram of all queries, from those of successive queries against one database.

    Parameters
    ----------
    histograms : iterable of RelevanceHistogram
        All dense, or all ragged.

    Returns
    -------
    RelevanceHistogram
        All queries in order, over the union of the levels.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.metrics import RelevanceHistogram
    >>> from skhash.metrics._histograms import concatenate
    >>> H = RelevanceHistogram(np.ones((1, 3, 2), dtype=int), np.array([0, 1]))
    >>> concatenate([H, H]).n_queries
    2
    """
    histograms = iter(histograms)
    first, second = next(histograms), next(histograms, None)
    if second is None:
        return first
    if first.is_ragged:
        return _concatenate_ragged(first.levels, chain([first, second], histograms))
    parts = [first, second, *histograms]
    levels = np.unique(np.concatenate([h.levels for h in parts]))
    return RelevanceHistogram(np.concatenate([spread_levels(h.counts, h.levels, levels) for h in parts]), levels)


def _concatenate_ragged(levels: npt.NDArray[Any], histograms: Iterable[RelevanceHistogram]) -> RelevanceHistogram:
    """Ragged histogram of all queries. It grows in place: few of the given ones are in memory with it."""
    ends, distances = [np.zeros(1, dtype=np.int64)], np.empty(0)
    counts = np.empty((0, len(levels)), dtype=np.int32)
    for H in histograms:
        union = np.union1d(levels, H.levels)
        part = spread_levels(H.counts, H.levels, union)
        counts = spread_levels(counts, levels, union).astype(np.result_type(counts, part), copy=False)
        levels, n_ties = union, len(distances)
        for array, more in ((counts, part), (distances, H.distances)):
            # nothing else refers to these arrays, and the system moves large ones without a copy
            array.resize((n_ties + len(more), *array.shape[1:]), refcheck=False)
            array[n_ties:] = more
        ends.append(H.indptr[1:] + n_ties)
    return RelevanceHistogram(counts, levels, distances, np.concatenate(ends))


def ragged_histogram(
    distances: npt.NDArray[np.float64], level_index: npt.NDArray[np.uint32], levels: npt.NDArray[Any]
) -> RelevanceHistogram:
    """Numbers of items of each query by distances of its own.

    Parameters
    ----------
    distances : ndarray of shape (n_queries, n_items)
        Real distances; infinity leaves an item out.
    level_index : ndarray of shape (n_queries, n_items)
        Index of each pair's level.
    levels : ndarray of shape (n_levels,)
        The levels.

    Returns
    -------
    RelevanceHistogram
        In the ragged layout.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.metrics._histograms import ragged_histogram
    >>> H = ragged_histogram(
    ...     np.array([[0.5, 0.2, 0.5]]), np.array([[1, 0, 0]]), np.array([0, 1])
    ... )
    >>> H.distances, H.counts.tolist()
    (array([0.2, 0.5]), [[1, 0], [1, 1]])
    """
    order = np.argsort(distances, axis=1)
    distances = np.take_along_axis(distances, order, axis=1)
    level_index = np.take_along_axis(level_index, order, axis=1)
    kept = np.isfinite(distances)
    begins = kept.copy()
    begins[:, 1:] &= distances[:, 1:] != distances[:, :-1]
    tie = np.cumsum(begins.ravel())[kept.ravel()] - 1
    n_ties, n_levels = int(begins.sum()), len(levels)
    cell = tie * n_levels + level_index[kept]
    counts = np.bincount(cell, minlength=n_ties * n_levels).reshape(n_ties, n_levels)
    indptr = np.concatenate([[0], np.cumsum(begins.sum(axis=1))])
    return RelevanceHistogram(counts, levels, distances[begins], indptr)
