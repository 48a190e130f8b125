"""Gaussian kernel values exp(-gamma |x - a|^2) of samples at anchors, and their default gamma."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import gen_batches

from skhash._validation.values import far_offset

N_MAX_SHIFT = 32  # number of anchors whose mean decides whether the samples are far from 0
PART_SIZE = 1024  # samples that are converted to float64 at a time


def gaussian_kernel(X: npt.NDArray[Any], anchors: npt.NDArray[np.float64], gamma: float) -> npt.NDArray[np.float64]:
    """Kernel values exp(-gamma |x - a|^2) of shape (n_samples, n_anchors), also for samples far from 0."""
    offset = _offset(anchors)
    values: npt.NDArray[np.float64] = rbf_kernel(_shifted(X, offset), _shifted(anchors, offset), gamma)
    return values


def _offset(anchors: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    """Offset to subtract if the anchors are far from 0, where |x|^2 + |a|^2 - 2 x.a loses digits; else None."""
    some = anchors[:: -(-len(anchors) // N_MAX_SHIFT)]
    mean = some.mean(axis=0)
    return far_offset(mean, float(np.linalg.norm(some - mean)) / np.sqrt(some.size))


def _shifted(X: npt.NDArray[Any], offset: npt.NDArray[np.float64] | None) -> npt.NDArray[Any]:
    return X if offset is None else X - offset


def kernel_width(X: npt.NDArray[Any], anchors: npt.NDArray[Any]) -> float:
    """Default gamma of exp(-gamma d^2): 2 over the mean squared distance of samples to anchors, or 1 if that is 0."""
    offset = _offset(anchors)
    near = _shifted(anchors, offset)
    center = near.mean(axis=0)
    # the mean over all pairs, because the distances of the anchors to their mean cancel
    parts = gen_batches(len(X), PART_SIZE)
    total = sum(np.square(_shifted(X[part], offset) - center).sum() for part in parts)
    mean = total / len(X) + np.square(near - center).sum() / len(near)
    return float(2 / mean) if mean > 0 else 1.0
