"""The waist of the library: a ranking by distance is a histogram.

For one query, n[d, v] items of affinity level v lie at distance d. Items at one
distance are tied, so the histogram is all that a tie-aware metric can depend on,
and the histograms of two shards of a database simply add.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from skhash._compat import get_chunk_n_rows


@dataclass(eq=False)
class RelevanceHistogram:
    """Counts of database items by query, distance and affinity level.

    Two layouts share the class. *Dense*: the distances are 0, 1, ..., nbits and
    `counts` has three axes. *Ragged*, for weighted or given distances: query q
    owns the ties ``indptr[q]:indptr[q + 1]``, each with a distance of its own.

    Parameters
    ----------
    counts : array of shape (n_queries, nbits + 1, n_levels) or (n_ties, n_levels)
        Numbers of items; integers, or real soft counts (a torch tensor in training).
    levels : ndarray of shape (n_levels,)
        Affinity levels, ascending; the first is 0, irrelevant.
    distances : ndarray of shape (n_ties,), default=None
        Ragged layout: the distance of each tie, ascending within a query.
    indptr : ndarray of shape (n_queries + 1,), default=None
        Ragged layout: where each query's ties begin.

    Examples
    --------
    >>> from skhash.metrics import relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> H.counts
    array([[[0, 1],
            [1, 1],
            [0, 0]]])
    >>> (H + H).counts[0, 1]
    array([2, 2])
    """

    counts: Any
    levels: Any
    distances: Any = None
    indptr: Any = None

    def __post_init__(self):
        levels = np.asarray(self.levels)
        if levels.ndim != 1 or not len(levels) or levels[0] != 0 or (levels[1:] <= levels[:-1]).any():
            raise ValueError(f"levels={levels}: ascending numbers of which the first is 0, irrelevant, are wanted.")

    @property
    def is_ragged(self):
        """Whether each query has distances of its own."""
        return self.indptr is not None

    @property
    def n_queries(self):
        """Number of queries."""
        return len(self.indptr) - 1 if self.is_ragged else self.counts.shape[0]

    def dense_blocks(self):
        """Yield (counts, distances) of successive queries, all of them dense.

        Ragged ties are padded with empty ones at distance infinity, which no
        metric sees. Blocks are as large as scikit-learn's `working_memory` admits.

        Yields
        ------
        counts : array of shape (n_block, n_ties, n_levels)
            Counts.
        distances : ndarray of shape (n_ties,) or (n_block, n_ties)
            Distance of each tie.

        Examples
        --------
        >>> from skhash.metrics import histogram_from_distances
        >>> H = histogram_from_distances([[0.2, 0.2, 0.7], [0.1, 0.3, 0.5]], [1, 0], [1, 0, 1])
        >>> [(counts.shape, distances.tolist()) for counts, distances in H.dense_blocks()]
        [((2, 3, 2), [[0.2, 0.7, inf], [0.1, 0.3, 0.5]])]
        """
        if not self.is_ragged:
            if not isinstance(self.counts, np.ndarray):  # soft counts of one batch
                yield self.counts, np.arange(self.counts.shape[1])
                return
            bytes_per_query = 16 * 8 * max(1, self.counts[:1].size)
            for rows in memory_chunks(self.n_queries, bytes_per_query):
                yield self.counts[rows], np.arange(self.counts.shape[1])
            return
        widths = np.diff(self.indptr)
        bytes_per_query = 16 * 8 * len(self.levels) * max(1, widths.max(initial=0))
        for rows in memory_chunks(self.n_queries, int(bytes_per_query)):
            width = widths[rows]
            ties = slice(self.indptr[rows.start], self.indptr[rows.stop])
            filled = np.arange(width.max(initial=0)) < width[:, None]
            counts = np.zeros((*filled.shape, len(self.levels)), dtype=self.counts.dtype)
            distances = np.full(filled.shape, np.inf)
            counts[filled], distances[filled] = self.counts[ties], self.distances[ties]
            yield counts, distances

    def by_ranks(self):
        """Merge neighbouring ties that hold nothing relevant: metrics of ranks do not tell them apart.

        A ragged histogram without ties has one for each item; this leaves two at most for
        each relevant one. The distance of a merged tie is its first one's.

        Returns
        -------
        RelevanceHistogram
            Itself where all queries share their distances.

        Examples
        --------
        >>> from skhash.metrics import average_precision, histogram_from_distances
        >>> H = histogram_from_distances([[0.1, 0.2, 0.3, 0.4]], [1], [0, 0, 1, 0])
        >>> len(H.counts), len(H.by_ranks().counts)
        (4, 3)
        >>> average_precision(H) == average_precision(H.by_ranks())
        True
        """
        if not self.is_ragged or not len(self.counts):
            return self
        relevant = self.counts[:, 1:].any(axis=1)
        query = np.repeat(np.arange(self.n_queries), np.diff(self.indptr))
        begins = relevant.copy()
        begins[1:] |= relevant[:-1] | (query[1:] != query[:-1])
        begins[0] = True
        first = np.flatnonzero(begins)
        indptr = np.searchsorted(query[first], np.arange(self.n_queries + 1))
        return RelevanceHistogram(np.add.reduceat(self.counts, first), self.levels, self.distances[first], indptr)

    def __add__(self, other):
        """Merge the histograms of two shards of a database for the same queries.

        Parameters
        ----------
        other : RelevanceHistogram
            Of the other shard.

        Returns
        -------
        RelevanceHistogram
            Of the whole; the level sets are united, ragged ties merged by distance.

        Raises
        ------
        ValueError
            If the two have other queries, or codes of another length.

        Examples
        --------
        >>> from skhash.metrics import relevance_histogram
        >>> halves = [relevance_histogram([[0, 0]], [[0, 1]], [7], [label]) for label in (7, 5)]
        >>> sum(halves).counts[0, 1]
        array([1, 1])
        """
        if not isinstance(other, RelevanceHistogram):
            return NotImplemented
        if self.n_queries != other.n_queries:
            raise ValueError(
                f"histograms of {self.n_queries} and {other.n_queries} queries: shards share their queries."
            )
        a, b = _unite_levels(self, other)
        if a.is_ragged or b.is_ragged:
            return _merge_ragged(a._as_ragged(), b._as_ragged())
        if a.counts.shape != b.counts.shape:
            raise ValueError(
                f"codes of {a.counts.shape[1] - 1} and {b.counts.shape[1] - 1} bits: shards share their length."
            )
        return RelevanceHistogram(a.counts + b.counts, a.levels)

    def __radd__(self, other):
        """Let ``sum`` start from its 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _as_ragged(self):
        if self.is_ragged:
            return self
        query, distance = np.nonzero(self.counts.sum(axis=2))
        indptr = np.searchsorted(query, np.arange(self.n_queries + 1))
        return RelevanceHistogram(self.counts[query, distance], self.levels, distance.astype(np.float64), indptr)


def memory_chunks(n_rows, bytes_per_row):
    """Slices of rows, each as large as scikit-learn's `working_memory` admits.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    bytes_per_row : int
        What a row takes.

    Returns
    -------
    iterator of slice
        Successive slices that cover the rows.
    """
    return gen_batches(n_rows, get_chunk_n_rows(bytes_per_row, max_n_rows=max(1, n_rows)))


def concatenate(histograms):
    """Join the histograms of successive queries against one database.

    Parameters
    ----------
    histograms : iterable of RelevanceHistogram
        All dense, or all ragged.

    Returns
    -------
    RelevanceHistogram
        The queries one after another, the level sets united.

    Examples
    --------
    >>> from skhash.metrics.histogram import RelevanceHistogram, concatenate
    >>> H = RelevanceHistogram(np.ones((1, 3, 2), dtype=int), np.array([0, 1]))
    >>> concatenate([H, H]).n_queries
    2
    """
    histograms = list(histograms)
    if len(histograms) == 1:
        return histograms[0]
    levels = np.unique(np.concatenate([h.levels for h in histograms]))
    counts = np.concatenate([_spread_levels(h, levels) for h in histograms])
    if not histograms[0].is_ragged:
        return RelevanceHistogram(counts, levels)
    indptr = np.cumsum(np.concatenate([[0], *(np.diff(h.indptr) for h in histograms)]))
    return RelevanceHistogram(counts, levels, np.concatenate([h.distances for h in histograms]), indptr)


def ragged_histogram(distances, level_index, levels):
    """Count the items of each query by their own distances.

    Parameters
    ----------
    distances : ndarray of shape (n_queries, n_items)
        Any real distances; infinity leaves an item out.
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
    >>> from skhash.metrics.histogram import ragged_histogram
    >>> H = ragged_histogram(np.array([[.5, .2, .5]]), np.array([[1, 0, 0]]), np.array([0, 1]))
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


def _spread_levels(histogram, levels):
    """Counts of a histogram over a larger set of levels."""
    if np.array_equal(histogram.levels, levels):
        return histogram.counts
    counts = np.zeros((*histogram.counts.shape[:-1], len(levels)), dtype=histogram.counts.dtype)
    counts[..., np.searchsorted(levels, histogram.levels)] = histogram.counts
    return counts


def _unite_levels(a, b):
    levels = np.union1d(a.levels, b.levels)
    return tuple(RelevanceHistogram(_spread_levels(h, levels), levels, h.distances, h.indptr) for h in (a, b))


def _merge_ragged(a, b):
    """Merge by distance: sort each query's ties of both, sum the equal ones."""
    query = np.concatenate([np.repeat(np.arange(h.n_queries), np.diff(h.indptr)) for h in (a, b)])
    distances, counts = (np.concatenate([getattr(h, name) for h in (a, b)]) for name in ("distances", "counts"))
    order = np.lexsort((distances, query))
    query, distances = query[order], distances[order]
    begins = np.ones(len(query), dtype=bool)
    begins[1:] = (query[1:] != query[:-1]) | (distances[1:] != distances[:-1])
    merged = np.add.reduceat(counts[order], np.flatnonzero(begins), axis=0) if len(query) else counts
    indptr = np.searchsorted(query[begins], np.arange(a.n_queries + 1))
    return RelevanceHistogram(merged, a.levels, distances[begins], indptr)
