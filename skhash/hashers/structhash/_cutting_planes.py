r"""The restricted master problem of StructHash, solved by cutting planes.

Over the known bits, with R the mean violation that the separation oracle gives, it minimizes

    F(w) = |w|_1 + C R(w),  w >= 0.

Every call of the oracle adds a cutting plane R(w) >= b_t - a_t'w. The linear program over these cuts,

    min |v|_1 + C xi   s.t.  a_t'v + xi >= b_t,   v, xi >= 0,

gives a lower bound of F, duals, and weights v. The next call of the oracle is not at v, a vertex
with no more weights than tight cuts, but a step from the best weights so far towards it (in-out
separation: Ben-Ameur, Neto, Networks 49, 2007):

    w <- best + STEP (v - best)

It takes fewer calls, and the best weights are averages of vertices. The best value minus the lower
bound is the proven distance from the optimum.
"""

import warnings
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from skhash.hashers.structhash._column_generation import Solution, solve
from skhash.hashers.structhash._oracles import RankingOracle

STEP = 0.2  # 0.3 and 0.1 take more calls of the oracle on USPS
N_NEWEST = 64  # number of cuts that stay after each bit even if they have no dual
CUTS, BITS = 64, 32  # a linear program is compiled for multiples of these, whatever the number of bits of the hasher


class CutProgram:
    """The linear program over at most `n_cuts` cuts of `n_bits` weights, compiled once: the cuts are parameters."""

    def __init__(self, n_cuts: int, n_bits: int, C: float) -> None:
        self.shape = n_cuts, n_bits
        self._slopes, self._offsets = cp.Parameter(self.shape), cp.Parameter(n_cuts)
        self._weights, slack = cp.Variable(n_bits, nonneg=True), cp.Variable(nonneg=True)
        self._cuts = self._slopes @ self._weights + slack >= self._offsets
        self._problem = cp.Problem(cp.Minimize(cp.sum(self._weights) + C * slack), [self._cuts])

    def solve(
        self, slopes: npt.NDArray[np.float64], offsets: npt.NDArray[np.float64], solver: str
    ) -> tuple[float, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Value, weights (n_bits,) and duals (n_cuts,) of the program."""
        n_cuts, n_bits = slopes.shape
        # what is not used has slopes 0, so that its weights are 0, and offsets 0, which any xi >= 0 satisfies
        self._slopes.value, self._offsets.value = np.zeros(self.shape), np.zeros(self.shape[0])
        self._slopes.value[:n_cuts, :n_bits], self._offsets.value[:n_cuts] = slopes, offsets
        solve(self._problem, solver)
        weights, duals = (np.maximum(np.asarray(values), 0) for values in (self._weights.value, self._cuts.dual_value))
        return float(self._problem.value), weights[:n_bits], duals[:n_cuts]


class CuttingPlanes:
    """Master problem of StructHash; `max_iter` limits the calls of the oracle per bit."""

    def __init__(
        self,
        oracle: RankingOracle,
        C: float,
        nbits: int,
        tol: float,
        max_iter: int,
        solver: str,
        fully_corrective: bool = True,
    ) -> None:
        self.oracle, self.C, self.tol, self.max_iter, self.solver = oracle, C, tol, max_iter, solver
        self.fully_corrective = fully_corrective
        n_lists, n_items = oracle.lists.items.shape
        self.differences = np.zeros((n_lists, nbits, n_items), np.uint8)
        first = oracle.first_cut()
        self.cuts = [first]
        self.coefficients = np.zeros((1, 0))
        self._program = CutProgram(CUTS, BITS, C)
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
        duals = self.solution.duals
        kept = np.flatnonzero((duals > 1e-9 * self.C) | (np.arange(len(duals)) >= len(duals) - N_NEWEST))
        self.cuts = [self.cuts[i] for i in kept]
        self.coefficients = self.coefficients[kept]
        self.solution = replace(self.solution, duals=duals[kept])

    def _optimize_from(self, first: int) -> None:
        """Optimize the weights from the index `first` on, with the oracle calls that are left."""
        best, n_iter = self.solution, self.solution.n_iter
        fixed = best.weights[:first]
        while True:
            bound, vertex, duals = self._lower_bound(fixed)
            if best.objective - bound <= self.C * self.tol or n_iter == self.max_iter:
                break
            weights = best.weights + STEP * (vertex - best.weights)
            # of all bits: a part is an array of another layout, for which the kernel would be compiled again
            cut, loss = self.oracle(self.differences, weights)
            self.cuts.append(cut)
            row = self.oracle.coefficients(cut, self.differences[:, : len(weights)])
            self.coefficients = np.vstack([self.coefficients, row])
            n_iter += 1
            objective = float(weights.sum()) + self.C * loss
            if objective < best.objective:
                best = Solution(weights, loss, objective)
        self.solution = replace(best, bound=bound, duals=duals, n_iter=n_iter, all_weights=first == 0)

    def _lower_bound(
        self, fixed: npt.NDArray[np.float64]
    ) -> tuple[float, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Least objective of the cuts where the first weights are `fixed`, all weights there, and the duals."""
        free = slice(len(fixed), None)
        offsets = np.array([cut.offset for cut in self.cuts]) - self.coefficients[:, : free.start] @ fixed
        needed = (-(-n // unit) * unit for n, unit in zip(self.coefficients.shape, (CUTS, BITS), strict=True))
        n_cuts, n_bits = map(max, needed, self._program.shape)
        if (n_cuts, n_bits) != self._program.shape:
            self._program = CutProgram(n_cuts, n_bits, self.C)
        bound, weights, duals = self._program.solve(self.coefficients[:, free], offsets, self.solver)
        return bound + float(fixed.sum()), np.append(fixed, weights), duals

    def pair_matrix(self) -> Any:
        """Pair weights by the duals, from which the next bit is learned."""
        return self.oracle.pair_matrix(self.cuts, self.solution.duals)
