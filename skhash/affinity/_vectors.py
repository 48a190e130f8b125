"""Affinities of vectors: by thresholds of distances, and by ranks."""

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._validation import VECTOR_METRICS, VectorMetric, as_count, as_count_or_none, check_option, numeric
from skhash.affinity.targets import as_targets, both, check_complete
from skhash.codes.bits import memory_chunks


@dataclass(frozen=True, eq=False)
class DistanceAffinity:
    """Levels from Euclidean distances: the nearest pairs get the highest level.

    The distance thresholds are percentiles of the pairwise distances of the
    training samples; `fit` returns a copy that holds them. This is the LabelMe
    supervision of He et al. (CVPR 2018, section 5): the nearest 5, 1, 0.2 and
    0.1 % of the training pairs get the levels 1, 2, 5, 10.

    Parameters
    ----------
    percentiles : tuple of float, default=(5, 1, 0.2, 0.1)
        Shares of the nearest training pairs, in percent, descending.
    levels : tuple of float, default=(1, 2, 5, 10)
        Level of each share, ascending.
    max_samples : int, default=5000
        The percentiles come from at most this number of training samples, evenly spaced.
    thresholds : ndarray of shape (n_levels,), default=None
        Largest distance of each level, descending; if None, `fit` learns it.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.affinity import DistanceAffinity
    >>> X = np.arange(6.0)[:, None]
    >>> affinity = DistanceAffinity(percentiles=(60, 30), levels=(1, 2)).fit(X)
    >>> affinity(X[:1], X)
    array([[2., 2., 1., 0., 0., 0.]])
    """

    percentiles: tuple[float, ...] = (5, 1, 0.2, 0.1)
    levels: tuple[float, ...] = (1, 2, 5, 10)
    max_samples: int = 5000
    thresholds: npt.NDArray[np.float64] | None = None
    requires_y = False

    def __post_init__(self) -> None:
        p, v = numeric(self.percentiles, "percentiles"), numeric(self.levels, "levels")
        if p.ndim != 1 or p.shape != v.shape or len(p) == 0:
            raise ValueError(
                "`percentiles` and `levels` must have one value per level. "
                f"Got {self.percentiles} and {self.levels} instead."
            )
        finite = np.isfinite(p).all() and np.isfinite(v).all()
        if not finite or (np.diff(p) >= 0).any() or (np.diff(v) <= 0).any() or p[-1] <= 0 or p[0] > 100 or v[0] <= 0:
            raise ValueError(
                "`percentiles` must descend within (0, 100] and `levels` must ascend above 0. "
                f"Got {self.percentiles} and {self.levels} instead."
            )
        max_samples = as_count(self.max_samples, "max_samples", least=2)
        object.__setattr__(self, "max_samples", max_samples)
        if self.thresholds is not None:
            t = numeric(self.thresholds, "thresholds")
            if t.shape != v.shape or not np.isfinite(t).all() or (np.diff(t) > 0).any() or t[-1] < 0:
                raise ValueError(
                    f"`thresholds` must be None or {len(v)} finite distances, one per level, descending. "
                    f"Got {self.thresholds} instead."
                )

    def fit(self, y: npt.ArrayLike) -> "DistanceAffinity":
        """Copy that holds the percentiles of the distances between the vectors in `y`."""
        if self.thresholds is not None:
            return self
        return self._learned(checked_vectors(as_targets(y), type(self).__name__))

    def _learned(self, vectors: npt.NDArray[Any]) -> "DistanceAffinity":
        """Copy with the thresholds of checked vectors."""
        if self.thresholds is not None:
            return self
        if len(vectors) < 2:
            raise ValueError(f"`y` must have at least 2 samples for DistanceAffinity. Got {len(vectors)} instead.")
        vectors = vectors[:: -(-len(vectors) // self.max_samples)]
        pairs = np.triu(np.ones((len(vectors), len(vectors)), dtype=bool), k=1)
        distances = _distances(*_comparable(vectors, vectors))[pairs]
        return replace(self, thresholds=np.percentile(distances, self.percentiles))

    def possible_levels(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Levels that can occur, ascending: 0 and the given ones."""
        return np.array([0.0, *self.levels])

    def __call__(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Levels of all pairs, shape (len a, len b)."""
        indices, levels = self._compare(*self._checked(*both(as_targets, y_a, y_b)))
        return levels[indices]

    def _checked(self, y_a: Any, y_b: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Vectors of two sets of targets, as `_compare` takes them."""
        return checked_pair(y_a, y_b, type(self).__name__)

    def _compare(
        self, a: npt.NDArray[Any], b: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float64]]:
        """Index of the level of each pair of checked vectors, and the levels."""
        if self.thresholds is None:
            raise ValueError("`thresholds` is None: call `fit` of DistanceAffinity with the training samples first.")
        distances = _distances(*_comparable(a, b))
        # The index of a level is the number of thresholds that are not below the distance. A distance equal to
        # a threshold must not be above it by the rounding of one block of distances.
        thresholds = np.sort(self.thresholds) * (1 + 1e-9)
        indices = len(thresholds) - np.searchsorted(thresholds, distances, side="left")
        return indices.astype(np.uint32), np.array([0.0, *self.levels])


#: largest error of an inner product of two vectors in float64, as a share of the product of their lengths
_ROUNDING = 1e-12


@dataclass(frozen=True)
class NeighborAffinity:
    """Level 1 for the nearest items of each query, 0 otherwise.

    Every query has the same number of relevant items, which thresholds of distances (:class:`DistanceAffinity`) do
    not give, and more if others are as near as the last of them, such as copies of it. It defines the true results of
    nearest-neighbor searches and, with ``fraction=0.02``, of the unlabeled data sets of Lin et al. (ECCV 2014). It is
    not symmetric, and depends on all items that are ranked. A query that is one of the items is a neighbor of itself.

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
        object.__setattr__(self, "n_neighbors", as_count_or_none(self.n_neighbors, "n_neighbors"))
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
        return self._compare(*self._checked(*both(as_targets, y_a, y_b)))[0]

    def _checked(self, y_a: Any, y_b: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Vectors of two sets of targets, as `_compare` takes them."""
        return checked_pair(y_a, y_b, type(self).__name__)

    def _compare(
        self, queries: npt.NDArray[Any], items: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Index of the level of each pair of checked vectors, and the levels."""
        n_relevant = self.n_neighbors if self.fraction is None else max(1, round(self.fraction * len(items)))
        k = min(int(n_relevant or 0), len(items))
        levels = np.zeros((len(queries), len(items)), dtype=np.uint8)
        if not levels.size:
            return levels, np.array([0, 1])
        queries, items = _comparable(queries, items, self.metric)  # all at once: a chunk may be one query
        largest = np.linalg.norm(items, axis=1).max()
        for batch in memory_chunks(len(queries), 24 * len(items)):
            distances = _distances(queries[batch], items, self.metric)
            last = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
            # copies of an item have equal distances, up to the rounding of matrix products
            lengths = np.linalg.norm(queries[batch], axis=1, keepdims=True), largest
            if self.metric == "euclidean":
                last = np.sqrt(np.square(last) + _ROUNDING * np.square(sum(lengths)))
            else:
                last = last + _ROUNDING * lengths[0] * lengths[1]
            levels[batch] = distances <= last
        return levels, np.array([0, 1])


def _comparable(
    queries: npt.NDArray[Any], items: npt.NDArray[Any], metric: str = "euclidean"
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Vectors as `_distances` takes them: centered for "euclidean", which loses digits far from the origin."""
    queries, items = (vectors.astype(np.float64, copy=False) for vectors in (queries, items))
    if metric == "euclidean":
        center = items.mean(axis=0)
        return queries - center, items - center
    if metric == "cosine":
        from sklearn.preprocessing import normalize

        return normalize(queries), normalize(items)
    return queries, items


def _distances(
    queries: npt.NDArray[np.float64], items: npt.NDArray[np.float64], metric: str = "euclidean"
) -> npt.NDArray[np.float64]:
    """Distances of all pairs; for "cosine" and "inner" minus the inner product."""
    if metric == "euclidean":
        from sklearn.metrics.pairwise import euclidean_distances

        return np.asarray(euclidean_distances(queries, items))
    return np.asarray(-(queries @ items.T))


def checked_pair(y_a: Any, y_b: Any, affinity: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Two sets of targets as real vectors with the same features; an error names the affinity."""
    a = checked_vectors(y_a, affinity)
    b = a if y_b is y_a else checked_vectors(y_b, affinity)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"`y_a` and `y_b` must have the same features. Got {a.shape[1]} and {b.shape[1]} instead.")
    return a, b


def checked_vectors(y: Any, affinity: str) -> npt.NDArray[Any]:
    """Targets as finite real vectors, shape (n, n_features); an error names the affinity."""
    if sparse.issparse(y):
        raise TypeError(
            f"`y` must hold dense vectors for {affinity}. Got a sparse array instead. Pass as y the vectors to "
            "compare, such as those of TruncatedSVD."
        )
    check_complete(y)
    y = numeric(y, "y")
    if y.ndim != 2 or not np.isfinite(y).all():
        raise ValueError(
            f"`y` must hold finite vectors, shape (n, n_features), for {affinity}. "
            f"Got shape {y.shape}{'' if np.isfinite(y).all() else ' with NaN or infinity'} instead."
        )
    return y  # type: ignore[no-any-return]
