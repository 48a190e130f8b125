"""Affinity of vectors by ranks: the nearest items of each query are relevant."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._validation.numeric import is_count
from skhash._validation.options import VECTOR_METRICS, VectorMetric, check_option
from skhash.affinity._vectors import centered, checked_vectors
from skhash.codes._bits import memory_chunks


@dataclass(frozen=True)
class NeighborAffinity:
    """Level 1 for the nearest items of each query, 0 otherwise.

    Every query has the same number of relevant items, which thresholds of distances (:class:`DistanceAffinity`) do
    not give. It is the truth of searches for nearest neighbors, and of the unlabeled data sets of Lin et al. (ECCV
    2014), with ``fraction=0.02``. It is not symmetric, and depends on all items that are ranked. Of equal distances
    the item with the lowest index is nearer. A query that is one of the items is a neighbor of itself.

    Parameters
    ----------
    n_neighbors : int, default=None
        Number of relevant items of each query; all items if there are fewer. Either this or `fraction` is given.
    fraction : float, default=None
        Share of the items that is relevant to each query, in (0, 1]; at least one item.
    metric : "euclidean", "cosine" or "inner", default="euclidean"
        Euclidean distance, angle, or inner product (the largest is the nearest) of the vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.affinity import NeighborAffinity
    >>> items = np.array([[0.0], [1.0], [5.0], [6.0]])
    >>> NeighborAffinity(n_neighbors=2)([[5.4]], items)
    array([[0, 0, 1, 1]], dtype=uint8)
    """

    n_neighbors: int | None = None
    fraction: float | None = None
    metric: VectorMetric = "euclidean"
    requires_y = False
    #: the levels of a pair depend on the other items, so that equal targets must not be merged
    depends_on_all_items = True

    def __post_init__(self) -> None:
        if (self.n_neighbors is None) == (self.fraction is None):
            raise ValueError(
                "`n_neighbors` or `fraction` must be given, and not both. "
                f"Got n_neighbors={self.n_neighbors!r} and fraction={self.fraction!r}."
            )
        if self.n_neighbors is not None and not is_count(self.n_neighbors):
            raise ValueError(f"`n_neighbors` must be None or an int >= 1. Got {self.n_neighbors!r} instead.")
        is_number = isinstance(self.fraction, Real) and not isinstance(self.fraction, bool)
        if self.fraction is not None and not (is_number and 0 < self.fraction <= 1):
            raise ValueError(f"`fraction` must be None or a number in (0, 1]. Got {self.fraction!r} instead.")
        check_option("metric", self.metric, VECTOR_METRICS)

    def fit(self, y: Any) -> "NeighborAffinity":
        """Affinity itself: it learns nothing."""
        return self

    def possible_levels(self, y_a: Any, y_b: Any) -> npt.NDArray[np.int64]:
        """Levels that can occur, ascending: 0 and 1."""
        return np.array([0, 1])

    def __call__(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """Levels of all pairs, shape (len a, len b)."""
        queries, items = (checked_vectors(y, type(self).__name__) for y in (y_a, y_b))
        if queries.shape[1] != items.shape[1]:
            raise ValueError(
                f"`y_a` and `y_b` must have the same features. Got {queries.shape[1]} and {items.shape[1]} instead."
            )
        n_relevant = self.n_neighbors if self.fraction is None else max(1, round(self.fraction * len(items)))
        k = min(int(n_relevant or 0), len(items))
        levels = np.zeros((len(queries), len(items)), dtype=np.uint8)
        if not levels.size:
            return levels
        queries, items = _comparable(queries, items, self.metric)  # all at once: a chunk may be one query
        for batch in memory_chunks(len(queries), 24 * len(items)):
            levels[batch] = _k_smallest(_distances(queries[batch], items, self.metric), k)
        return levels


def _k_smallest(distances: npt.NDArray[np.float64], k: int) -> npt.NDArray[np.bool_]:
    """Mask of the k smallest values of each row; of equal values the first ones."""
    last = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
    nearer, equal = distances < last, distances == last
    left = k - nearer.sum(axis=1, keepdims=True)
    return np.asarray(nearer | (equal & (np.cumsum(equal, axis=1) <= left)))


def _comparable(
    queries: npt.NDArray[np.float64], items: npt.NDArray[np.float64], metric: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Vectors as `_distances` takes them."""
    if metric == "euclidean":
        return centered(queries, items)
    if metric == "cosine":
        from sklearn.preprocessing import normalize

        return normalize(queries), normalize(items)
    return queries, items


def _distances(
    queries: npt.NDArray[np.float64], items: npt.NDArray[np.float64], metric: str
) -> npt.NDArray[np.float64]:
    """Distances of all pairs; for "cosine" and "inner" minus the inner product."""
    if metric == "euclidean":
        from sklearn.metrics.pairwise import euclidean_distances

        return np.asarray(euclidean_distances(queries, items))
    return np.asarray(-(queries @ items.T))
