r"""The restricted master problem: the weights of the bits that are known so far.

    min_w |w|_1 + C loss(w),  w >= 0.

StructHash and CGHash differ in the loss. The duals of its constraints weight the pairs of
training samples, from which the next bit is learned.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Solution:
    """Bit weights, with a lower bound of the objective |w|_1 + C loss over these bits, and its duals.

    `n_iter` is the number of calls of the separation oracle. If not `all_weights`, the bound holds with the older
    weights fixed.
    """

    weights: npt.NDArray[np.float64]
    loss: float
    objective: float
    bound: float = 0.0
    duals: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    n_iter: int = 0
    all_weights: bool = True


class MasterProblem(Protocol):
    """The interface of a master problem."""

    solution: Solution

    def add_bit(self, bits: npt.NDArray[np.uint8]) -> None:
        """Add a bit of all training samples, with weight 0."""

    def optimize(self, all_weights: bool = False) -> None:
        """Update `solution`. With `all_weights` no weight stays fixed."""

    def pair_matrix(self) -> Any:
        """Sparse matrix A of pair weights, from which the next bit is learned."""
