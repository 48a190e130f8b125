r"""The most violated rankings of all queries (eq. 11): the separation oracle of the structured SVM.

A ranking y of one list scores the sum over its P relevant items j and N irrelevant ones k

    psi(x, y) = sum_jk y_jk (phi_j - phi_k) / (P N),   phi_j = -|h(x) - h(x_j)| bit by bit      (eqs. 4 and 7)

so that it falls behind the true ranking by the margin w' delta-psi, twice the sum over
its misordered pairs (eqs. 8 and 13). The oracle maximizes loss - margin. The positive ones of these violations,
summed over the queries, are one constraint of the 1-slack form (eq. 10),

    w' (1/m) sum_i c_i delta-psi_i >= (1/m) sum_i c_i loss_i - xi.

Such a cut is stored as the number of misordered partners of each item: the coefficient of a
new bit is a weighted count of differing bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._threads import run_in_slices
from skhash.hashers.ranking_lists import RankingLists
from skhash.hashers.structhash._kernels import count_differences, most_violated_rankings


@dataclass(frozen=True)
class Cut:
    """One constraint: misordered partners of each item, negative for relevant ones, and the mean loss `offset`."""

    misordered: npt.NDArray[Any]
    offset: float


class RankingOracle:
    """Separation oracle: the most violated rankings of all lists for the gains of a loss, see `_losses`."""

    def __init__(self, lists: RankingLists, gain: Callable[..., Any]) -> None:
        self.lists = lists
        max_relevant, max_irrelevant = lists.sizes.max(axis=0)
        self._sizes, kind = np.unique(lists.sizes, axis=0, return_inverse=True)
        self._kind = kind.reshape(-1)  # numpy 2.0 gives a column
        self._by_kind = np.argsort(self._kind, kind="stable")  # lists of the same sizes are ranked side by side
        self._gains = np.zeros((len(self._sizes), max_relevant, max_irrelevant + 1))
        for table, (n_relevant, n_irrelevant) in zip(self._gains, self._sizes, strict=True):
            table[:n_relevant, : n_irrelevant + 1] = gain_table(gain, n_relevant, n_irrelevant)
        self._scale = 2 / (len(lists.sizes) * lists.sizes.prod(axis=1))

    def __call__(self, differences: npt.NDArray[np.uint8], weights: npt.NDArray[np.float64]) -> tuple[Cut, float]:
        """The cut most violated at `weights` of the first bits, and its mean violation, the structured hinge loss."""
        shape = self.lists.items.shape
        misordered, violations, losses = np.empty(shape, np.int32), np.empty(shape[0]), np.empty(shape[0])

        def rank(part: slice) -> None:
            sizes, lists = (self.lists.sizes, self._gains, self._kind), self._by_kind[part]
            most_violated_rankings(differences, weights, *sizes, lists, misordered, violations, losses)

        run_in_slices(rank, len(differences))
        violated = violations > 1e-12  # smaller ones are rounding errors of true rankings
        misordered[~violated] = 0
        dtype = np.int8 if self.lists.sizes.max() <= 127 else np.int32  # to save memory
        cut = Cut(misordered.astype(dtype), float(losses[violated].sum()) / shape[0])
        return cut, float(violations[violated].sum()) / shape[0]

    def first_cut(self) -> Cut:
        """The cut at weights 0: of the rankings with the largest loss, those with the fewest misordered pairs."""
        n_lists, n_items = self.lists.items.shape
        return self(np.zeros((n_lists, 0, n_items), np.uint8), np.zeros(0))[0]

    def first_pair_matrix(self) -> Any:
        """Pair weights for bit weights near 0, as :meth:`pair_matrix` for C = 1.

        The most violated ranking then has the largest loss and, among those, the smallest margin. This margin is at
        most the mean over the orders of the items of each kind in the first cut, which is used here. A single bit h has
        no weight if C sum_ij A_ij |h(x_i) - h(x_j)| <= 1.
        """
        max_relevant, place = self._gains.shape[1], np.arange(self.lists.items.shape[1])
        pairs = self.first_cut().misordered[:, max_relevant:].sum(axis=1, keepdims=True)
        n_relevant, n_irrelevant = self.lists.sizes.T[:, :, None]
        relevant = np.where(place < n_relevant, -pairs / n_relevant, 0.0)
        is_irrelevant = (place >= max_relevant) & (place < max_relevant + n_irrelevant)
        return self._between_samples(np.where(is_irrelevant, pairs / n_irrelevant, relevant))

    def coefficients(self, cut: Cut, differences: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
        """Coefficients (1/m) sum_i c_i delta-psi_i of bits in a cut, of shape (nbits,)."""
        counts = np.empty(differences.shape[:2], np.int64)
        count_differences(cut.misordered, differences, counts)
        return self._scale @ counts

    def pair_matrix(self, cuts: Sequence[Cut], duals: npt.NDArray[np.float64]) -> Any:
        """Pair weights A (n_samples, n_samples): the sum of the cuts, weighted by their duals."""
        total = np.zeros(self.lists.items.shape)
        for cut, dual in zip(cuts, duals, strict=True):
            if dual > 0:
                total += dual * cut.misordered
        return self._between_samples(total)

    def _between_samples(self, misordered: npt.NDArray[Any]) -> Any:
        """Misordered partners of the items of all lists, as a sparse matrix between training samples."""
        rows = np.repeat(self.lists.queries, misordered.shape[1])
        entries = (misordered * self._scale[:, None]).ravel(), (rows, self.lists.items.ravel())
        return sparse.coo_array(entries, shape=(self.lists.n_samples,) * 2).tocsr()


def gain_table(gain: Callable[..., Any], n_relevant: int, n_irrelevant: int) -> npt.NDArray[np.float64]:
    """Table (n_relevant, n_irrelevant + 1) of gain(g, g + m); ValueError if it defines no ranking loss."""
    g = np.arange(1, n_relevant + 1)[:, None]
    t = g + np.arange(n_irrelevant + 1)
    table = np.asarray(gain(g, t, n_relevant, n_irrelevant), dtype=np.float64)
    if table.shape != t.shape:
        raise ValueError(
            f"`objective` must return one gain per rank, of shape {t.shape}. Got shape {table.shape} instead."
        )
    if not np.isclose(table[:, 0].sum(), 1):
        raise ValueError(
            f"`objective` must return gains that sum to 1 for the true ranking. Got {table[:, 0].sum():g} instead for "
            f"{n_relevant} relevant and {n_irrelevant} irrelevant items."
        )
    if not (np.diff(table, axis=1) <= 1e-12).all():
        raise ValueError(
            "`objective` must return gains that never grow with the rank. Got a larger gain or NaN at a later rank "
            f"instead for {n_relevant} relevant and {n_irrelevant} irrelevant items."
        )
    return table
