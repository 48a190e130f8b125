"""Kernel values of all training samples, in parts, because they may take more memory than the samples."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash.hashers.shallow._gaussian_kernel import PART_SIZE, gaussian_kernel

MIN_HELD = 2**27  # bytes of kernel values that may be held, even for small samples
SHARE_HELD = 2  # memory of the values that may be held, in units of that of the samples


class KernelFeatures:
    """Kernel values of samples at anchors, minus their means over these samples.

    With `hold`, the values of as many samples stay in memory as fit into twice the memory of `X` or 128 MiB; all others
    are computed each time.
    """

    def __init__(
        self, X: npt.NDArray[np.floating], anchors: npt.NDArray[np.float64], gamma: float, *, hold: bool = False
    ) -> None:
        self._X, self._anchors, self._gamma = X, anchors, gamma
        n_held = max(MIN_HELD, SHARE_HELD * X.nbytes) // (8 * len(anchors)) if hold else 0
        self._held = np.empty((min(n_held, len(X)), len(anchors)))
        total = np.zeros(len(anchors))
        for part in self._slices(0):
            values = self._kernel(X[part])
            total += values.sum(axis=0)
            self._held[part] = values[: len(self._held[part])]
        self.mean = total / len(X)
        self._held -= self.mean

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and number of anchors."""
        return len(self._X), len(self._anchors)

    def parts(self) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
        """Slices of samples, and their centered values of shape (n_part, n_anchors), which must not be changed."""
        n_held = len(self._held)
        if n_held:
            yield slice(0, n_held), self._held
        for part in self._slices(n_held):
            yield part, self._kernel(self._X[part]) - self.mean

    def take(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Centered values of the samples at `indices`, of shape (n_taken, n_anchors)."""
        values = np.empty((len(indices), len(self._anchors)))
        for part in gen_batches(len(indices), PART_SIZE):
            np.subtract(self._kernel(self._X[indices[part]]), self.mean, out=values[part])
        return values

    def _slices(self, start: int) -> Iterator[slice]:
        for part in gen_batches(len(self._X) - start, PART_SIZE):
            yield slice(part.start + start, part.stop + start)

    def _kernel(self, samples: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        return gaussian_kernel(samples.astype(np.float64, copy=False), self._anchors, self._gamma)
