"""Duplicates: groups of items that pairs of near codes connect."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash._validation import VECTOR_METRICS, VectorMetric, check_option
from skhash.codes.bits import memory_chunks
from skhash.neighbors._pairs import hash_factors
from skhash.neighbors.checks import checked_vectors
from skhash.neighbors.search import vector_distances

if TYPE_CHECKING:
    from skhash.neighbors.hamming_neighbors import HammingNeighbors


def duplicate_groups(
    index: "HammingNeighbors",
    radius: float = 2,
    *,
    vectors: Any = None,
    metric: VectorMetric = "cosine",
    max_distance: float | None = None,
) -> list[npt.NDArray[Any]]:
    """Groups of items that are connected by pairs of near codes.

    A group is a connected component of the graph of all pairs, so that it can hold two items that are far from each
    other, with a chain of near ones between them. A smaller radius, or `vectors`, makes chains shorter.

    Parameters
    ----------
    index : HammingNeighbors
        A fitted index.
    radius : float, default=2
        Largest Hamming distance of a pair, as in :meth:`HammingNeighbors.radius_pairs`.
    vectors : array-like of shape (n_samples, n_features), default=None
        Original vectors of the items, in the order of the index. With them a pair counts only if the distance of its
        vectors is at most `max_distance`. They are not copied, and a memmap is not read as a whole.
    metric : "cosine", "euclidean" or "inner", default="cosine"
        Distance of the vectors; with "inner" minus their inner product.
    max_distance : float, default=None
        Largest distance of the vectors of a pair. Required with `vectors`, and refused without them.

    Returns
    -------
    list of ndarray
        Identifiers of the items of each group, at least two, in the order of the index. Groups are in the order of
        their first items. Items without any pair are in no group.

    Raises
    ------
    ValueError
        If the index has ``query="real"`` or `rerank` set, a parameter is out of range, or vectors have NaN.

    See Also
    --------
    HammingNeighbors.radius_pairs : The pairs.

    Examples
    --------
    >>> from skhash.neighbors import HammingNeighbors, duplicate_groups
    >>> bits = [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]]
    >>> index = HammingNeighbors().fit(bits)
    >>> duplicate_groups(index, radius=1)  # items 0 and 3 differ in two bits
    [array([0, 2, 3])]

    Vectors leave out pairs that are near only by their codes:

    >>> vectors = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [0.0, 1.0]]
    >>> duplicate_groups(index, radius=1, vectors=vectors, max_distance=0.1)
    [array([0, 2])]
    """
    now, near = index._with_items_of_now(), None
    if vectors is not None:
        near = NearVectors(vectors, now.n_samples_fit_, metric, max_distance)
    elif max_distance is not None:
        raise ValueError(f"`max_distance` must be None without `vectors`. Got {max_distance!r} instead.")
    ids = now.ids_
    return [ids[members] for members in near_groups(now, radius, near)]


def near_groups(
    index: "HammingNeighbors",
    radius: float,
    near: "NearVectors | None" = None,
    show: Callable[[float], object] = lambda done: None,
) -> list[npt.NDArray[np.int64]]:
    """Positions of the items of each group; `show` takes the part of the work that is done, from 0 to 1."""
    from skhash.codes.pair_kernels import join_groups, roots_of

    codes = index._items.codes.words()
    roots, chosen = np.arange(len(codes)), np.arange(len(codes))
    if near is None:  # equal codes are near each other: one of them stands for all
        join_groups(roots, *_equal_pairs(codes))
        chosen = np.flatnonzero(roots == chosen)
    for left, right, _ in index._near_pairs(radius, codes[chosen], show):
        left, right = chosen[left], chosen[right]
        if near is not None:
            new = roots_of(roots, left) != roots_of(roots, right)
            left, right = left[new], right[new]
            is_near = near.distances(left, right) <= near.max_distance
            left, right = left[is_near], right[is_near]
        join_groups(roots, left, right)
    return _members(roots_of(roots, np.arange(len(codes))))


class NearVectors:
    """Whether the vectors of pairs of items are near each other."""

    def __init__(self, vectors: Any, n_items: int, metric: VectorMetric, max_distance: float | None) -> None:
        check_option("metric", metric, VECTOR_METRICS)
        is_number = isinstance(max_distance, int | float | np.number) and not isinstance(max_distance, bool)
        if not is_number or not math.isfinite(float(max_distance or 0)):
            raise ValueError(
                "`max_distance` must be a finite number with `vectors`, the largest distance of the vectors of a pair. "
                f"Got {max_distance!r} instead."
            )
        self.vectors, self.metric = checked_vectors(vectors, n_items, use=""), metric
        self.max_distance = float(max_distance or 0)

    def distances(self, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Distances of the vectors at two lists of positions."""
        distances = np.empty(len(left))
        for part in memory_chunks(len(left), 40 * self.vectors.shape[1]):  # the vectors, and a few arrays like them
            a, b = self.vectors[left[part]], self.vectors[right[part]]
            distances[part] = vector_distances(a, b, self.metric)
        if np.isnan(distances).any():
            raise ValueError("`vectors` must be finite. Got NaN as a distance. Replace missing values by numbers.")
        return distances


def _equal_pairs(codes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs of equal codes that connect all, or nearly all, that are equal: neighbors in the order of their hashes."""
    hashes = (codes * hash_factors(codes.shape[1])).sum(axis=1)
    order = np.argsort(hashes)
    ascending = hashes[order]
    found = np.flatnonzero(ascending[:-1] == ascending[1:])
    left, right = order[found], order[found + 1]
    are_equal = (codes[left] == codes[right]).all(axis=1)
    return left[are_equal], right[are_equal]


def _members(roots: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Positions of the items of each group of at least two, ordered by the first one, which is the root of all."""
    positions = np.flatnonzero(np.bincount(roots)[roots] > 1)
    order = positions[np.argsort(roots[positions], kind="stable")]
    starts = np.flatnonzero(np.diff(roots[order], prepend=-1))
    return [order[start:stop] for start, stop in pairwise([*starts.tolist(), len(order)])]
