"""KSH, supervised hashing with kernels (Liu, Wang, Ji, Jiang, Chang, CVPR 2012).

With S_ij = 1 for relevant and -1 for irrelevant pairs of l labelled rows, r bits and the
centred kernel values K of these rows, H = sgn(K A) is to minimise

    |H H' / r - S|_F^2,    the inner product of two codes being r - 2 Hamming distance.

Bit by bit: with the residue R_k = r S - sum_t<k h_t h_t' the k-th one is to maximise
h' R_k h, h = sgn(K a).

* Spectral relaxation: a_0, the largest generalised eigenvector of (K' R_k K, K'K).
* Smoothing: from a_0, sqrt(l) / |K a_0| times, descend along the gradient of
  g(a) = -b' R_k b with b = 2 / (1 + exp(-K a)) - 1 = tanh(K a / 2).

Of both the one with the larger h' R_k h is kept.
"""

from numbers import Integral

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.optimize import minimize

from skhash._compat import Interval
from skhash._targets import take_targets
from skhash.affinity import level_indices
from skhash.codes import binarize, signs
from skhash.hashers.shallow._kernel import KernelHasher, draw_indices
from skhash.hashers.shallow._linear import ridged_cholesky


def pair_labels(affinity, y):
    """Compare rows with each other: 1 for relevant pairs, -1 for irrelevant ones.

    Parameters
    ----------
    affinity : callable
        Any affinity; where it is not symmetric, two rows may get 0, the mean.
    y : array-like of shape (n, ...)
        Target rows.

    Returns
    -------
    ndarray of shape (n, n), float64
        S, symmetric; a row is relevant to itself.

    Examples
    --------
    >>> from skhash.affinity import ClassAffinity
    >>> from skhash.hashers.shallow.ksh import pair_labels
    >>> pair_labels(ClassAffinity(), ["cat", "dog"])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    relevant = level_indices(affinity, y, y)[0] > 0
    S = relevant.astype(np.float64) + relevant.T - 1.0
    np.fill_diagonal(S, 1.0)
    return S


def smoothed_loss(a, K, R):
    """Compute g(a) = -b' R b with b = tanh(K a / 2), and its gradient.

    Parameters
    ----------
    a : ndarray of shape (m,)
        Weights of the features.
    K : ndarray of shape (l, m)
        Features of the labelled rows.
    R : ndarray of shape (l, l)
        The residue, symmetric.

    Returns
    -------
    float
        The value.
    ndarray of shape (m,)
        The gradient.
    """
    b = np.tanh(K @ a / 2)
    pull = R @ b
    return -b @ pull, -K.T @ (pull * (1 - b * b))


def best_bit(K, R, n_iter):
    """Search the bit h = sgn(K a) of the largest h' R h.

    Parameters
    ----------
    K : ndarray of shape (l, m)
        Features of the labelled rows, in coordinates where directions have one variance.
    R : ndarray of shape (l, l)
        The residue, symmetric.
    n_iter : int
        At most that many steps of L-BFGS.

    Returns
    -------
    a : ndarray of shape (m,)
        Its weights.
    h : ndarray of shape (l,), float64
        Its values, -1 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.ksh import best_bit
    >>> K = np.array([[2.0, 1.0], [1.0, 1.0], [-1.0, 1.0], [-2.0, 1.0]])
    >>> R = np.kron(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.ones((2, 2)))  # two rows like each other, and two
    >>> a, h = best_bit(K, R, n_iter=50)
    >>> bool(h[0] == h[1] == -h[2] == -h[3]), float(h @ R @ h)
    (True, 16.0)
    """
    largest = [K.shape[1] - 1] * 2
    start = eigh(K.T @ (R @ K), subset_by_index=largest)[1][:, 0]
    start *= np.sqrt(len(K)) / max(np.linalg.norm(K @ start), 1e-300)
    end = minimize(smoothed_loss, start, (K, R), method="L-BFGS-B", jac=True, options={"maxiter": n_iter}).x
    bits = [(a, signs(binarize(K @ a))) for a in (end, start)]
    return max(bits, key=lambda bit: bit[1] @ (R @ bit[1]))


class KSHHasher(KernelHasher):
    """Kernel bits whose inner products are the relevance of labelled pairs, found greedily.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    n_labeled : int, default=1000
        Training rows, drawn at random, whose pairs are compared; all, if there are fewer.
    n_anchors : int, default=300
        Training rows that are anchors of the kernel; all, if there are fewer.
    gamma : float, default=None
        Of the kernel exp(-gamma d^2); None takes 2 over the mean squared distance to anchors.
    ridge : float, default=0.1
        Added to the variances of kernel values, in their mean variances: the paper's
        eigenproblem has none, and fits noise where directions have little variance.
    n_iter : int, default=50
        Steps of L-BFGS for a bit, at most.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant, whatever their level; "auto" takes classes or shared labels
        from y.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws anchors and labelled rows.

    Attributes
    ----------
    anchors_ : ndarray of shape (n_anchors, n_features), float64
        The anchors.
    gamma_ : float
        The gamma that was used.
    projection_ : ndarray of shape (n_anchors, nbits), float64
        Weights of the kernel values.
    intercept_ : ndarray of shape (nbits,), float64
        What centres the kernel values.
    history_ : list of dict
        One a bit: "bit", and "objective", the sum of squares of H H' / r - S over its first bits.
    affinity_ : callable
        The fitted affinity.
    database_codes_ : ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8
        Packed codes of the training rows.
    database_y_ : array of shape (n_samples, ...)
        Their targets.
    n_features_in_ : int
        Number of features of the training rows.

    References
    ----------
    Liu, Wang, Ji, Jiang, Chang: Supervised hashing with kernels. CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import KSHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = KSHHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.score(X[1000:], y[1000:]) > 0.85
    True
    >>> hasher.history_[-1]["objective"] < hasher.history_[0]["objective"]
    True
    """

    _parameter_constraints = KernelHasher._parameter_constraints | {
        "n_labeled": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        nbits=32,
        *,
        n_labeled=1000,
        n_anchors=300,
        gamma=None,
        ridge=0.1,
        n_iter=50,
        affinity="auto",
        store_database=True,
        random_state=None,
    ):
        self.nbits = nbits
        self.n_labeled = n_labeled
        self.n_anchors = n_anchors
        self.gamma = gamma
        self.ridge = ridge
        self.n_iter = n_iter
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _learn(self, features, targets, rng):
        rows = draw_indices(len(features), self.n_labeled, rng)
        K = features[rows]
        # with L L' = K'K + penalty and a = L^-T c the eigenproblem in c is an ordinary one
        factor = ridged_cholesky(K, self.ridge)
        whitened = solve_triangular(factor, K.T, lower=True).T
        residue = self.nbits * pair_labels(self.affinity_, take_targets(targets, rows))
        weights, self.history_ = [], []
        for bit in range(self.nbits):
            c, h = best_bit(whitened, residue, self.n_iter)
            residue -= np.outer(h, h)
            weights.append(c)
            self.history_.append({"bit": bit + 1, "objective": float(np.square(residue / self.nbits).sum())})
        return solve_triangular(factor, np.stack(weights, axis=1), lower=True, trans="T"), 0.0
