"""Hard counts: from codes and targets to a RelevanceHistogram.

Each pair of *distinct* targets is compared once.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._chunks import memory_chunks
from skhash._distances import Estimates
from skhash._validation.numeric import is_count, numeric
from skhash.codes import as_packed, check_same_nbits
from skhash.metrics._counts import count_plain, count_ragged, count_real, count_weighted
from skhash.metrics._histograms import concatenate
from skhash.metrics._pair_levels import PairLevels
from skhash.metrics.histogram import RelevanceHistogram


def relevance_histogram(
    query_codes: npt.ArrayLike,
    database_codes: npt.ArrayLike,
    query_y: Any,
    database_y: Any = None,
    affinity: str | Callable[[Any, Any], Any] = "auto",
    *,
    bit_weights: npt.ArrayLike | None = None,
    exclude_self: bool = False,
    nbits: int | None = None,
) -> RelevanceHistogram:
    """Numbers of database items of each query by Hamming distance and affinity level.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, nbits) or (n_queries, ceil(nbits / 8))
        Bits as ``transform`` returns them, or packed codes with `nbits`.
    database_codes : array-like of shape (n_items, nbits) or (n_items, ceil(nbits / 8))
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
        iter_histograms(
            query_codes,
            database_codes,
            query_y,
            database_y,
            affinity=affinity,
            bit_weights=bit_weights,
            exclude_self=exclude_self,
            nbits=nbits,
        )
    )


def iter_histograms(
    query_codes: npt.ArrayLike,
    database_codes: npt.ArrayLike,
    query_y: Any,
    database_y: Any = None,
    affinity: str | Callable[[Any, Any], Any] = "auto",
    *,
    bit_weights: npt.ArrayLike | None = None,
    exclude_self: bool = False,
    nbits: int | None = None,
    query_activations: npt.NDArray[np.floating] | None = None,
    candidates: int | None = None,
    estimates: Estimates | None = None,
) -> Iterator[RelevanceHistogram]:
    """Histograms of successive chunks of queries.

    :func:`relevance_histogram` concatenates them. Weighted distances have nearly as
    many ties as items: if only values of metrics are needed, chunks save memory.

    Parameters
    ----------
    query_codes, database_codes, query_y, database_y : array-like
        As in :func:`relevance_histogram`.
    affinity : "auto" or callable, default="auto"
        As in :func:`relevance_histogram`.
    bit_weights : array-like of shape (nbits,), default=None
        As in :func:`relevance_histogram`.
    exclude_self : bool, default=False
        As in :func:`relevance_histogram`.
    nbits : int, default=None
        As in :func:`relevance_histogram`.
    query_activations : ndarray of shape (n_queries, nbits), default=None
        Real queries, which rank items by their inner product with the signs of the bits.
    candidates : int, default=None
        Number of items, the first by Hamming distance, that real queries put in order; None for all.
    estimates : Estimates, default=None
        Terms that turn the scores of real queries into distances, from the factors of the items.

    Yields
    ------
    RelevanceHistogram
        Of the next queries, as many as fit into 128 MiB and scikit-learn's `working_memory`.

    Raises
    ------
    ValueError
        If codes, real queries and targets do not match, or `candidates` is not None or an int >= 1.

    Examples
    --------
    >>> from skhash.metrics.counting import iter_histograms
    >>> [H.n_queries for H in iter_histograms([[0], [1]], [[1], [1]], [0, 1], [1, 0])]
    [2]
    """
    database_y = query_y if database_y is None else database_y
    database, database_nbits = as_packed(database_codes, nbits, "database_codes")
    queries, nbits = as_packed(query_codes, nbits, "query_codes")
    check_same_nbits(nbits, database_nbits, "query_codes", "database_codes")
    pairs = PairLevels(len(queries), len(database), query_y, database_y, affinity, exclude_self)
    if query_activations is not None:
        query_activations = _checked_activations(query_activations, (len(queries), nbits), candidates)
        yield from count_real(queries, database, query_activations, candidates, pairs, estimates)
    elif bit_weights is None:
        yield from count_plain(queries, database, nbits, pairs)
    else:
        yield from count_weighted(queries, database, bit_weights, nbits, pairs)


def _checked_activations(
    activations: npt.ArrayLike, shape: tuple[int, int], candidates: int | None
) -> npt.NDArray[np.floating]:
    """Real queries, checked to be finite and of the right shape, since the kernels do not check it."""
    values = numeric(activations, "query_activations")
    if values.shape != shape or not np.isfinite(values).all():
        fault = f"shape {values.shape}" if values.shape != shape else "NaN or infinity"
        raise ValueError(
            f"`query_activations` must be finite, with one value per query and bit, shape {shape}. Got {fault} instead."
        )
    if candidates is not None and not is_count(candidates):
        raise ValueError(f"`candidates` must be None or an int >= 1. Got {candidates!r} instead.")
    return values


def histogram_from_distances(
    distances: npt.ArrayLike,
    query_y: Any,
    database_y: Any = None,
    affinity: str | Callable[[Any, Any], Any] = "auto",
    *,
    exclude_self: bool = False,
) -> RelevanceHistogram:
    """Numbers of database items of each query by distances of any kind and affinity level.

    For similarity scores pass ``-scores``.

    Parameters
    ----------
    distances : array-like of shape (n_queries, n_items)
        Finite real distances; equal ones are ties.
    query_y : array-like of shape (n_queries, ...)
        Targets of the queries.
    database_y : array-like of shape (n_items, ...), default=None
        Targets of the database; if None, `query_y`.
    affinity : "auto" or callable, default="auto"
        Which items are relevant, see :mod:`skhash.affinity`.
    exclude_self : bool, default=False
        Leave item i out of the ranking of query i.

    Returns
    -------
    RelevanceHistogram
        In the ragged layout.

    Raises
    ------
    ValueError
        If shapes do not match, or a distance is not finite.

    Examples
    --------
    >>> from skhash.metrics import average_precision, histogram_from_distances
    >>> H = histogram_from_distances([[0.1, 0.7, 0.3]], ["a"], ["a", "a", "b"])
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
    database_y = query_y if database_y is None else database_y
    pairs = PairLevels(len(distances), distances.shape[1], query_y, database_y, affinity, exclude_self)
    chunks = memory_chunks(len(distances), 64 * distances.shape[1])
    return concatenate(count_ragged(distances[chunk], chunk, pairs) for chunk in chunks)
