"""ITQ, iterative quantization (Gong, Lazebnik, CVPR 2011).

With V the principal components of the centered samples, minimize over binary B and
rotations R the quantization error

    |B - V R|_F^2

alternately: B = sign(V R) for a fixed R; for a fixed B, R = U W^T where
U S W^T is the singular value decomposition of V^T B (orthogonal Procrustes).
"""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._compat import Interval
from skhash.hashers.shallow.linear import LinearHasher, principal_map, quantizing_rotation

N_MAX_SAMPLES = 10_000  # of an iteration; the rotation of more of them is no better


class ITQHasher(LinearHasher):
    """Signs of principal components after a rotation with the least quantization error.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits. If there are fewer components, a random orthonormal map expands them.
    n_iter : int, default=50
        Number of iterations.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant. Only :meth:`score` uses it.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the first rotation, and the samples of each iteration.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    scale_ : ndarray of shape (n_features,)
        Standard deviation of each feature in a thousand training samples.
    projection_ : ndarray of shape (n_features, nbits)
        Principal directions times the rotation.
    affinity_ : callable or None
        The fitted affinity, None if `fit` had no targets.
    function_ : LinearFunction
        What was learned, see :mod:`skhash.functions`.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
    n_features_in_ : int
        Number of features seen during `fit`.

    Notes
    -----
    The principal components are those of all training samples. An iteration uses at most 10,000 random samples, and the
    next iterations use others in turn.

    References
    ----------
    Gong, Lazebnik: Iterative quantization: a procrustean approach to learning binary
    codes. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = ITQHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> round(hasher.score(X[1000:], y[1000:]), 2)
    0.6
    """

    _parameter_constraints = LinearHasher._parameter_constraints | {
        "n_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        nbits: int = 32,
        *,
        n_iter: int = 50,
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(nbits, affinity=affinity, store_database=store_database, random_state=random_state)
        self.n_iter = n_iter

    def _learn_map(self, X: npt.NDArray[Any], relevance: Any, rng: np.random.RandomState) -> npt.NDArray[Any]:
        directions = principal_map(X, self.nbits, rng)
        return directions @ quantizing_rotation(X @ directions, self.n_iter, rng, N_MAX_SAMPLES)
