"""Arrays of histograms: levels, ties."""

import numpy as np


def spread_levels(counts, levels, all_levels):
    """Counts over a larger set of levels.

    Parameters
    ----------
    counts : ndarray of shape (..., n_levels)
        Counts.
    levels : ndarray of shape (n_levels,)
        Their levels.
    all_levels : ndarray of shape (n_all_levels,)
        Levels of the result, ascending.

    Returns
    -------
    ndarray of shape (..., n_all_levels)
        The counts, 0 for the other levels.
    """
    if np.array_equal(levels, all_levels):
        return counts
    spread = np.zeros((*counts.shape[:-1], len(all_levels)), dtype=counts.dtype)
    spread[..., np.searchsorted(all_levels, levels)] = counts
    return spread


def merge_ties(n_queries, query, distances, counts):
    """Ties sorted by query and distance, those of equal distance merged.

    Parameters
    ----------
    n_queries : int
        Number of queries.
    query : ndarray of shape (n_ties,)
        Query of each tie.
    distances : ndarray of shape (n_ties,)
        Distance of each tie.
    counts : ndarray of shape (n_ties, n_levels)
        Items of each tie.

    Returns
    -------
    counts : ndarray of shape (n_merged, n_levels)
        Items of the merged ties.
    distances : ndarray of shape (n_merged,)
        Their distances.
    indptr : ndarray of shape (n_queries + 1,)
        Where the ties of each query begin.
    """
    order = np.lexsort((distances, query))
    query, distances = query[order], distances[order]
    begins = np.ones(len(query), dtype=bool)
    begins[1:] = (query[1:] != query[:-1]) | (distances[1:] != distances[:-1])
    merged = np.add.reduceat(counts[order], np.flatnonzero(begins), axis=0) if len(query) else counts
    return merged, distances[begins], np.searchsorted(query[begins], np.arange(n_queries + 1))
