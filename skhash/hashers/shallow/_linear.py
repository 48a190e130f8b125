"""Hashers of one linear map, and the maps that they start from."""

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from sklearn.decomposition import PCA

from skhash.base import BaseHasher


class LinearHasher(BaseHasher):
    """A hasher whose activations are ``(x - mean_) @ projection_``.

    A subclass learns `projection_` of shape (n_features, nbits) in `_learn(X, targets)`,
    from the centred rows and the targets of fit.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        For subclasses that draw.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._linear import LinearHasher
    >>> class FirstFeatures(LinearHasher):
    ...     def _learn(self, X, targets):
    ...         return np.eye(X.shape[1], self.nbits)
    >>> FirstFeatures(1).fit_transform(np.array([[0.0, 5.0], [2.0, 1.0]]))
    array([[0],
           [1]], dtype=uint8)
    """

    _parameter_constraints = BaseHasher._parameter_constraints | {"random_state": ["random_state"]}

    def __init__(self, nbits=32, *, affinity="auto", store_database=True, random_state=None):
        self.nbits = nbits
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _fit(self, X, targets):
        self.mean_ = feature_means(X)
        self.projection_ = self._learn(X - self.mean_, targets).astype(X.dtype, copy=False)

    def _project(self, X):
        return (X - self.mean_) @ self.projection_


def feature_means(X):
    """Average rows, in double precision whatever theirs is.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64
        Rows.

    Returns
    -------
    ndarray of shape (n_features,), dtype as `X`
        Their mean.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._linear import feature_means
    >>> feature_means(np.array([[0.0, 1.0], [1.0, 4.0]]))
    array([0.5, 2.5])
    """
    return X.mean(axis=0, dtype=np.float64).astype(X.dtype)


def orthonormal_map(n_inputs, n_outputs, rng):
    """Draw a random linear map with orthonormal columns, or rows if it expands.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Its shape.
    rng : numpy.random.RandomState
        Source of the draw.

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
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # uniform over the orthonormal frames
    return q if n_inputs >= n_outputs else q.T


def principal_map(X, nbits, rng):
    """Map centred rows to their leading principal components.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Centred rows.
    nbits : int
        Number of outputs; beyond the number of components these are expanded by a
        random orthonormal map.
    rng : numpy.random.RandomState
        Source of that map.

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
    n_components = min(nbits, *X.shape)
    tall = X.shape[0] >= X.shape[1] >= 100
    pca = PCA(n_components, svd_solver="covariance_eigh" if tall else "full")
    with np.errstate(invalid="ignore"):  # constant rows have no variance to explain
        components = pca.fit(X).components_.T
    return components if n_components == nbits else components @ orthonormal_map(n_components, nbits, rng)


def ridged_cholesky(X, ridge):
    """Factor the moments of rows, so that all directions count where rows are few or features constant.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Centred rows.
    ridge : float
        Penalty in mean squares of the columns; > 0.

    Returns
    -------
    ndarray of shape (n_features, n_features), float64
        Lower triangular L with L L' = X'X + r I, where r is `ridge` times the mean of the
        diagonal of X'X, or 1 for rows of zeros.

    Raises
    ------
    ValueError
        If `ridge` is lost in rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._linear import ridged_cholesky
    >>> L = ridged_cholesky(np.array([[2.0, 0.0], [-2.0, 0.0]]), 0.25)
    >>> L @ L.T
    array([[9., 0.],
           [0., 1.]])
    """
    gram = X.T @ X
    penalty = ridge * np.trace(gram) / len(gram) or 1.0
    try:
        return cholesky(gram + penalty * np.eye(len(gram)), lower=True)
    except LinAlgError:
        raise ValueError(f"ridge={ridge} is lost in rounding for these rows; 1e-9 or more is wanted.") from None
