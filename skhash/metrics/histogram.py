"""The core of the library: a ranking by distance is a histogram.

For one query, n[d, v] items of affinity level v lie at distance d. Items at the same
distance are tied, so a tie-aware metric depends only on the histogram, and the
histograms of two shards of a database add.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._chunks import memory_chunks
from skhash._validation.numeric import numeric
from skhash.metrics._arrays import merge_ties, spread_levels
from skhash.persistence._format import arrays_from_bytes, arrays_to_bytes

#: kind of the bytes, and names of the arrays of both layouts
_KIND = "RelevanceHistogram"
_DENSE, _RAGGED = ("counts", "levels"), ("counts", "levels", "distances", "indptr")


@dataclass(eq=False)
class RelevanceHistogram:
    """Numbers of database items by query, distance and affinity level.

    There are two layouts. *Dense*: the distances are 0, 1, ..., nbits, and
    `counts` has three axes. *Ragged*, for weighted or given distances: query q
    has the ties ``indptr[q]:indptr[q + 1]``, each with its own distance.

    Parameters
    ----------
    counts : array of shape (n_queries, nbits + 1, n_levels) or (n_ties, n_levels)
        Numbers of items; integers, or real soft counts (a torch tensor in training).
    levels : ndarray of shape (n_levels,)
        Affinity levels, ascending; the first is 0, irrelevant.
    distances : ndarray of shape (n_ties,), default=None
        Ragged layout: the distance of each tie, ascending within a query.
    indptr : ndarray of shape (n_queries + 1,), default=None
        Ragged layout: where the ties of each query begin.

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

    def __post_init__(self) -> None:
        levels = numeric(self.levels, "levels")
        if levels.ndim != 1 or not len(levels) or levels[0] != 0 or not (levels[1:] > levels[:-1]).all():
            raise ValueError(f"`levels` must ascend from 0, the level of irrelevant items. Got {levels} instead.")
        shape = getattr(self.counts, "shape", None)
        n_axes = 2 if self.is_ragged else 3
        if shape is None or len(shape) != n_axes or shape[-1] != len(levels):
            given = f"a {type(self.counts).__name__}" if shape is None else f"shape {tuple(shape)}"
            raise ValueError(
                f"`counts` must be an array of {n_axes} axes, whose last one has the {len(levels)} levels. Got {given}."
            )
        if self.is_ragged:
            self._check_ties()

    def _check_ties(self) -> None:
        """Raise ValueError unless the ties of a ragged histogram fit its queries, with ascending distances."""
        indptr, distances = numeric(self.indptr, "indptr"), numeric(self.distances, "distances")
        n_ties = len(self.counts)
        is_split = indptr.ndim == 1 and indptr.dtype.kind in "iu" and [*indptr[:1], *indptr[-1:]] == [0, n_ties]
        if not is_split or (indptr[1:] < indptr[:-1]).any():
            raise ValueError(f"`indptr` must ascend from 0 to {n_ties}, the number of ties. Got {indptr} instead.")
        descends = np.zeros(n_ties, dtype=bool)
        if distances.shape == (n_ties,):
            descends[1:] = ~(distances[1:] > distances[:-1])
            descends[indptr[:-1][indptr[:-1] < n_ties]] = False
        if distances.shape != (n_ties,) or descends.any() or np.isnan(distances).any():
            raise ValueError(f"`distances` must ascend within each query. Got {distances} instead.")

    @property
    def is_ragged(self) -> bool:
        """Whether each query has its own distances."""
        return self.indptr is not None

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.indptr) - 1 if self.is_ragged else int(self.counts.shape[0])

    def dense_blocks(self) -> Iterator[tuple[Any, npt.NDArray[Any]]]:
        """Dense counts and distances of successive blocks of queries.

        Ragged ties are padded with empty ties at distance infinity, which do not change
        any metric. Blocks are as large as fits into 128 MiB and scikit-learn's `working_memory`.

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
        >>> counts, distances = next(H.dense_blocks())
        >>> counts.shape, distances[:, :4].tolist()
        ((2, 8, 2), [[0.2, 0.7, inf, inf], [0.1, 0.3, 0.5, inf]])
        """
        if not self.is_ragged:
            if not isinstance(self.counts, np.ndarray):  # soft counts of one batch
                yield self.counts, np.arange(self.counts.shape[1])
                return
            bytes_per_query = 16 * 8 * max(1, self.counts[:1].size)
            for queries in memory_chunks(self.n_queries, bytes_per_query):
                yield self.counts[queries], np.arange(self.counts.shape[1])
            return
        widths = np.diff(self.indptr)
        bytes_per_query = 16 * 8 * len(self.levels) * _padded(widths)
        for queries in memory_chunks(self.n_queries, bytes_per_query):
            width = widths[queries]
            ties = slice(self.indptr[queries.start], self.indptr[queries.stop])
            filled = np.arange(_padded(width)) < width[:, None]
            counts = np.zeros((*filled.shape, len(self.levels)), dtype=self.counts.dtype)
            distances = np.full(filled.shape, np.inf)
            counts[filled], distances[filled] = self.counts[ties], self.distances[ties]
            yield counts, distances

    def by_ranks(self) -> "RelevanceHistogram":
        """Histogram with neighboring ties merged that hold nothing relevant, for metrics of ranks.

        These metrics stay the same. A ragged histogram has up to one tie per item; the result has
        at most two per relevant item. A merged tie has the distance of the first of its ties.

        Returns
        -------
        RelevanceHistogram
            The histogram itself if it is dense.

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

    def __add__(self, other: "RelevanceHistogram") -> "RelevanceHistogram":
        """Histogram of two shards of a database together, for the same queries.

        Parameters
        ----------
        other : RelevanceHistogram
            Histogram of the other shard.

        Returns
        -------
        RelevanceHistogram
            Over the union of the levels; ragged ties are merged by distance.

        Raises
        ------
        ValueError
            If the numbers of queries or of bits differ.

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
                f"Histograms of shards must have the same queries. Got {self.n_queries} and {other.n_queries} queries."
            )
        levels = np.union1d(self.levels, other.levels)
        if self.is_ragged or other.is_ragged:
            query, distances, counts = (
                np.concatenate(parts) for parts in zip(self._ties(levels), other._ties(levels), strict=True)
            )
            counts, distances, indptr = merge_ties(self.n_queries, query, distances, counts)
            return RelevanceHistogram(counts, levels, distances, indptr)
        a, b = (_wide(spread_levels(H.counts, H.levels, levels)) for H in (self, other))
        if a.shape != b.shape:
            raise ValueError(
                "Histograms of shards must have the same number of bits. "
                f"Got {a.shape[1] - 1} and {b.shape[1] - 1} bits instead."
            )
        return RelevanceHistogram(a + b, levels)

    def __radd__(self, other: int) -> "RelevanceHistogram":
        """Histogram itself as a sum that starts with 0, for ``sum``."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def to_bytes(self) -> bytes:
        """Bytes of the histogram, for another process or a file; reading them runs no code.

        Returns
        -------
        bytes
            A safetensors file with a version. Equal histograms have equal bytes.

        Raises
        ------
        TypeError
            If the counts are soft counts of a training, a torch tensor.

        Examples
        --------
        >>> from skhash.metrics import RelevanceHistogram, relevance_histogram
        >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1]], [7], [7, 5])
        >>> again = RelevanceHistogram.from_bytes(H.to_bytes())
        >>> bool((again.counts == H.counts).all())
        True
        """
        if not isinstance(self.counts, np.ndarray):
            raise TypeError(f"`counts` must be an ndarray to become bytes. Got a {type(self.counts).__name__} instead.")
        names = _RAGGED if self.is_ragged else _DENSE
        return arrays_to_bytes(_KIND, {name: np.asarray(getattr(self, name)) for name in names})

    @classmethod
    def from_bytes(cls, content: bytes) -> "RelevanceHistogram":
        """Histogram from the bytes of :meth:`to_bytes`.

        Parameters
        ----------
        content : bytes
            The bytes.

        Returns
        -------
        RelevanceHistogram
            The histogram.

        Raises
        ------
        ValueError
            If the bytes are damaged, are not those of a histogram, or have a newer version.

        Examples
        --------
        >>> from skhash.metrics import RelevanceHistogram
        >>> RelevanceHistogram.from_bytes(b"")
        Traceback (most recent call last):
        ...
        ValueError: `content` must be bytes of a RelevanceHistogram. Got ...
        """
        H = cls(**arrays_from_bytes(content, _KIND, (_DENSE, _RAGGED)))
        if (np.asarray(H.counts) < 0).any() or not np.isfinite(H.counts).all():
            raise ValueError("`counts` must be numbers of items, >= 0. Got others in `content`.")
        return H

    def _ties(self, levels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Query, distance and counts over `levels` of each tie."""
        counts = spread_levels(self.counts, self.levels, levels)
        if self.is_ragged:
            return np.repeat(np.arange(self.n_queries), np.diff(self.indptr)), self.distances, counts
        query, distance = np.nonzero(counts.sum(axis=2))
        return query, distance.astype(np.float64), counts[query, distance]


def _wide(counts: Any) -> Any:
    """Counts as int64 if they are integers, so that sums do not overflow."""
    is_whole = isinstance(counts, np.ndarray) and counts.dtype.kind in "iu"
    return counts.astype(np.int64, copy=False) if is_whole else counts


def _padded(widths: npt.NDArray[np.int64]) -> int:
    """Number of ties to which the queries of a block are padded, a power of two >= 8.

    numpy adds in the same order for each of these, so that a value does not depend on the other queries.
    """
    return max(8, 1 << (int(widths.max(initial=1)) - 1).bit_length())
