"""Training lists: some relevant and some irrelevant rows of each query."""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.utils import gen_batches

from skhash._targets import take_targets
from skhash.affinity import level_indices


@dataclass(frozen=True)
class RankingLists:
    """The items that each query ranks, as row numbers of the training set.

    Parameters
    ----------
    queries : int64 array of shape (n_lists,)
        Row of each query.
    items : int64 array of shape (n_lists, most_relevant + most_irrelevant)
        Rows of its items, the relevant ones first, each kind padded with the query itself.
    sizes : int64 array of shape (n_lists, 2)
        How many relevant and irrelevant items each list has; both are 1 or more.
    n_rows : int
        Rows of the training set.
    """

    queries: np.ndarray
    items: np.ndarray
    sizes: np.ndarray
    n_rows: int

    def differences(self, bits):
        """Whether the bit of each item differs from the query's, uint8 of the shape of `items`."""
        return (bits[self.queries, None] != bits[self.items]).view(np.uint8)


def draw_lists(affinity, targets, n_relevant, n_irrelevant, n_queries, rng):
    """Draw the lists at random; queries that lack either kind are left out with a warning.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    targets : array of shape (n_rows, ...)
        What it compares.
    n_relevant, n_irrelevant : int
        At most that many items of each kind.
    n_queries : int
        At most that many rows, drawn at random, become queries.
    rng : numpy.random.RandomState
        Source of the draws.

    Returns
    -------
    RankingLists
        One list for each query that has both kinds.

    Raises
    ------
    ValueError
        If no query has both kinds.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.affinity import ClassAffinity
    >>> from skhash.hashers._lists import draw_lists
    >>> lists = draw_lists(ClassAffinity(), np.array([0, 0, 1, 1]), 5, 1, 4, np.random.RandomState(0))
    >>> lists.items[:, 0], lists.sizes[0]
    (array([1, 0, 3, 2]), array([1, 1]))
    """
    n_rows = targets.shape[0]
    chosen = np.arange(n_rows) if n_queries >= n_rows else np.sort(rng.choice(n_rows, n_queries, replace=False))
    queries, drawn = [], []
    for batch in gen_batches(len(chosen), 256):
        indices, _ = level_indices(affinity, take_targets(targets, chosen[batch]), targets)
        for query, levels in zip(chosen[batch], indices, strict=True):
            relevant, irrelevant = np.flatnonzero(levels > 0), np.flatnonzero(levels == 0)
            kinds = (relevant[relevant != query], n_relevant), (irrelevant[irrelevant != query], n_irrelevant)
            if all(len(rows) for rows, _ in kinds):
                queries.append(query)
                drawn.append([rng.choice(rows, min(size, len(rows)), replace=False) for rows, size in kinds])
    left_out = len(chosen) - len(queries)
    if not queries:
        raise ValueError("y leaves no row with both a relevant and an irrelevant other row; nothing can be ranked.")
    if left_out:
        warnings.warn(
            f"{left_out} of {len(chosen)} training queries lack relevant or irrelevant rows and are left out.",
            UserWarning,
            stacklevel=2,
        )
    sizes = np.array([[len(rows) for rows in kinds] for kinds in drawn])
    most = sizes.max(axis=0)
    items = np.repeat(np.array(queries)[:, None], most.sum(), axis=1)
    for i, (relevant, irrelevant) in enumerate(drawn):
        items[i, : len(relevant)] = relevant
        items[i, most[0] : most[0] + len(irrelevant)] = irrelevant
    return RankingLists(np.array(queries), items, sizes, n_rows)
