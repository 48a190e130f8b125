"""Spherical hashing (Heo, Lee, He, Chang, Yoon, CVPR 2012).

A bit says whether a row lies inside a hypersphere of pivot p_k and radius t_k:

    h_k(x) = 1  if  d(p_k, x) <= t_k,  else 0.

With o_i the number of the n training rows inside sphere i and o_ij of those inside both
i and j, bits are balanced and pairwise independent where o_i = n / 2 and
o_ij = n / 4. By turns, the radii are set to give the former for the pivots as they are,
and the pivots repel (o_ij too large) or attract one another towards the latter:

    f_i<-j = 1/2 (o_ij - n / 4) / (n / 4) (p_i - p_j),    p_i <- p_i + 1/nbits sum_j f_i<-j,

until, over the pairs, mean |o_ij - n / 4| <= eps_m n / 4 and std o_ij <= eps_s n / 4.
"""

from numbers import Integral, Real

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from skhash._compat import Interval
from skhash.base import BaseHasher
from skhash.hashers.shallow._linear import feature_means

FIRST_ROWS = 5  # whose mean a pivot starts from: near the centre, where spheres overlap
FAR = 1e6  # times the extent of the rows: from there a sphere is a plane, and distances tell nothing apart


def balancing_radii(distances):
    """Find the radii with which every sphere holds half of the rows.

    Parameters
    ----------
    distances : ndarray of shape (n_samples, nbits)
        From rows to pivots; at least two rows.

    Returns
    -------
    ndarray of shape (nbits,)
        Radii, midway between the ``n_samples // 2`` nearest rows and the others: the
        medians, where `n_samples` is even.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.spherical import balancing_radii
    >>> balancing_radii(np.array([[1.0], [4.0], [2.0], [9.0]]))
    array([3.])
    """
    half = len(distances) // 2
    return np.partition(distances, (half - 1, half), axis=0)[half - 1 : half + 1].mean(axis=0)


def overlap_excess(X, pivots):
    """Compare the overlaps of balanced spheres with those of independent bits.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    pivots : ndarray of shape (nbits, n_features)
        Centres of the spheres.

    Returns
    -------
    ndarray of shape (nbits, nbits)
        ``o_ij / (n_samples / 4) - 1``, in [-1, 3]: 0 where two bits are independent.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.spherical import overlap_excess
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> overlap_excess(X, np.array([[-9.0, 0.5], [0.5, -9.0]]))  # left half and lower half
    array([[1., 0.],
           [0., 1.]])
    """
    distances = euclidean_distances(X, pivots)
    inside = (distances <= balancing_radii(distances)).astype(np.float64)
    return inside.T @ inside / (len(X) / 4) - 1


def spread_pivots(X, pivots, eps_m, eps_s, max_iter):
    """Move pivots until balanced spheres overlap as those of independent bits.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Centred rows.
    pivots : ndarray of shape (nbits, n_features)
        Where to start.
    eps_m, eps_s : float
        Tolerances of the mean deviation and of the standard deviation of the overlaps.
    max_iter : int
        Number of turns at most.

    Returns
    -------
    pivots : ndarray of shape (nbits, n_features)
        The first ones within the tolerances, else those that came nearest to them.
    n_iter : int
        Number of turns, in [1, max_iter].

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.spherical import overlap_excess, spread_pivots
    >>> X = np.random.RandomState(0).standard_normal((400, 8))
    >>> pivots, n_iter = spread_pivots(X, X[:6] / 10, 0.1, 0.15, 100)
    >>> bool(np.abs(overlap_excess(X, pivots)[np.triu_indices(6, k=1)]).mean() <= 0.1)
    True
    """
    nbits = len(pivots)
    pairs = np.triu_indices(nbits, k=1)
    nearest, least = pivots, np.inf
    for n_iter in range(1, max_iter + 1):
        excess = overlap_excess(X, pivots)
        # a single sphere has no pair, and nowhere to go
        miss = max(np.abs(excess[pairs]).mean() / eps_m, excess[pairs].std() / eps_s) if nbits > 1 else 0.0
        if miss < least:
            nearest, least = pivots, miss
        # many equal rows let pivots fly off
        if miss <= 1 or n_iter == max_iter or np.abs(pivots).max() > FAR * np.abs(X).max():
            break
        pivots = pivots + (excess.sum(axis=1, keepdims=True) * pivots - excess @ pivots) / (2 * nbits)
    return nearest, n_iter


class SphericalHasher(BaseHasher):
    """Inside or outside of hyperspheres, which hold half of the rows and overlap by a quarter.

    The library's metrics and searches rank by the plain Hamming distance of the codes.
    The paper's own spherical Hamming distance, ``|b xor b'| / |b and b'|``, which counts a
    row as near where both lie inside of many spheres, is not used.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code, the number of spheres; it may exceed the number of rows or features.
    eps_m : float, default=0.1
        Mean deviation of the overlaps from n / 4 that is tolerated, in units of n / 4.
    eps_s : float, default=0.15
        Standard deviation of the overlaps that is tolerated, in units of n / 4.
    max_iter : int, default=200
        Moves of the pivots at most; a few dozen are usual. In few dimensions, or with many
        equal rows, the tolerances may be out of reach: what came nearest is kept.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant; used by :meth:`score` only.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the rows that the pivots start from.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training rows.
    pivots_ : ndarray of shape (nbits, n_features)
        Centres of the spheres, relative to the mean.
    radii_ : ndarray of shape (nbits,)
        Their radii.
    n_iter_ : int
        Turns of the optimisation, in [1, max_iter].
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
    Heo, Lee, He, Chang, Yoon: Spherical hashing. CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SphericalHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> round(SphericalHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]), 1)
    0.4
    """

    _dtypes = [np.float64]  # pivots may move so far out that float32 no longer tells distances apart
    _parameter_constraints = BaseHasher._parameter_constraints | {
        "eps_m": [Interval(Real, 0, None, closed="neither")],
        "eps_s": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        nbits=32,
        *,
        eps_m=0.1,
        eps_s=0.15,
        max_iter=200,
        affinity="auto",
        store_database=True,
        random_state=None,
    ):
        self.nbits = nbits
        self.eps_m = eps_m
        self.eps_s = eps_s
        self.max_iter = max_iter
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _fit(self, X, targets):
        self.mean_ = feature_means(X)
        centred = X - self.mean_
        first = check_random_state(self.random_state).randint(len(X), size=(self.nbits, FIRST_ROWS))
        self.pivots_, self.n_iter_ = spread_pivots(
            centred, centred[first].mean(axis=1), self.eps_m, self.eps_s, self.max_iter
        )
        radii = balancing_radii(euclidean_distances(centred, self.pivots_))
        # a little more, so that rows equal to the one at the border are inside however their distances are rounded
        self.radii_ = radii + 1e-8 * radii.max()

    def _project(self, X):
        return self.radii_ - euclidean_distances(X - self.mean_, self.pivots_)
