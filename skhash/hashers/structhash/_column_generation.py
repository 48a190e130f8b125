r"""Hashers of weighted bits that column generation finds one by one.

A restricted master problem gives the known bits their weights,

    min_w |w|_1 + C loss(w),  w >= 0,

and the duals of its constraints give a matrix A of pair weights. The next bit maximizes

    gain(h) = sum_ij A_ij |h(x_i) - h(x_j)|

and improves the objective only if its gain exceeds 1: a violated constraint of the dual problem.
StructHash and CGHash differ in the loss.
"""

import time
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier

from skhash._compat import HasMethods, Interval, StrOptions
from skhash._libraries import library
from skhash._validation import Array
from skhash.base import BaseHasher
from skhash.codes import signs
from skhash.functions import HashFunction
from skhash.hashers.ranking_lists import RankingLists, draw_ranking_lists
from skhash.hashers.structhash._columns import (
    ClassifierColumns,
    Column,
    Columns,
    KernelColumns,
    LinearColumns,
    StumpColumns,
    find_column,
)


@dataclass(frozen=True)
class Solution:
    """Bit weights, the duals, and a lower bound of |w|_1 + C loss, over `all_weights` or with the older ones fixed."""

    weights: npt.NDArray[np.float64]
    loss: float
    objective: float
    bound: float = 0.0
    duals: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    n_iter: int = 0
    all_weights: bool = True


def solve(problem: Any, solver: str) -> None:
    """Solve a cvxpy problem in place, by Clarabel if `solver` fails; RuntimeError if both do."""
    import cvxpy as cp

    failures: list[str] = []
    for name in (solver, "CLARABEL"):
        try:
            problem.solve(solver=name)
            status = problem.status
        except cp.SolverError as error:
            status = str(error).split("\n")[0]
        if status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            if failures:
                warnings.warn(f"The master problem was solved by {name} instead: {failures[0]}.", stacklevel=3)
            return
        failures.append(f"{name} ended with status {status!r}")
    raise RuntimeError(f"The master problem could not be solved: {'; '.join(failures)}. Try another solver.")


class ColumnGenerationHasher(BaseHasher):
    """Base class of hashers that learn one weighted bit after another; a subclass implements `_master_problem`."""

    _supervised = True
    _default_c_factor: float  # default of C, in units of the smallest one that gives the first bit a weight
    _default_ridges: dict[str, float]  # defaults of ridge for "linear" and "kernel" functions
    _parameter_constraints = BaseHasher._parameter_constraints | {
        "C": [Interval(Real, 0, None, closed="neither"), None],
        "n_relevant": [Interval(Integral, 1, None, closed="left")],
        "n_irrelevant": [Interval(Integral, 1, None, closed="left")],
        "n_queries": [Interval(Integral, 1, None, closed="left")],
        "hash_function": [StrOptions({"linear", "kernel", "stump", "trees"}), HasMethods(["fit", "decision_function"])],
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "ridge": [Interval(Real, 0, None, closed="left"), None],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "solver": [str],
        "random_state": ["random_state"],
    }

    C_: float
    optimal_: bool
    bit_weights_path_: Annotated[npt.NDArray[Any], Array("nbits nbits", minimum=0)]
    bit_weights_: Annotated[npt.NDArray[Any], Array("nbits", minimum=0)]
    effective_bits_: float
    history_: list[dict[str, Any]]

    def _cut(self, nbits: int) -> None:
        path = self.bit_weights_path_
        if not path[nbits - 1].any():
            raise ValueError(
                f"`nbits` must include a bit with a weight. Got {nbits}, but with C={self.C_:g} the first {nbits} bits "
                "have no weight."
            )
        super()._cut(nbits)
        self.optimal_ = self.optimal_ and len(self.history_) < nbits
        self.history_ = self.history_[:nbits]
        self._store_weights(path[:nbits, :nbits])

    def _prefix_is_as_good(self, n_samples: int) -> bool:
        return True

    @abstractmethod
    def _master_problem(self, lists: RankingLists) -> tuple[Any, Callable[[float], Any]]:
        """Pair matrix of the first bit for C = 1, and a function that makes the master problem of a C.

        It has a `solution`. `add_bit` adds a bit of all training samples, `optimize` updates the solution, and
        `pair_matrix` returns the sparse matrix A, from which the next bit is learned.
        """

    def _history_details(self, master: Any) -> dict[str, Any]:
        """Entries of `history_` that only this method has."""
        return {}

    def _n_tasks(self) -> int:
        return self.nbits

    def _check_options(self) -> None:
        cvxpy = library("cvxpy", "cvxpy highspy", type(self).__name__)
        if self.solver not in cvxpy.installed_solvers():
            installed = ", ".join(cvxpy.installed_solvers())
            raise ValueError(f"`solver` must be an installed one of {installed}. Got {self.solver!r} instead.")

    def _learn(self, X: npt.NDArray[Any], relevance: Any, rng: np.random.RandomState) -> HashFunction:
        targets = relevance.targets
        lists = draw_ranking_lists(relevance, self.n_relevant, self.n_irrelevant, self.n_queries, rng)
        pair_matrix, make_master_problem = self._master_problem(lists)
        columns = self._columns(X, rng)
        known, parameters = np.zeros((len(X), 0)), []  # the bits so far, as -1 and 1

        def find(A: Any, min_gain: float = 0.0) -> Column | None:
            return find_column(columns, A, known, rng, min_gain)

        self.C_, column = self._first_column(find(pair_matrix))
        master = make_master_problem(self.C_)
        weights_path = np.zeros((self.nbits, self.nbits))
        self.history_, self.optimal_ = [], False
        for bit in range(self.nbits):
            start = time.perf_counter()
            if bit:
                better = self._next_column(find, master, weights_path)
                if better is None:
                    self.optimal_ = True
                    break
                column = better
            context = self._callback_fit_ctx.subcontext(task_name="bit")
            context.call_on_fit_task_begin(estimator=self, X=X, y=targets)
            known = np.column_stack([known, signs(column.bits)])
            parameters.append(column.parameters)
            master.add_bit(column.bits)
            master.optimize()
            self.function_ = columns.function(parameters, self.nbits)
            weights_path[bit:, : bit + 1] = master.solution.weights  # later rows have them until the next bit
            self._store_weights(weights_path)
            self.history_.append(self._history_entry(column.gain, master, start))
            reconstruction = partial(
                self._reconstruction_attributes, X, targets, self._callback_weights(weights_path, bit)
            )
            if context.call_on_fit_task_end(estimator=self, X=X, y=targets, reconstruction_attributes=reconstruction):
                break
        self._check_weights()
        return self.function_

    def _check_weights(self) -> None:
        """Raise ValueError if no bit has a weight."""
        if not self.bit_weights_.any():
            raise ValueError(
                f"`C` must give at least one bit a weight. Got C={self.C_:g}, which leaves the weights of all "
                f"{len(self.history_)} bits at 0 to within tol={self.tol:g}. Increase C or nbits."
            )

    def _columns(self, X: npt.NDArray[np.floating], rng: np.random.RandomState) -> Columns:
        """Columns of the family that `hash_function` chooses, ready for a search on training samples."""
        kind = self.hash_function
        if kind == "linear" or kind == "kernel":
            ridge = self._default_ridges[kind] if self.ridge is None else self.ridge
            if kind == "linear":
                return LinearColumns(X, ridge, self.n_starts)
            return KernelColumns(X, ridge, self.n_starts, self.n_anchors, self.gamma, rng)
        samples: npt.NDArray[np.float64] = X.astype(np.float64, copy=False)
        if kind == "stump":
            return StumpColumns(samples)
        if kind == "trees":
            leaf_size = min(20, max(1, len(X) // 10))  # the default of 20 needs at least 40 samples
            trees = HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=leaf_size)
            # with more values than bins, each fit would spend most of its time on weighted quantiles
            return ClassifierColumns(samples, trees, self.n_starts, trees.max_bins)
        return ClassifierColumns(samples, kind, self.n_starts)

    def _first_column(self, first: Column | None) -> tuple[float, Column]:
        """C, chosen by the gain that the first column has for C = 1, and this column for C."""
        if first is None:
            raise ValueError(
                "`X` must distinguish relevant from irrelevant samples. Got no bit that brings relevant samples nearer "
                "than irrelevant ones; check whether all samples are equal."
            )
        C = self._default_c_factor / first.gain if self.C is None else float(self.C)
        if C * first.gain <= 1:
            raise ValueError(
                f"`C` must be well above {1 / first.gain:.3g}, or the first bit has weight 0. Got {C:g} instead."
            )
        return C, replace(first, gain=C * first.gain)

    def _next_column(
        self, find: Callable[..., Column | None], master: Any, weights_path: npt.NDArray[np.float64]
    ) -> Column | None:
        """The next column, or None if no column improves the objective at the optimum over all weights."""
        column = find(master.pair_matrix(), 1 + self.tol)
        if column is None and not master.solution.all_weights:
            master.optimize(all_weights=True)
            weights = master.solution.weights
            weights_path[len(weights) :, : len(weights)] = weights
            self._store_weights(weights_path)
            column = find(master.pair_matrix(), 1 + self.tol)
        return column

    def _history_entry(self, gain: float, master: Any, start: float) -> dict[str, Any]:
        solution = master.solution
        return {
            "bit": len(solution.weights),
            "column_gain": gain,
            "loss": solution.loss,
            "objective": solution.objective,
            "bound": solution.bound,
            "gap": solution.objective - solution.bound,
            **self._history_details(master),
            "n_nonzero": int(np.count_nonzero(self.bit_weights_ > 1e-6 * self.bit_weights_.max())),
            "effective_bits": self.effective_bits_,
            "seconds": time.perf_counter() - start,
        }

    def _callback_weights(self, weights_path: npt.NDArray[np.float64], bit: int) -> npt.NDArray[np.float64]:
        """Weights that callbacks rank by: plain Hamming distances until a bit has a weight."""
        if weights_path.any():
            return weights_path.copy()
        return np.tri(self.nbits) * (np.arange(self.nbits) <= bit)

    def _store_weights(self, weights: npt.NDArray[np.float64]) -> None:
        self.bit_weights_path_, self.bit_weights_ = weights, weights[-1].copy()
        total, squares = self.bit_weights_.sum(), self.bit_weights_ @ self.bit_weights_
        self.effective_bits_ = float(total**2 / max(squares, np.finfo(np.float64).tiny))
