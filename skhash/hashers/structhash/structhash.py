r"""StructHash: a structured SVM of ranking measures (Lin, Shen, Wu, ECCV 2014).

Weighted Hamming distances w' |h(x) - h(x')|, w >= 0 (eq. 6), are learned by

    min_w,xi |w|_1 + C xi   s.t. for all rankings y_i and c in {0, 1}^m
    (1/m) sum_i c_i w' delta-psi_i(y_i) >= (1/m) sum_i c_i loss(y_i) - xi      (eq. 10, the 1-slack form of eq. 9)

over all hash functions at once. Column generation finds them one by one: with the duals
lambda of the constraints (eq. 12), the next bit maximizes (eqs. 14 to 16, with the 1/m that they drop)

    sum lambda (1/m) sum_i c_i delta-psi_i[h] = sum_ij A_ij |h(x_i) - h(x_j)|

and improves the objective only if that exceeds 1. Cutting planes (`_cutting_planes`) of the most
violated rankings (eq. 11, `_oracles`) solve each restricted master problem to a proven gap;
`_columns` learns the bits.
"""

from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._compat import Interval, StrOptions
from skhash.hashers.ranking_lists import RankingLists
from skhash.hashers.structhash._column_generation import ColumnGenerationHasher
from skhash.hashers.structhash._losses import GAINS
from skhash.metrics.ties import DISCOUNTS


class StructHashHasher(ColumnGenerationHasher):
    r"""Weighted bits from a structured SVM, by column generation and cutting planes.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits. Once no bit improves the objective, the remaining ones are constant and weigh 0.
    objective : {"ndcg", "ap", "auc", "precision"} or callable, default="ndcg"
        Metric to optimize; the loss of a ranking is 1 minus it. A callable gain(g, t, n_relevant,
        n_irrelevant) returns the gain of the g-th relevant item at rank t (arrays). Gains must not
        grow with t, and those of the true ranking must sum to 1. :meth:`score` is AP for each of them.
    k : int, default=None
        Cutoff of "ndcg" and "precision". None uses the whole list and the number of relevant items,
        respectively. With a small cutoff the first bits have no weight until others join them, and
        callbacks rank by plain distances until then.
    discount : {"delayed_log2", "log2"}, default="delayed_log2"
        Discount of "ndcg": 1 / log2(max(t, 2)) as in the paper, or 1 / log2(t + 1).
    C : float, default=None
        Weight of the loss against \|w\|_1. None uses 15 times the smallest C that gives the first bit
        a weight.
    n_relevant : int, default=50
        Maximum number of relevant samples drawn for each query.
    n_irrelevant : int, default=50
        Maximum number of irrelevant samples drawn for each query.
    n_queries : int, default=5000
        Maximum number of training samples used as queries.
    hash_function : {"kernel", "linear", "stump", "trees"} or classifier, default="kernel"
        Family of the hash functions: the sign of a linear map of Gaussian kernel values or of the
        features, a threshold of one feature, boosted trees, or another classifier of scikit-learn
        with a decision_function.
    n_anchors : int, default=300
        Number of training samples used as anchors of the kernel.
    gamma : float, default=None
        Coefficient of the kernel exp(-gamma d^2). None uses 2 over the mean squared distance to the
        anchors.
    ridge : float, default=None
        Penalty on directions of low variance, in units of the mean variance. None uses 0.3 for kernel
        values and 100 for features.
    n_starts : int, default=2
        Number of starting points in the search for a bit. If no bit improves, more are tried.
    fully_corrective : bool, default=True
        Whether to optimize all weights after each bit. False optimizes only the newest one, which is
        faster, and all of them where the newest one would be 0.
    tol : float, default=1e-3
        Tolerance of the weights, in units of the loss, which is between 0 and 1. After each bit the objective
        is proven to be at most C * `tol` above its minimum. So `tol` is no share of the objective.
    max_iter : int, default=200
        Maximum number of cuts per bit. A ConvergenceWarning says if they do not reach `tol`.
    solver : str, default="HIGHS"
        Name, in cvxpy, of an installed solver of linear programs. If it fails, Clarabel takes over.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, whatever their level. "auto" uses classes or shared labels from y.
        ``DistanceAffinity(percentiles=(2,), levels=(1,))`` needs no y.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws lists, anchors and starting points.

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
        "loss", the mean violation; "objective"; "bound", its lower bound over these bits, with the
        older weights fixed unless "all_weights" is True; "gap"; "xi", the loss at the bound, and
        "violation" = loss - xi = gap / C; "n_cuts", "n_iter", "n_nonzero", "effective_bits", "seconds".
    optimal_ : bool
        Whether the search ended because no bit improves. This is a proof for stumps only.
    n_iter_ : int
        Maximum number of cuts over all bits.
    affinity_ : callable
        The fitted affinity.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
    n_features_in_ : int
        Number of features seen during `fit`.

    References
    ----------
    Lin, Shen, Wu: Optimizing Ranking Measures for Compact Binary Code Learning. ECCV 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import StructHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = StructHashHasher(nbits=8, n_relevant=10, n_irrelevant=10, random_state=0)
    >>> hasher = hasher.fit(X[:500], y[:500])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.2f}")
    0.94
    >>> hasher.history_[-1]["gap"] <= hasher.C_ * hasher.tol  # `tol` is absolute
    True
    >>> hasher.prefix(4).transform(X[:1]).shape
    (1, 4)
    """

    _default_c_factor = 15.0
    _default_ridges = {"linear": 100.0, "kernel": 0.3}
    _parameter_constraints = ColumnGenerationHasher._parameter_constraints | {
        "objective": [StrOptions(set(GAINS)), callable],
        "k": [Interval(Integral, 1, None, closed="left"), None],
        "discount": [StrOptions(set(DISCOUNTS))],
        "fully_corrective": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        nbits: int = 32,
        *,
        objective: str | Callable[..., Any] = "ndcg",
        k: int | None = None,
        discount: str = "delayed_log2",
        C: float | None = None,
        n_relevant: int = 50,
        n_irrelevant: int = 50,
        n_queries: int = 5000,
        hash_function: Any = "kernel",
        n_anchors: int = 300,
        gamma: float | None = None,
        ridge: float | None = None,
        n_starts: int = 2,
        fully_corrective: bool = True,
        tol: float = 1e-3,
        max_iter: int = 200,
        solver: str = "HIGHS",
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.nbits = nbits
        self.objective = objective
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
    def n_iter_(self) -> int:
        """Maximum number of cuts over all bits."""
        return int(max(entry["n_iter"] for entry in self.history_))

    def _check_stored(self, lengths: dict[str, int]) -> None:
        if not self.history_ or not all(isinstance(entry.get("n_iter"), int) for entry in self.history_):
            raise ValueError("`history_` must have an int 'n_iter' for each bit.")

    def _check_options(self) -> None:
        super()._check_options()
        if self.k is not None and self.objective not in ("ndcg", "precision"):
            raise ValueError(
                "`k` must be None unless `objective` is 'ndcg' or 'precision'. "
                f"Got {self.k} for {self.objective!r} instead."
            )

    def _master_problem(self, lists: RankingLists) -> tuple[Any, Callable[[float], Any]]:
        from skhash.hashers.structhash._cutting_planes import CuttingPlanes
        from skhash.hashers.structhash._oracles import RankingOracle

        oracle = RankingOracle(lists, self._gain())
        if not oracle.first_cut().offset > 0:
            raise ValueError(
                "The loss of `objective` must be above 0 for reversed rankings. "
                f"Got 0 for objective={self.objective!r} with k={self.k} instead. "
                "Increase n_relevant and n_irrelevant, or use objective='ap' "
                "or discount='log2'."
            )

        options = (self.nbits, self.tol, self.max_iter, self.solver, self.fully_corrective)
        return oracle.first_pair_matrix(), lambda C: CuttingPlanes(oracle, C, *options)

    def _gain(self) -> Callable[..., npt.NDArray[np.float64]]:
        """The gain function of `objective`, with its options."""
        if callable(self.objective):
            return self.objective
        options: dict[str, Any] = {"k": self.k} if self.objective in ("ndcg", "precision") else {}
        if self.objective == "ndcg":
            options["discount"] = self.discount
        return partial(GAINS[self.objective], **options)

    def _history_details(self, master: Any) -> dict[str, Any]:
        solution = master.solution
        violation = (solution.objective - solution.bound) / self.C_
        return {
            "xi": solution.loss - violation,
            "violation": violation,
            "n_cuts": len(master.cuts),
            "n_iter": solution.n_iter,
            "all_weights": solution.all_weights,
        }
