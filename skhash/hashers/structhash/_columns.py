"""Hashers of weighted bits that column generation finds one by one.

A restricted master problem gives the bits so far their weights w >= 0, and its duals a matrix
A of pair weights. The next bit maximises

    gain(h) = sum_ij A_ij |h(x_i) - h(x_j)|

and improves the objective only if that exceeds 1: a violated constraint of the dual problem.
"""

import time
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skhash._compat import HasMethods, Interval, StrOptions
from skhash.base import BaseHasher
from skhash.codes import is_count, pack, signs, unpack
from skhash.hashers._lists import draw_lists
from skhash.hashers.structhash._functions import (
    ClassifierFunctions,
    KernelFunctions,
    LinearFunctions,
    StumpFunctions,
    best_new_bit,
)

_FAMILIES: dict = {"linear": LinearFunctions, "kernel": KernelFunctions, "stump": StumpFunctions}


@dataclass
class Solution:
    """Weights, and how good they are proven to be.

    Parameters
    ----------
    weights : float64 array of shape (n_bits,)
        w.
    loss : float
        What C multiplies.
    objective : float
        |w|_1 + C loss.
    bound : float
        Lower bound of the objective over these bits.
    duals : float64 array of shape (n_constraints,)
        Multipliers of the constraints at the lower bound.
    n_iter : int
        Oracle calls, where there is an oracle.
    all_weights : bool
        Whether all weights were solved for; else the bound is one with the others as they are.
    """

    weights: np.ndarray
    loss: float
    objective: float
    bound: float = 0.0
    duals: np.ndarray = field(default_factory=lambda: np.zeros(0))
    n_iter: int = 0
    all_weights: bool = True


class ColumnGenerationHasher(BaseHasher):
    """A hasher that learns one weighted bit after another.

    A subclass poses its master problem in `_pose(lists)`, and says in `_slack` how many times
    the `C` that the first bit wants it takes by default, in `_ridges` its penalties of "linear" and
    "kernel" functions. It has the parameters of `_parameter_constraints`.
    """

    _supervised = True
    _slack: float
    _ridges: dict
    _parameter_constraints = BaseHasher._parameter_constraints | {
        "C": [Interval(Real, 0, None, closed="neither"), None],
        "n_relevant": [Interval(Integral, 1, None, closed="left")],
        "n_irrelevant": [Interval(Integral, 1, None, closed="left")],
        "n_queries": [Interval(Integral, 1, None, closed="left")],
        "hash_function": [StrOptions({*_FAMILIES, "trees"}), HasMethods(["fit", "decision_function"])],
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "ridge": [Interval(Real, 0, None, closed="left"), None],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "solver": [str],
        "random_state": ["random_state"],
    }

    def truncate(self, nbits):
        """Make the hasher of the first bits, with the weights that they had then.

        It is the one that fit gives for that `nbits` and the same `random_state`.

        Parameters
        ----------
        nbits : int
            Between 1 and the length of the codes.

        Returns
        -------
        hasher of the same class
            Fitted; this one stays as it is.

        Raises
        ------
        ValueError
            If there are not that many bits, or they have no weight yet.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import StructHashHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> long = StructHashHasher(4, n_relevant=5, n_irrelevant=5, random_state=0).fit(X[:200], y[:200])
        >>> short = StructHashHasher(2, n_relevant=5, n_irrelevant=5, random_state=0).fit(X[:200], y[:200])
        >>> bool((long.truncate(2).transform(X) == short.transform(X)).all())
        True
        """
        check_is_fitted(self)
        if not is_count(nbits, self._nbits):
            raise ValueError(f"nbits={nbits!r}; an integer from 1 to {self._nbits} is wanted.")
        if not self.bit_weights_path_[nbits - 1].any():
            raise ValueError(f"nbits={nbits}; the first {nbits} bits have no weight, at C={self.C_:g}.")
        shorter = clone(self).set_params(nbits=int(nbits))
        shorter.__dict__.update({name: value for name, value in vars(self).items() if name not in self.get_params()})
        shorter._nbits, shorter.history_ = int(nbits), self.history_[:nbits]
        shorter.optimal_ = self.optimal_ and len(self.history_) < nbits
        shorter.functions_ = _family_of(self.hash_function).first(self.functions_, nbits)
        shorter._store_weights(self.bit_weights_path_[:nbits, :nbits])
        if self.database_codes_ is not None:
            shorter.database_codes_ = pack(unpack(self.database_codes_, self._nbits)[:, :nbits])
        return shorter

    def _n_tasks(self):
        return self.nbits

    def _check_options(self, X):
        import cvxpy

        if self.solver not in cvxpy.installed_solvers():
            installed = ", ".join(cvxpy.installed_solvers())
            raise ValueError(f"solver={self.solver!r} is not installed; one of {installed} is wanted.")

    def _pose(self, lists):
        """Pose the master problem of ranking lists.

        Returns the pair matrix of the first bit, for C = 1, and a function that makes the master
        of a C: an object with `add_bit(bits)`, `optimize()`, `pair_matrix()` and `solution`; where
        that is not of all weights, with `optimize(all_weights=True)`.
        """
        raise NotImplementedError

    def _details(self, master):
        """What `history_` keeps of a bit beyond what all methods do."""
        return {}

    def _fit(self, X, targets):
        rows = X.astype(np.float64, copy=False)
        rng = check_random_state(self.random_state)
        lists = draw_lists(self.affinity_, targets, self.n_relevant, self.n_irrelevant, self.n_queries, rng)
        A, make_master = self._pose(lists)
        functions = self._family(rows, rng)
        gain, bits, found = best_new_bit(functions, A, np.zeros((len(rows), 0)), rng)
        if not gain > 0:
            raise ValueError("X has no bit that brings relevant rows nearer than irrelevant ones; are all rows equal?")
        self.C_ = self._slack / gain if self.C is None else float(self.C)
        if self.C_ * gain <= 1:
            raise ValueError(
                f"C={self.C_:g} leaves the first bit at weight 0; a C well above {1 / gain:.3g} is wanted."
            )
        master = make_master(self.C_)
        known, parameters, path = np.zeros((len(rows), 0)), [], np.zeros((self.nbits, self.nbits))
        gain *= self.C_
        self.history_, self.optimal_ = [], False
        for bit in range(self.nbits):
            start = time.perf_counter()
            if bit:
                gain, bits, found = best_new_bit(functions, master.pair_matrix(), known, rng, 1 + self.tol)
                if gain <= 1 + self.tol and not master.solution.all_weights:
                    master.optimize(all_weights=True)
                    path[bit:, :bit] = master.solution.weights
                    self._store_weights(path)
                    gain, bits, found = best_new_bit(functions, master.pair_matrix(), known, rng, 1 + self.tol)
                if gain <= 1 + self.tol:
                    self.optimal_ = True
                    break
            context = self._callback_fit_ctx.subcontext(task_name="bit")
            context.call_on_fit_task_begin(estimator=self, X=X, y=targets)
            known = np.column_stack([known, signs(bits)])
            parameters.append(found)
            master.add_bit(bits)
            master.optimize()
            path[bit:, : bit + 1] = master.solution.weights  # until the next bit, all later rows are the same
            self.functions_ = functions.collect(parameters)
            self._store_weights(path)
            self.history_.append(self._record(bit + 1, gain, master, start))
            # callbacks rank by plain distances as long as no bit has a weight
            seen = path.copy() if path.any() else np.tri(self.nbits) * (np.arange(self.nbits) <= bit)
            if context.call_on_fit_task_end(
                estimator=self,
                X=X,
                y=targets,
                reconstruction_attributes=partial(self._reconstruction_attributes, X, targets, seen),
            ):
                break
        if not self.bit_weights_.any():
            learned = len(self.history_)
            if self.optimal_:
                wanted = "no other bit improves on that: a larger C is wanted"
            elif learned < self.nbits:
                wanted = "a callback stopped the fit before one had a weight"
            else:
                wanted = "a larger C or more bits are wanted"
            raise ValueError(
                f"C={self.C_:g} leaves the weights of all bits, {learned} so far, at 0 to within "
                f"tol={self.tol:g}; {wanted}."
            )

    def _family(self, X, rng):
        """Prepare the search for hash functions on the training rows."""
        kind = self.hash_function
        if kind == "stump":
            return StumpFunctions(X)
        if kind not in ("linear", "kernel"):
            few = min(20, max(1, len(X) // 10))  # rows in a leaf: the default wants forty rows at least
            trees = HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=few)
            if isinstance(kind, str):  # with more values than bins it would look for weighted quantiles in every fit
                return ClassifierFunctions(X, trees, self.n_starts, trees.max_bins)
            return ClassifierFunctions(X, kind, self.n_starts)
        ridge = self._ridges[kind] if self.ridge is None else self.ridge
        if kind == "linear":
            return LinearFunctions(X, ridge, self.n_starts)
        return KernelFunctions(X, ridge, self.n_starts, self.n_anchors, self.gamma, rng)

    def _record(self, bit, gain, master, start):
        """What `history_` keeps of a bit."""
        solution = master.solution
        return {
            "bit": bit,
            "column_gain": gain,
            "loss": solution.loss,
            "objective": solution.objective,
            "bound": solution.bound,
            "gap": solution.objective - solution.bound,
            **self._details(master),
            "n_nonzero": int(np.count_nonzero(self.bit_weights_ > 1e-6 * self.bit_weights_.max())),
            "effective_bits": self.effective_bits_,
            "seconds": time.perf_counter() - start,
        }

    def _store_weights(self, path):
        self.bit_weights_path_, self.bit_weights_ = path, path[-1].copy()
        self.effective_bits_ = float(path[-1].sum() ** 2 / max(path[-1] @ path[-1], np.finfo(np.float64).tiny))

    def _project(self, X):
        learned = _family_of(self.hash_function).activations(self.functions_, X)
        surplus = np.ones((len(X), self._nbits - learned.shape[1]))
        return np.hstack([learned, surplus])


def _family_of(hash_function):
    return _FAMILIES.get(hash_function, ClassifierFunctions) if isinstance(hash_function, str) else ClassifierFunctions
