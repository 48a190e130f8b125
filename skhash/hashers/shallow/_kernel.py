"""Base class of hashers with a linear map of Gaussian kernel values.

    phi(x) = [exp(-gamma |x - a_1|^2), ..., exp(-gamma |x - a_m|^2)] - mean over the training samples,

where the anchors a_1 ... a_m are drawn from the training samples.
"""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from skhash._compat import Interval
from skhash._validation.schema import Array
from skhash.base import BaseHasher
from skhash.hashers.shallow._gaussian_kernel import gaussian_kernel, kernel_width
from skhash.hashers.shallow._kernel_features import KernelFeatures


class KernelHasher(BaseHasher):
    """Base class of hashers with the activations ``rbf_kernel(x, anchors_, gamma_) @ projection_ + intercept_``.

    A subclass returns from `_learn(features, targets, rng)` a map of shape (n_anchors, nbits) of the
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
    #: whether `_learn` needs the kernel values of all samples several times
    _holds_features = False
    _parameter_constraints = BaseHasher._parameter_constraints | {
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "ridge": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    anchors_: Annotated[npt.NDArray[Any], Array("n_anchors n_features")]
    gamma_: float
    projection_: Annotated[npt.NDArray[Any], Array("n_anchors nbits")]
    intercept_: Annotated[npt.NDArray[Any], Array("nbits")]

    def _fit(self, X: npt.NDArray[Any], targets: Any) -> None:
        rng = check_random_state(self.random_state)
        self.anchors_ = X[draw_indices(len(X), self.n_anchors, rng)].astype(np.float64, copy=False)
        self.gamma_ = kernel_width(X, self.anchors_) if self.gamma is None else float(self.gamma)
        features = KernelFeatures(X, self.anchors_, self.gamma_, hold=self._holds_features)
        self.projection_, offset = self._learn(features, targets, rng)
        self.intercept_ = offset - features.mean @ self.projection_

    def _project(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        activations: npt.NDArray[np.float64] = gaussian_kernel(X, self.anchors_, self.gamma_) @ self.projection_
        return activations + self.intercept_

    @abstractmethod
    def _learn(
        self, features: KernelFeatures, targets: Any, rng: np.random.RandomState
    ) -> tuple[npt.NDArray[np.float64], Any]:
        """Map of centered kernel values, of shape (n_anchors, nbits), and its offset."""


def draw_indices(n: int, max_drawn: int, rng: np.random.RandomState) -> npt.NDArray[np.int64]:
    """At most `max_drawn` of n indices, drawn at random without replacement, ascending."""
    return np.sort(rng.choice(n, min(max_drawn, n), replace=False))
