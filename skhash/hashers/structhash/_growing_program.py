"""The linear program of the level bundle method in HiGHS, which continues from the last basis when cuts are added."""

from typing import Any

import highspy
import numpy as np
import numpy.typing as npt


class GrowingProgram:
    """Lower bound over the cuts, see :class:`skhash.hashers.structhash._programs.CutPrograms`."""

    def __init__(self, nbits: int, C: float) -> None:
        self._costs = np.append(np.ones(nbits), C)
        self._start()

    def _start(self) -> None:
        """Begin without cuts."""
        n, self._cuts = len(self._costs), np.zeros((0, len(self._costs) + 1))
        self._highs: Any = highspy.Highs()
        self._highs.silent()
        self._highs.setOptionValue("presolve", "off")  # presolve ignores the last basis
        self._highs.addVars(n, np.zeros(n), np.full(n, highspy.kHighsInf))
        self._highs.changeColsCost(n, np.arange(n, dtype=np.int32), self._costs)

    def solve(
        self, slopes: npt.NDArray[np.float64], offsets: npt.NDArray[np.float64]
    ) -> tuple[float, npt.NDArray[np.float64]] | None:
        """Optimal value and duals (n_cuts,) for cuts a_t (n_cuts, nbits) and b_t, or None if HiGHS fails.

        It is fastest if the first cuts are those of the last call.
        """
        cuts = np.column_stack([slopes, np.ones(len(offsets)), offsets])
        if not np.array_equal(cuts[: len(self._cuts)], self._cuts):
            self._start()
        new, n = cuts[len(self._cuts) :], len(self._costs)
        columns = np.tile(np.arange(n, dtype=np.int32), len(new))
        starts = np.arange(0, new[:, :-1].size, n, dtype=np.int32)
        upper = np.full(len(new), highspy.kHighsInf)
        self._highs.addRows(len(new), new[:, -1].copy(), upper, columns.size, starts, columns, new[:, :-1].ravel())
        self._cuts = cuts
        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        duals = np.maximum(self._highs.getSolution().row_dual, 0)
        return float(self._highs.getInfo().objective_function_value), duals
