"""Gaussian kernel values of samples at anchors, and the base class of hashers with a linear map of them.

    phi(x) = [exp(-gamma |x - a_1|^2), ..., exp(-gamma |x - a_m|^2)] - mean over the training samples,

where the anchors a_1 ... a_m are drawn from the training samples.
"""

from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash._compat import Interval
from skhash.base import BaseHasher, from_function
from skhash.functions.kernel import KernelFunction, gaussian_kernel, offset_of, shifted

PART_SIZE = 1024  # samples that are converted to float64 at a time
MIN_HELD = 2**27  # bytes of kernel values that may be held, even for small samples
SHARE_HELD = 2  # memory of the values that may be held, in units of that of the samples


class KernelFeatures:
    """Centered kernel values of samples at anchors; with `hold`, twice the memory of `X` keeps those that fit."""

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

    def samples(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Some of the samples."""
        return self._X[indices]

    def _slices(self, start: int) -> Iterator[slice]:
        for part in gen_batches(len(self._X) - start, PART_SIZE):
            yield slice(part.start + start, part.stop + start)

    def _kernel(self, samples: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        return gaussian_kernel(samples.astype(np.float64, copy=False), self._anchors, self._gamma)


class KernelHasher(BaseHasher):
    """Base class of hashers with the activations ``rbf_kernel(x, anchors_, gamma_) @ projection_ + intercept_``.

    A subclass returns from `_learn_map(features, relevance, rng)` a map of shape (n_anchors, nbits) of the
    centered kernel values of the training samples, and an offset. `features` is a KernelFeatures.
    It has the parameters `n_anchors` and `gamma`, and `ridge` if it uses `ridged_cholesky`.

    Examples
    --------
    >>> from skhash import KSHHasher, SDHHasher
    >>> from skhash.hashers.shallow import KernelHasher
    >>> issubclass(KSHHasher, KernelHasher), issubclass(SDHHasher, KernelHasher)
    (True, True)
    """

    _supervised = True
    #: whether `_learn_map` needs the kernel values of all samples several times
    _holds_features = False
    _parameter_constraints = BaseHasher._parameter_constraints | {
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "ridge": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    anchors_ = from_function("anchors")
    gamma_ = from_function("gamma")
    projection_ = from_function("projection")

    @property
    def intercept_(self) -> npt.NDArray[np.float64]:
        """What is added to the products of kernel values that are not centered."""
        function: Any = self.function_
        intercept: npt.NDArray[np.float64] = function.intercept - function.mean @ function.projection
        return intercept

    def _learn(self, X: npt.NDArray[Any], relevance: Any, rng: np.random.RandomState) -> KernelFunction:
        anchors = X[draw_indices(len(X), self.n_anchors, rng)].astype(np.float64, copy=False)
        gamma = kernel_width(X, anchors) if self.gamma is None else float(self.gamma)
        features = KernelFeatures(X, anchors, gamma, hold=self._holds_features)
        projection, offset = self._learn_map(features, relevance, rng)
        return KernelFunction(anchors, gamma, features.mean, projection, np.zeros(self.nbits) + offset)

    @abstractmethod
    def _learn_map(
        self, features: KernelFeatures, relevance: Any, rng: np.random.RandomState
    ) -> tuple[npt.NDArray[np.float64], Any]:
        """Map of centered kernel values, of shape (n_anchors, nbits), and its offset."""


def draw_indices(n: int, max_drawn: int, rng: np.random.RandomState) -> npt.NDArray[np.int64]:
    """At most `max_drawn` of n indices, drawn at random without replacement, ascending."""
    return np.sort(rng.choice(n, min(max_drawn, n), replace=False))


def kernel_width(X: npt.NDArray[Any], anchors: npt.NDArray[Any]) -> float:
    """Default gamma of exp(-gamma d^2): 2 over the mean squared distance of samples to anchors, or 1 if that is 0."""
    offset = offset_of(anchors)
    near = shifted(anchors, offset)
    center = near.mean(axis=0)
    # the mean over all pairs, because the distances of the anchors to their mean cancel
    parts = gen_batches(len(X), PART_SIZE)
    total = sum(np.square(shifted(X[part], offset) - center).sum() for part in parts)
    mean = total / len(X) + np.square(near - center).sum() / len(near)
    return float(2 / mean) if mean > 0 else 1.0
