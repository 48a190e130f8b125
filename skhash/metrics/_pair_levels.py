"""Levels of query-item pairs, computed once for each pair of distinct targets."""

from collections.abc import Sized

import numpy as np

from skhash._targets import distinct_targets, n_targets, take_targets
from skhash.affinity import level_indices, resolve_affinity


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
        _check_targets("query_y", query_y, n_queries, "queries")
        _check_targets("database_y", database_y, n_items, "database items")
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
        self.query_targets = take_targets(query_y, first)
        first, self.database_group = distinct_targets(database_y)
        if getattr(self.affinity, "depends_on_all_items", False):
            first = self.database_group = np.arange(n_items)
        self.database_targets = take_targets(database_y, first)
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
        indices, levels = level_indices(self.affinity, take_targets(self.query_targets, groups), self.database_targets)
        return indices, group, levels


def _check_targets(name, y, n, samples):
    has_samples = y.shape != () if hasattr(y, "shape") else isinstance(y, Sized)
    if not has_samples or n_targets(y) != n:
        given = f"{n_targets(y)} targets" if has_samples else "None" if y is None else f"a {type(y).__name__}"
        raise ValueError(f"`{name}` must have one target per sample. Got {given} for {n} {samples}.")
