"""The core of the library: a ranking by distance is a histogram, and how it is counted.

For one query, n[d, v] items of affinity level v lie at distance d. Items at the same
distance are tied, so a tie-aware metric depends only on the histogram, and the
histograms of two shards of a database add.

Counts come from the kernels, or by sorting. Each pair of *distinct* targets is compared once.
Equal codes are merged where this is faster, and queries are taken in chunks, so that memory
stays bounded for a database of any size. `benchmarks/histogram.py` times these choices.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash._files import arrays_from_bytes, arrays_to_bytes
from skhash._threads import run_in_slices
from skhash._validation import as_count_or_none, numeric
from skhash.affinity import Relevance
from skhash.codes.bits import memory_chunks, quantize_weights
from skhash.codes.blocks import read_only
from skhash.codes.codes import Codes
from skhash.codes.distances import Estimates, HammingDistance, real_distance, without_self

if TYPE_CHECKING:
    import torch

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.integer[Any]]

MANY = 100  # queries from which sorting the database is faster
LEVEL_BITS = 10  # bits of the level in the 64-bit key of an item; 53 are the distance
LONG = 64  # items per group from which a scan group by group is faster
SHORT_ITEMS, SHORT_PAIRS = 2**13, 2**23  # items and pairs from which tables of short codes are faster than a scan
PLANE_QUERIES = 32  # fewest queries of a thread that makes its own planes
SHORT_QUERIES = 1024  # fewest queries of a thread, which has its own tables

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
        >>> distances, levels = [[0.2, 0.2, 0.7], [0.1, 0.3, 0.5]], [[1, 0, 1], [0, 1, 0]]
        >>> H = histogram_from_distances(distances, levels=levels)
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
        >>> H = histogram_from_distances([[0.1, 0.2, 0.3, 0.4]], levels=[[0, 0, 1, 0]])
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
            counts, distances, indptr = _merge_ties(self.n_queries, query, distances, counts)
            return RelevanceHistogram(counts, levels, distances, indptr)
        a, b = (_wide(_spread_levels(H.counts, H.levels, levels)) for H in (self, other))
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
        counts = _spread_levels(self.counts, self.levels, levels)
        if self.is_ragged:
            return np.repeat(np.arange(self.n_queries), np.diff(self.indptr)), self.distances, counts
        query, distance = np.nonzero(counts.sum(axis=2))
        return query, distance.astype(np.float64), counts[query, distance]


def relevance_histogram(
    query_codes: Codes | npt.ArrayLike,
    database_codes: Codes | npt.ArrayLike,
    query_y: Any,
    database_y: Any = None,
    affinity: str | Callable[[Any, Any], Any] = "auto",
    *,
    bit_weights: npt.ArrayLike | None = None,
    exclude_self: bool = False,
    nbits: int | None = None,
    device: "str | torch.device | None" = None,
) -> RelevanceHistogram:
    """Numbers of database items of each query by Hamming distance and affinity level.

    Parameters
    ----------
    query_codes : Codes, or array-like of shape (n_queries, nbits) or (n_queries, ceil(nbits / 8))
        Codes, bits as ``transform`` returns them, or packed codes with `nbits`.
    database_codes : Codes, or array-like of shape (n_items, nbits) or (n_items, ceil(nbits / 8))
        The same for the database.
    query_y : array-like of shape (n_queries, ...)
        Targets of the queries, of the kind that the affinity compares.
    database_y : array-like of shape (n_items, ...), default=None
        Targets of the database; if None, `query_y`.
    affinity : "auto" or callable, default="auto"
        Which items are relevant, see :mod:`skhash.affinity`. A DistanceAffinity must be
        fitted on the training samples, so that shards share its thresholds.
    bit_weights : array-like of shape (nbits,), default=None
        Weights of the Hamming distance; the result is then ragged.
    exclude_self : bool, default=False
        Leave item i out of the ranking of query i, if the queries are the database.
    nbits : int, default=None
        Number of bits of packed codes; None means that the codes are bits.
    device : str or torch.device, default=None
        Where torch counts: "cuda", "cuda:1", or "cpu"; "auto" is a GPU if there is one. The counts are the same. None,
        and "auto" without a GPU, count by compiled code. Not for `bit_weights`.

    Returns
    -------
    RelevanceHistogram
        Dense for plain distances, ragged for weighted ones.

    Raises
    ------
    ValueError
        If codes and targets do not match, or the affinity does not fit them.

    Examples
    --------
    >>> from skhash.metrics import relevance_histogram
    >>> codes, y = [[0, 0], [0, 1], [1, 1]], ["cat", "cat", "dog"]
    >>> relevance_histogram(codes, codes, y, exclude_self=True).counts.tolist()
    [[[0, 0], [0, 1], [1, 0]], [[0, 0], [1, 1], [0, 0]], [[0, 0], [1, 0], [1, 0]]]
    """
    return concatenate(
        count_histograms(
            Codes.of(query_codes, nbits, name="query_codes"),
            Codes.of(database_codes, nbits, name="database_codes"),
            Relevance.between(query_y, query_y if database_y is None else database_y, affinity),
            bit_weights=bit_weights,
            exclude_self=exclude_self,
            device=device,
        )
    )


def count_histograms(
    queries: Codes,
    database: Codes,
    relevance: Relevance,
    *,
    bit_weights: npt.ArrayLike | None = None,
    exclude_self: bool = False,
    query_activations: npt.NDArray[np.floating] | None = None,
    candidates: int | None = None,
    estimates: Estimates | None = None,
    device: "str | torch.device | None" = None,
) -> Iterator[RelevanceHistogram]:
    """Histograms of successive chunks of queries: weighted distances have nearly as many ties as items."""
    on_device = None if device is None else _checked_device(device, bit_weights, query_activations)
    queries.check_same(database, "query_codes", "database_codes")
    pairs = _PairLevels(len(queries), len(database), relevance, exclude_self)
    nbits, bytes_per_query = queries.nbits, 64 * len(database)
    count: Callable[[slice], RelevanceHistogram]
    if on_device is not None:
        count = _DeviceCounts(queries, database, on_device, pairs)
        bytes_per_query = 24 * pairs.n_groups + 64 * (nbits + 1)
    elif query_activations is not None:
        activations = numeric(query_activations, "query_activations")
        if activations.shape != (len(queries), nbits) or not np.isfinite(activations).all():
            raise ValueError(
                "`query_activations` must be finite, with one value per query and bit, shape "
                f"{(len(queries), nbits)}. Got shape {activations.shape}, or NaN or infinity."
            )
        candidates = as_count_or_none(candidates, "candidates")
        count = _RealCounts(queries, database, activations, candidates, estimates, pairs)
    elif bit_weights is not None:
        count = _WeightedCounts(queries, database, *quantize_weights(bit_weights, nbits), pairs)
    else:
        count = _PlainCounts(queries, database, pairs)
        bytes_per_query = 24 * pairs.n_groups + 64 * (nbits + 1)
    for chunk in memory_chunks(len(queries), bytes_per_query):
        yield count(chunk)


def histogram_from_distances(
    distances: npt.ArrayLike,
    query_y: Any = None,
    database_y: Any = None,
    affinity: str | Callable[[Any, Any], Any] = "auto",
    *,
    levels: npt.ArrayLike | None = None,
    exclude_self: bool = False,
) -> RelevanceHistogram:
    """Numbers of database items of each query by distances of any kind and affinity level.

    For similarity scores pass ``-scores``. Give either targets, or the levels themselves.

    Parameters
    ----------
    distances : array-like of shape (n_queries, n_items)
        Finite real distances; equal ones are ties.
    query_y : array-like of shape (n_queries, ...), default=None
        Targets of the queries.
    database_y : array-like of shape (n_items, ...), default=None
        Targets of the database; if None, `query_y`.
    affinity : "auto" or callable, default="auto"
        Which items are relevant, see :mod:`skhash.affinity`.
    levels : array-like of shape (n_queries, n_items), default=None
        Level of each item for each query, instead of targets: 0 or False for an irrelevant item, and higher ones for
        items that are more relevant.
    exclude_self : bool, default=False
        Leave item i out of the ranking of query i.

    Returns
    -------
    RelevanceHistogram
        In the ragged layout.

    Raises
    ------
    ValueError
        If shapes do not match, a distance is not finite, a level is not finite or below 0, or not exactly one of
        `query_y` and `levels` is given.

    Examples
    --------
    >>> from skhash.metrics import average_precision, histogram_from_distances
    >>> H = histogram_from_distances([[0.1, 0.7, 0.3]], ["a"], ["a", "a", "b"])
    >>> round(float(average_precision(H)), 4)
    0.8333
    >>> H = histogram_from_distances([[0.1, 0.7, 0.3]], levels=[[1, 1, 0]])
    >>> round(float(average_precision(H)), 4)
    0.8333
    """
    distances = numeric(distances, "distances").astype(np.float64, copy=False)
    if distances.ndim != 2:
        raise ValueError(
            f"`distances` must be a matrix, shape (n_queries, n_items). Got shape {distances.shape} instead."
        )
    if not np.isfinite(distances).all():
        raise ValueError("`distances` must be finite. Got NaN or infinity.")
    has_targets = query_y is not None or database_y is not None or not isinstance(affinity, str) or affinity != "auto"
    if has_targets == (levels is not None):
        given = "targets or an affinity, and levels" if has_targets else "neither"
        raise ValueError(f"Exactly one of `query_y`, with its options, and `levels` must be given. Got {given}.")
    if levels is None:
        relevance = Relevance.between(query_y, query_y if database_y is None else database_y, affinity)
    else:
        matrix = numeric(levels, "levels")
        if matrix.shape != distances.shape:
            raise ValueError(
                f"`levels` must have a level for each distance, shape {distances.shape}. Got shape {matrix.shape}."
            )
        if not (np.isfinite(matrix).all() and (matrix >= 0).all()):
            raise ValueError("`levels` must be finite and >= 0. Got NaN, infinity or a level below 0.")
        rows, columns = map(np.arange, distances.shape)
        relevance = Relevance.between(rows, columns, lambda a, b: matrix[np.ix_(a, b)])
    pairs = _PairLevels(len(distances), distances.shape[1], relevance, exclude_self)
    chunks = memory_chunks(len(distances), 64 * distances.shape[1])
    return concatenate(_count_distances(distances[chunk], chunk, pairs) for chunk in chunks)


class _PairLevels:
    """Levels of all pairs of queries and items, computed once for each pair of distinct targets."""

    def __init__(self, n_queries: int, n_items: int, relevance: Relevance, exclude_self: bool) -> None:
        if not n_queries or not n_items:
            raise ValueError(
                "`query_codes` and `database_codes` must have at least one sample each. "
                f"Got {n_queries} queries and {n_items} database items."
            )
        if exclude_self and (n_queries == 1 or n_queries != n_items):
            raise ValueError(
                "`exclude_self` must be False unless the queries are the database, with at least 2 samples. "
                f"Got {n_queries} queries and {n_items} items."
            )
        n_targets = relevance.shape
        given = ("query_y", n_targets[0], n_queries, "queries"), ("database_y", n_targets[1], n_items, "database items")
        for name, n_given, n, samples in given:
            if n_given != n:
                raise ValueError(f"`{name}` must have one target per sample. Got {n_given} targets for {n} {samples}.")
        self.exclude_self = exclude_self
        self.distinct, self.query_group, self.database_group = relevance.distinct()
        self.n_groups = self.distinct.shape[1]

    def table(self, queries: slice) -> tuple[Integers, Integers, npt.NDArray[Any]]:
        """Level indices of a slice of queries (n_query_groups, n_groups), the row of each query, and the levels."""
        groups, group = np.unique(self.query_group[queries], return_inverse=True)
        indices, levels = self.distinct.levels(groups)
        return indices.astype(np.uint32), group, levels


class _PlainCounts:
    """Dense histograms of queries by Hamming distance."""

    def __init__(self, query_codes: Codes, database_codes: Codes, pairs: _PairLevels) -> None:
        from skhash.metrics import _kernels

        queries, database, nbits = query_codes.words(), database_codes.words(), query_codes.nbits
        self.queries, self.database, self.nbits, self.pairs = queries, database, nbits, pairs
        words, group, multiplicity = _merge_equal(database.T, pairs.database_group, len(queries))
        self.n_words, self.n_items = words.shape
        self.is_merged, n_per_group = self.n_items < len(database), self.n_items / pairs.n_groups
        self.is_grouped = len(queries) >= MANY and n_per_group >= LONG
        self.by_planes = (
            self.is_grouped
            and not self.is_merged
            and _kernels.SHORT_BITS < nbits <= _kernels.MAX_PLANE_BITS
            and n_per_group >= 2 * _kernels.PLANE_ITEMS
        )
        self.items: tuple[npt.NDArray[Any], ...]  # as the kernels take them
        if self.by_planes:
            self.items = _kernels.blocks_by_group(database.view(np.uint8), group, pairs.n_groups, -(-nbits // 8))
        elif self.is_grouped:  # in the order of their targets, with the bounds of the targets
            bounds = np.append(0, np.cumsum(np.bincount(group, minlength=pairs.n_groups)))
            if not self.is_merged:
                places, words = bounds.copy(), np.empty(words.shape, dtype=np.uint64)
                _kernels.sort_by_group(database, group, places, words)
            self.items = words, multiplicity, bounds
        else:
            self.items = np.ascontiguousarray(words), multiplicity, group.astype(np.uint32)

    def __call__(self, chunk: slice) -> RelevanceHistogram:
        """Histogram of a slice of queries."""
        table, query_group, levels = self.pairs.table(chunk)
        queries, places, repeats = self.queries[chunk], query_group, None
        kernel, min_size = self._kernel(len(queries))
        if self.is_merged or min_size > 1:  # distinct queries, in the order of their groups: faster for tables
            first, repeats = _distinct_queries(queries, places)
            queries, places = queries[first], places[first]
        counts = np.zeros((len(places), self.nbits + 1, len(levels)), dtype=np.int64)

        def count(part: slice) -> None:
            kernel(queries[part], *self.items, table, places[part], counts[part])

        run_in_slices(count, len(places), min_size=min_size)
        counts = counts if repeats is None else counts[repeats]
        if self.pairs.exclude_self:
            own = table[query_group, self.pairs.database_group[chunk]]
            _subtract_own(counts, self.queries[chunk] ^ self.database[chunk], own)
        return RelevanceHistogram(counts, levels)

    def _kernel(self, n_queries: int) -> tuple[Callable[..., None], int]:
        """Fastest kernel, and the smallest number of queries that a thread takes."""
        from skhash.metrics import _kernels

        if not self.is_grouped:
            return _kernels.hamming_histogram, 1
        if self.by_planes:
            return _kernels.grouped_planes, PLANE_QUERIES
        is_short = self.nbits <= _kernels.SHORT_BITS and self.n_items >= SHORT_ITEMS
        if is_short and n_queries * self.n_items >= SHORT_PAIRS:
            return _kernels.short_histogram, SHORT_QUERIES
        return (_kernels.grouped_words if self.n_words == 1 else _kernels.grouped_histogram), 1


class _DeviceCounts:
    """Dense histograms of queries by Hamming distance, counted on a device of torch."""

    def __init__(
        self,
        queries: Codes,
        database: Codes,
        device: Any,
        pairs: _PairLevels,
    ) -> None:
        from skhash.codes.torch_search import Tiles

        self.queries, self.database, self.nbits, self.pairs = queries.rows, database.rows, queries.nbits, pairs
        self.tiles = Tiles.of(database.rows, device)

    def __call__(self, chunk: slice) -> RelevanceHistogram:
        """Histogram of a slice of queries."""
        table, query_group, levels = self.pairs.table(chunk)
        groups = query_group, self.pairs.database_group
        counts = self.tiles.count(self.queries[chunk], table, *groups, len(levels))[:, : self.nbits + 1]
        if self.pairs.exclude_self:
            own = table[query_group, self.pairs.database_group[chunk]]
            _subtract_own(counts, self.queries[chunk] ^ self.database[chunk], own)
        return RelevanceHistogram(counts, levels)


def _checked_device(device: Any, bit_weights: Any, query_activations: Any) -> Any:
    """Device of torch for the parameter `device`, or None; ValueError unless Hamming distances are counted."""
    if bit_weights is not None or query_activations is not None:
        name = "bit_weights" if query_activations is None else "query_activations"
        raise ValueError(
            f"`device` must be None with `{name}`: torch counts Hamming distances. Got {device!r} instead."
        )
    from skhash.codes.torch_search import chosen_device

    return chosen_device(device)


def _subtract_own(counts: Integers, differing: Integers, level: Integers) -> None:
    """Remove each query, which differs from its own item in the bits of `differing`, from its counts."""
    distance = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
    counts[np.arange(len(level)), distance, level] -= 1


def _merge_equal(words: Words, group: Integers, n_queries: int) -> tuple[Words, Integers, Integers]:
    """Codes, groups and multiplicities, with items of equal code and target merged if this halves the scan."""
    n_items = words.shape[1]
    unmerged = words, group, np.ones(n_items, dtype=np.int64)
    sample = slice(None, None, -(-n_items // 16_384))  # a sample of the items
    if n_queries < MANY or _share_of_distinct(_keys(words[:, sample], group[sample])[0]) > 0.97:
        return unmerged
    keys, code_bits = _keys(words, group)
    if code_bits is None:
        if _share_of_distinct(keys) > 0.5:
            return unmerged
        order = np.lexsort((*words, group))
        rows = np.vstack([words, group.astype(np.uint64)])[:, order]
    else:
        keys.sort()
        rows = keys[None]
    begins = np.flatnonzero(np.append(True, (rows[:, 1:] != rows[:, :-1]).any(axis=0)))
    if len(begins) > n_items / 2:
        return unmerged
    rows = rows[:, begins]
    if code_bits is not None:
        rows = np.vstack([rows & np.uint64(2**code_bits - 1), rows >> np.uint64(code_bits)])
    return np.ascontiguousarray(rows[:-1]), rows[-1].astype(np.int64), np.diff(begins, append=n_items)


def _distinct_queries(words: Words, group: Integers) -> tuple[Integers, Integers]:
    """Indices of the queries with distinct code and target, and for each query the index of its equal among them."""
    keys, code_bits = _keys(words.T, group)
    everything = np.arange(len(group))
    if code_bits is None:
        return everything, everything
    _, first, repeats = np.unique(keys, return_index=True, return_inverse=True)
    return first, repeats


def _keys(words: Words, group: Integers) -> tuple[npt.NDArray[np.unsignedinteger[Any]], int | None]:
    """Integer of each code and group, ascending with both, and its bits of the code; hashes and None for long codes."""
    code_bits, group_bits = int(words[0].max()).bit_length(), int(group.max()).bit_length()
    if len(words) == 1 and code_bits + group_bits < 64:
        dtype: Any = np.uint32 if code_bits + group_bits <= 32 else np.uint64  # small ones are sorted in half the time
        return (group.astype(dtype) << dtype(code_bits)) | words[0].astype(dtype), code_bits
    key = group.astype(np.uint64)
    for row in words:
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + row
    return key, None


def _share_of_distinct(keys: npt.NDArray[Any]) -> float:
    """Share of distinct integers, which are sorted in place."""
    keys.sort()
    return (1 + int(np.count_nonzero(keys[1:] != keys[:-1]))) / len(keys)


class _WeightedCounts:
    """Ragged histograms of queries by weighted Hamming distance."""

    def __init__(
        self, queries: Codes, database: Codes, weights: npt.NDArray[np.int64], unit: float, pairs: _PairLevels
    ) -> None:
        from skhash.codes.bit_kernels import byte_tables

        self.pairs = pairs
        self.queries, self.database = queries.words().view(np.uint8), database.words().view(np.uint8)
        self.table, self.unit = byte_tables(0 * weights[None], weights[None])[0], unit

    def __call__(self, chunk: slice) -> RelevanceHistogram:
        """Histogram of a slice of queries; an item is one integer of distance and level, and these are sorted."""
        from skhash.metrics import _kernels

        table, query_group, levels = self.pairs.table(chunk)
        queries, n_items, is_without_self = self.queries[chunk], len(self.database), self.pairs.exclude_self
        if len(levels) > 1 << LEVEL_BITS:
            return self._count_levels(chunk)
        n_queries, shift = len(query_group), (len(levels) - 1).bit_length()
        own = np.arange(chunk.start, chunk.stop) if is_without_self else np.full(n_queries, -1)
        keys = np.empty((n_queries, n_items - is_without_self), dtype=np.int64)
        n_ties = np.empty(n_queries, dtype=np.int64)

        def rank(part: slice) -> None:
            of_items = self.database, self.table, own[part], self.pairs.database_group
            _kernels.distance_keys(queries[part], *of_items, table, query_group[part], shift, keys[part])
            keys[part].sort(axis=1)
            _kernels.count_ties(keys[part], shift, n_ties[part])

        run_in_slices(rank, n_queries)
        indptr = np.concatenate([[0], np.cumsum(n_ties)])
        small = n_items <= np.iinfo(np.int32).max
        counts = np.zeros((indptr[-1], len(levels)), dtype=np.int32 if small else np.int64)
        distances = np.empty(indptr[-1])

        def fill(part: slice) -> None:
            _kernels.fill_ties(keys[part], shift, self.unit, indptr[part], counts, distances)

        run_in_slices(fill, n_queries)
        return RelevanceHistogram(counts, levels, distances, indptr)

    def _count_levels(self, chunk: slice) -> RelevanceHistogram:
        """Histogram of a slice of queries, with more levels than fit into the integers."""
        from skhash.codes.bit_kernels import byte_table_distances

        queries = self.queries[chunk]
        distances = np.empty((len(queries), len(self.database)), dtype=np.int64)
        given = read_only(self.database), self.table
        run_in_slices(
            lambda part: byte_table_distances(read_only(queries[part]), *given, distances[part]), len(queries)
        )
        return _count_distances(distances * self.unit, chunk, self.pairs)


class _RealCounts:
    """Ragged histograms of real queries, which order the first `candidates` items by Hamming distance."""

    def __init__(
        self,
        queries: Codes,
        database: Codes,
        activations: npt.NDArray[np.floating],
        candidates: int | None,
        estimates: Estimates | None,
        pairs: _PairLevels,
    ) -> None:
        self.queries, self.items, self.blocks = queries.words(), database.words(), database.blocks()
        self.everything, self.pairs = np.arange(len(database))[None], pairs
        self.real, self.by_code = real_distance(activations, estimates), HammingDistance(queries.rows)
        # one more, since a query finds itself
        self.n_first = len(database) if candidates is None else candidates + pairs.exclude_self

    def __call__(self, chunk: slice) -> RelevanceHistogram:
        """Histogram of a slice of queries."""
        distances = np.empty((chunk.stop - chunk.start, len(self.items)))

        def rank(part: slice) -> None:
            distances[part] = self._distances(slice(chunk.start + part.start, chunk.start + part.stop))

        run_in_slices(rank, len(distances))
        return _count_distances(distances, chunk, self.pairs)

    def _distances(self, queries: slice) -> npt.NDArray[Any]:
        """Distances of some queries from all items."""
        real, blocks = self.real, self.blocks
        if self.n_first >= len(self.items):
            return np.asarray(real.to_items(queries, blocks, self.everything) * real.units[queries])
        nearest = self.by_code.nearest(queries, blocks, 0, len(blocks.masks), self.n_first)
        own = np.arange(queries.start, queries.stop)
        shortlist = (without_self(nearest, own) if self.pairs.exclude_self else nearest).indices
        first = real.to_items(queries, blocks, shortlist)
        differing = self.items ^ self.queries[queries][:, None]
        rest = 2.0 + np.bitwise_count(differing).sum(axis=-1)  # after any distance of a real query
        distances = rest * np.abs(first).max(axis=1, keepdims=True).clip(1)
        np.put_along_axis(distances, shortlist, first.astype(float), axis=1)
        return np.asarray(distances)


def _count_distances(distances: npt.NDArray[Any], queries: slice, pairs: _PairLevels) -> RelevanceHistogram:
    """Ragged histogram of a slice of queries by their distances, of shape (n_queries, n_items)."""
    table, query_group, levels = pairs.table(queries)
    if pairs.exclude_self:
        distances = distances.copy()
        distances[np.arange(len(distances)), np.arange(queries.start, queries.stop)] = np.inf
    level_index = table[query_group][:, pairs.database_group]
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
    return RelevanceHistogram(np.concatenate([_spread_levels(h.counts, h.levels, levels) for h in parts]), levels)


def _concatenate_ragged(levels: npt.NDArray[Any], histograms: Iterable[RelevanceHistogram]) -> RelevanceHistogram:
    """Ragged histogram of all queries; it grows in place, so that few parts are in memory with it."""
    ends, distances = [np.zeros(1, dtype=np.int64)], np.empty(0)
    counts = np.empty((0, len(levels)), dtype=np.int32)
    for H in histograms:
        union = np.union1d(levels, H.levels)
        part = _spread_levels(H.counts, H.levels, union)
        counts = _spread_levels(counts, levels, union).astype(np.result_type(counts, part), copy=False)
        levels, n_ties = union, len(distances)
        for array, more in ((counts, part), (distances, H.distances)):
            # no other reference exists, and the system grows large arrays without a copy
            array.resize((n_ties + len(more), *array.shape[1:]), refcheck=False)
            array[n_ties:] = more
        ends.append(H.indptr[1:] + n_ties)
    return RelevanceHistogram(counts, levels, distances, np.concatenate(ends))


def _spread_levels(counts: Any, levels: npt.NDArray[Any], all_levels: npt.NDArray[Any]) -> Any:
    """Counts over the larger set `all_levels`, of shape (..., n_all_levels), 0 for the new levels."""
    if np.array_equal(levels, all_levels):
        return counts
    spread = np.zeros((*counts.shape[:-1], len(all_levels)), dtype=counts.dtype)
    spread[..., np.searchsorted(all_levels, levels)] = counts
    return spread


def _merge_ties(
    n_queries: int, query: Integers, distances: npt.NDArray[np.float64], counts: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64], Integers]:
    """Counts, distances and `indptr` of ties sorted by query and distance, with ties of equal distance merged."""
    order = np.lexsort((distances, query))
    query, distances = query[order], distances[order]
    begins = np.ones(len(query), dtype=bool)
    begins[1:] = (query[1:] != query[:-1]) | (distances[1:] != distances[:-1])
    merged = np.add.reduceat(counts[order], np.flatnonzero(begins), axis=0) if len(query) else counts
    return merged, distances[begins], np.searchsorted(query[begins], np.arange(n_queries + 1))


def _wide(counts: Any) -> Any:
    """Counts as int64 if they are integers, so that sums do not overflow."""
    is_whole = isinstance(counts, np.ndarray) and counts.dtype.kind in "iu"
    return counts.astype(np.int64, copy=False) if is_whole else counts


def _padded(widths: npt.NDArray[np.int64]) -> int:
    """Number of ties to which the queries of a block are padded, a power of two >= 8.

    numpy adds in the same order for each of these, so that a value does not depend on the other queries.
    """
    return max(8, 1 << (int(widths.max(initial=1)) - 1).bit_length())
