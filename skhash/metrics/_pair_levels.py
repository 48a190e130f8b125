"""Levels of query-item pairs, computed once for each pair of distinct targets."""

import numpy as np

from skhash.affinity import level_indices, resolve_affinity
from skhash.affinity._targets import as_targets, distinct_targets


class PairLevels:
    """Levels of all pairs of queries and items, as a table of distinct targets.

    Parameters
    ----------
    n_queries, n_items : int
        Numbers of queries and of items.
    query_y, database_y : array-like of shape (n_queries, ...) and (n_items, ...)
        Their targets.
    affinity : "auto" or callable
        The affinity.
    exclude_self : bool
        Whether item i is left out of the ranking of query i.
    """

    def __init__(self, n_queries, n_items, query_y, database_y, affinity, exclude_self):
        query_y = _checked("query_y", query_y, n_queries, "queries")
        database_y = _checked("database_y", database_y, n_items, "database items")
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
        self.affinity = resolve_affinity(affinity, database_y)
        first, self.query_group = distinct_targets(query_y)
        self.query_targets = query_y[first]
        first, self.database_group = distinct_targets(database_y)
        if getattr(self.affinity, "depends_on_all_items", False):
            first = self.database_group = np.arange(n_items)
        self.database_targets = database_y[first]
        self.n_groups = len(first)
        self.exclude_self = exclude_self

    def table(self, queries):
        """Levels of a slice of queries.

        Parameters
        ----------
        queries : slice
            Which queries.

        Returns
        -------
        indices : uint32 array of shape (n_query_groups, n_groups)
            Index of the level of each pair of distinct targets.
        group : int64 array of shape (n_queries,)
            Row of `indices` of each query.
        levels : ndarray of shape (n_levels,)
            The levels.
        """
        groups, group = np.unique(self.query_group[queries], return_inverse=True)
        indices, levels = level_indices(self.affinity, self.query_targets[groups], self.database_targets)
        return indices, group, levels


def _checked(name, y, n, samples):
    targets = as_targets(y, name)
    if targets.shape[0] != n:
        raise ValueError(f"`{name}` must have one target per sample. Got {targets.shape[0]} targets for {n} {samples}.")
    return targets
