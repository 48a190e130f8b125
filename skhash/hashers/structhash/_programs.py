r"""The two programs of the level bundle method.

Over cuts R(w) >= b_t - a_t'w, with the slack xi >= 0 and weights w >= 0:

    lower bound    minimize |w|_1 + C xi            s.t.  a_t'w + xi >= b_t
    projection     minimize |w - center|_2^2        s.t.  a_t'w + xi >= b_t,  |w|_1 + C xi <= level

HiGHS solves the first one, and goes on from its last basis when a cut is added. The second one has no
xi > 0 that is not that of a cut, so that with d = w - center it is a least norm under

    (C a_t - 1)'d >= C (b_t - a_t'center) - (level - |center|_1),  -1'd >= -(level - |center|_1),  d >= -center.

cvxpy takes several times longer. It solves the first one by other solvers, and both where these fail. There, to compile
a program takes longer than to solve it. Both are therefore compiled at most once for a number of bits and a maximum
number of cuts, whose coefficients are parameters.
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
    """Both programs for a number of bits.

    Parameters
    ----------
    nbits : int
        Number of weights.
    max_cuts : int
        Maximum number of cuts.
    C : float
        Weight of the slack.
    solver : str, default="HIGHS"
        Name, in cvxpy, of the solver of the linear program.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.structhash._programs import CutPrograms
    >>> programs = CutPrograms(nbits=1, max_cuts=4, C=10)
    >>> bound, duals = programs.lower_bound(np.array([[2.0]]), np.array([1.0]))
    >>> round(bound, 6), duals.round(6)
    (0.5, array([0.5]))
    >>> nearest = programs.nearest_within(np.array([[2.0]]), np.ones(1), np.zeros(1), 2.0)
    >>> nearest.round(4)
    array([0.4211])
    """

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
        # it optimizes the step from the center, so that its objective has no parameter
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
        """Lower bound of the objective, and its duals, by the linear program.

        Parameters
        ----------
        slopes : array of shape (n_cuts, nbits)
            Rows a_t, at most `max_cuts`.
        offsets : array of shape (n_cuts,)
            b_t.

        Returns
        -------
        bound : float
            The optimal value.
        duals : array of shape (n_cuts,)
            Multipliers of the cuts, >= 0, with a sum <= C.

        Raises
        ------
        RuntimeError
            If neither the solver nor another installed one solves it.
        """
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
        """Weights nearest to `center` where the cuts allow an objective of `level`.

        Parameters
        ----------
        slopes, offsets : arrays
            As in :meth:`lower_bound`.
        center : array of shape (nbits,)
            The best weights so far.
        level : float
            Largest sum of the weights + C xi, above the lower bound.

        Returns
        -------
        array of shape (nbits,)
            Weights >= 0.

        Raises
        ------
        RuntimeError
            If no installed solver of quadratic programs solves it.
        """
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
        """Set the parameters of the cuts. The unused ones become 0 + xi >= 0."""
        rest = self.max_cuts - len(offsets)
        self._slopes.value, self._offsets.value = np.pad(slopes, ((0, rest), (0, 0))), np.pad(offsets, (0, rest))


def solve(problem: Any, solver: str, others: Sequence[str]) -> None:
    """Solve a cvxpy problem in place, by another installed solver if the first one fails.

    Parameters
    ----------
    problem : cvxpy.Problem
        The problem.
    solver : str
        Name of the solver.
    others : sequence of str
        Other solvers; the first installed one of them is the second choice.

    Raises
    ------
    RuntimeError
        If both fail.
    """
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
    """The solver, then the first installed other one. The list of them takes time, so it is made when needed."""
    yield solver
    installed = cp.installed_solvers()
    yield from [other for other in others if other != solver and other in installed][:1]
