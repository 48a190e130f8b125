"""LSH for cosine similarity: signs of random projections (Charikar, STOC 2002).

h_k(x) = sign(<w_k, x - mean>), w_k ~ N(0, I); two rows agree on a bit with
probability 1 - angle / pi.
"""

from sklearn.utils import check_random_state

from skhash.hashers.shallow._linear import LinearHasher


class LSHHasher(LinearHasher):
    """Signs of random projections of the centred rows; learns nothing but the mean.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant; used by :meth:`score` only.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the projections.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training rows.
    projection_ : ndarray of shape (n_features, nbits)
        The random directions.
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
    Charikar: Similarity estimation techniques from rounding algorithms. STOC 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import LSHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> LSHHasher(nbits=12, random_state=0).fit(X).transform(X[:1])
    array([[1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0]], dtype=uint8)
    """

    def _learn(self, X, targets):
        return check_random_state(self.random_state).standard_normal((X.shape[1], self.nbits))
