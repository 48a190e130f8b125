"""A linear map of Gaussian kernel values of samples at anchors.

    activations(x) = (k(x) - mean) projection + intercept,
    k(x) = [exp(-gamma |x - a_1|^2), ..., exp(-gamma |x - a_m|^2)],

where the anchors a_1 ... a_m are training samples, and the mean is that of the kernel values of training samples.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from skhash._validation import Array, far_offset
from skhash.functions.function import ArrayFunction

N_MAX_SHIFT = 32  # number of anchors whose mean decides whether the samples are far from 0


@dataclass(frozen=True, eq=False, repr=False)
class KernelFunction(ArrayFunction):
    """A linear map of centered Gaussian kernel values at anchors.

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors, n_features), float64
        The anchors.
    gamma : float
        Coefficient of the kernel exp(-gamma d^2).
    mean : ndarray of shape (n_anchors,), float64
        Mean of the kernel values of the training samples.
    projection : ndarray of shape (n_anchors, nbits), float64
        Map of the centered kernel values.
    intercept : ndarray of shape (nbits,), float64
        What is added to the activations.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.functions import KernelFunction
    >>> function = KernelFunction(
    ...     np.zeros((1, 2)), 1.0, np.zeros(1), np.ones((1, 1)), np.zeros(1)
    ... )
    >>> function.activations(np.array([[0.0, 0.0], [1.0, 0.0]])).round(3)
    array([[1.   ],
           [0.368]])
    """

    anchors: Annotated[npt.NDArray[Any], Array("n_anchors n_features")]
    gamma: Annotated[float, Array("")]
    mean: Annotated[npt.NDArray[Any], Array("n_anchors")]
    projection: Annotated[npt.NDArray[Any], Array("n_anchors nbits")]
    intercept: Annotated[npt.NDArray[Any], Array("nbits")]

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return int(self.projection.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (self.anchors.shape[1],)

    def activations(self, X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Activations of samples, see :meth:`~skhash.functions.HashFunction.activations`."""
        values = gaussian_kernel(X, self.anchors, self.gamma) - self.mean
        activations: npt.NDArray[np.float64] = values @ self.projection + self.intercept
        return activations


def gaussian_kernel(X: npt.NDArray[Any], anchors: npt.NDArray[np.float64], gamma: float) -> npt.NDArray[np.float64]:
    """Kernel values exp(-gamma |x - a|^2) of shape (n_samples, n_anchors), also for samples far from 0."""
    from sklearn.metrics.pairwise import rbf_kernel  # slow to import, and linear functions need none

    offset = offset_of(anchors)
    values: npt.NDArray[np.float64] = rbf_kernel(shifted(X, offset), shifted(anchors, offset), gamma)
    return values


def offset_of(anchors: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    """Offset to subtract if the anchors are far from 0, where |x|^2 + |a|^2 - 2 x.a loses digits; else None."""
    some = anchors[:: -(-len(anchors) // N_MAX_SHIFT)]
    mean = some.mean(axis=0)
    return far_offset(mean, float(np.linalg.norm(some - mean)) / np.sqrt(some.size))


def shifted(X: npt.NDArray[Any], offset: npt.NDArray[np.float64] | None) -> npt.NDArray[Any]:
    """Samples minus an offset, if there is one."""
    return X if offset is None else X - offset
