r"""CGHash, hash functions by column generation (Li, Lin, Shen, van den Hengel, Dick, ICML 2013).

Of triplets (i, j, k), row j is relevant to row i and row k is not. Weighted Hamming distances
d_w(x, x') = w' |h(x) - h(x')| are learned by

    min_w,xi |w|_1 + C sum_ijk xi_ijk   s.t.  d_w(x_i, x_k) - d_w(x_i, x_j) >= 1 - xi_ijk,   w, xi >= 0

over all hash functions at once: the paper's program of the hinge loss and the l1 norm. Its dual is

    max_u sum_ijk u_ijk   s.t.  0 <= u <= C,   sum_ijk u_ijk (|h_i - h_k| - |h_i - h_j|) <= 1 for all h,

so the next function is the one whose constraint is violated most: with A_ik = u_ijk and
A_ij = -u_ijk, summed over the triplets, the largest sum A_ij |h_i - h_j|. These are StructHash's
lists of one relevant and one irrelevant item, and its hash functions and their search are used.
"""

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skhash.hashers.structhash._columns import ColumnGenerationHasher, Solution

GAP = 1e-6  # of the objective, that a solved linear program may leave


class Triplets:
    """Rows i, j, k: j is relevant to i, k is not; all pairs of j and k of each ranking list.

    Parameters
    ----------
    lists : RankingLists
        Queries and their items.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.structhash.cghash import Triplets
    >>> from skhash.hashers._lists import RankingLists
    >>> items = np.array([[1, 2, 3]])
    >>> triplets = Triplets(RankingLists(np.array([0]), items, np.array([[1, 2]]), n_rows=4))
    >>> triplets.rows
    array([[0, 0],
           [1, 1],
           [2, 3]])
    """

    def __init__(self, lists):
        place, most = np.arange(lists.items.shape[1]), lists.sizes[:, 0].max()
        is_relevant = place[:most] < lists.sizes[:, :1]
        is_irrelevant = place[most:] - most < lists.sizes[:, 1:]
        query, j, k = np.nonzero(is_relevant[:, :, None] & is_irrelevant[:, None, :])
        self.rows = np.stack([lists.queries[query], lists.items[query, j], lists.items[query, most + k]])
        self.n_rows = lists.n_rows

    def margins(self, bits):
        """Compute |h_i - h_k| - |h_i - h_j| of a bit of all training rows: -1, 0 or 1, float64."""
        i, j, k = bits[self.rows]
        return (i != k).astype(np.float64) - (i != j)

    def pair_matrix(self, weights):
        """Sum weighted triplets as a matrix between training rows.

        Parameters
        ----------
        weights : float64 array of shape (n_triplets,)
            u.

        Returns
        -------
        csr_array of shape (n_rows, n_rows)
            A, with sum_ij A_ij |h_i - h_j| = u' margins(h).
        """
        i, j, k = self.rows
        entries = (np.concatenate([weights, -weights]), (np.concatenate([i, i]), np.concatenate([k, j])))
        return sparse.coo_array(entries, shape=(self.n_rows,) * 2).tocsr()


class TripletMaster:
    """The weights of a growing set of bits: the restricted master problem, solved by its dual.

    Only triplets that the weights so far leave short of the margin 1 enter a linear program;
    the solution is final when none of the others falls short of it.

    Parameters
    ----------
    triplets : Triplets
        What is to be ranked.
    C : float
        Weight of the slacks.
    solver : str
        cvxpy's name of the solver of the linear programs.
    """

    def __init__(self, triplets, C, solver):
        self.triplets, self.C, self.solver = triplets, C, solver
        n = triplets.rows.shape[1]
        self.margins = np.zeros((n, 0))
        self.solution = Solution(np.zeros(0), float(n), C * n, duals=np.full(n, C))

    def add_bit(self, bits):
        """Take in a bit of all training rows, with weight 0."""
        self.margins = np.column_stack([self.margins, self.triplets.margins(bits)])
        self.solution.weights = np.append(self.solution.weights, 0.0)

    def optimize(self):
        """Solve for all weights, and keep them in `solution`."""
        duals, short = np.zeros(len(self.margins)), self._slacks(self.solution.weights) > 0
        active = short | (self.solution.duals > 0)
        while True:
            weights, duals[active] = triplet_program(self.margins[active], self.C, self.solver)
            slacks = self._slacks(weights)
            left_out = (slacks > 1e-9) & ~active
            if not left_out.any():
                break
            active |= left_out
        loss = float(slacks.sum())
        # however the solver rounds, these multipliers keep every constraint: their sum is a bound
        duals /= max(1.0, (duals @ self.margins).max())
        self.solution = Solution(weights, loss, float(weights.sum()) + self.C * loss, float(duals.sum()), duals)
        gap = self.solution.objective - self.solution.bound
        if gap > GAP * self.solution.objective:
            warnings.warn(
                f"bit {len(weights)}: solver={self.solver!r} left the objective {gap:.2g} above its lower bound "
                f"{self.solution.bound:.6g}; another solver may do better.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def pair_matrix(self):
        """Weigh the pairs of training rows by the duals: what the next bit is learned from."""
        return self.triplets.pair_matrix(self.solution.duals)

    def _slacks(self, weights):
        return np.maximum(1 - self.margins @ weights, 0)


def triplet_program(margins, C, solver="HIGHS"):
    """Solve min_w |w|_1 + C sum max(0, 1 - margins w), w >= 0, by the dual linear program.

    The dual has a constraint a bit and one bounded variable a triplet, and is solved many times
    as quickly as the primal, which has a constraint a triplet.

    Parameters
    ----------
    margins : array of shape (n_triplets, n_bits)
        |h_i - h_k| - |h_i - h_j| of each triplet and bit.
    C : float
        Weight of the slacks; > 0.
    solver : str, default="HIGHS"
        cvxpy's name of a solver of linear programs.

    Returns
    -------
    weights : array of shape (n_bits,)
        w, the multipliers of the dual's constraints.
    duals : array of shape (n_triplets,)
        u, in [0, C].

    Raises
    ------
    RuntimeError
        If neither the solver nor another installed one solves it.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.structhash.cghash import triplet_program
    >>> weights, duals = triplet_program(np.array([[1.0], [1.0], [1.0], [-1.0]]), C=1.0)
    >>> weights.round(6), duals.sum().round(6).item()  # w + 3 max(0, 1 - w) + max(0, 1 + w) at w = 1
    (array([1.]), 3.0)
    """
    import cvxpy as cp

    from skhash.hashers.structhash._programs import solve

    u = cp.Variable(len(margins), bounds=[0, 1])  # in units of C, which may be tiny
    kept = margins.T @ u <= 1 / C
    solve(cp.Problem(cp.Maximize(cp.sum(u)), [kept]), solver, ("HIGHS", "CLARABEL", "SCIPY"))
    return np.maximum(kept.dual_value, 0), C * np.clip(np.asarray(u.value), 0, 1)


class CGHashHasher(ColumnGenerationHasher):
    r"""Weighted bits that rank relevant rows before irrelevant ones, by column generation.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code. Bits that no longer improve the objective are constant and weigh 0.
    C : float, default=None
        Weight of a slack against \|w\|_1; None takes 4 times the smallest one at which the first
        bit has a weight.
    n_relevant : int, default=2
        At most that many relevant rows are drawn for each query.
    n_irrelevant : int, default=2
        At most that many irrelevant ones; each pair of a relevant and an irrelevant row makes
        a triplet, 20,000 of them by default where there are rows enough.
    n_queries : int, default=5000
        At most that many training rows act as queries.
    hash_function : {"kernel", "linear", "stump", "trees"} or classifier, default="kernel"
        What a bit is: the sign of a linear map of Gaussian kernel values against anchors, or
        of the features; a threshold of one feature; boosted trees, or another classifier of
        scikit-learn with a decision_function.
    n_anchors : int, default=500
        Training rows that are anchors of the kernel.
    gamma : float, default=None
        Of the kernel exp(-gamma d^2); None takes 2 over the mean squared distance to anchors.
    ridge : float, default=None
        Penalty on directions of little variance, in mean variances; None takes 0.1 for
        kernel values and 100 for features.
    n_starts : int, default=2
        Starts of the search for a bit; more are tried when none improves.
    tol : float, default=1e-3
        A bit has to violate its dual constraint by more than this.
    solver : str, default="HIGHS"
        Name, in cvxpy, of an installed solver of linear programs.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant, whatever their level; "auto" takes classes or shared labels
        from y. ``DistanceAffinity(percentiles=(2,), levels=(1,))`` needs no y.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws triplets, anchors and starts.

    Attributes
    ----------
    bit_weights_ : ndarray of shape (nbits,), float64
        w of the weighted Hamming distance; :meth:`score` ranks by it.
    bit_weights_path_ : ndarray of shape (nbits, nbits), float64
        Row m - 1: the weights when there were m bits.
    effective_bits_ : float
        (sum w)^2 / sum w^2.
    C_ : float
        The C that was used.
    functions_ : dict
        Parameters of the hash functions.
    history_ : list of dict
        One a bit that was learned: "bit"; "column_gain", what the optimality test compares with
        1; "loss", the sum of the slacks; "objective"; "bound", its lower bound over these bits,
        by the duals; "gap" between them; "n_nonzero", "effective_bits", "seconds".
    optimal_ : bool
        Whether the search ended because no bit violates its dual constraint; a proof for stumps
        only.
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

    _slack = 4.0
    _ridges = {"linear": 100.0, "kernel": 0.1}

    def __init__(
        self,
        nbits=32,
        *,
        C=None,
        n_relevant=2,
        n_irrelevant=2,
        n_queries=5000,
        hash_function="kernel",
        n_anchors=500,
        gamma=None,
        ridge=None,
        n_starts=2,
        tol=1e-3,
        solver="HIGHS",
        affinity="auto",
        store_database=True,
        random_state=None,
    ):
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

    def _pose(self, lists):
        triplets = Triplets(lists)
        everything = np.ones(triplets.rows.shape[1])
        return triplets.pair_matrix(everything), lambda C: TripletMaster(triplets, C, self.solver)
