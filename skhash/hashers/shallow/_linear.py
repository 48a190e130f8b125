"""Base class of hashers with a linear map, and the maps that they start from."""

from abc import abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky
from scipy.sparse import issparse

from skhash._validation.schema import Array
from skhash._validation.values import far_offset
from skhash.base import BaseHasher

#: samples that are centered at a time, so that they are in the cache when they are multiplied. Kernels of BLAS
#: multiply 4, 6, 8, 12 or 16 of them at a time, so parts of this length are rounded as all samples together
N_CENTERED = 768
N_MAX_PRODUCTS = 2**16  # of a feature and a weight: more take longer than to limit the threads of BLAS


class LinearHasher(BaseHasher):
    """Base class of hashers with the activations ``(x - mean_) @ projection_``.

    A subclass returns `projection_`, of shape (n_features, nbits), from `_learn(X, targets)`,
    where `X` holds the centered training samples.

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
    ...     def _learn(self, X: npt.NDArray[Any], targets: Any) -> npt.NDArray[Any]:
    ...         return np.eye(X.shape[1], self.nbits)
    >>> FirstFeatures(1).fit_transform(np.array([[0.0, 5.0], [2.0, 1.0]]))
    array([[0],
           [1]], dtype=uint8)
    """

    _parameter_constraints = BaseHasher._parameter_constraints | {"random_state": ["random_state"]}

    mean_: Annotated[npt.NDArray[Any], Array("n_features")]
    projection_: Annotated[npt.NDArray[Any], Array("n_features nbits")]

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

    def _fit(self, X: npt.NDArray[Any], targets: Any) -> None:
        centered, self.mean_ = center(X)
        self.projection_ = self._learn(centered, targets).astype(X.dtype, copy=False)

    @abstractmethod
    def _learn(self, X: npt.NDArray[Any], targets: Any) -> npt.NDArray[Any]:
        """Map of centered samples, of shape (n_features, nbits)."""

    def _project(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        dtype = np.result_type(X, self.mean_, self.projection_)
        activations = np.empty((X.shape[0], self.projection_.shape[1]), dtype=dtype)
        starts = range(0, max(1, X.shape[0] - N_CENTERED + 1), N_CENTERED)  # the last part has no fewer samples
        for start, stop in pairwise([*starts, X.shape[0]]):
            np.matmul(X[start:stop] - self.mean_, self.projection_, out=activations[start:stop])
        return activations

    def _project_few(self, X: Any) -> npt.NDArray[Any] | None:
        if issparse(X) or X.shape[0] * self.projection_.size > N_MAX_PRODUCTS:
            return None
        activations: npt.NDArray[Any] = np.einsum("ij,jk->ik", X - self.mean_, self.projection_)
        return activations


def feature_means(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Mean of each feature, summed in double precision.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64
        Samples.

    Returns
    -------
    ndarray of shape (n_features,), dtype as `X`
        Means.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._linear import feature_means
    >>> feature_means(np.array([[0.0, 1.0], [1.0, 4.0]]))
    array([0.5, 2.5])
    """
    return X.mean(axis=0, dtype=np.float64).astype(X.dtype)


def center(X: npt.NDArray[Any], dtype: Any = None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Samples minus their mean, without loss of digits where features are far from 0.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64
        Samples.
    dtype : dtype, default=None
        Dtype of the centered samples, at least as precise as that of `X`; None uses that of `X`.

    Returns
    -------
    centered : ndarray of shape (n_samples, n_features), of `dtype`
        Centered samples.
    mean : ndarray of shape (n_features,)
        Mean of each feature, of `dtype`; float64 if a feature is far from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._linear import center
    >>> center(np.array([[1e15, 1.0], [1e15 + 1, 4.0]]))[0]
    array([[-0.5, -1.5],
           [ 0.5,  1.5]])
    """
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


def orthonormal_map(n_inputs: int, n_outputs: int, rng: np.random.RandomState) -> npt.NDArray[np.float64]:
    """Random linear map with orthonormal columns, or with orthonormal rows if n_outputs > n_inputs.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Shape of the map.
    rng : numpy.random.RandomState
        Random number generator.

    Returns
    -------
    ndarray of shape (n_inputs, n_outputs), float64
        The map.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._linear import orthonormal_map
    >>> Q = orthonormal_map(3, 2, np.random.RandomState(0))
    >>> np.allclose(Q.T @ Q, np.eye(2))
    True
    """
    wide = max(n_inputs, n_outputs)
    q, r = np.linalg.qr(rng.standard_normal((wide, min(n_inputs, n_outputs))))
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # uniform over all such maps
    return q if n_inputs >= n_outputs else q.T


def principal_map(X: npt.NDArray[Any], nbits: int, rng: np.random.RandomState | None) -> npt.NDArray[Any]:
    """Map of centered samples to their leading principal components.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Centered samples.
    nbits : int
        Number of outputs. If there are fewer components, a random orthonormal map expands them.
    rng : numpy.random.RandomState or None
        Draws that map. None if there are enough components.

    Returns
    -------
    ndarray of shape (n_features, nbits), float64
        The map.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._linear import principal_map
    >>> X = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> np.abs(principal_map(X, 1, np.random.RandomState(0))).round(6).ravel()
    array([1., 0.])
    """
    from sklearn.decomposition import PCA  # slow to import, and `load` does without

    n_components = min(nbits, *X.shape)
    tall = X.shape[0] >= X.shape[1] >= 100
    pca = PCA(n_components, svd_solver="covariance_eigh" if tall else "full")
    with np.errstate(invalid="ignore"):  # equal samples have no variance to explain
        components = pca.fit(X).components_.T
    if n_components < nbits:
        assert rng is not None
        components = components @ orthonormal_map(n_components, nbits, rng)
    return components


def ridged_cholesky(gram: npt.NDArray[np.float64], ridge: float) -> npt.NDArray[np.float64]:
    """Cholesky factor of X'X plus a ridge, which exists even for few samples or constant features.

    Parameters
    ----------
    gram : ndarray of shape (n_features, n_features), float64
        X'X, where X are centered samples.
    ridge : float
        Penalty in units of the mean square of the features, > 0.

    Returns
    -------
    ndarray of shape (n_features, n_features), float64
        Lower triangular L with L L' = X'X + r I, where r is `ridge` times the mean of the
        diagonal of X'X, or 1 if X is zero.

    Raises
    ------
    ValueError
        If `ridge` is lost in rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._linear import ridged_cholesky
    >>> L = ridged_cholesky(np.array([[8.0, 0.0], [0.0, 0.0]]), 0.25)
    >>> L @ L.T
    array([[9., 0.],
           [0., 1.]])
    """
    penalty = ridge * np.trace(gram) / len(gram) or 1.0
    try:
        return cholesky(gram + penalty * np.eye(len(gram)), lower=True)
    except LinAlgError:
        raise ValueError(
            f"`ridge` must be large enough not to be lost in rounding. Got {ridge} instead; use 1e-9 or more."
        ) from None
