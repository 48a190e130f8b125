"""ITQ, iterative quantization (Gong, Lazebnik, CVPR 2011).

With V the principal components of the centred rows, minimise over binary B and
rotations R the quantisation error

    |B - V R|_F^2

by turns: B = sign(V R) for a fixed R; for a fixed B, R = U W^T where
U S W^T is the singular value decomposition of V^T B (orthogonal Procrustes).
"""

from numbers import Integral

from scipy.linalg import orthogonal_procrustes
from sklearn.utils import check_random_state

from skhash._compat import Interval
from skhash.codes import binarize, signs
from skhash.hashers.shallow._linear import LinearHasher, orthonormal_map, principal_map


def quantizing_rotation(V, n_iter, rng):
    """Find the rotation that brings rows nearest to the corners of the cube.

    Parameters
    ----------
    V : ndarray of shape (n_samples, nbits)
        Centred rows.
    n_iter : int
        Number of turns.
    rng : numpy.random.RandomState
        Draws the first rotation.

    Returns
    -------
    ndarray of shape (nbits, nbits), float64
        The rotation R.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.itq import quantizing_rotation
    >>> V = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    >>> np.abs(V @ quantizing_rotation(V, 50, np.random.RandomState(0))).round(3)[0]
    array([0.707, 0.707])
    """
    rotation = orthonormal_map(V.shape[1], V.shape[1], rng)
    for _ in range(n_iter):
        corners = signs(binarize(V @ rotation))
        rotation = orthogonal_procrustes(V, corners)[0]
    return rotation


class ITQHasher(LinearHasher):
    """Principal components, rotated to lose least by taking signs.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code; beyond the number of components a random orthonormal map
        expands them.
    n_iter : int, default=50
        Turns of the minimisation.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant; used by :meth:`score` only.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the first rotation.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training rows.
    projection_ : ndarray of shape (n_features, nbits)
        Principal directions times the rotation.
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
    Gong, Lazebnik: Iterative quantization: a procrustean approach to learning binary
    codes. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> round(ITQHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]), 2)
    0.6
    """

    _parameter_constraints = LinearHasher._parameter_constraints | {
        "n_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, nbits=32, *, n_iter=50, affinity="auto", store_database=True, random_state=None):
        super().__init__(nbits, affinity=affinity, store_database=store_database, random_state=random_state)
        self.n_iter = n_iter

    def _learn(self, X, targets):
        rng = check_random_state(self.random_state)
        directions = principal_map(X, self.nbits, rng)
        return directions @ quantizing_rotation(X @ directions, self.n_iter, rng)
