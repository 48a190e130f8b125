"""Vectors that affinities compare, and their distances."""

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._validation.numeric import numeric
from skhash.affinity._targets import as_targets, check_complete


def checked_vectors(y: npt.ArrayLike, affinity: str) -> npt.NDArray[np.float64]:
    """Targets as finite float64 vectors, shape (n, n_features); an error names the affinity."""
    if sparse.issparse(y):
        raise TypeError(
            f"`y` must hold dense vectors for {affinity}. Got a sparse array instead. Pass as y the vectors to "
            "compare, such as those of TruncatedSVD."
        )
    y = as_targets(y)
    check_complete(y)
    y = numeric(y, "y").astype(np.float64, copy=False)
    if y.ndim != 2 or not np.isfinite(y).all():
        raise ValueError(
            f"`y` must hold finite vectors, shape (n, n_features), for {affinity}. "
            f"Got shape {y.shape}{'' if np.isfinite(y).all() else ' with NaN or infinity'} instead."
        )
    return y


def centered(
    a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Both minus the mean of `b`, since |a|^2 + |b|^2 - 2 a.b loses the digits of vectors far from the origin."""
    center = b.mean(axis=0)
    return a - center, b - center


def euclidean(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Euclidean distances of all pairs."""
    from sklearn.metrics.pairwise import euclidean_distances

    return np.asarray(euclidean_distances(*centered(a, b)))
