r"""The two programs of the level bundle method.

Over cuts R(w) >= b_t - a_t'w, with the slack xi >= 0 and weights w >= 0:

    lower bound    minimize |w|_1 + C xi            s.t.  a_t'w + xi >= b_t
    projection     minimize |w - center|_2^2        s.t.  a_t'w + xi >= b_t,  |w|_1 + C xi <= level

HiGHS solves the first one, and continues from its last basis when a cut is added. In the second one, xi can be
max(0, max_t b_t - a_t'w), so that with d = w - center it is a least norm under

    (C a_t - 1)'d >= C (b_t - a_t'center) - (level - |center|_1),  -1'd >= -(level - |center|_1),  d >= -center.

cvxpy takes longer (``benchmarks/structhash_growth.py`` times fits). It solves the first one by other solvers, and both
if HiGHS or the least norm fails. Compiling a program takes longer than solving it, so each is compiled at most once for
a number of bits and a maximum number of cuts, whose coefficients are parameters.
"""

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
import numpy.typing as npt

from skhash.hashers.structhash._growing_program import GrowingProgram
from skhash.hashers.structhash._least_norm import least_norm_point


class CutPrograms:
    """Both programs for at most `max_cuts` cuts of `nbits` weights."""

    def __init__(self, nbits: int, max_cuts: int, C: float, solver: str = "HIGHS") -> None:
        self.nbits, self.max_cuts, self.C, self.solver = nbits, max_cuts, C, solver
        self._slopes, self._offsets = cp.Parameter((max_cuts, nbits)), cp.Parameter(max_cuts)
        self._growing = GrowingProgram(nbits, C) if solver == "HIGHS" else None

    @cached_property
    def _linear(self) -> tuple[Any, Any]:
        """The program of the lower bound, and its cuts."""
        w, xi = cp.Variable(self.nbits, nonneg=True), cp.Variable(nonneg=True)
        cuts = self._slopes @ w + xi >= self._offsets
        return cp.Problem(cp.Minimize(cp.sum(w) + self.C * xi), [cuts]), cuts

    @cached_property
    def _quadratic(self) -> tuple[Any, ...]:
        """The program of the projection, its step, and its parameters."""
        # the variable is the step from the center, so that the objective has no parameter
        step, xi = cp.Variable(self.nbits), cp.Variable(nonneg=True)
        floor, level = cp.Parameter(self.nbits), cp.Parameter()
        within = [
            self._slopes @ step + xi >= self._offsets,
            cp.sum(step) + self.C * xi <= level,
            step >= floor,
        ]
        return cp.Problem(cp.Minimize(cp.sum_squares(step)), within), step, floor, level

    def lower_bound(
        self, slopes: npt.NDArray[np.float64], offsets: npt.NDArray[np.float64]
    ) -> tuple[float, npt.NDArray[np.float64]]:
        """Lower bound of the objective, and its duals (n_cuts,), for cuts a_t (n_cuts, nbits) and b_t."""
        if self._growing is not None and (solution := self._growing.solve(slopes, offsets)) is not None:
            return solution
        problem, cuts = self._linear
        self._set_cuts(slopes, offsets)
        solve(problem, self.solver, ("HIGHS", "CLARABEL", "SCIPY"))
        return float(problem.value), np.maximum(cuts.dual_value, 0)[: len(offsets)]

    def nearest_within(
        self,
        slopes: npt.NDArray[np.float64],
        offsets: npt.NDArray[np.float64],
        center: npt.NDArray[np.float64],
        level: float,
    ) -> npt.NDArray[np.float64]:
        """Weights nearest to `center` where the cuts allow an objective of `level`, which is above the lower bound."""
        offsets, rest = offsets - slopes @ center, level - center.sum()
        constraints = np.vstack([self.C * slopes - 1, np.full((1, self.nbits), -1.0), np.eye(self.nbits)])
        nearest = least_norm_point(constraints, np.concatenate([self.C * offsets - rest, [-rest], -center]))
        if nearest is None:
            problem, step, floor, limit = self._quadratic
            self._set_cuts(slopes, offsets)
            limit.value, floor.value = rest, -center
            solve(problem, "CLARABEL", ("CLARABEL", "HIGHS", "OSQP"))
            nearest = np.asarray(step.value)
        return np.maximum(center + nearest, 0)

    def _set_cuts(self, slopes: npt.NDArray[np.float64], offsets: npt.NDArray[np.float64]) -> None:
        """Set the parameters of the cuts; the unused ones become 0 + xi >= 0."""
        rest = self.max_cuts - len(offsets)
        self._slopes.value, self._offsets.value = np.pad(slopes, ((0, rest), (0, 0))), np.pad(offsets, (0, rest))


def solve(problem: Any, solver: str, others: Sequence[str]) -> None:
    """Solve a cvxpy problem in place, by the first installed one of `others` if `solver` fails, else RuntimeError."""
    failures: list[str] = []
    for name in _choices(solver, others):
        try:
            problem.solve(solver=name)
            status = problem.status
        except cp.SolverError as error:
            status = str(error).split("\n")[0]
        if status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            if failures:
                warnings.warn(f"The master problem was solved by {name} instead: {'; '.join(failures)}.", stacklevel=3)
            return
        failures.append(f"{name} ended with status {status!r}")
    raise RuntimeError(f"The master problem could not be solved: {'; '.join(failures)}. Try another solver.")


def _choices(solver: str, others: Sequence[str]) -> Iterator[str]:
    """The solver, then the first installed one of `others`; listing the solvers takes time, so it is done if needed."""
    yield solver
    installed = cp.installed_solvers()
    yield from [other for other in others if other != solver and other in installed][:1]
