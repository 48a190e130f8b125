r"""Hash functions, each learned as a column of the master problem.

A new bit h should maximize sum_ij A_ij |h(x_i) - h(x_j)|; with s = 2h - 1 it minimizes
s' A s. There are four families of hash functions:

* linear: the smallest eigenvectors of (Z' A Z, Z' Z + ridge) start L-BFGS on the smooth
  tanh(Zv + c)' A tanh(Zv + c), whose signs are the bits;
* kernel: the same on Gaussian kernel values of anchors (Kulis, Grauman 2009);
* stump: an exhaustive search over all features and thresholds;
* trees, or any classifier: first, bits that minimize s' A s are found by coordinate descent
  from the smallest eigenvectors of A. Then they are fitted, as in the authors' later
  FastHash.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from skhash.codes import signs
from skhash.hashers.structhash._classifier_functions import ClassifierFunctions
from skhash.hashers.structhash._linear_functions import Candidates, KernelFunctions, LinearFunctions
from skhash.hashers.structhash._stump_functions import StumpFunctions

FAMILIES: dict[str, Any] = {
    "linear": LinearFunctions,
    "kernel": KernelFunctions,
    "stump": StumpFunctions,
    "trees": ClassifierFunctions,
}


class HashFunctions(Protocol):
    """A family of hash functions, see :class:`LinearFunctions`."""

    best_first: bool  # whether the candidates come by descending gain

    def search(self, A: Any, rng: np.random.RandomState) -> Iterator[Candidates]:
        """Rounds of a search for bits with a large gain."""

    def combine(self, parameters: list[dict[str, Any]]) -> dict[str, Any]:
        """Parameters of all learned functions, as arrays."""


@dataclass(frozen=True)
class Column:
    """A bit of all training samples, with its gain sum_ij A_ij |h(x_i) - h(x_j)| and the parameters of h."""

    gain: float
    bits: npt.NDArray[np.uint8]
    parameters: dict[str, Any]


def family_of(hash_function: Any) -> Any:
    """Class of hash functions for the parameter `hash_function`."""
    return FAMILIES[hash_function] if isinstance(hash_function, str) else ClassifierFunctions


def find_column(
    functions: HashFunctions,
    A: Any,
    known: npt.NDArray[np.float64],
    rng: np.random.RandomState,
    min_gain: float = 0.0,
) -> Column | None:
    """The new column with the largest gain, or None if no gain is above `min_gain`.

    The bits in `known` (n_samples, n_known), -1 or 1, and their complements are not new. The next round of the search
    tries more starting points.
    """
    best: Column | None = None
    total = A.sum()
    for candidates in functions.search(A, rng):
        for bits, parameters in candidates:
            s = signs(bits)
            is_known = (np.abs(s @ known) == len(s)).any() or abs(s.sum()) == len(s)
            gain = float(total - s @ (A @ s)) / 2
            if not is_known and (best is None or gain > best.gain):
                best = Column(gain, bits, parameters)
                if functions.best_first:
                    break
        if best is not None and best.gain > min_gain:
            return best
    return None
