r"""CGHash, hash functions by column generation (Li, Lin, Shen, van den Hengel, Dick, ICML 2013).

In a triplet (i, j, k), sample j is relevant to sample i and k is not. Weighted Hamming distances
d_w(x, x') = w' |h(x) - h(x')| are learned by

    min_w,xi |w|_1 + C sum_ijk xi_ijk   s.t.  d_w(x_i, x_k) - d_w(x_i, x_j) >= 1 - xi_ijk,   w, xi >= 0

over all hash functions at once: the paper's program of the hinge loss and the l1 norm. Its dual is

    max_u sum_ijk u_ijk   s.t.  0 <= u <= C,   sum_ijk u_ijk (|h_i - h_k| - |h_i - h_j|) <= 1 for all h,

so the next function is the one whose constraint is violated most: with A_ik = u_ijk and
A_ij = -u_ijk, summed over the triplets, it has the largest sum A_ij |h_i - h_j|. The triplets come
from StructHash's ranking lists, and its hash functions and their search are used.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from skhash.hashers._ranking_lists import RankingLists
from skhash.hashers.structhash._column_generation import ColumnGenerationHasher
from skhash.hashers.structhash._master_problem import MasterProblem
from skhash.hashers.structhash._triplets import TripletMasterProblem, Triplets


class CGHashHasher(ColumnGenerationHasher):
    r"""Weighted bits that rank relevant samples before irrelevant ones, by column generation.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits. Once no bit improves the objective, the remaining ones are constant and weigh 0.
    C : float, default=None
        Weight of a slack against \|w\|_1. None uses 4 times the smallest C that gives the first bit a
        weight.
    n_relevant : int, default=2
        Maximum number of relevant samples drawn for each query.
    n_irrelevant : int, default=2
        Maximum number of irrelevant samples drawn for each query. Each pair of a relevant and an
        irrelevant sample makes a triplet; the defaults give at most 20,000 of them.
    n_queries : int, default=5000
        Maximum number of training samples used as queries.
    hash_function : {"kernel", "linear", "stump", "trees"} or classifier, default="kernel"
        Family of the hash functions: the sign of a linear map of Gaussian kernel values or of the
        features, a threshold of one feature, boosted trees, or another classifier of scikit-learn
        with a decision_function.
    n_anchors : int, default=500
        Number of training samples used as anchors of the kernel.
    gamma : float, default=None
        Coefficient of the kernel exp(-gamma d^2). None uses 2 over the mean squared distance to the
        anchors.
    ridge : float, default=None
        Penalty on directions of low variance, in units of the mean variance. None uses 0.1 for kernel
        values and 100 for features.
    n_starts : int, default=2
        Number of starting points in the search for a bit. If no bit improves, more are tried.
    tol : float, default=1e-3
        A new bit must violate its dual constraint by more than this.
    solver : str, default="HIGHS"
        Name, in cvxpy, of an installed solver of linear programs.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, whatever their level. "auto" uses classes or shared labels from y.
        ``DistanceAffinity(percentiles=(2,), levels=(1,))`` needs no y.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws triplets, anchors and starting points.

    Attributes
    ----------
    bit_weights_ : ndarray of shape (nbits,), float64
        w of the weighted Hamming distance that :meth:`score` ranks by.
    bit_weights_path_ : ndarray of shape (nbits, nbits), float64
        Row m - 1 holds the weights after m bits.
    effective_bits_ : float
        (sum w)^2 / sum w^2.
    C_ : float
        The C that was used.
    functions_ : dict
        Parameters of the hash functions.
    history_ : list of dict
        One entry per learned bit: "bit"; "column_gain", which the optimality test compares with 1;
        "loss", the sum of the slacks; "objective"; "bound", its lower bound over these bits, by the
        duals; "gap" between them; "n_nonzero", "effective_bits", "seconds".
    optimal_ : bool
        Whether the search ended because no bit violates its dual constraint. This is a proof for
        stumps only.
    affinity_ : callable
        The fitted affinity.
    database_codes_ : ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8
        Packed codes of the training samples.
    database_y_ : array of shape (n_samples, ...)
        Targets of the training samples.
    n_features_in_ : int
        Number of features seen during `fit`.

    References
    ----------
    Li, Lin, Shen, van den Hengel, Dick: Learning hash functions using column generation.
    ICML 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import CGHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = CGHashHasher(nbits=8, random_state=0).fit(X[:500], y[:500])
    >>> hasher.score(X[1000:], y[1000:]) > 0.7
    True
    >>> hasher.history_[-1]["gap"] <= 1e-6 * hasher.history_[-1]["objective"]
    True
    """

    _default_c_factor = 4.0
    _default_ridges = {"linear": 100.0, "kernel": 0.1}

    def __init__(
        self,
        nbits: int = 32,
        *,
        C: float | None = None,
        n_relevant: int = 2,
        n_irrelevant: int = 2,
        n_queries: int = 5000,
        hash_function: Any = "kernel",
        n_anchors: int = 500,
        gamma: float | None = None,
        ridge: float | None = None,
        n_starts: int = 2,
        tol: float = 1e-3,
        solver: str = "HIGHS",
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.nbits = nbits
        self.C = C
        self.n_relevant = n_relevant
        self.n_irrelevant = n_irrelevant
        self.n_queries = n_queries
        self.hash_function = hash_function
        self.n_anchors = n_anchors
        self.gamma = gamma
        self.ridge = ridge
        self.n_starts = n_starts
        self.tol = tol
        self.solver = solver
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _master_problem(self, lists: RankingLists) -> tuple[Any, Callable[[float], MasterProblem]]:
        triplets = Triplets(lists)
        equal_weights = np.ones(triplets.indices.shape[1])
        return triplets.pair_matrix(equal_weights), lambda C: TripletMasterProblem(triplets, C, self.solver)
