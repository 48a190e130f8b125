"""Levels of query-item pairs, computed once for each pair of distinct targets."""

import numpy as np

from skhash.affinity import level_indices, resolve_affinity
from skhash.affinity._targets import as_targets, distinct_targets


class PairLevels:
    """Levels of all pairs of queries and items, as a table of distinct targets."""

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
        """Level indices of a slice of queries (n_query_groups, n_groups), the row of each query, and the levels."""
        groups, group = np.unique(self.query_group[queries], return_inverse=True)
        indices, levels = level_indices(self.affinity, self.query_targets[groups], self.database_targets)
        return indices, group, levels


def _checked(name, y, n, samples):
    targets = as_targets(y, name)
    if targets.shape[0] != n:
        raise ValueError(f"`{name}` must have one target per sample. Got {targets.shape[0]} targets for {n} {samples}.")
    return targets
