"""Ranking lists: some relevant and some irrelevant training samples for each query."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash.affinity import level_indices


@dataclass(frozen=True)
class RankingLists:
    """The samples that each query ranks, as indices into the training set.

    Parameters
    ----------
    queries : int64 array of shape (n_lists,)
        Index of each query.
    items : int64 array of shape (n_lists, max_relevant + max_irrelevant)
        Indices of its items, the relevant ones first. Each kind is padded with the query itself.
    sizes : int64 array of shape (n_lists, 2)
        Number of relevant and of irrelevant items in each list, both >= 1.
    n_samples : int
        Number of training samples.
    """

    queries: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    n_samples: int

    def differences(self, bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Whether the bit of each item differs from that of its query, of the shape of `items`."""
        return (bits[self.queries, None] != bits[self.items]).view(np.uint8)


def draw_ranking_lists(
    affinity: Any,
    targets: Any,
    n_relevant: int,
    n_irrelevant: int,
    n_queries: int,
    rng: np.random.RandomState,
) -> RankingLists:
    """Ranking lists drawn at random. Queries that lack one kind of items are left out with a warning.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    targets : array of shape (n_samples, ...)
        The targets that it compares.
    n_relevant, n_irrelevant : int
        Maximum number of items of each kind in a list.
    n_queries : int
        Maximum number of queries, drawn at random from the samples.
    rng : numpy.random.RandomState
        Random number generator.

    Returns
    -------
    RankingLists
        One list for each query that has items of both kinds.

    Raises
    ------
    ValueError
        If no query has items of both kinds.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.affinity import ClassAffinity
    >>> from skhash.hashers._ranking_lists import draw_ranking_lists
    >>> lists = draw_ranking_lists(
    ...     ClassAffinity(), np.array([0, 0, 1, 1]), 5, 1, 4, np.random.RandomState(0)
    ... )
    >>> lists.items[:, 0], lists.sizes[0]
    (array([1, 0, 3, 2]), array([1, 1]))
    """
    n = targets.shape[0]
    chosen = np.arange(n) if n_queries >= n else np.sort(rng.choice(n, n_queries, replace=False))
    queries, drawn = [], []
    for batch in gen_batches(len(chosen), 256):
        indices, _ = level_indices(affinity, targets[chosen[batch]], targets)
        for query, levels in zip(chosen[batch], indices, strict=True):
            relevant, irrelevant = np.flatnonzero(levels > 0), np.flatnonzero(levels == 0)
            kinds = (relevant[relevant != query], n_relevant), (irrelevant[irrelevant != query], n_irrelevant)
            if all(len(items) for items, _ in kinds):
                queries.append(query)
                drawn.append([rng.choice(items, min(size, len(items)), replace=False) for items, size in kinds])
    left_out = len(chosen) - len(queries)
    if not queries:
        raise ValueError("`y` must give at least one sample both a relevant and an irrelevant one. Got none instead.")
    if left_out:
        warnings.warn(
            f"{left_out} of {len(chosen)} training queries lack relevant or irrelevant samples and are left out.",
            UserWarning,
            stacklevel=2,
        )
    sizes = np.array([[len(items) for items in kinds] for kinds in drawn])
    max_relevant, max_irrelevant = sizes.max(axis=0)
    items = np.repeat(np.array(queries)[:, None], max_relevant + max_irrelevant, axis=1)
    for row, (relevant, irrelevant) in zip(items, drawn, strict=True):
        row[: len(relevant)] = relevant
        row[max_relevant : max_relevant + len(irrelevant)] = irrelevant
    return RankingLists(np.array(queries), items, sizes, n)
