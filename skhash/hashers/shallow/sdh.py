"""SDH, supervised discrete hashing (Shen, Shen, Liu, Shen, CVPR 2015).

With the codes B in {-1, 1}^(n x r), 0/1 labels Y, and F = phi(X) P + c, phi kernel values,

    min_B,W,P |Y - B W|_F^2 + lam |W|_F^2 + nu |B - F|_F^2

alternately:

* G-step: W = (B'B + lam I)^-1 B'Y;
* F-step: P, c the least squares of B on phi(X);
* B-step: discrete cyclic coordinate descent. With Q = Y W' + nu F, and W' without the row
  w of a bit, B' without its column, the optimal column is b = sgn(q - B' W' w). This is
  repeated over all columns until none changes.

The codes of new samples are the signs of F.
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, solve

from skhash._compat import Interval
from skhash.affinity import Relevance
from skhash.codes import binarize, signs
from skhash.hashers.shallow.gaussian_kernel import KernelFeatures, KernelHasher
from skhash.hashers.shallow.linear import ridged_cholesky

_MAX_SWEEPS = 10  # of the B-step over all bits; a few are usually enough


def _discrete_descent(
    B: npt.NDArray[np.float64], W: npt.NDArray[np.float64], Q: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Codes B (n, r) with a smaller |B W|_F^2 - 2 tr(B'Q), by coordinate descent over columns: the B-step."""
    B = B.copy()
    fitted = B @ W
    for _ in range(_MAX_SWEEPS):
        changed = False
        for b, w, q in zip(B.T, W, Q.T, strict=True):
            new = signs(binarize(q - fitted @ w + b * (w @ w)))
            if (new != b).any():
                fitted += np.outer(new - b, w)
                b[:] = new
                changed = True
        if not changed:
            break
    return B


class SDHHasher(KernelHasher):
    """Kernel bits that approximate discrete codes, from which labels are regressed.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits.
    max_iter : int, default=5
        Maximum number of iterations.
    label_penalty : float, default=1.0
        Penalty lam on the regression of labels on codes.
    code_weight : float, default=1e-5
        Weight nu of the distance between kernel bits and codes.
    n_anchors : int, default=1000
        Maximum number of training samples used as anchors of the kernel.
    gamma : float, default=None
        Coefficient of the kernel exp(-gamma d^2). None uses 2 over the mean squared distance to the
        anchors.
    ridge : float, default=1e-4
        Penalty on the weights of kernel values in the F-step, in units of their mean variance.
    affinity : "auto", ClassAffinity or SharedLabelsAffinity, default="auto"
        "auto" uses classes or a 0/1 matrix of labels from y. Other affinities give no labels.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws anchors and the first codes.

    Attributes
    ----------
    anchors_ : ndarray of shape (n_anchors, n_features), float64
        The anchors.
    gamma_ : float
        The gamma that was used.
    projection_ : ndarray of shape (n_anchors, nbits), float64
        Weights P of the kernel values.
    intercept_ : ndarray of shape (nbits,), float64
        Offset c.
    n_iter_ : int
        Number of iterations.
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
    Shen, Shen, Liu, Shen: Supervised discrete hashing. CVPR 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SDHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = SDHHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.2f}")
    0.98
    """

    _holds_features = True
    _parameter_constraints = KernelHasher._parameter_constraints | {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "label_penalty": [Interval(Real, 0, None, closed="neither")],
        "code_weight": [Interval(Real, 0, None, closed="left")],
    }

    n_iter_: int

    def __init__(
        self,
        nbits: int = 32,
        *,
        max_iter: int = 5,
        label_penalty: float = 1.0,
        code_weight: float = 1e-5,
        n_anchors: int = 1000,
        gamma: float | None = None,
        ridge: float = 1e-4,
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.nbits = nbits
        self.max_iter = max_iter
        self.label_penalty = label_penalty
        self.code_weight = code_weight
        self.n_anchors = n_anchors
        self.gamma = gamma
        self.ridge = ridge
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _learn_map(
        self, features: KernelFeatures, relevance: Relevance, rng: np.random.RandomState
    ) -> tuple[npt.NDArray[np.float64], Any]:
        Y = relevance.labels()
        n, m = features.shape
        B = rng.choice([-1.0, 1.0], (n, self.nbits))
        gram, cross = np.zeros((m, m)), np.zeros((m, self.nbits))  # phi'phi and phi'B
        for part, phi in features.parts():
            gram += phi.T @ phi
            cross += phi.T @ B[part]
        moments = (ridged_cholesky(gram, self.ridge), True)
        self.n_iter_ = 0
        for _ in range(self.max_iter):
            self.n_iter_ += 1
            W = solve(B.T @ B + self.label_penalty * np.eye(self.nbits), B.T @ Y, assume_a="pos")
            P, c = cho_solve(moments, cross), B.mean(axis=0)
            previous, B, cross = B, np.empty_like(B), np.zeros_like(cross)
            for part, phi in features.parts():  # one pass, because the B-step treats each sample alone
                B[part] = _discrete_descent(previous[part], W, Y[part] @ W.T + self.code_weight * (phi @ P + c))
                cross += phi.T @ B[part]
            if (previous == B).all():
                break
        return cho_solve(moments, cross), B.mean(axis=0)
