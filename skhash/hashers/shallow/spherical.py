"""Spherical hashing (Heo, Lee, He, Chang, Yoon, CVPR 2012).

A bit says whether a sample lies inside a hypersphere of pivot p_k and radius t_k:

    h_k(x) = 1  if  d(p_k, x) <= t_k,  else 0.

With o_i the number of the n training samples inside sphere i and o_ij of those inside both
i and j, bits are balanced and pairwise independent if o_i = n / 2 and o_ij = n / 4.
Alternately, the radii are set so that o_i = n / 2 for fixed pivots, and pivots repel each other
(o_ij too large) or attract each other (too small):

    f_i<-j = 1/2 (o_ij - n / 4) / (n / 4) (p_i - p_j),    p_i <- p_i + 1/nbits sum_j f_i<-j,

until, over the pairs, mean |o_ij - n / 4| <= eps_m n / 4 and std o_ij <= eps_s n / 4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import euclidean_distances

from skhash._compat import Interval
from skhash._validation import Array
from skhash.base import BaseHasher, from_function
from skhash.functions import ArrayFunction
from skhash.hashers.shallow.linear import center

_N_START = 5  # number of samples whose mean is a first pivot, near the center, where spheres overlap
_FAR = 1e6  # distance, in units of the extent of the samples, at which spheres are planes up to rounding


def _balancing_radii(distances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Radii (nbits,) with which every sphere holds half of the samples."""
    half = len(distances) // 2
    radii: npt.NDArray[np.float64] = np.partition(distances, (half - 1, half), axis=0)[half - 1 : half + 1].mean(axis=0)
    return radii


def _overlap_excess(X: npt.NDArray[np.float64], pivots: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``o_ij / (n_samples / 4) - 1`` of balanced spheres, in [-1, 3]: 0 where two bits are independent."""
    distances = euclidean_distances(X, pivots)
    inside = (distances <= _balancing_radii(distances)).astype(np.float64)
    excess: npt.NDArray[np.float64] = inside.T @ inside / (len(X) / 4) - 1
    return excess


def _spread_pivots(
    X: npt.NDArray[np.float64], pivots: npt.NDArray[np.float64], tol_mean: float, tol_std: float, max_iter: int
) -> tuple[npt.NDArray[np.float64], int]:
    """Pivots (nbits, n_features) whose balanced spheres overlap like independent bits, and the number of iterations."""
    nbits = len(pivots)
    pairs = np.triu_indices(nbits, k=1)
    nearest, least, extent = pivots, np.inf, max(X.max(), -X.min())
    for n_iter in range(1, max_iter + 1):
        excess = _overlap_excess(X, pivots)
        # relative to the tolerances; a single sphere has no pair
        miss = max(np.abs(excess[pairs]).mean() / tol_mean, excess[pairs].std() / tol_std) if nbits > 1 else 0.0
        if miss < least:
            nearest, least = pivots, miss
        # with many equal samples, pivots can move away forever
        if miss <= 1 or n_iter == max_iter or np.abs(pivots).max() > _FAR * extent:
            break
        pivots = pivots + (excess.sum(axis=1, keepdims=True) * pivots - excess @ pivots) / (2 * nbits)
    return nearest, n_iter


@dataclass(frozen=True, eq=False, repr=False)
class SphericalFunction(ArrayFunction):
    """Distances to the surfaces of spheres, positive inside."""

    mean: Annotated[npt.NDArray[Any], Array("n_features")]
    pivots: Annotated[npt.NDArray[Any], Array("nbits n_features")]
    radii: Annotated[npt.NDArray[Any], Array("nbits")]

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return len(self.radii)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (len(self.mean),)

    def activations(self, X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Activations of samples, see :meth:`~skhash.functions.HashFunction.activations`."""
        activations: npt.NDArray[np.float64] = self.radii - euclidean_distances(X - self.mean, self.pivots)
        return activations


class SphericalHasher(BaseHasher):
    """Bits by hyperspheres that hold half of the samples each and overlap by a quarter.

    The library's metrics and searches rank by the plain Hamming distance of the codes.
    The paper's own spherical Hamming distance, ``|b xor b'| / |b and b'|``, is not used.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits and of spheres. It may exceed the number of samples or features.
    tol_mean : float, default=0.1
        Tolerance eps_m of the mean deviation of the overlaps from n / 4, in units of n / 4.
    tol_std : float, default=0.15
        Tolerance eps_s of the standard deviation of the overlaps, in units of n / 4.
    max_iter : int, default=200
        Maximum number of iterations; a few dozen are usual. In few dimensions, or with many equal
        samples, the tolerances may be out of reach, and the nearest pivots to them are used.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant. Only :meth:`score` uses it.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the samples of the first pivots.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    pivots_ : ndarray of shape (nbits, n_features)
        Centers of the spheres, relative to the mean.
    radii_ : ndarray of shape (nbits,)
        Radii of the spheres.
    n_iter_ : int
        Number of iterations.
    affinity_ : callable or None
        The fitted affinity, None if `fit` had no targets.
    function_ : HashFunction
        What was learned, see :mod:`skhash.functions`.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
    n_features_in_ : int
        Number of features seen during `fit`.

    References
    ----------
    Heo, Lee, He, Chang, Yoon: Spherical hashing. CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SphericalHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = SphericalHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> round(hasher.score(X[1000:], y[1000:]), 1)
    0.4
    """

    _parameter_constraints = BaseHasher._parameter_constraints | {
        "tol_mean": [Interval(Real, 0, None, closed="neither")],
        "tol_std": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    mean_ = from_function("mean")
    pivots_ = from_function("pivots")
    radii_ = from_function("radii")
    n_iter_: int

    def __init__(
        self,
        nbits: int = 32,
        *,
        tol_mean: float = 0.1,
        tol_std: float = 0.15,
        max_iter: int = 200,
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.nbits = nbits
        self.tol_mean = tol_mean
        self.tol_std = tol_std
        self.max_iter = max_iter
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _learn(self, X: npt.NDArray[Any], relevance: Any, rng: np.random.RandomState) -> SphericalFunction:
        # in float64, since pivots may be so far that distances in float32 are equal
        X, mean = center(X, np.float64)
        start = X[rng.randint(len(X), size=(self.nbits, _N_START))].mean(axis=1)
        pivots, self.n_iter_ = _spread_pivots(X, start, self.tol_mean, self.tol_std, self.max_iter)
        radii = _balancing_radii(euclidean_distances(X, pivots))
        # slightly larger, so that samples on the sphere are inside despite rounding
        return SphericalFunction(mean, pivots, radii + 1e-8 * radii.max())
