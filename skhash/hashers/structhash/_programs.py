r"""The two programs of the level bundle method, in cvxpy.

Over cuts R(w) >= b_t - a_t'w, with the slack xi >= 0 and weights w >= 0:

    lower bound    minimize |w|_1 + C xi            s.t.  a_t'w + xi >= b_t
    projection     minimize |w - center|_2^2        s.t.  a_t'w + xi >= b_t,  |w|_1 + C xi <= level

To compile a program takes cvxpy longer than to solve it. Both are therefore compiled once for a
number of bits and a maximum number of cuts, whose coefficients are parameters.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import numpy.typing as npt


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
        self.max_cuts, self.solver = max_cuts, solver
        self._slopes, self._offsets = cp.Parameter((max_cuts, nbits)), cp.Parameter(max_cuts)
        w, xi = cp.Variable(nbits, nonneg=True), cp.Variable(nonneg=True)
        self._cuts = self._slopes @ w + xi >= self._offsets
        self._linear = cp.Problem(cp.Minimize(cp.sum(w) + C * xi), [self._cuts])
        # the projection optimizes the step from the center, so that its objective has no parameter
        self._step, self._floor, self._level = cp.Variable(nbits), cp.Parameter(nbits), cp.Parameter()
        within = [
            self._slopes @ self._step + xi >= self._offsets,
            cp.sum(self._step) + C * xi <= self._level,
            self._step >= self._floor,
        ]
        self._quadratic = cp.Problem(cp.Minimize(cp.sum_squares(self._step)), within)

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
        self._set_cuts(slopes, offsets)
        solve(self._linear, self.solver, ("HIGHS", "CLARABEL", "SCIPY"))
        return float(self._linear.value), np.maximum(self._cuts.dual_value, 0)[: len(offsets)]

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
        self._set_cuts(slopes, offsets - slopes @ center)
        self._level.value, self._floor.value = level - center.sum(), -center
        solve(self._quadratic, "CLARABEL", ("CLARABEL", "HIGHS", "OSQP"))
        step: Any = self._step.value
        return np.maximum(center + step, 0)

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
