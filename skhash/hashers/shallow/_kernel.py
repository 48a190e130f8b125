"""Base class of hashers with a linear map of Gaussian kernel values.

    phi(x) = [exp(-gamma |x - a_1|^2), ..., exp(-gamma |x - a_m|^2)] - mean over the training samples,

where the anchors a_1 ... a_m are drawn from the training samples.
"""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.utils import check_random_state

from skhash._compat import Interval
from skhash._schema import Array
from skhash._values import far_offset
from skhash.base import BaseHasher

N_MAX_SHIFT = 32  # number of anchors that tell where the samples are


class KernelHasher(BaseHasher):
    """Base class of hashers with the activations ``rbf_kernel(x, anchors_, gamma_) @ projection_ + intercept_``.

    A subclass returns from `_learn(features, targets, rng)` a map of shape (n_anchors, nbits) of the
    centered kernel values of the training samples, and an offset. It has the parameters `n_anchors`
    and `gamma`, and `ridge` if it uses `ridged_cholesky`.

    Examples
    --------
    >>> from skhash import KSHHasher, SDHHasher
    >>> from skhash.hashers.shallow._kernel import KernelHasher
    >>> issubclass(KSHHasher, KernelHasher), issubclass(SDHHasher, KernelHasher)
    (True, True)
    """

    _supervised = True
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
        rng, samples = check_random_state(self.random_state), X.astype(np.float64, copy=False)
        self.anchors_ = samples[draw_indices(len(samples), self.n_anchors, rng)]
        self.gamma_ = kernel_width(samples, self.anchors_) if self.gamma is None else float(self.gamma)
        features = gaussian_kernel(samples, self.anchors_, self.gamma_)
        mean = features.mean(axis=0)
        features -= mean
        self.projection_, offset = self._learn(features, targets, rng)
        self.intercept_ = offset - mean @ self.projection_

    def _project(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        activations: npt.NDArray[np.float64] = gaussian_kernel(X, self.anchors_, self.gamma_) @ self.projection_
        return activations + self.intercept_

    @abstractmethod
    def _learn(
        self, features: npt.NDArray[np.float64], targets: Any, rng: np.random.RandomState
    ) -> tuple[npt.NDArray[np.float64], Any]:
        """Map of centered kernel values, of shape (n_anchors, nbits), and its offset."""


def draw_indices(n: int, max_drawn: int, rng: np.random.RandomState) -> npt.NDArray[np.int64]:
    """Indices drawn at random without replacement.

    Parameters
    ----------
    n : int
        Number of samples.
    max_drawn : int
        Maximum number of indices.
    rng : numpy.random.RandomState
        Random number generator.

    Returns
    -------
    ndarray of shape (min(n, max_drawn),), dtype int64
        Indices in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._kernel import draw_indices
    >>> draw_indices(3, 5, np.random.RandomState(0))
    array([0, 1, 2])
    """
    return np.sort(rng.choice(n, min(max_drawn, n), replace=False))


def gaussian_kernel(X: npt.NDArray[Any], anchors: npt.NDArray[np.float64], gamma: float) -> npt.NDArray[np.float64]:
    """Gaussian kernel values exp(-gamma |x - a|^2), also of samples that are far from 0.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    anchors : float64 ndarray of shape (n_anchors, n_features)
        Anchors.
    gamma : float
        Coefficient, > 0.

    Returns
    -------
    float64 ndarray of shape (n_samples, n_anchors)
        Kernel values, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._kernel import gaussian_kernel
    >>> anchors = np.array([[0.0], [1.0]])
    >>> gaussian_kernel(anchors, anchors, 2.0).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    >>> gaussian_kernel(anchors + 1e12, anchors + 1e12, 2.0).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """
    values: npt.NDArray[np.float64] = rbf_kernel(*_near_origin(X, anchors), gamma)
    return values


def _near_origin(
    X: npt.NDArray[Any], anchors: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Samples and anchors, shifted if they are far from 0: |x|^2 + |a|^2 - 2 x.a loses digits there."""
    some = anchors[:: -(-len(anchors) // N_MAX_SHIFT)]
    mean = some.mean(axis=0)
    offset = far_offset(mean, float(np.linalg.norm(some - mean)) / np.sqrt(some.size))
    return (X, anchors) if offset is None else (X - offset, anchors - offset)


def kernel_width(X: npt.NDArray[Any], anchors: npt.NDArray[Any]) -> float:
    """Default gamma of exp(-gamma d^2): 2 over the mean squared distance of samples to anchors.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    anchors : ndarray of shape (n_anchors, n_features)
        Anchors.

    Returns
    -------
    float
        gamma, > 0; 1 if all distances are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._kernel import kernel_width
    >>> kernel_width(np.array([[0.0], [2.0]]), np.array([[0.0]]))
    1.0
    """
    mean = euclidean_distances(*_near_origin(X, anchors), squared=True).mean()
    return float(2 / mean) if mean > 0 else 1.0
