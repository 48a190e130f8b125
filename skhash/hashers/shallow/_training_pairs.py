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
    """Distinct pairs of different samples, whatever their order, with their distances.

    Parameters
    ----------
    samples, partners : int64 arrays of shape (n,)
        Indices of the two samples of each pair. Pairs of a sample with itself are left out.
    distances : float64 array of shape (n,)
        Distances to reconstruct. For a repeated pair the first one is used.

    Returns
    -------
    pairs : int64 array of shape (2, n_pairs)
        The pairs, with the lower index first.
    distances : float64 array of shape (n_pairs,)
        Distances of the pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._training_pairs import distinct_pairs
    >>> pairs, distances = distinct_pairs(
    ...     np.array([2, 0, 1]), np.array([0, 2, 1]), np.array([0.5, 1.0, 0.0])
    ... )
    >>> pairs.T, distances
    (array([[0, 2]]), array([0.5]))
    """
    pairs = np.sort([samples, partners], axis=0)
    different = pairs[0] != pairs[1]
    pairs, first = np.unique(pairs[:, different], axis=1, return_index=True)
    return pairs, distances[different][first]


def affinity_pairs(
    affinity: Any, targets: Any, n_relevant: int, n_irrelevant: int, rng: np.random.RandomState
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Random relevant pairs, with distance 0, and irrelevant pairs, with distance 1.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    targets : array of shape (n_samples, ...)
        The targets that it compares.
    n_relevant, n_irrelevant : int
        Maximum number of partners of each kind for each sample.
    rng : numpy.random.RandomState
        Random number generator.

    Returns
    -------
    pairs : int64 array of shape (2, n_pairs)
        As :func:`distinct_pairs` returns them.
    distances : float64 array of shape (n_pairs,)
        0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.affinity import ClassAffinity
    >>> from skhash.hashers.shallow._training_pairs import affinity_pairs
    >>> pairs, distances = affinity_pairs(
    ...     ClassAffinity(), np.array([0, 0, 1, 1]), 1, 2, np.random.RandomState(0)
    ... )
    >>> distances[(pairs == [[0], [1]]).all(axis=0)], len(distances)
    (array([0.]), 6)
    """
    lists = draw_ranking_lists(affinity, targets, n_relevant, n_irrelevant, targets.shape[0], rng)
    n_lists, length = lists.items.shape
    irrelevant = np.arange(length) >= lists.sizes[:, 0].max()
    distances = np.tile(irrelevant.astype(np.float64), n_lists)
    return distinct_pairs(np.repeat(lists.queries, length), lists.items.ravel(), distances)


def distance_pairs(
    X: npt.NDArray[Any], n_near: int, n_far: int, far: float, rng: np.random.RandomState
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Random near pairs, with distance 0, and far pairs, with half their squared distance.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples, which are centered and scaled to length 1.
    n_near, n_far : int
        Maximum number of partners of each kind for each sample.
    far : float
        Share of the other samples, the farthest ones, that far partners are drawn from. The near
        ones come from the nearest 5 %.
    rng : numpy.random.RandomState
        Random number generator.

    Returns
    -------
    pairs : int64 array of shape (2, n_pairs)
        As :func:`distinct_pairs` returns them.
    distances : float64 array of shape (n_pairs,)
        0, or half the squared distance, in [0, 2].

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._training_pairs import distance_pairs
    >>> X = np.array([[2.0, 0.0], [2.0, 0.1], [-2.0, 0.0], [-2.0, -0.1]])
    >>> pairs, distances = distance_pairs(X, 1, 1, 0.5, np.random.RandomState(0))
    >>> pairs.T[distances == 0].tolist()
    [[0, 1], [2, 3]]
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
