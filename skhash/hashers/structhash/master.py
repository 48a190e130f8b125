r"""The restricted master problem of StructHash, solved by a level bundle method.

Over the bits found so far, with R the mean violation that the oracle gives,

    F(w) = |w|_1 + C R(w),  w >= 0.

Every oracle call adds a cut R(w) >= b - a'w. The linear program over the cuts gives a lower
bound and duals; the next weights are the point nearest to the best ones so far where the cuts
promise a share of the gap (Lemarechal, Nemirovskii, Nesterov, Math. Programming 69, 1995).
Such a point lies inside the face of good weights, not at a vertex that has no more weights
than tight cuts, and best value - lower bound is the proven distance from the optimum.
"""

import warnings
from dataclasses import dataclass, field

import cvxpy as cp
import numpy as np
from sklearn.exceptions import ConvergenceWarning

LEVEL = 0.3  # of the gap, that the next weights should keep at most
IDLE = 40  # linear programs that a cut may spend without a dual before it is retired


@dataclass
class Solution:
    """Weights, and how good they are proven to be.

    Parameters
    ----------
    weights : float64 array of shape (n_bits,)
        w.
    loss : float
        R(w), by the oracle.
    objective : float
        |w|_1 + C R(w).
    bound : float
        Lower bound of the objective over these bits.
    duals : float64 array of shape (n_cuts,)
        Multipliers of the cuts at the lower bound.
    n_iter : int
        Oracle calls.
    """

    weights: np.ndarray
    loss: float
    objective: float
    bound: float = 0.0
    duals: np.ndarray = field(default_factory=lambda: np.zeros(0))
    n_iter: int = 0


class Master:
    """The weights of a growing set of bits.

    Parameters
    ----------
    oracle : RankingOracle
        Gives the most violated constraint.
    n_bits : int
        How many bits there will be.
    C : float
        Weight of the loss.
    tol : float
        Largest gap / C: how far the loss may be from the one of the lower bound.
    max_iter : int
        Most oracle calls for one bit.
    solver : str
        cvxpy's name of the solver of the linear programs.
    fully_corrective : bool
        Whether all weights are solved for, or the newest one alone.
    """

    def __init__(self, oracle, n_bits, C, tol, max_iter, solver, fully_corrective=True):
        self.oracle, self.C, self.tol, self.max_iter, self.solver = oracle, C, tol, max_iter, solver
        self.fully_corrective = fully_corrective
        self.differences = np.zeros((len(oracle.lists.items), n_bits, oracle.lists.items.shape[1]), np.uint8)
        first = oracle.reversed_rankings()
        self.cuts = [first]
        self.coefficients = np.zeros((1, 0))
        self._idle = np.zeros(1, dtype=np.int64)
        self.solution = Solution(np.zeros(0), first.offset, C * first.offset, duals=np.full(1, C))

    def add_bit(self, bits):
        """Take in a bit of all training rows, with weight 0."""
        newest = self.coefficients.shape[1]
        self.differences[:, newest] = self.oracle.lists.differences(bits)
        column = self.differences[:, newest : newest + 1]
        entries = [self.oracle.coefficients(cut, column) for cut in self.cuts]
        self.coefficients = np.hstack([self.coefficients, entries])
        self.solution.weights = np.append(self.solution.weights, 0.0)

    def optimize(self):
        """Solve for the weights until the gap is closed to C * tol, and keep them in `solution`."""
        best, n_iter = self.solution, 0
        free = slice(0 if self.fully_corrective else len(best.weights) - 1, None)
        fixed = best.weights[: free.start]
        while True:
            slopes, offsets = self._cuts_over(free, fixed)
            bound, duals = lower_bound(slopes, offsets, self.C, self.solver)
            bound += float(fixed.sum())
            self._idle = np.where(duals > 1e-9 * self.C, 0, self._idle + 1)
            gap = best.objective - bound
            if gap <= self.C * self.tol or n_iter == self.max_iter:
                break
            level = bound + LEVEL * gap - fixed.sum()
            weights = np.append(fixed, nearest_within(slopes, offsets, self.C, best.weights[free], level))
            loss = self._add_cut(weights)
            n_iter += 1
            if weights.sum() + self.C * loss < best.objective:
                best = Solution(weights, loss, float(weights.sum()) + self.C * loss)
        if gap > self.C * self.tol:
            warnings.warn(
                f"bit {len(best.weights)}: after max_iter={n_iter} cuts the loss is {gap / self.C:.2g} from its "
                f"lower bound; tol={self.tol:g} is wanted.",
                ConvergenceWarning,
                stacklevel=2,
            )
        best.bound, best.duals, best.n_iter = bound, duals, n_iter
        self.solution = best
        self._retire()

    def pair_matrix(self):
        """Weigh the pairs of training rows by the duals: what the next bit is learned from."""
        return self.oracle.pair_matrix(self.cuts, self.solution.duals)

    def _cuts_over(self, free, fixed):
        offsets = np.array([cut.offset for cut in self.cuts]) - self.coefficients[:, : free.start] @ fixed
        return self.coefficients[:, free], offsets

    def _add_cut(self, weights):
        differences = self.differences[:, : len(weights)]
        cut, loss = self.oracle(differences, weights)
        self.cuts.append(cut)
        self.coefficients = np.vstack([self.coefficients, self.oracle.coefficients(cut, differences)])
        self._idle = np.append(self._idle, 0)
        return loss

    def _retire(self):
        """Drop the cuts that had no dual for long."""
        kept = np.flatnonzero(self._idle <= IDLE)
        self.cuts = [self.cuts[i] for i in kept]
        self.coefficients, self._idle = self.coefficients[kept], self._idle[kept]
        self.solution.duals = self.solution.duals[kept]


def lower_bound(slopes, offsets, C, solver="HIGHS"):
    """Minimise |w|_1 + C xi over w, xi >= 0 under the cuts ``slopes @ w >= offsets - xi``.

    Parameters
    ----------
    slopes : array of shape (n_cuts, n_bits)
        One cut a row.
    offsets : array of shape (n_cuts,)
        Its right-hand side.
    C : float
        Weight of the slack.
    solver : str, default="HIGHS"
        cvxpy's name of an installed solver of linear programs.

    Returns
    -------
    bound : float
        The optimal value.
    duals : array of shape (n_cuts,)
        Multipliers of the cuts, >= 0, of sum <= C.

    Raises
    ------
    RuntimeError
        If neither `solver` nor another installed one solves it.

    Examples
    --------
    >>> from skhash.hashers.structhash.master import lower_bound
    >>> bound, duals = lower_bound([[2.0]], [1.0], 10)
    >>> round(bound, 6), duals.round(6)
    (0.5, array([0.5]))
    """
    w, xi = cp.Variable(np.shape(slopes)[1], nonneg=True), cp.Variable(nonneg=True)
    cuts = np.asarray(slopes) @ w + xi >= offsets
    problem = cp.Problem(cp.Minimize(cp.sum(w) + C * xi), [cuts])
    solve(problem, solver, ("HIGHS", "CLARABEL", "SCIPY"))
    return float(problem.value), np.maximum(cuts.dual_value, 0)


def nearest_within(slopes, offsets, C, centre, level):
    """Find the weights nearest to `centre` where the cuts allow an objective of `level`.

    Parameters
    ----------
    slopes, offsets, C
        As in :func:`lower_bound`.
    centre : array of shape (n_bits,)
        The best weights so far.
    level : float
        Largest |w|_1 + C xi, above the lower bound.

    Returns
    -------
    array of shape (n_bits,)
        Weights >= 0.

    Raises
    ------
    RuntimeError
        If no installed solver of quadratic programs solves it.

    Examples
    --------
    >>> from skhash.hashers.structhash.master import nearest_within
    >>> nearest_within([[2.0]], [1.0], 10, [0.0], 2.0).round(4)
    array([0.4211])
    """
    w, xi = cp.Variable(len(centre), nonneg=True), cp.Variable(nonneg=True)
    within = [np.asarray(slopes) @ w + xi >= offsets, cp.sum(w) + C * xi <= level]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w - centre)), within)
    solve(problem, "CLARABEL", ("CLARABEL", "HIGHS", "OSQP"))
    return np.maximum(np.asarray(w.value), 0)


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
            status = str(error).splitlines()[0]
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
