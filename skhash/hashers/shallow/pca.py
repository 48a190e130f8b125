"""PCA hashing: signs of the leading principal components (Wang, Kumar, Chang, CVPR 2010).

h_k(x) = sign(<v_k, x - mean>), v_k the k-th eigenvector of the covariance.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.hashers.shallow.linear import LinearHasher, principal_map


class PCAHasher(LinearHasher):
    """Signs of the leading principal components.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits. If there are fewer components, a random orthonormal map expands them.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant. Only :meth:`score` uses it.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws that map.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    scale_ : ndarray of shape (n_features,)
        Standard deviation of each feature in a thousand training samples.
    projection_ : ndarray of shape (n_features, nbits)
        The principal directions.
    affinity_ : callable or None
        The fitted affinity, None if `fit` had no targets.
    function_ : LinearFunction
        What was learned, see :mod:`skhash.functions`.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
    n_features_in_ : int
        Number of features seen during `fit`.

    References
    ----------
    Wang, Kumar, Chang: Semi-supervised hashing for scalable image retrieval. CVPR 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import PCAHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> round(PCAHasher(nbits=16).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]), 2)
    0.36
    """

    def _learn_map(self, X: npt.NDArray[Any], relevance: Any, rng: np.random.RandomState) -> npt.NDArray[Any]:
        return principal_map(X, self.nbits, rng)

    def _prefix_is_as_good(self, n_samples: int) -> bool:
        return self._n_features_out <= min(self.n_features_in_, n_samples)  # else a random map mixes the components
