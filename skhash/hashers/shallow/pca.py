"""PCA hashing: signs of the leading principal components (Wang, Kumar, Chang, CVPR 2010).

h_k(x) = sign(<v_k, x - mean>), v_k the k-th eigenvector of the covariance.
"""

from sklearn.utils import check_random_state

from skhash.hashers.shallow._linear import LinearHasher, principal_map


class PCAHasher(LinearHasher):
    """Signs of the leading principal components.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code; beyond the number of components a random orthonormal map
        expands them.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant; used by :meth:`score` only.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the expanding map, where one is needed.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training rows.
    projection_ : ndarray of shape (n_features, nbits)
        The principal directions.
    affinity_ : callable or None
        The fitted affinity, None when fit had no targets.
    database_codes_ : ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8
        Packed codes of the training rows.
    database_y_ : array of shape (n_samples, ...)
        Their targets.
    n_features_in_ : int
        Number of features of the training rows.

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

    def _learn(self, X, targets):
        return principal_map(X, self.nbits, check_random_state(self.random_state))
