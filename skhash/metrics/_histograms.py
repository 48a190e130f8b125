"""Histograms from distances, and from those of successive queries."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.metrics._arrays import spread_levels
from skhash.metrics.histogram import RelevanceHistogram


def concatenate(histograms: Iterable[RelevanceHistogram]) -> RelevanceHistogram:
    """Histogram of all queries over the union of the levels, from those of successive queries of one layout."""
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
    """Ragged histogram of all queries; it grows in place, so that few parts are in memory with it."""
    ends, distances = [np.zeros(1, dtype=np.int64)], np.empty(0)
    counts = np.empty((0, len(levels)), dtype=np.int32)
    for H in histograms:
        union = np.union1d(levels, H.levels)
        part = spread_levels(H.counts, H.levels, union)
        counts = spread_levels(counts, levels, union).astype(np.result_type(counts, part), copy=False)
        levels, n_ties = union, len(distances)
        for array, more in ((counts, part), (distances, H.distances)):
            # no other reference exists, and the system grows large arrays without a copy
            array.resize((n_ties + len(more), *array.shape[1:]), refcheck=False)
            array[n_ties:] = more
        ends.append(H.indptr[1:] + n_ties)
    return RelevanceHistogram(counts, levels, distances, np.concatenate(ends))


def ragged_histogram(
    distances: npt.NDArray[np.float64], level_index: npt.NDArray[np.uint32], levels: npt.NDArray[Any]
) -> RelevanceHistogram:
    """Ragged histogram by distances of shape (n_queries, n_items); infinity leaves an item out."""
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
