"""The restricted master problem of CGHash, over triplets of training samples."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skhash.hashers._ranking_lists import RankingLists
from skhash.hashers.structhash._master_problem import Solution

MAX_GAP = 1e-6  # relative gap of the objective that a solved linear program may leave


class Triplets:
    """Samples i, j, k where j is relevant to i and k is not: all pairs of j and k of each ranking list.

    `indices` has the shape (3, n_triplets).
    """

    def __init__(self, lists: RankingLists) -> None:
        place, max_relevant = np.arange(lists.items.shape[1]), lists.sizes[:, 0].max()
        is_relevant = place[:max_relevant] < lists.sizes[:, :1]
        is_irrelevant = place[max_relevant:] - max_relevant < lists.sizes[:, 1:]
        query, j, k = np.nonzero(is_relevant[:, :, None] & is_irrelevant[:, None, :])
        self.indices = np.stack([lists.queries[query], lists.items[query, j], lists.items[query, max_relevant + k]])
        self.n_samples = lists.n_samples

    def margins(self, bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
        """Margin |h_i - h_k| - |h_i - h_j| of each triplet for a bit of all training samples: -1, 0 or 1."""
        i, j, k = bits[self.indices]
        return (i != k).astype(np.float64) - (i != j)

    def pair_matrix(self, weights: npt.NDArray[np.float64]) -> Any:
        """Sparse pair weights A with sum_ij A_ij |h_i - h_j| = u' margins(h), for weights u of shape (n_triplets,)."""
        i, j, k = self.indices
        entries = (np.concatenate([weights, -weights]), (np.concatenate([i, i]), np.concatenate([k, j])))
        return sparse.coo_array(entries, shape=(self.n_samples,) * 2).tocsr()


class TripletMasterProblem:
    """Master problem of CGHash, solved by its dual, see :class:`MasterProblem`.

    Only the triplets whose margin is below 1 enter a linear program. Its solution is final if no other triplet has a
    margin below 1.
    """

    def __init__(self, triplets: Triplets, C: float, solver: str) -> None:
        self.triplets, self.C, self.solver = triplets, C, solver
        n = triplets.indices.shape[1]
        self.margins = np.zeros((n, 0))
        self.solution = Solution(np.zeros(0), float(n), C * n, duals=np.full(n, C))

    def add_bit(self, bits: npt.NDArray[np.uint8]) -> None:
        """Add a bit of all training samples, with weight 0."""
        self.margins = np.column_stack([self.margins, self.triplets.margins(bits)])
        self.solution = replace(self.solution, weights=np.append(self.solution.weights, 0.0))

    def optimize(self, all_weights: bool = True) -> None:
        """Update `solution`; all weights are optimized in any case."""
        duals, violated = np.zeros(len(self.margins)), self._slacks(self.solution.weights) > 0
        active = violated | (self.solution.duals > 0)
        while True:
            weights, duals[active] = triplet_program(self.margins[active], self.C, self.solver)
            slacks = self._slacks(weights)
            missing = (slacks > 1e-9) & ~active
            if not missing.any():
                break
            active |= missing
        loss = float(slacks.sum())
        # scaled by this, the duals satisfy every constraint despite rounding, so that their sum is a bound
        duals /= max(1.0, (duals @ self.margins).max())
        self.solution = Solution(weights, loss, float(weights.sum()) + self.C * loss, float(duals.sum()), duals)
        gap = self.solution.objective - self.solution.bound
        if gap > MAX_GAP * self.solution.objective:
            warnings.warn(
                f"Bit {len(weights)}: solver={self.solver!r} left the objective {gap:.2g} "
                f"above its lower bound {self.solution.bound:.6g}. Try another solver.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def pair_matrix(self) -> Any:
        """Pair weights by the duals, from which the next bit is learned."""
        return self.triplets.pair_matrix(self.solution.duals)

    def _slacks(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.maximum(1 - self.margins @ weights, 0)


def triplet_program(
    margins: npt.NDArray[np.float64], C: float, solver: str = "HIGHS"
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Weights (nbits,) that minimize |w|_1 + C sum max(0, 1 - margins w), and duals u in [0, C].

    `margins` has the shape (n_triplets, nbits). The dual has one constraint per bit and is solved faster than the
    primal, which has one per triplet.
    """
    import cvxpy as cp

    from skhash.hashers.structhash._programs import solve

    u: Any = cp.Variable(len(margins), bounds=[0, 1])  # in units of C, which may be tiny
    constraint = margins.T @ u <= 1 / C
    solve(cp.Problem(cp.Maximize(cp.sum(u)), [constraint]), solver, ("HIGHS", "CLARABEL", "SCIPY"))
    return np.maximum(constraint.dual_value, 0), C * np.clip(np.asarray(u.value), 0, 1)
