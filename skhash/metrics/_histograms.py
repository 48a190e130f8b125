"""Histograms from distances, and from those of successive queries."""

from collections.abc import Iterable
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
    histograms = list(histograms)
    if len(histograms) == 1:
        return histograms[0]
    levels = np.unique(np.concatenate([h.levels for h in histograms]))
    counts = np.concatenate([spread_levels(h.counts, h.levels, levels) for h in histograms])
    if not histograms[0].is_ragged:
        return RelevanceHistogram(counts, levels)
    indptr = np.cumsum(np.concatenate([[0], *(np.diff(h.indptr) for h in histograms)]))
    return RelevanceHistogram(counts, levels, np.concatenate([h.distances for h in histograms]), indptr)


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
