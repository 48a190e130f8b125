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
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash.hashers.ranking_lists import RankingLists
from skhash.hashers.structhash._column_generation import ColumnGenerationHasher, Solution, solve


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
        Name, in cvxpy, of an installed solver of linear programs. If it fails, Clarabel takes over.
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
    function_ : HashFunction
        The learned bits: a :class:`~skhash.functions.LinearFunction` or
        :class:`~skhash.functions.KernelFunction`, or stumps or classifiers.
    history_ : list of dict
        One entry per learned bit: "bit"; "column_gain", which the optimality test compares with 1;
        "loss", the sum of the slacks; "objective"; "bound", its lower bound over these bits, by the
        duals; "gap" between them; "n_nonzero", "effective_bits", "seconds".
    optimal_ : bool
        Whether the search ended because no bit violates its dual constraint. This is a proof for
        stumps only.
    affinity_ : callable
        The fitted affinity.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
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
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.2f}")
    0.77
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

    def _master_problem(self, lists: RankingLists) -> tuple[Any, Callable[[float], Any]]:
        triplets = Triplets(lists)
        equal_weights = np.ones(triplets.indices.shape[1])
        return triplets.pair_matrix(equal_weights), lambda C: TripletMasterProblem(triplets, C, self.solver)


class Triplets:
    """Samples i, j, k, `indices` (3, n_triplets): all pairs of a relevant j and an irrelevant k of each list."""

    def __init__(self, lists: RankingLists) -> None:
        place, max_relevant = np.arange(lists.items.shape[1]), lists.sizes[:, 0].max()
        is_relevant = place[:max_relevant] < lists.sizes[:, :1]
        is_irrelevant = place[max_relevant:] - max_relevant < lists.sizes[:, 1:]
        query, j, k = np.nonzero(is_relevant[:, :, None] & is_irrelevant[:, None, :])
        self.indices = np.stack([lists.queries[query], lists.items[query, j], lists.items[query, max_relevant + k]])
        self.n_samples = lists.n_samples

    def margins(self, bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
        """Margin |h_i - h_k| - |h_i - h_j| of each triplet for a bit of all training samples: -1, 0 or 1."""
        i, j, k = bits[self.indices]
        return (i != k).astype(np.float64) - (i != j)

    def pair_matrix(self, weights: npt.NDArray[np.float64]) -> Any:
        """Sparse pair weights A with sum_ij A_ij |h_i - h_j| = u' margins(h), for weights u of shape (n_triplets,)."""
        i, j, k = self.indices
        entries = (np.concatenate([weights, -weights]), (np.concatenate([i, i]), np.concatenate([k, j])))
        return sparse.coo_array(entries, shape=(self.n_samples,) * 2).tocsr()


class TripletMasterProblem:
    """Master problem of CGHash: linear programs over the triplets below the margin 1, until no other is below it."""

    def __init__(self, triplets: Triplets, C: float, solver: str) -> None:
        self.triplets, self.C, self.solver = triplets, C, solver
        n = triplets.indices.shape[1]
        self.margins = np.zeros((n, 0))
        self.solution = Solution(np.zeros(0), float(n), C * n, duals=np.full(n, C))

    def add_bit(self, bits: npt.NDArray[np.uint8]) -> None:
        """Add a bit of all training samples, with weight 0."""
        self.margins = np.column_stack([self.margins, self.triplets.margins(bits)])
        self.solution = replace(self.solution, weights=np.append(self.solution.weights, 0.0))

    def optimize(self) -> None:
        """Update `solution`."""
        duals, violated = np.zeros(len(self.margins)), self._slacks(self.solution.weights) > 0
        active = violated | (self.solution.duals > 0)
        while True:
            weights, duals[active] = triplet_program(self.margins[active], self.C, self.solver)
            slacks = self._slacks(weights)
            missing = (slacks > 1e-9) & ~active
            if not missing.any():
                break
            active |= missing
        loss = float(slacks.sum())
        # scaled by this, the duals satisfy every constraint despite rounding, so that their sum is a bound
        duals /= max(1.0, (duals @ self.margins).max())
        self.solution = Solution(weights, loss, float(weights.sum()) + self.C * loss, float(duals.sum()), duals)

    def pair_matrix(self) -> Any:
        """Pair weights by the duals, from which the next bit is learned."""
        return self.triplets.pair_matrix(self.solution.duals)

    def _slacks(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.maximum(1 - self.margins @ weights, 0)


def triplet_program(
    margins: npt.NDArray[np.float64], C: float, solver: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Weights (nbits,) that minimize |w|_1 + C sum max(0, 1 - margins w), and duals u (n_triplets,) in [0, C]."""
    import cvxpy as cp

    # the dual has one constraint per bit, and is solved faster than the primal, which has one per triplet
    u: Any = cp.Variable(len(margins), bounds=[0, 1])  # in units of C, which may be tiny
    constraint = margins.T @ u <= 1 / C
    solve(cp.Problem(cp.Maximize(cp.sum(u)), [constraint]), solver)
    return np.maximum(np.asarray(constraint.dual_value), 0), C * np.clip(np.asarray(u.value), 0, 1)
