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

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skhash.hashers.structhash._columns import Solution
from skhash.hashers.structhash._programs import CutPrograms

LEVEL = 0.3  # of the gap, that the next weights should keep at most
ROOM = 32  # cuts that the programs are compiled for beyond those that are there
IDLE = 40  # linear programs that a cut may spend without a dual before it is retired


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
        Whether all weights are solved for, or the newest one alone while that helps.
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

    def optimize(self, all_weights=False):
        """Solve for the weights until the gap is closed to C * tol, and keep them in `solution`.

        Parameters
        ----------
        all_weights : bool, default=False
            Solve for all of them, `fully_corrective` or not.
        """
        newest = len(self.solution.weights) - 1
        self.solution.n_iter = 0
        self._solve(0 if all_weights or self.fully_corrective else newest)
        if self.solution.weights[newest] == 0 and not self.solution.all_weights:
            self._solve(0)  # one weight at a time is stuck at a kink
        gap = (self.solution.objective - self.solution.bound) / self.C
        if gap > self.tol:
            warnings.warn(
                f"bit {newest + 1}: after max_iter={self.max_iter} cuts the loss is {gap:.2g} from its "
                f"lower bound; tol={self.tol:g} is wanted.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._retire()

    def _solve(self, first):
        """Solve for the weights from `first` on, with what is left of `max_iter`; those before it stay."""
        best, n_iter = self.solution, self.solution.n_iter
        free, fixed = slice(first, None), self.solution.weights[:first]
        programs = None
        while True:
            slopes, offsets = self._cuts_over(free, fixed)
            if programs is None or len(offsets) > programs.room:
                programs = CutPrograms(slopes.shape[1], len(offsets) + ROOM, self.C, self.solver)
            bound, duals = programs.lower_bound(slopes, offsets)
            bound += float(fixed.sum())
            self._idle = np.where(duals > 1e-9 * self.C, 0, self._idle + 1)
            gap = best.objective - bound
            if gap <= self.C * self.tol or n_iter == self.max_iter:
                break
            level = bound + LEVEL * gap - fixed.sum()
            weights = np.append(fixed, programs.nearest_within(slopes, offsets, best.weights[free], level))
            loss = self._add_cut(weights)
            n_iter += 1
            if weights.sum() + self.C * loss < best.objective:
                best = Solution(weights, loss, float(weights.sum()) + self.C * loss)
        best.bound, best.duals, best.n_iter, best.all_weights = bound, duals, n_iter, first == 0
        self.solution = best

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
