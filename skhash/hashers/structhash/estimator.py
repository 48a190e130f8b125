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

import time
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skhash._compat import HasMethods, Interval, StrOptions
from skhash.base import BaseHasher
from skhash.codes import pack, unpack
from skhash.hashers.linear import one_blas_thread
from skhash.hashers.structhash.functions import ClassifierFunctions, KernelFunctions, LinearFunctions, StumpFunctions
from skhash.hashers.structhash.lists import draw_lists
from skhash.hashers.structhash.losses import LOSSES
from skhash.metrics.ndcg import DISCOUNTS

SLACK = 15.0  # C over the smallest one that gives the first bit a weight
RIDGES = {"linear": 100.0, "kernel": 0.3}
MORE_STARTS = 5  # when no bit improves, before the search is given up
_FAMILIES: dict = {"linear": LinearFunctions, "kernel": KernelFunctions, "stump": StumpFunctions}


class StructHashHasher(BaseHasher):
    r"""Weighted bits from a structured SVM, by column generation and cutting planes.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code. Bits that no longer improve the objective are constant and weigh 0.
    loss : {"ndcg", "ap", "auc", "precision"} or callable, default="ndcg"
        What is lost by a ranking. A callable gain(g, t, n_relevant, n_irrelevant) gives the
        gain of the g-th relevant item at rank t (arrays); gains never grow with t, and
        those of the true ranking sum to 1.
    k : int, default=None
        Cut-off of "ndcg" and "precision"; None takes the whole list, and the number of
        relevant items.
    discount : {"structhash", "log2"}, default="structhash"
        Discount of "ndcg": the paper's 1 / log2(max(t, 2)), or 1 / log2(t + 1).
    C : float, default=None
        Weight of the loss against \|w\|_1; None takes 15 times the smallest one at which
        the first bit has a weight.
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
        Solve for all weights after each bit; False for the newest one only, which is quicker.
    tol : float, default=1e-3
        How far the loss may be from that of the proven lower bound, in units of the loss.
    max_iter : int, default=200
        Most cuts for one bit; a ConvergenceWarning tells when they did not do.
    solver : str, default="HIGHS"
        cvxpy's name of an installed solver of linear programs.
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
        1; "loss", the mean violation; "objective"; "bound", its lower bound over these bits;
        "gap"; "xi", the loss at the bound, and "violation" = loss - xi = gap / C; "n_cuts",
        "n_iter", "n_nonzero", "effective_bits", "seconds".
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

    _supervised = True
    _parameter_constraints = BaseHasher._parameter_constraints | {
        "loss": [StrOptions(set(LOSSES)), callable],
        "k": [Interval(Integral, 1, None, closed="left"), None],
        "discount": [StrOptions(set(DISCOUNTS))],
        "C": [Interval(Real, 0, None, closed="neither"), None],
        "n_relevant": [Interval(Integral, 1, None, closed="left")],
        "n_irrelevant": [Interval(Integral, 1, None, closed="left")],
        "n_queries": [Interval(Integral, 1, None, closed="left")],
        "hash_function": [StrOptions({*_FAMILIES, "trees"}), HasMethods(["fit", "decision_function"])],
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "ridge": [Interval(Real, 0, None, closed="left"), None],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "fully_corrective": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "solver": [str],
        "random_state": ["random_state"],
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

    def truncate(self, nbits):
        """Make the hasher of the first bits, with the weights that they had then.

        It is the one that fit gives for that `nbits` and the same `random_state`.

        Parameters
        ----------
        nbits : int
            Between 1 and the length of the codes.

        Returns
        -------
        StructHashHasher
            Fitted; this one stays as it is.

        Raises
        ------
        ValueError
            If there are not that many bits.
        """
        check_is_fitted(self)
        if isinstance(nbits, bool) or not isinstance(nbits, int | np.integer) or not 1 <= nbits <= self._nbits:
            raise ValueError(f"nbits={nbits!r}; an integer from 1 to {self._nbits} is wanted.")
        shorter = clone(self).set_params(nbits=int(nbits))
        shorter.__dict__.update({name: value for name, value in vars(self).items() if name not in self.get_params()})
        shorter._nbits, shorter.history_ = int(nbits), self.history_[:nbits]
        shorter.optimal_ = self.optimal_ and len(self.history_) < nbits
        shorter.functions_ = _family_of(self.hash_function).first(self.functions_, nbits)
        shorter.n_iter_ = max(entry["n_iter"] for entry in shorter.history_)
        shorter._keep_weights(self.bit_weights_path_[:nbits, :nbits])
        if self.database_codes_ is not None:
            shorter.database_codes_ = pack(unpack(self.database_codes_, self._nbits)[:, :nbits])
        return shorter

    def _prepare(self, X):
        import cvxpy

        if self.solver not in cvxpy.installed_solvers():
            installed = ", ".join(cvxpy.installed_solvers())
            raise ValueError(f"solver={self.solver!r} is not installed; one of {installed} is wanted.")
        if self.k is not None and self.loss not in ("ndcg", "precision"):
            raise ValueError(f"k={self.k} with loss={self.loss!r}; only 'ndcg' and 'precision' have a cut-off.")
        return self.nbits

    @one_blas_thread
    def _fit(self, X, targets):
        from skhash.hashers.structhash.master import Master
        from skhash.hashers.structhash.oracles import RankingOracle

        rows = X.astype(np.float64, copy=False)
        rng = check_random_state(self.random_state)
        lists = draw_lists(self.affinity_, targets, self.n_relevant, self.n_irrelevant, self.n_queries, rng)
        oracle = RankingOracle(lists, self._gain())
        functions = self._family(rows, rng)
        first = oracle.reversed_rankings()
        if not first.offset > 0:
            raise ValueError(
                f"loss={self.loss!r} with k={self.k} is 0 for reversed rankings, too; nothing can be learned."
            )
        A = oracle.pair_matrix([first], [1.0])
        gain, bits, found = best_new_bit(functions, A, np.zeros((len(rows), 0)), rng)
        if not gain > 0:
            raise ValueError("X has no bit that brings relevant rows nearer than irrelevant ones; are all rows equal?")
        self.C_ = SLACK / gain if self.C is None else float(self.C)
        if self.C_ * gain <= 1:
            raise ValueError(f"C={self.C_:g} leaves all bit weights at 0; a C well above {1 / gain:.3g} is wanted.")
        master = Master(oracle, self.nbits, self.C_, self.tol, self.max_iter, self.solver, self.fully_corrective)
        known, parameters, path = np.zeros((len(rows), 0)), [], np.zeros((self.nbits, self.nbits))
        gain *= self.C_
        self.history_, self.optimal_ = [], False
        self._metric = "ndcg" if self.loss == "ndcg" else "ap"
        for bit in range(self.nbits):
            start = time.perf_counter()
            if bit:
                gain, bits, found = best_new_bit(functions, master.pair_matrix(), known, rng, 1 + self.tol)
                if gain <= 1 + self.tol:
                    self.optimal_ = True
                    break
            context = self._callback_fit_ctx.subcontext(task_name="bit")
            context.call_on_fit_task_begin(estimator=self, X=X, y=targets)
            known = np.column_stack([known, 2.0 * bits - 1])
            parameters.append(found)
            master.add_bit(bits)
            master.optimize()
            if not master.solution.weights.any():
                raise ValueError(
                    f"C={self.C_:g} leaves all bit weights at 0 for tol={self.tol:g} and max_iter={self.max_iter}; "
                    "a larger C is wanted."
                )
            path[bit:, : bit + 1] = master.solution.weights  # until the next bit, all later rows are the same
            self.functions_ = functions.collect(parameters)
            self._keep_weights(path)
            self.history_.append(self._record(bit + 1, gain, master, start))
            self.n_iter_ = max(entry["n_iter"] for entry in self.history_)
            if context.call_on_fit_task_end(
                estimator=self,
                X=X,
                y=targets,
                reconstruction_attributes=partial(self._snapshot, X, targets, path.copy()),
            ):
                break

    def _gain(self):
        if callable(self.loss):
            return self.loss
        options = {"k": self.k} if self.loss in ("ndcg", "precision") else {}
        if self.loss == "ndcg":
            options["discount"] = self.discount
        return partial(LOSSES[self.loss], **options)

    def _family(self, X, rng):
        """Prepare the search for hash functions on the training rows."""
        kind = self.hash_function
        if kind == "stump":
            return StumpFunctions(X)
        if kind not in ("linear", "kernel"):
            few = min(20, max(1, len(X) // 10))  # rows in a leaf: the default wants forty rows at least
            trees = HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=few)
            return ClassifierFunctions(X, trees if isinstance(kind, str) else kind, self.n_starts)
        ridge = RIDGES[kind] if self.ridge is None else self.ridge
        if kind == "linear":
            return LinearFunctions(X, ridge, self.n_starts)
        return KernelFunctions(X, ridge, self.n_starts, self.n_anchors, self.gamma, rng)

    def _record(self, bit, gain, master, start):
        """What `history_` keeps of a bit."""
        solution = master.solution
        gap = solution.objective - solution.bound
        return {
            "bit": bit,
            "column_gain": gain,
            "loss": solution.loss,
            "objective": solution.objective,
            "bound": solution.bound,
            "gap": gap,
            "xi": solution.loss - gap / self.C_,
            "violation": gap / self.C_,
            "n_cuts": len(master.cuts),
            "n_iter": solution.n_iter,
            "n_nonzero": int(np.count_nonzero(self.bit_weights_ > 1e-6 * self.bit_weights_.max())),
            "effective_bits": self.effective_bits_,
            "seconds": time.perf_counter() - start,
        }

    def _keep_weights(self, path):
        self.bit_weights_path_, self.bit_weights_ = path, path[-1].copy()
        self.effective_bits_ = float(path[-1].sum() ** 2 / (path[-1] @ path[-1]))

    @one_blas_thread
    def _project(self, X):
        learned = _family_of(self.hash_function).activations(self.functions_, X)
        surplus = np.ones((len(X), self._nbits - learned.shape[1]))
        return np.hstack([learned, surplus])

    def _score_metric(self):
        return self._metric


def _family_of(hash_function):
    return _FAMILIES.get(hash_function, ClassifierFunctions) if isinstance(hash_function, str) else ClassifierFunctions


def best_new_bit(functions, A, known, rng, enough=0.0):
    """Search the bit that separates the most weight, among bits that are not there yet.

    Parameters
    ----------
    functions : LinearFunctions or another family
        What proposes bits.
    A : csr_array of shape (n_rows, n_rows)
        Pair weights.
    known : float64 array of shape (n_rows, n_bits)
        The bits that are there, -1 or 1.
    rng : numpy.random.RandomState
        Source of further starts.
    enough : float, default=0.0
        More starts are tried if the gain is not above this.

    Returns
    -------
    gain : float
        sum_ij A_ij |h(x_i) - h(x_j)|; -inf where no bit is new.
    bits : uint8 array of shape (n_rows,) or None
        Of the training rows.
    parameters : dict or None
        What computes them.
    """
    best = (-np.inf, None, None)
    total = A.sum()
    for more in (1,) if functions.best_first else (1, MORE_STARTS):
        for bits, parameters in functions.propose(A, rng, more):
            s = 2.0 * bits - 1
            is_known = (np.abs(s @ known) == len(s)).any() or abs(s.sum()) == len(s)
            gain = float(total - s @ (A @ s)) / 2
            if not is_known and gain > best[0]:
                best = (gain, bits, parameters)
                if functions.best_first:
                    break
        if best[0] > enough:
            break
    return best
