"""Levels and ties in the arrays of histograms."""

import numpy as np


def spread_levels(counts, levels, all_levels):
    """Counts over the larger set `all_levels`, of shape (..., n_all_levels), 0 for the new levels."""
    if np.array_equal(levels, all_levels):
        return counts
    spread = np.zeros((*counts.shape[:-1], len(all_levels)), dtype=counts.dtype)
    spread[..., np.searchsorted(all_levels, levels)] = counts
    return spread


def merge_ties(n_queries, query, distances, counts):
    """Counts, distances and `indptr` of ties sorted by query and distance, with ties of equal distance merged."""
    order = np.lexsort((distances, query))
    query, distances = query[order], distances[order]
    begins = np.ones(len(query), dtype=bool)
    begins[1:] = (query[1:] != query[:-1]) | (distances[1:] != distances[:-1])
    merged = np.add.reduceat(counts[order], np.flatnonzero(begins), axis=0) if len(query) else counts
    return merged, distances[begins], np.searchsorted(query[begins], np.arange(n_queries + 1))
