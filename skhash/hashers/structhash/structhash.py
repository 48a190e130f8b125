r"""StructHash: a structured SVM of ranking measures (Lin, Shen, Wu, ECCV 2014).

Weighted Hamming distances w' |h(x) - h(x')|, w >= 0, are learned by

    min_w,xi |w|_1 + C xi   s.t. for all rankings y_i and c in {0, 1}^m
    (1/m) sum_i c_i w' delta-psi_i(y_i) >= (1/m) sum_i c_i loss(y_i) - xi      (eqs. 5 to 8)

over all hash functions at once. Column generation finds them one by one: with the duals
lambda of the constraints, the next bit maximises (eq. 14, with the 1/m that it drops)

    sum lambda (1/m) sum_i c_i delta-psi_i[h] = sum_ij A_ij |h(x_i) - h(x_j)|

and improves the objective only if that exceeds 1. Cutting planes (`oracles`) solve each
restricted master (`master`) until it is proven optimal; `functions` learns the bits.
"""

from functools import partial
from numbers import Integral

from skhash._compat import Interval, StrOptions
from skhash.hashers.structhash._columns import ColumnGenerationHasher
from skhash.hashers.structhash._losses import LOSSES
from skhash.metrics.ndcg import DISCOUNTS

SLACK = 15.0  # C over the one below which the first bit has no weight
RIDGES = {"linear": 100.0, "kernel": 0.3}


class StructHashHasher(ColumnGenerationHasher):
    r"""Weighted bits from a structured SVM, by column generation and cutting planes.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code. Where no bit improves the objective any more, the others are constant
        and weigh 0.
    loss : {"ndcg", "ap", "auc", "precision"} or callable, default="ndcg"
        What is lost by a ranking. A callable gain(g, t, n_relevant, n_irrelevant) gives the
        gain of the g-th relevant item at rank t (arrays); gains never grow with t, and
        those of the true ranking sum to 1.
    k : int, default=None
        Cut-off of "ndcg" and "precision"; None takes the whole list, and the number of
        relevant items. With a small one the first bits have no weight until others join them;
        callbacks see plain distances so long.
    discount : {"structhash", "log2"}, default="structhash"
        Discount of "ndcg": the paper's 1 / log2(max(t, 2)), or 1 / log2(t + 1).
    C : float, default=None
        Weight of the loss against \|w\|_1; None takes 15 times the one below which the
        first bit has no weight.
    n_relevant : int, default=50
        At most that many relevant rows are drawn for each query.
    n_irrelevant : int, default=50
        At most that many irrelevant ones.
    n_queries : int, default=5000
        At most that many training rows act as queries.
    hash_function : {"kernel", "linear", "stump", "trees"} or classifier, default="kernel"
        What a bit is: the sign of a linear map of Gaussian kernel values against anchors, or
        of the features; a threshold of one feature; boosted trees, or another classifier of
        scikit-learn with a decision_function.
    n_anchors : int, default=300
        Training rows that are anchors of the kernel.
    gamma : float, default=None
        Of the kernel exp(-gamma d^2); None takes 2 over the mean squared distance to anchors.
    ridge : float, default=None
        Penalty on directions of little variance, in mean variances; None takes 0.3 for
        kernel values and 100 for features.
    n_starts : int, default=2
        Starts of the search for a bit; more are tried when none improves.
    fully_corrective : bool, default=True
        Solve for all weights after each bit; False for the newest one alone, which is quicker,
        and for all where that one would be 0.
    tol : float, default=1e-3
        How far the loss may be from that of the proven lower bound, in units of the loss.
    max_iter : int, default=200
        Most cuts for one bit; a ConvergenceWarning tells when they did not do.
    solver : str, default="HIGHS"
        Name, in cvxpy, of an installed solver of linear programs.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant, whatever their level; "auto" takes classes or shared labels
        from y. ``DistanceAffinity(percentiles=(2,), levels=(1,))`` needs no y.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws lists, anchors and starts.

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
        1; "loss", the mean violation; "objective"; "bound", its lower bound over these bits,
        with all weights but the newest as they are unless "all_weights" is True; "gap"; "xi",
        the loss at the bound, and "violation" = loss - xi = gap / C; "n_cuts", "n_iter",
        "n_nonzero", "effective_bits", "seconds".
    optimal_ : bool
        Whether the search ended because no bit improves; a proof for stumps only.
    n_iter_ : int
        Most cuts that a bit took.
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
    Lin, Shen, Wu: Optimizing Ranking Measures for Compact Binary Code Learning. ECCV 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import StructHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = StructHashHasher(nbits=8, n_relevant=10, n_irrelevant=10, random_state=0).fit(X[:500], y[:500])
    >>> hasher.score(X[1000:], y[1000:]) > 0.7
    True
    >>> hasher.history_[-1]["gap"] <= hasher.C_ * hasher.tol
    True
    >>> hasher.truncate(4).transform(X[:1]).shape
    (1, 4)
    """

    _slack, _ridges = SLACK, RIDGES
    _parameter_constraints = ColumnGenerationHasher._parameter_constraints | {
        "loss": [StrOptions(set(LOSSES)), callable],
        "k": [Interval(Integral, 1, None, closed="left"), None],
        "discount": [StrOptions(set(DISCOUNTS))],
        "fully_corrective": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        nbits=32,
        *,
        loss="ndcg",
        k=None,
        discount="structhash",
        C=None,
        n_relevant=50,
        n_irrelevant=50,
        n_queries=5000,
        hash_function="kernel",
        n_anchors=300,
        gamma=None,
        ridge=None,
        n_starts=2,
        fully_corrective=True,
        tol=1e-3,
        max_iter=200,
        solver="HIGHS",
        affinity="auto",
        store_database=True,
        random_state=None,
    ):
        self.nbits = nbits
        self.loss = loss
        self.k = k
        self.discount = discount
        self.C = C
        self.n_relevant = n_relevant
        self.n_irrelevant = n_irrelevant
        self.n_queries = n_queries
        self.hash_function = hash_function
        self.n_anchors = n_anchors
        self.gamma = gamma
        self.ridge = ridge
        self.n_starts = n_starts
        self.fully_corrective = fully_corrective
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    @property
    def n_iter_(self):
        """Most cuts that a bit took."""
        return max(entry["n_iter"] for entry in self.history_)

    _fitted_private = (*ColumnGenerationHasher._fitted_private, "_metric")

    def _check_options(self, X):
        super()._check_options(X)
        if self.k is not None and self.loss not in ("ndcg", "precision"):
            raise ValueError(f"k={self.k} with loss={self.loss!r}; only 'ndcg' and 'precision' have a cut-off.")

    def _pose(self, lists):
        from skhash.hashers.structhash._master import Master
        from skhash.hashers.structhash._oracles import RankingOracle

        self._metric = "ndcg" if self.loss == "ndcg" else "ap"
        oracle = RankingOracle(lists, self._gain())
        if not oracle.reversed_rankings().offset > 0:
            raise ValueError(
                f"loss={self.loss!r} with k={self.k} is 0 for reversed rankings of these lists, too; nothing can be "
                "learned. Take longer lists, loss='ap', or discount='log2'."
            )

        def master(C):
            return Master(oracle, self.nbits, C, self.tol, self.max_iter, self.solver, self.fully_corrective)

        return oracle.first_pair_matrix(), master

    def _gain(self):
        if callable(self.loss):
            return self.loss
        options = {"k": self.k} if self.loss in ("ndcg", "precision") else {}
        if self.loss == "ndcg":
            options["discount"] = self.discount
        return partial(LOSSES[self.loss], **options)

    def _details(self, master):
        solution = master.solution
        violation = (solution.objective - solution.bound) / self.C_
        return {
            "xi": solution.loss - violation,
            "violation": violation,
            "n_cuts": len(master.cuts),
            "n_iter": solution.n_iter,
            "all_weights": solution.all_weights,
        }

    def _score_metric(self):
        return self._metric
