"""Gaussian kernel values exp(-gamma |x - a|^2) of samples at anchors, and their default gamma."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import gen_batches

from skhash._validation.values import far_offset

N_MAX_SHIFT = 32  # number of anchors that tell where the samples are
PART_SIZE = 1024  # samples that are in float64 at a time


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
    >>> from skhash.hashers.shallow._gaussian_kernel import gaussian_kernel
    >>> anchors = np.array([[0.0], [1.0]])
    >>> gaussian_kernel(anchors, anchors, 2.0).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    >>> gaussian_kernel(anchors + 1e12, anchors + 1e12, 2.0).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """
    offset = _offset(anchors)
    values: npt.NDArray[np.float64] = rbf_kernel(_shifted(X, offset), _shifted(anchors, offset), gamma)
    return values


def _offset(anchors: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    """What to subtract if the anchors are far from 0, else None: |x|^2 + |a|^2 - 2 x.a loses digits there."""
    some = anchors[:: -(-len(anchors) // N_MAX_SHIFT)]
    mean = some.mean(axis=0)
    return far_offset(mean, float(np.linalg.norm(some - mean)) / np.sqrt(some.size))


def _shifted(X: npt.NDArray[Any], offset: npt.NDArray[np.float64] | None) -> npt.NDArray[Any]:
    return X if offset is None else X - offset


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
    >>> from skhash.hashers.shallow._gaussian_kernel import kernel_width
    >>> kernel_width(np.array([[0.0], [2.0]]), np.array([[0.0]]))
    1.0
    """
    offset = _offset(anchors)
    near = _shifted(anchors, offset)
    center = near.mean(axis=0)
    # the mean over all pairs, because the distances of the anchors to their mean cancel
    parts = gen_batches(len(X), PART_SIZE)
    total = sum(np.square(_shifted(X[part], offset) - center).sum() for part in parts)
    mean = total / len(X) + np.square(near - center).sum() / len(near)
    return float(2 / mean) if mean > 0 else 1.0
