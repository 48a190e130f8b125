r"""The two programs of the level bundle method, in cvxpy.

Over cuts R(w) >= b_t - a_t'w, with the slack xi >= 0 and weights w >= 0:

    lower bound    minimise |w|_1 + C xi            s.t.  a_t'w + xi >= b_t
    projection     minimise |w - centre|_2^2        s.t.  a_t'w + xi >= b_t,  |w|_1 + C xi <= level

Compiling a program takes cvxpy longer than solving it, so both are compiled once for a
number of bits, with room for cuts, and their numbers are parameters.
"""

import warnings

import cvxpy as cp
import numpy as np


class CutPrograms:
    """Both programs for a number of bits.

    Parameters
    ----------
    n_bits : int
        Number of weights.
    room : int
        Largest number of cuts.
    C : float
        Weight of the slack.
    solver : str, default="HIGHS"
        cvxpy's name of the solver of the linear program.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.structhash._programs import CutPrograms
    >>> programs = CutPrograms(n_bits=1, room=4, C=10)
    >>> bound, duals = programs.lower_bound(np.array([[2.0]]), np.array([1.0]))
    >>> round(bound, 6), duals.round(6)
    (0.5, array([0.5]))
    >>> programs.nearest_within(np.array([[2.0]]), np.array([1.0]), np.zeros(1), 2.0).round(4)
    array([0.4211])
    """

    def __init__(self, n_bits, room, C, solver="HIGHS"):
        self.room, self.solver = room, solver
        self._slopes, self._offsets = cp.Parameter((room, n_bits)), cp.Parameter(room)
        w, xi = cp.Variable(n_bits, nonneg=True), cp.Variable(nonneg=True)
        self._cuts = self._slopes @ w + xi >= self._offsets
        self._linear = cp.Problem(cp.Minimize(cp.sum(w) + C * xi), [self._cuts])
        # the projection is stated for the step from the centre: its objective has no parameter
        self._step, self._floor, self._level = cp.Variable(n_bits), cp.Parameter(n_bits), cp.Parameter()
        within = [
            self._slopes @ self._step + xi >= self._offsets,
            cp.sum(self._step) + C * xi <= self._level,
            self._step >= self._floor,
        ]
        self._quadratic = cp.Problem(cp.Minimize(cp.sum_squares(self._step)), within)

    def lower_bound(self, slopes, offsets):
        """Solve the linear program.

        Parameters
        ----------
        slopes : array of shape (n_cuts, n_bits)
            One a_t a row; at most `room` of them.
        offsets : array of shape (n_cuts,)
            b_t.

        Returns
        -------
        bound : float
            The optimal value.
        duals : array of shape (n_cuts,)
            Multipliers of the cuts, >= 0, of sum <= C.

        Raises
        ------
        RuntimeError
            If neither the solver nor another installed one solves it.
        """
        self._fill(slopes, offsets)
        solve(self._linear, self.solver, ("HIGHS", "CLARABEL", "SCIPY"))
        return float(self._linear.value), np.maximum(self._cuts.dual_value, 0)[: len(offsets)]

    def nearest_within(self, slopes, offsets, centre, level):
        """Find the weights nearest to `centre` where the cuts allow an objective of `level`.

        Parameters
        ----------
        slopes, offsets : arrays
            As in :meth:`lower_bound`.
        centre : array of shape (n_bits,)
            The best weights so far.
        level : float
            Largest sum of the weights + C xi, above the lower bound.

        Returns
        -------
        array of shape (n_bits,)
            Weights >= 0.

        Raises
        ------
        RuntimeError
            If no installed solver of quadratic programs solves it.
        """
        self._fill(slopes, offsets - slopes @ centre)
        self._level.value, self._floor.value = level - centre.sum(), -centre
        solve(self._quadratic, "CLARABEL", ("CLARABEL", "HIGHS", "OSQP"))
        return np.maximum(centre + self._step.value, 0)

    def _fill(self, slopes, offsets):
        """Set the cuts; the rest of the room says 0 + xi >= 0."""
        rest = self.room - len(offsets)
        self._slopes.value, self._offsets.value = np.pad(slopes, ((0, rest), (0, 0))), np.pad(offsets, (0, rest))


def solve(problem, solver, others):
    """Solve a cvxpy problem, by another installed solver if the first one fails.

    Parameters
    ----------
    problem : cvxpy.Problem
        Solved in place.
    solver : str
        Name of the solver to use.
    others : sequence of str
        Solvers that could take its place; the first other one that is installed does.

    Raises
    ------
    RuntimeError
        If both fail; names them with their status.
    """
    failures: list[str] = []
    for name in _alternatives(solver, others):
        try:
            problem.solve(solver=name)
            status = problem.status
        except cp.SolverError as error:
            status = str(error).split("\n")[0]
        if status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            if failures:
                warnings.warn(f"The master problem was solved by {name}: {'; '.join(failures)}.", stacklevel=3)
            return
        failures.append(f"{name} ended with status {status!r}")
    raise RuntimeError(f"The master problem could not be solved: {'; '.join(failures)}. Another solver= may do.")


def _alternatives(solver, others):
    """The solver, then the first other one that is installed; only looked for when it is needed."""
    yield solver
    installed = cp.installed_solvers()
    yield from [other for other in others if other != solver and other in installed][:1]
