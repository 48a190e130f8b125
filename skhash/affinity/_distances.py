"""Affinity of vectors by their distances."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from skhash._validation.numeric import is_count, numeric
from skhash.affinity._vectors import checked_vectors, euclidean


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
        if not is_count(self.max_samples) or self.max_samples < 2:
            raise ValueError(f"`max_samples` must be an int >= 2. Got {self.max_samples!r} instead.")
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
        vectors = checked_vectors(y, type(self).__name__)
        if len(vectors) < 2:
            raise ValueError(f"`y` must have at least 2 samples for DistanceAffinity. Got {len(vectors)} instead.")
        vectors = vectors[:: -(-len(vectors) // self.max_samples)]
        pairs = np.triu(np.ones((len(vectors), len(vectors)), dtype=bool), k=1)
        return replace(self, thresholds=np.percentile(euclidean(vectors, vectors)[pairs], self.percentiles))

    def possible_levels(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Levels that can occur, ascending: 0 and the given ones."""
        return np.array([0.0, *self.levels])

    def __call__(self, y_a: npt.ArrayLike, y_b: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Levels of all pairs, shape (len a, len b)."""
        if self.thresholds is None:
            raise ValueError("`thresholds` is None: call `fit` of DistanceAffinity with the training samples first.")
        distances = euclidean(*(checked_vectors(y, type(self).__name__) for y in (y_a, y_b)))
        # The index of a level is the number of thresholds that are not below the distance. A distance equal to
        # a threshold must not be above it by the rounding of one block of distances.
        thresholds = np.sort(self.thresholds) * (1 + 1e-9)
        index = len(thresholds) - np.searchsorted(thresholds, distances, side="left")
        levels = self.possible_levels(y_a, y_b)
        return levels[index]
