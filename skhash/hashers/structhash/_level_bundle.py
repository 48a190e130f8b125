r"""The restricted master problem of StructHash, solved by a level bundle method.

Over the known bits, with R the mean violation that the separation oracle gives, it minimizes

    F(w) = |w|_1 + C R(w),  w >= 0.

Every call of the oracle adds a cutting plane R(w) >= b - a'w. The linear program over these cuts
gives a lower bound and duals. The next weights are the point nearest to the best ones so far where
the cuts promise a share of the gap (Lemarechal, Nemirovskii, Nesterov, Math. Programming 69, 1995).
Such a point lies inside the face of good weights, not at a vertex, which has no more weights than
tight cuts. The best value minus the lower bound is the proven distance from the optimum.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from skhash.hashers.structhash._master_problem import Solution
from skhash.hashers.structhash._oracles import RankingOracle
from skhash.hashers.structhash._programs import CutPrograms

LEVEL = 0.3  # share of the gap that the next weights may leave
SPARE_CUTS = 32  # number of cuts that the programs are compiled for in addition to the present ones
MAX_IDLE = 40  # number of linear programs in which a cut may have no dual before it is dropped


class LevelBundle:
    """Master problem of StructHash, see :class:`MasterProblem`.

    `tol` is the largest gap / C. `max_iter` is the maximum number of oracle calls per bit. If not `fully_corrective`,
    only the newest weight is optimized while this helps.
    """

    def __init__(
        self,
        oracle: RankingOracle,
        nbits: int,
        C: float,
        tol: float,
        max_iter: int,
        solver: str,
        fully_corrective: bool = True,
    ) -> None:
        self.oracle, self.C, self.tol, self.max_iter, self.solver = oracle, C, tol, max_iter, solver
        self.fully_corrective = fully_corrective
        n_lists, n_items = oracle.lists.items.shape
        self.differences = np.zeros((n_lists, nbits, n_items), np.uint8)
        first = oracle.reversed_rankings()
        self.cuts = [first]
        self.coefficients = np.zeros((1, 0))
        self._idle = np.zeros(1, dtype=np.int64)
        self.solution = Solution(np.zeros(0), first.offset, C * first.offset, duals=np.full(1, C))

    def add_bit(self, bits: npt.NDArray[np.uint8]) -> None:
        """Add a bit of all training samples, with weight 0."""
        newest = self.coefficients.shape[1]
        differences = self.oracle.lists.differences(bits)
        self.differences[:, newest] = differences
        entries = [self.oracle.coefficients(cut, differences[:, None]) for cut in self.cuts]
        self.coefficients = np.hstack([self.coefficients, entries])
        self.solution = replace(self.solution, weights=np.append(self.solution.weights, 0.0))

    def optimize(self, all_weights: bool = False) -> None:
        """Update `solution` until its gap is at most C * tol; `all_weights` overrules `fully_corrective`."""
        newest = len(self.solution.weights) - 1
        self.solution = replace(self.solution, n_iter=0)
        self._optimize_from(0 if all_weights or self.fully_corrective else newest)
        if self.solution.weights[newest] == 0 and not self.solution.all_weights:
            self._optimize_from(0)  # a single weight can be stuck at a kink
        gap = (self.solution.objective - self.solution.bound) / self.C
        if gap > self.tol:
            warnings.warn(
                f"Bit {newest + 1}: after max_iter={self.max_iter} cuts the loss is "
                f"{gap:.2g} above its lower bound, more than tol={self.tol:g}. "
                "Increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._drop_idle_cuts()

    def _optimize_from(self, first: int) -> None:
        """Optimize the weights from the index `first` on, with the oracle calls that are left."""
        best, n_iter = self.solution, self.solution.n_iter
        free, fixed = slice(first, None), self.solution.weights[:first]
        programs = None
        while True:
            slopes, offsets = self._cuts_over(free, fixed)
            if programs is None or len(offsets) > programs.max_cuts:
                programs = CutPrograms(slopes.shape[1], len(offsets) + SPARE_CUTS, self.C, self.solver)
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
        self.solution = replace(best, bound=bound, duals=duals, n_iter=n_iter, all_weights=first == 0)

    def pair_matrix(self) -> Any:
        """Pair weights by the duals, from which the next bit is learned."""
        return self.oracle.pair_matrix(self.cuts, self.solution.duals)

    def _cuts_over(
        self, free: slice, fixed: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Slopes and offsets of the cuts as functions of the free weights."""
        offsets = np.array([cut.offset for cut in self.cuts]) - self.coefficients[:, : free.start] @ fixed
        return self.coefficients[:, free], offsets

    def _add_cut(self, weights: npt.NDArray[np.float64]) -> float:
        """Add the cut that is most violated at `weights`; return the loss there."""
        differences = self.differences[:, : len(weights)]
        cut, loss = self.oracle(differences, weights)
        self.cuts.append(cut)
        self.coefficients = np.vstack([self.coefficients, self.oracle.coefficients(cut, differences)])
        self._idle = np.append(self._idle, 0)
        return loss

    def _drop_idle_cuts(self) -> None:
        kept = np.flatnonzero(self._idle <= MAX_IDLE)
        self.cuts = [self.cuts[i] for i in kept]
        self.coefficients, self._idle = self.coefficients[kept], self._idle[kept]
        self.solution = replace(self.solution, duals=self.solution.duals[kept])
