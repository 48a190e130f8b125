"""Hard counts: from codes and targets to a RelevanceHistogram.

Each pair of *distinct* targets is compared once, each distinct code is visited
once with its multiplicity where that pays, and the queries are taken in chunks,
so that memory stays bounded whatever the size of the database.
"""

import numpy as np

from skhash._targets import distinct_targets, n_rows, take_targets
from skhash._threads import run_in_slices
from skhash.affinity import level_indices, resolve_affinity
from skhash.codes import as_packed, as_words, check_same_length, hamming_distances
from skhash.metrics.histogram import RelevanceHistogram, concatenate, memory_chunks, ragged_histogram

MANY = 100  # queries from which it pays to put the database in order
LONG = 64  # items of a group from which a scan group by group is the faster one


def relevance_histogram(
    query_codes,
    database_codes,
    query_y,
    database_y=None,
    affinity="auto",
    *,
    bit_weights=None,
    exclude_self=False,
    nbits=None,
):
    """Count the database items of every query by Hamming distance and affinity level.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, nbits) or (n_queries, ceil(nbits / 8))
        Bits as ``transform`` returns them, or packed codes with `nbits`.
    database_codes : array-like of shape (n_items, nbits) or (n_items, ceil(nbits / 8))
        The same for the database.
    query_y : array-like of shape (n_queries, ...)
        Targets of the queries: whatever the affinity takes.
    database_y : array-like of shape (n_items, ...), default=None
        Targets of the database; None stands for `query_y`.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant, see :mod:`skhash.affinity`. A DistanceAffinity must have
        been fitted, on the training rows, so that shards share its thresholds.
    bit_weights : array-like of shape (nbits,), default=None
        Weights of the Hamming distance; the result is then ragged.
    exclude_self : bool, default=False
        Leave item i out of the ranking of query i: the database is the queries.
    nbits : int, default=None
        Length of packed codes.

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
    query_codes,
    database_codes,
    query_y,
    database_y=None,
    affinity="auto",
    *,
    bit_weights=None,
    exclude_self=False,
    nbits=None,
):
    """Yield the histograms of successive chunks of queries.

    What :func:`relevance_histogram` joins. Weighted distances have nearly as many
    ties as items, so that a caller who wants values only should go by chunks.

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

    Yields
    ------
    RelevanceHistogram
        Of the next queries, as many as scikit-learn's `working_memory` admits.

    Examples
    --------
    >>> from skhash.metrics.counting import iter_histograms
    >>> [H.n_queries for H in iter_histograms([[0], [1]], [[1], [1]], [0, 1], [1, 0])]
    [2]
    """
    database_y = query_y if database_y is None else database_y
    database, database_nbits = as_packed(database_codes, nbits, "database_codes")
    queries, nbits = as_packed(query_codes, nbits, "query_codes")
    check_same_length(nbits, database_nbits, "query_codes", "database_codes")
    targets = _PairLevels(queries, database, query_y, database_y, affinity, exclude_self)
    if bit_weights is None:
        yield from _count_plain(queries, database, nbits, targets)
        return
    for rows in memory_chunks(len(queries), 64 * max(1, len(database))):
        distances = hamming_distances(queries[rows], database, bit_weights=bit_weights, nbits=nbits)
        yield _count_ragged(distances, rows, targets)


def histogram_from_distances(distances, query_y, database_y=None, affinity="auto", *, exclude_self=False):
    """Count the items of every query by distances of any kind.

    Scores rank the other way: pass ``-scores``.

    Parameters
    ----------
    distances : array-like of shape (n_queries, n_items)
        Finite real distances; equal ones are ties.
    query_y : array-like of shape (n_queries, ...)
        Targets of the queries.
    database_y : array-like of shape (n_items, ...), default=None
        Targets of the database; None stands for `query_y`.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant, see :mod:`skhash.affinity`.
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
    distances = np.asarray(distances, dtype=np.float64)
    if distances.ndim != 2:
        raise ValueError(f"distances has shape {distances.shape}; a matrix (n_queries, n_items) is wanted.")
    if not np.isfinite(distances).all():
        raise ValueError("distances holds NaN or infinity; finite distances are wanted.")
    database_y = query_y if database_y is None else database_y
    targets = _PairLevels(distances, distances.T, query_y, database_y, affinity, exclude_self)
    return concatenate(
        _count_ragged(distances[rows], rows, targets) for rows in memory_chunks(len(distances), 64 * distances.shape[1])
    )


class _PairLevels:
    """Levels of query-item pairs, computed once for each pair of distinct targets."""

    def __init__(self, queries, database, query_y, database_y, affinity, exclude_self):
        sides = ("query", "queries", query_y, queries), ("database", "database items", database_y, database)
        for name, what, y, codes in sides:
            if y is None:
                raise ValueError(f"{name}_y is None; one target for each of the {len(codes)} rows is wanted.")
            if n_rows(y) != len(codes):
                raise ValueError(
                    f"{name}_y has {n_rows(y)} rows for {len(codes)} {what}; one target for each is wanted."
                )
        if not len(queries) or not len(database):
            raise ValueError(
                f"{len(queries)} queries and {len(database)} database items; at least one of each is wanted."
            )
        if exclude_self and len(queries) == 1:
            raise ValueError("exclude_self=True with a single row leaves no database; at least two rows are wanted.")
        if exclude_self and len(queries) != len(database):
            raise ValueError(
                f"exclude_self=True with {len(queries)} queries and {len(database)} items: they must be the same rows."
            )
        self.affinity = resolve_affinity(affinity, database_y)
        first, self.query_group = distinct_targets(query_y)
        self.query_targets = take_targets(query_y, first)
        first, self.database_group = distinct_targets(database_y)
        self.database_targets = take_targets(database_y, first)
        self.n_groups = len(first)
        self.exclude_self = exclude_self

    def table(self, rows):
        """Level indices (n_groups of these queries, n_groups), the queries' rows in it, the levels."""
        groups, group = np.unique(self.query_group[rows], return_inverse=True)
        indices, levels = level_indices(self.affinity, take_targets(self.query_targets, groups), self.database_targets)
        return indices, group, levels


def _count_plain(queries, database, nbits, targets):
    from skhash._kernels import grouped_histogram, hamming_histogram

    codes, group, multiplicity = _merge_equal(as_words(database), targets.database_group, len(queries))
    if len(queries) >= MANY and len(group) >= LONG * targets.n_groups:
        if (group[1:] < group[:-1]).any():  # merged items are in order
            order = np.argsort(group.astype(np.min_scalar_type(targets.n_groups)), kind="stable")  # radix, if small
            codes, group, multiplicity = np.ascontiguousarray(codes[:, order]), group[order], multiplicity[order]
        kernel, groups = grouped_histogram, np.searchsorted(group, np.arange(targets.n_groups + 1))
    else:
        kernel, groups = hamming_histogram, group.astype(np.uint32)
    query_words = np.ascontiguousarray(as_words(queries).T)
    for rows in memory_chunks(len(queries), 24 * targets.n_groups + 64 * (nbits + 1)):
        table, query_group, levels = targets.table(rows)
        counts = np.zeros((len(query_group), nbits + 1, len(levels)), dtype=np.int64)
        words = query_words[rows]
        run_in_slices(
            lambda part, words=words, table=table, group=query_group, counts=counts: kernel(
                words[part], codes, multiplicity, groups, table, group[part], counts[part]
            ),
            len(words),
        )
        if targets.exclude_self:
            own = table[query_group, targets.database_group[rows]]
            distance = np.bitwise_count(queries[rows] ^ database[rows]).sum(axis=1, dtype=np.int64)
            counts[np.arange(len(own)), distance, own] -= 1
        yield RelevanceHistogram(counts, levels)


def _count_ragged(distances, rows, targets):
    table, query_group, levels = targets.table(rows)
    if targets.exclude_self:
        distances = distances.copy()
        distances[np.arange(len(distances)), np.arange(rows.start, rows.stop)] = np.inf
    return ragged_histogram(distances, table[query_group][:, targets.database_group], levels)


def _merge_equal(words, group, n_queries):
    """Merge items of equal code and target group, if that saves half of the scan."""
    n_items = words.shape[1]
    ones = np.ones(n_items, dtype=np.int64)
    sample = slice(None, None, -(-n_items // 16_384))  # a look at some items tells whether codes repeat at all
    n_sampled = len(group[sample])
    if n_queries < MANY or _n_distinct(words[:, sample], group[sample]) > 0.97 * n_sampled:
        return words, group, ones
    if _n_distinct(words, group) > n_items / 2:
        return words, group, ones
    order = np.lexsort((*words, group))
    keys = np.vstack([words, group.astype(np.uint64)])[:, order]
    begins = np.flatnonzero(np.concatenate([[True], (keys[:, 1:] != keys[:, :-1]).any(axis=0)]))
    return np.ascontiguousarray(keys[:-1, begins]), group[order][begins], np.diff(begins, append=n_items)


def _n_distinct(words, group):
    """Number of distinct (code, group) pairs, by a 64-bit hash: it only guides a choice."""
    key = group.astype(np.uint64)
    for row in words:
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + row
    key.sort()
    return 1 + np.count_nonzero(key[1:] != key[:-1])
