"""Base class of hashers with a linear map, and the maps that they start from."""

from abc import abstractmethod
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky, orthogonal_procrustes
from scipy.sparse import issparse

from skhash._validation import evenly_spaced, far_offset
from skhash.base import BaseHasher, from_function
from skhash.codes import binarize, signs
from skhash.functions import LinearFunction


class LinearHasher(BaseHasher):
    """Base class of hashers with the activations ``(x - mean_) @ projection_``.

    A subclass returns the map, of shape (n_features, nbits), from `_learn_map(X, relevance, rng)`, where `X` holds the
    centered training samples and `rng` is a RandomState. `relevance` is None unless the class sets `_supervised` to
    True. For a map with thresholds, override `_learn` as well, and replace the `intercept` of the function that
    ``super()._learn`` returns.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Random number generator of subclasses that use one.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow import LinearHasher
    >>> class FirstFeatures(LinearHasher):
    ...     def _learn_map(self, X, relevance, rng):
    ...         return np.eye(X.shape[1], self.nbits)
    >>> FirstFeatures(1).fit_transform(np.array([[0.0, 5.0], [2.0, 1.0]]))
    array([[0],
           [1]], dtype=uint8)
    """

    _parameter_constraints = BaseHasher._parameter_constraints | {"random_state": ["random_state"]}

    mean_ = from_function("mean")
    scale_ = from_function("spread")
    projection_ = from_function("projection")

    def __init__(
        self,
        nbits: int = 32,
        *,
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.nbits = nbits
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _learn(self, X: npt.NDArray[Any], relevance: Any, rng: np.random.RandomState) -> LinearFunction:
        centered, mean = center(X)
        scale = spread(centered)  # before a subclass may change the samples
        projection = self._learn_map(centered, relevance, rng)
        return LinearFunction(mean, np.asfortranarray(projection, X.dtype), spread=scale)

    @abstractmethod
    def _learn_map(self, X: npt.NDArray[Any], relevance: Any, rng: np.random.RandomState) -> npt.NDArray[Any]:
        """Map of centered samples, of shape (n_features, nbits)."""


def center(X: npt.NDArray[Any], dtype: Any = None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Samples minus their mean, and the mean, in float64 if features are far from 0, so that no digits are lost."""
    dtype = dtype or X.dtype
    mean = X.mean(axis=0, dtype=np.float64).astype(dtype)
    centered = X - mean
    offset = far_offset(mean, float(np.linalg.norm(centered)) / np.sqrt(X.size))
    if offset is not None:
        centered = X - offset.astype(dtype)
        rest = centered.mean(axis=0, dtype=np.float64)
        centered -= rest.astype(dtype)
        mean = offset + rest
    return centered, mean


def spread(X: Any) -> npt.NDArray[np.float64]:
    """Standard deviation of each feature in 1,000 samples, for a check of :func:`skhash.onnx.to_onnx`."""
    samples = X[evenly_spaced(X.shape[0], 1000)].astype(np.float64)
    if not issparse(samples):
        return np.asarray(samples.std(axis=0))
    means, squares = (np.asarray(values.mean(axis=0)).ravel() for values in (samples, samples.multiply(samples)))
    return np.sqrt(np.maximum(squares - means**2, 0.0))


def orthonormal_map(n_inputs: int, n_outputs: int, rng: np.random.RandomState) -> npt.NDArray[np.float64]:
    """Random map (n_inputs, n_outputs) with orthonormal columns, or rows if n_outputs > n_inputs."""
    wide = max(n_inputs, n_outputs)
    q, r = np.linalg.qr(rng.standard_normal((wide, min(n_inputs, n_outputs))))
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # uniform over all such maps
    return q if n_inputs >= n_outputs else q.T


def principal_map(X: npt.NDArray[Any], nbits: int, rng: np.random.RandomState | None) -> npt.NDArray[Any]:
    """Map (n_features, nbits) to the leading principal components; a random map from `rng` expands too few."""
    from sklearn.decomposition import PCA  # slow to import, and not needed by `load`

    n_components = min(nbits, *X.shape)
    tall = X.shape[0] >= X.shape[1] >= 100
    pca = PCA(n_components, svd_solver="covariance_eigh" if tall else "full")
    with np.errstate(invalid="ignore"):  # equal samples have no variance to explain
        components = pca.fit(X).components_.T
    if n_components < nbits:
        assert rng is not None
        components = components @ orthonormal_map(n_components, nbits, rng)
    return components


def quantizing_rotation(
    V: npt.NDArray[np.floating], n_iter: int, rng: np.random.RandomState, n_max: int | None = None
) -> npt.NDArray[np.float64]:
    """Rotation (nbits, nbits) that brings centered samples V (n_samples, nbits) near the corners of the cube.

    An iteration uses at most `n_max` random samples, and the next iterations use others in turn.
    """
    rotation = orthonormal_map(V.shape[1], V.shape[1], rng)
    n_parts = 1 if n_max is None else -(-len(V) // n_max)
    parts: list[Any] = [slice(None)] if n_parts == 1 else np.array_split(rng.permutation(len(V)), n_parts)
    for part in islice(cycle(parts), n_iter):
        some = V[part]
        corners = signs(binarize(some @ rotation))
        rotation = orthogonal_procrustes(some, corners)[0]
    return rotation


def scaled_itq_map(
    centered: npt.NDArray[np.float64], nbits: int, rng: np.random.RandomState
) -> npt.NDArray[np.float64]:
    """Map (n_features, nbits) of centered samples by ITQ, scaled to activations with mean square 1."""
    weight = principal_map(centered, nbits, rng)
    weight = weight @ quantizing_rotation(centered @ weight, 50, rng)
    return weight / max(float(np.sqrt(np.mean((centered @ weight) ** 2))), 1e-12)


def ridged_cholesky(gram: npt.NDArray[np.float64], ridge: float) -> npt.NDArray[np.float64]:
    """Lower triangular L with L L' = X'X + r I, where r is `ridge` times the mean of the diagonal of X'X, or 1."""
    penalty = ridge * np.trace(gram) / len(gram) or 1.0
    try:
        return cholesky(gram + penalty * np.eye(len(gram)), lower=True)
    except LinAlgError:
        raise ValueError(
            f"`ridge` must be large enough not to be lost in rounding. Got {ridge} instead; use 1e-9 or more."
        ) from None
