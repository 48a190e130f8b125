"""Ranking lists: some relevant and some irrelevant training samples for each query."""

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash.affinity import Relevance


@dataclass(frozen=True)
class RankingLists:
    """Training samples that each query ranks; `items` has the relevant ones first, padded with the query.

    `queries` has the shape (n_lists,), `items` (n_lists, max_relevant + max_irrelevant), and `sizes` (n_lists, 2): the
    numbers of relevant and of irrelevant items, both >= 1.
    """

    queries: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    n_samples: int

    def differences(self, bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Whether the bit of each item differs from that of its query, of the shape of `items`."""
        return (bits[self.queries, None] != bits[self.items]).view(np.uint8)


def draw_ranking_lists(
    relevance: Relevance,
    n_relevant: int,
    n_irrelevant: int,
    n_queries: int,
    rng: np.random.RandomState,
) -> RankingLists:
    """Ranking lists drawn at random; queries without items of both kinds are left out with a warning."""
    n = relevance.shape[0]
    chosen = np.arange(n) if n_queries >= n else np.sort(rng.choice(n, n_queries, replace=False))
    queries, drawn = [], []
    for batch in gen_batches(len(chosen), 256):
        indices, _ = relevance.levels(chosen[batch])
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
