"""Training pairs of BRE, with the distances that it reconstructs."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches

from skhash.hashers._ranking_lists import draw_ranking_lists
from skhash.hashers.shallow._linear import center

NEAR = 0.05  # share of the other samples that are near; their distance is set to 0


def distinct_pairs(
    samples: npt.NDArray[np.int64], partners: npt.NDArray[np.int64], distances: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Distinct pairs (2, n_pairs) of different samples, lower index first, with the first distance given for each."""
    pairs = np.sort([samples, partners], axis=0)
    different = pairs[0] != pairs[1]
    pairs, first = np.unique(pairs[:, different], axis=1, return_index=True)
    return pairs, distances[different][first]


def affinity_pairs(
    affinity: Any, targets: Any, n_relevant: int, n_irrelevant: int, rng: np.random.RandomState
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Random relevant pairs (2, n_pairs) with distance 0, and irrelevant pairs with distance 1."""
    lists = draw_ranking_lists(affinity, targets, n_relevant, n_irrelevant, targets.shape[0], rng)
    n_lists, length = lists.items.shape
    irrelevant = np.arange(length) >= lists.sizes[:, 0].max()
    distances = np.tile(irrelevant.astype(np.float64), n_lists)
    return distinct_pairs(np.repeat(lists.queries, length), lists.items.ravel(), distances)


def distance_pairs(
    X: npt.NDArray[Any], n_near: int, n_far: int, far: float, rng: np.random.RandomState
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Random near pairs (2, n_pairs) with distance 0, and far pairs with half their squared distance.

    Samples are centered and scaled to length 1. Near partners are among the nearest 5 % of the other samples, far ones
    among the share `far` of the farthest.
    """
    units, _ = center(X)
    lengths = np.linalg.norm(units, axis=1, keepdims=True)
    units = np.divide(units, lengths, out=np.zeros_like(units), where=lengths > 0)
    n = len(X)
    n_nearest, n_farthest = (int(np.ceil(share * (n - 1))) for share in (NEAR, far))
    drawn = []
    for batch in gen_batches(n, 512):
        halves = euclidean_distances(units[batch], units, squared=True) / 2
        for i, half in enumerate(halves, batch.start):
            order = np.argsort(half, kind="stable")
            order = order[order != i]
            nearest = rng.choice(order[:n_nearest], min(n_near, n_nearest), replace=False)
            farthest = rng.choice(order[-n_farthest:], min(n_far, n_farthest), replace=False)
            drawn += [(i, partner, 0.0) for partner in nearest]
            drawn += [(i, partner, half[partner]) for partner in farthest]
    samples, partners, distances = (np.array(column) for column in zip(*drawn, strict=True))
    return distinct_pairs(samples, partners, distances)
