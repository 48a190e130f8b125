"""CCA-ITQ, iterative quantization of canonical directions (Gong, Lazebnik, CVPR 2011).

With X the centered samples, Y their centered 0/1 labels and a small ridge r, the canonical
directions w_k and correlations rho_k solve

    X'Y (Y'Y + r I)^-1 Y'X w_k = rho_k^2 (X'X + r I) w_k,    w_k' (X'X + r I) w_k = 1,

and ITQ's rotation brings the embedding V = X [rho_1 w_1, rho_2 w_2, ...] near the corners
of the cube. With L L' = X'X + r I and M M' = Y'Y + r I, rho_k and L' w_k are the singular
values and left singular vectors of L^-1 X'Y M^-T.
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular, svd
from sklearn.utils import gen_batches

from skhash._compat import Interval
from skhash._slices import ENCODE_BATCH_SIZE
from skhash._validation import Array
from skhash.affinity import Relevance
from skhash.hashers.shallow.linear import LinearHasher, quantizing_rotation, ridged_cholesky


def _canonical_directions(
    X: npt.NDArray[Any], Y: npt.NDArray[np.float64], ridge: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Directions (n_features, k) of samples that correlate most with labels, and these correlations."""
    gram, cross = np.zeros((X.shape[1], X.shape[1])), np.zeros((X.shape[1], Y.shape[1]))
    for batch in gen_batches(len(X), ENCODE_BATCH_SIZE):  # in float64, all samples together would take much memory
        samples = X[batch].astype(np.float64, copy=False)
        gram += samples.T @ samples
        cross += samples.T @ Y[batch]
    left, right = (ridged_cholesky(moments, ridge) for moments in (gram, Y.T @ Y))
    whitened = solve_triangular(right, solve_triangular(left, cross, lower=True).T, lower=True).T
    vectors, correlations, _ = svd(whitened, full_matrices=False)
    return solve_triangular(left, vectors, lower=True, trans="T"), correlations


class ITQCCAHasher(LinearHasher):
    """Signs of canonical directions after a rotation with the least quantization error.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits. There are fewer canonical directions than classes, or one per label. The
        rotation spreads them over all bits.
    n_iter : int, default=50
        Number of iterations.
    ridge : float, default=0.1
        Added to the variances of features and labels, in units of their mean variances. The paper
        adds 1e-4, whatever the scale of the features.
    affinity : "auto", ClassAffinity or SharedLabelsAffinity, default="auto"
        "auto" uses classes or a 0/1 matrix of labels from y. Other affinities give no labels.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the first rotation.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    scale_ : ndarray of shape (n_features,)
        Standard deviation of each feature in a thousand training samples.
    projection_ : ndarray of shape (n_features, nbits)
        Canonical directions times correlations times the rotation.
    correlations_ : ndarray of shape (min(n_features, n_labels),), float64
        The canonical correlations, descending.
    affinity_ : callable
        The fitted affinity.
    function_ : LinearFunction
        What was learned, see :mod:`skhash.functions`.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
    n_features_in_ : int
        Number of features seen during `fit`.

    References
    ----------
    Gong, Lazebnik: Iterative quantization: a procrustean approach to learning binary
    codes. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQCCAHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = ITQCCAHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> round(hasher.score(X[1000:], y[1000:]), 2)
    0.84
    """

    _supervised = True
    _parameter_constraints = LinearHasher._parameter_constraints | {
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "ridge": [Interval(Real, 0, None, closed="neither")],
    }

    correlations_: Annotated[npt.NDArray[Any], Array("n_correlations")]

    def __init__(
        self,
        nbits: int = 32,
        *,
        n_iter: int = 50,
        ridge: float = 0.1,
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(nbits, affinity=affinity, store_database=store_database, random_state=random_state)
        self.n_iter = n_iter
        self.ridge = ridge

    def _learn_map(self, X: npt.NDArray[Any], relevance: Relevance, rng: np.random.RandomState) -> npt.NDArray[Any]:
        labels = relevance.labels()
        directions, self.correlations_ = _canonical_directions(X, labels - labels.mean(axis=0), self.ridge)
        scaled = (directions * self.correlations_)[:, : self.nbits]
        scaled = np.pad(scaled, ((0, 0), (0, self.nbits - scaled.shape[1])))
        embedded = np.concatenate([X[batch] @ scaled for batch in gen_batches(len(X), ENCODE_BATCH_SIZE)])
        return scaled @ quantizing_rotation(embedded, self.n_iter, rng)
