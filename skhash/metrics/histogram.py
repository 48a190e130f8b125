"""The core of the library: a ranking by distance is a histogram, and how it is counted.

For one query, n[d, v] items of affinity level v lie at distance d. Items at the same
distance are tied, so a tie-aware metric depends only on the histogram, and the
histograms of two shards of a database add.

Counting is the other end of searching: `skhash.codes.queries` has both. Each pair of *distinct* targets is compared
once, and queries are taken in chunks, so that memory stays bounded for a database of any size.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash._files import arrays_from_bytes, arrays_to_bytes
from skhash._ids import checked_groups
from skhash._libraries import import_torch
from skhash._names import check_columns, in_order_of, names_of
from skhash._validation import as_count_or_none, numeric
from skhash.affinity import Relevance
from skhash.codes.bits import memory_chunks
from skhash.codes.codes import Codes
from skhash.codes.queries import Bits, Count, Queries, Real, SeveralVectors, Shortlisted, count_distances

if TYPE_CHECKING:
    import torch

Integers = npt.NDArray[np.integer[Any]]


#: kind of the bytes, and names of the arrays of both layouts
_KIND = "RelevanceHistogram"
_DENSE, _RAGGED = ("counts", "levels"), ("counts", "levels", "distances", "indptr")
_PARTIAL = "unretrieved"  # an array of rankings of a part of the items


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
    unretrieved : ndarray of shape (n_queries, n_levels), default=None
        Numbers of items that the ranking lacks, as :func:`skhash.trec.histogram_of_run` counts them. They are
        among the relevant items that a metric divides by, and in the ideal ranking of NDCG, and stand at no rank.
        Level 0 is not read. None means that the ranking holds all items.

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
    unretrieved: Any = None

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
        if self.unretrieved is not None and np.shape(self.unretrieved) != (self.n_queries, len(levels)):
            raise ValueError(
                "`unretrieved` must have a number for each query and level, shape "
                f"{(self.n_queries, len(levels))}. Got shape {np.shape(self.unretrieved)} instead."
            )

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
    def is_partial(self) -> bool:
        """Whether the ranking holds a part of the items, as a run of the first 1,000 does."""
        return self.unretrieved is not None

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.indptr) - 1 if self.is_ragged else int(self.counts.shape[0])

    def dense_blocks(self) -> Iterator[tuple[Any, npt.NDArray[Any], Any]]:
        """Dense counts, distances and unretrieved items of successive blocks of queries.

        Ragged ties are padded with empty ties at distance infinity, which do not change
        any metric. Blocks are as large as fits into 128 MiB and scikit-learn's `working_memory`.

        Yields
        ------
        counts : array of shape (n_block, n_ties, n_levels)
            Counts.
        distances : ndarray of shape (n_ties,) or (n_block, n_ties)
            Distance of each tie.
        unretrieved : ndarray of shape (n_block, n_levels) or None
            Items that the ranking lacks; None if it holds all.

        Examples
        --------
        >>> from skhash.metrics import histogram_from_distances
        >>> distances, levels = [[0.2, 0.2, 0.7], [0.1, 0.3, 0.5]], [[1, 0, 1], [0, 1, 0]]
        >>> H = histogram_from_distances(distances, levels=levels)
        >>> counts, distances, _ = next(H.dense_blocks())
        >>> counts.shape, distances[:, :4].tolist()
        ((2, 8, 2), [[0.2, 0.7, inf, inf], [0.1, 0.3, 0.5, inf]])
        """
        if not self.is_ragged:
            if not isinstance(self.counts, np.ndarray):  # soft counts of one batch
                yield self.counts, np.arange(self.counts.shape[1]), self.unretrieved
                return
            bytes_per_query = 16 * 8 * max(1, self.counts[:1].size)
            for queries in memory_chunks(self.n_queries, bytes_per_query):
                yield self.counts[queries], np.arange(self.counts.shape[1]), self._unretrieved_of(queries)
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
            yield counts, distances, self._unretrieved_of(queries)

    def _unretrieved_of(self, queries: slice) -> Any:
        """Unretrieved items of some queries, or None."""
        return None if self.unretrieved is None else self.unretrieved[queries]

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
        merged = np.add.reduceat(self.counts, first)
        return RelevanceHistogram(merged, self.levels, self.distances[first], indptr, self.unretrieved)

    def __add__(self, other: "RelevanceHistogram") -> "RelevanceHistogram":
        """Histogram of two shards of a database together, for the same queries.

        Parameters
        ----------
        other : RelevanceHistogram
            Histogram of the other shard.

        Returns
        -------
        RelevanceHistogram
            Over the union of the levels; ragged ties are merged by distance, and unretrieved items add.

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
        lacking = [_wide(_spread_levels(H.unretrieved, H.levels, levels)) for H in (self, other) if H.is_partial]
        unretrieved = sum(lacking) if lacking else None
        if self.is_ragged or other.is_ragged:
            query, distances, counts = (
                np.concatenate(parts) for parts in zip(self._ties(levels), other._ties(levels), strict=True)
            )
            counts, distances, indptr = _merge_ties(self.n_queries, query, distances, counts)
            return RelevanceHistogram(counts, levels, distances, indptr, unretrieved)
        a, b = (_wide(_spread_levels(H.counts, H.levels, levels)) for H in (self, other))
        if a.shape != b.shape:
            raise ValueError(
                "Histograms of shards must have the same number of bits. "
                f"Got {a.shape[1] - 1} and {b.shape[1] - 1} bits instead."
            )
        return RelevanceHistogram(a + b, levels, unretrieved=unretrieved)

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
        names = [*(_RAGGED if self.is_ragged else _DENSE), *([_PARTIAL] if self.is_partial else [])]
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
        layouts = (_DENSE, _RAGGED, (*_DENSE, _PARTIAL), (*_RAGGED, _PARTIAL))
        H = cls(**arrays_from_bytes(content, _KIND, layouts))
        for name, numbers in (("counts", H.counts), (_PARTIAL, H.unretrieved if H.is_partial else np.zeros(1))):
            if (numbers < 0).any() or not np.isfinite(numbers).all():
                raise ValueError(f"`{name}` must be numbers of items, >= 0. Got others in `content`.")
        return H

    def _ties(self, levels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Query, distance and counts over `levels` of each tie."""
        counts = _spread_levels(self.counts, self.levels, levels)
        if self.is_ragged:
            return np.repeat(np.arange(self.n_queries), np.diff(self.indptr)), self.distances, counts
        query, distance = np.nonzero(counts.sum(axis=2))
        return query, distance.astype(np.float64), counts[query, distance]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Codes of queries and of a database, and which items are relevant to which queries.

    Parameters
    ----------
    query_codes : Codes, or array-like of shape (n_queries, nbits)
        Codes or bits of the queries. Rows of one group of Codes are one query.
    database_codes : Codes, or array-like of shape (n_items, nbits)
        Codes or bits of the database. Rows of one group of Codes are one item.
    relevance : Relevance
        Of the items of the database to the queries, see :meth:`skhash.affinity.Relevance.between`. With groups it is
        that of the distinct groups, ascending.
    bit_weights : array-like of shape (nbits,), default=None
        Weights of the Hamming distance; None counts bits.
    exclude_self : bool, default=False
        Leave item i out of the ranking of query i.
    query_activations : ndarray of shape (n_queries, nbits), default=None
        Real queries: items are ranked by the inner product of these and the signs of their bits.
        Metrics within a radius still count bits. None ranks by the codes of the queries.
    candidates : int, default=None
        Number of items, the nearest by Hamming distance, that real queries order; the others follow by
        Hamming distance. None orders all items.
    device : str or torch.device, default=None
        Where torch counts, as in :func:`relevance_histogram`; not for `bit_weights` and `query_activations`.

    Examples
    --------
    >>> from skhash.affinity import Relevance
    >>> from skhash.metrics import Ranking
    >>> codes, y = [[0, 0], [0, 1], [1, 1]], ["cat", "cat", "dog"]
    >>> ranking = Ranking(codes, codes, Relevance.between(y, y))
    >>> [H.counts.tolist() for H in ranking.histograms()][0][0]
    [[0, 1], [0, 1], [1, 0]]
    """

    query_codes: Any
    database_codes: Any
    relevance: Relevance
    bit_weights: npt.ArrayLike | None = None
    exclude_self: bool = False
    query_activations: Any = None  # or Real, of a hasher with factors
    candidates: int | None = None
    device: "str | torch.device | None" = None

    def __post_init__(self) -> None:
        codes = {name: Codes.of(getattr(self, name), name=name) for name in ("query_codes", "database_codes")}
        vars(self).update(codes)  # as the class is frozen

    @property
    def has_weights(self) -> bool:
        """Whether items are ranked by something else than the number of bits that differ."""
        return self.bit_weights is not None or self.query_activations is not None

    def histograms(self, *, weighted: bool = True) -> Iterator[RelevanceHistogram]:
        """Histograms of successive chunks of queries.

        Parameters
        ----------
        weighted : bool, default=True
            Rank by weighted distances if there are `bit_weights`, and by real queries if there
            are `query_activations`; False always counts bits.

        Returns
        -------
        iterator of RelevanceHistogram
            Each is of the next queries, as many as fit into 128 MiB and scikit-learn's `working_memory`: weighted
            distances have nearly as many ties as items.
        """
        queries, database = self.query_codes, self.database_codes
        device = self._checked_device(weighted)
        queries.check_same(database, "query_codes", "database_codes")
        if queries.groups is not None or database.groups is not None:
            n_queries, count = self._count_groups(weighted)
        else:
            n_queries, pairs = len(queries), _Levels(len(queries), len(database), self.relevance, self.exclude_self)
            if device is None:
                count = self._queries(weighted).count(database, pairs)
            else:
                from skhash.codes.torch_search import DeviceCounts

                count = DeviceCounts(queries, database, device, pairs)
        for chunk in memory_chunks(n_queries, count.bytes_per_query):
            yield RelevanceHistogram(*count(chunk))

    def _count_groups(self, weighted: bool) -> tuple[int, Count]:
        """Number of queries, and their counts by distances from groups."""
        labels, database = self.query_codes.groups, self.database_codes.by_group()
        vectors: Any = self._queries(weighted)
        if isinstance(vectors, Shortlisted):
            queries = SeveralVectors.of(vectors.by_code, labels, vectors.real, n_first=vectors.n_first)
        else:
            queries = SeveralVectors.of(vectors, labels)
        if self.exclude_self:
            queries.own = np.arange(queries.n_queries)
        pairs = _Levels(queries.n_queries, database.n_groups, self.relevance, self.exclude_self)
        is_dense = labels is None and isinstance(vectors, Bits)
        return queries.n_queries, queries.count(database, pairs, self.query_codes.nbits + 1 if is_dense else None)

    def _queries(self, weighted: bool) -> Queries | Shortlisted:
        """Queries of the kind that ranks the items."""
        queries, real = self.query_codes, self.query_activations
        if real is None or not weighted:
            return Queries.of(queries, self.bit_weights if weighted else None)
        if not isinstance(real, Real):
            activations = numeric(real, "query_activations")
            if activations.shape != (len(queries), queries.nbits) or not np.isfinite(activations).all():
                raise ValueError(
                    "`query_activations` must be finite, with one value per query and bit, shape "
                    f"{(len(queries), queries.nbits)}. Got shape {activations.shape}, or NaN or infinity."
                )
            real = Real(activations)
        candidates = as_count_or_none(self.candidates, "candidates")
        return real if candidates is None else Shortlisted(Bits(queries), real, candidates)

    def _checked_device(self, weighted: bool) -> Any:
        """Device of torch that counts, or None; ValueError unless Hamming distances are counted."""
        if self.device is None:
            return None
        if self.query_codes.groups is not None or self.database_codes.groups is not None:
            raise ValueError(
                f"`device` must be None with groups, which compiled code counts. Got {self.device!r} instead."
            )
        if weighted and self.has_weights:
            name = "bit_weights" if self.query_activations is None else "query_activations"
            raise ValueError(
                f"`device` must be None with `{name}`: torch counts Hamming distances. Got {self.device!r} instead."
            )
        import_torch("`device`")
        from skhash.codes.torch_search import chosen_device

        return chosen_device(self.device)


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
    groups: npt.ArrayLike | None = None,
    query_groups: npt.ArrayLike | None = None,
    device: "str | torch.device | None" = None,
) -> RelevanceHistogram:
    """Numbers of database items of each query by Hamming distance and affinity level.

    With `groups` an item is a group of rows, such as the passages of a document, and its distance is that of its
    nearest row. With `query_groups` a query is a group of rows, such as the tokens of a question, and the distance is
    the sum over its rows: MaxSim, as a distance.

    Parameters
    ----------
    query_codes : Codes, or array-like of shape (n_queries, nbits) or (n_queries, ceil(nbits / 8))
        Codes, bits as ``transform`` returns them, or packed codes with `nbits`.
    database_codes : Codes, or array-like of shape (n_items, nbits) or (n_items, ceil(nbits / 8))
        The same for the database.
    query_y : array-like of shape (n_queries, ...)
        Targets of the queries, of the kind that the affinity compares. With `query_groups` one for each distinct
        group, in ascending order, as ``np.unique(query_groups)`` has them.
    database_y : array-like of shape (n_items, ...), default=None
        Targets of the database; if None, `query_y`. With `groups` one for each distinct group, in ascending order.
    affinity : "auto" or callable, default="auto"
        Which items are relevant, see :mod:`skhash.affinity`. A DistanceAffinity must be
        fitted on the training samples, so that shards share its thresholds.
    bit_weights : array-like of shape (nbits,), default=None
        Weights of the Hamming distance; the result is then ragged.
    exclude_self : bool, default=False
        Leave item i out of the ranking of query i, if the queries are the database.
    nbits : int, default=None
        Number of bits of packed codes; None means that the codes are bits.
    groups : array-like of shape (n_items,), ints or text, default=None
        Which rows of the database are one item: those with equal labels. None takes those of Codes, or each row is an
        item.
    query_groups : array-like of shape (n_queries,), ints or text, default=None
        Which rows of the queries are one query, in the same way.
    device : str or torch.device, default=None
        Where torch counts: "cuda", "cuda:1", or "cpu"; "auto" is a GPU if there is one. The counts are the same. None,
        and "auto" without a GPU, count by compiled code. Not for `bit_weights` and groups.

    Returns
    -------
    RelevanceHistogram
        Dense for plain distances, ragged for weighted ones and for sums over the rows of a query.

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

    Two documents of two passages each, and a query of two vectors:

    >>> H = relevance_histogram(
    ...     [[0, 0], [0, 1]],
    ...     [[0, 0], [0, 1], [1, 1], [1, 0]],
    ...     ["cat"],
    ...     ["cat", "dog"],
    ...     groups=[0, 0, 1, 1],
    ...     query_groups=[0, 0],
    ... )
    >>> H.distances.tolist(), H.counts.tolist()
    ([0.0, 2.0], [[0, 1], [1, 0]])
    """
    queries = Codes.of(query_codes, nbits, name="query_codes")
    if query_groups is not None:
        queries = replace(queries, groups=checked_groups(query_groups, len(queries), "query_groups"))
    ranking = Ranking(
        queries,
        Codes.of(database_codes, nbits, groups=groups, name="database_codes"),
        Relevance.between(query_y, query_y if database_y is None else database_y, affinity),
        bit_weights,
        exclude_self,
        device=device,
    )
    return concatenate(ranking.histograms())


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
    if levels is not None:
        named = names_of(distances)
        check_columns(levels, named.columns, "`levels`", "`distances`", "column")
        levels = in_order_of(named.rows, levels, "`levels`", "`distances`")
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
    pairs = _Levels(len(distances), distances.shape[1], relevance, exclude_self)
    chunks = memory_chunks(len(distances), 64 * distances.shape[1])
    return concatenate(RelevanceHistogram(*count_distances(distances[chunk], chunk, pairs)) for chunk in chunks)


class _Levels:
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
                raise ValueError(
                    f"`{name}` must have one target per sample, or per group. Got {n_given} targets for {n} {samples}."
                )
        self.exclude_self = exclude_self
        self.distinct, self.query_group, self.database_group = relevance.distinct()
        self.n_groups = self.distinct.shape[1]

    def table(self, queries: slice) -> tuple[Integers, Integers, npt.NDArray[Any]]:
        """Level indices of a slice of queries (n_query_groups, n_groups), the row of each query, and the levels."""
        groups, group = np.unique(self.query_group[queries], return_inverse=True)
        indices, levels = self.distinct.levels(groups)
        return indices.astype(np.uint32), group, levels


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
