"""KSH, supervised hashing with kernels (Liu, Wang, Ji, Jiang, Chang, CVPR 2012).

With S_ij = 1 for relevant and -1 for irrelevant pairs of l labeled samples, r bits and the
centered kernel values K of these samples, H = sgn(K A) should minimize

    |H H' / r - S|_F^2,    the inner product of two codes being r - 2 Hamming distance.

The bits are found one by one: with the residual R_{k-1} = r S - sum_t<k h_t h_t' the k-th one should
maximize h' R_{k-1} h, h = sgn(K a).

* Spectral relaxation: a_0, the largest generalized eigenvector of (K' R_{k-1} K, K'K).
* Smoothing: from a_0, sqrt(l) / |K a_0| times, descend along the gradient of
  g(a) = -b' R_{k-1} b with b = 2 / (1 + exp(-K a)) - 1 = tanh(K a / 2).

The better one of the two, with the larger h' R_{k-1} h, is used.
"""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, solve_triangular
from scipy.optimize import minimize

from skhash._compat import Interval
from skhash.affinity import Relevance
from skhash.codes import binarize, signs
from skhash.hashers.shallow.gaussian_kernel import KernelFeatures, KernelHasher, draw_indices
from skhash.hashers.shallow.linear import ridged_cholesky


def _pair_labels(relevance: Relevance) -> npt.NDArray[np.float64]:
    """Symmetric matrix S: 1 for relevant pairs, -1 for irrelevant ones, and 0 if the affinity is not symmetric."""
    relevant = relevance.levels()[0] > 0
    S: npt.NDArray[np.float64] = relevant.astype(np.float64) + relevant.T - 1.0
    np.fill_diagonal(S, 1.0)
    return S


def _smoothed_loss(
    a: npt.NDArray[np.float64], K: npt.NDArray[np.float64], R: npt.NDArray[np.float64]
) -> tuple[float, npt.NDArray[np.float64]]:
    """Value and gradient of g(a) = -b' R b, b = tanh(K a / 2)."""
    b = np.tanh(K @ a / 2)
    Rb = R @ b
    return float(-b @ Rb), -K.T @ (Rb * (1 - b * b))


def _best_bit(
    K: npt.NDArray[np.float64], R: npt.NDArray[np.float64], max_iter: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], int]:
    """Weights a and values h = sgn(K a) of the bit with the largest h' R h, for K of equal variances; iterations."""
    largest = [K.shape[1] - 1] * 2
    start = eigh(K.T @ (R @ K), subset_by_index=largest)[1][:, 0]
    start *= np.sqrt(len(K)) / max(np.linalg.norm(K @ start), 1e-300)
    descent = minimize(_smoothed_loss, start, (K, R), method="L-BFGS-B", jac=True, options={"maxiter": max_iter})
    bits = [(a, signs(binarize(K @ a))) for a in (descent.x, start)]
    return *max(bits, key=lambda bit: bit[1] @ (R @ bit[1])), descent.nit


class KSHHasher(KernelHasher):
    """Kernel bits whose inner products approximate the relevance of labeled pairs.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits.
    max_samples : int, default=1000
        Maximum number of training samples whose pairs are compared, drawn at random.
    n_anchors : int, default=300
        Maximum number of training samples used as anchors of the kernel.
    gamma : float, default=None
        Coefficient of the kernel exp(-gamma d^2). None uses 2 over the mean squared distance to the
        anchors.
    ridge : float, default=0.1
        Added to the variances of kernel values, in units of their mean variance. The paper's
        eigenproblem has no ridge, and fits noise in directions of low variance.
    max_iter : int, default=50
        Maximum number of iterations of L-BFGS per bit.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, whatever their level. "auto" uses classes or shared labels from y.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws anchors and compared samples.

    Attributes
    ----------
    anchors_ : ndarray of shape (n_anchors, n_features), float64
        The anchors.
    gamma_ : float
        The gamma that was used.
    projection_ : ndarray of shape (n_anchors, nbits), float64
        Weights of the kernel values.
    intercept_ : ndarray of shape (nbits,), float64
        Offset that centers the kernel values.
    history_ : list of dict
        One entry per bit: "bit" and "objective", ``|H H' / r - S|_F^2`` over the bits so far.
    n_iter_ : int
        Maximum number of iterations over all bits.
    affinity_ : callable
        The fitted affinity.
    function_ : KernelFunction
        What was learned, see :mod:`skhash.functions`.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
    n_features_in_ : int
        Number of features seen during `fit`.

    References
    ----------
    Liu, Wang, Ji, Jiang, Chang: Supervised hashing with kernels. CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import KSHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = KSHHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.2f}")
    0.96
    >>> hasher.history_[-1]["objective"] < hasher.history_[0]["objective"]
    True
    """

    _parameter_constraints = KernelHasher._parameter_constraints | {
        "max_samples": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    history_: list[dict[str, Any]]
    n_iter_: int

    def __init__(
        self,
        nbits: int = 32,
        *,
        max_samples: int = 1000,
        n_anchors: int = 300,
        gamma: float | None = None,
        ridge: float = 0.1,
        max_iter: int = 50,
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.nbits = nbits
        self.max_samples = max_samples
        self.n_anchors = n_anchors
        self.gamma = gamma
        self.ridge = ridge
        self.max_iter = max_iter
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _learn_map(
        self, features: KernelFeatures, relevance: Relevance, rng: np.random.RandomState
    ) -> tuple[npt.NDArray[np.float64], Any]:
        compared = draw_indices(features.shape[0], self.max_samples, rng)
        K = features.take(compared)
        # with L L' = K'K + penalty and a = L^-T c, the eigenproblem in c is an ordinary one
        factor = ridged_cholesky(K.T @ K, self.ridge)
        whitened = solve_triangular(factor, K.T, lower=True).T
        residual = self.nbits * _pair_labels(relevance.take(compared))
        weights, self.history_, self.n_iter_ = [], [], 1
        for bit in range(self.nbits):
            c, h, n_iter = _best_bit(whitened, residual, self.max_iter)
            self.n_iter_ = max(self.n_iter_, n_iter)
            residual -= np.outer(h, h)
            weights.append(c)
            self.history_.append({"bit": bit + 1, "objective": float(np.square(residual / self.nbits).sum())})
        return solve_triangular(factor, np.stack(weights, axis=1), lower=True, trans="T"), 0.0
