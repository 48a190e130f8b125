"""Metrics of a batch whose samples rank each other, compiled, for training on the CPU.

One pass over the pairs computes what soft_histogram.py and the formulas of the metrics define, with the
derivative by hand. Those stay the definition, the path of other devices, and the oracle of the tests.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd.function import once_differentiable

from skhash.metrics._ties import discount_table
from skhash.metrics.ndcg import _level_gains


def listwise_metric(
    phi: torch.Tensor, level_index: npt.NDArray[Any], levels: npt.ArrayLike, metric: str, *, n_bins: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tie-aware metric on soft counts of soft Hamming distances, differentiable with respect to the activations.

    Parameters
    ----------
    phi : float32 or float64 tensor of shape (n, nbits)
        Activations in [-1, 1], on the CPU. The distance of two samples is ``(nbits - <phi, phi'>) / 2``.
    level_index : uint32 ndarray of shape (n, n)
        Index of each pair's level; the diagonal is ignored.
    levels : array-like of shape (n_levels,)
        Levels, ascending from 0.
    metric : "ap", "ndcg" or "fastap"
        The metric.
    n_bins : int, default=None
        Number of bins above bin 0; None uses one bin per bit.

    Returns
    -------
    values : float64 tensor of shape (n,)
        Metric of each sample as a query that ranks the others, 0 if nothing is relevant to it.
    defined : bool tensor of shape (n,)
        Whether something is relevant to it.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.metrics._listwise import listwise_metric
    >>> phi = torch.tensor([[1.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    >>> same_class = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=np.uint32)
    >>> listwise_metric(phi, same_class, [0, 1], "ap")
    (tensor([1.0000, 0.9339, 0.0000], dtype=torch.float64), tensor([ True,  True, False]))
    """
    n_bins = phi.shape[1] if n_bins is None else n_bins
    arguments = level_index, _masses(levels, metric), metric, n_bins
    values: tuple[torch.Tensor, torch.Tensor] = _ListwiseMetric.apply(phi, *arguments)
    return values


def listwise_loss(
    phi: npt.NDArray[Any],
    level_index: npt.NDArray[Any],
    levels: npt.ArrayLike,
    metric: str,
    *,
    n_bins: int | None = None,
) -> tuple[float, npt.NDArray[Any]]:
    """One minus the mean metric of the samples to which another one is relevant, and its derivative.

    Parameters
    ----------
    phi, level_index, levels, metric, n_bins
        As for :func:`listwise_metric`, with an array of activations.

    Returns
    -------
    loss : float
        The loss, in [0, 1].
    slopes : ndarray of shape (n, nbits)
        Its derivative by the activations.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.metrics._listwise import listwise_loss
    >>> phi = np.array([[1.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    >>> same_class = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=np.uint32)
    >>> loss, slopes = listwise_loss(phi, same_class, [0, 1], "ap")
    >>> round(loss, 4)
    0.0331
    """
    n_bins = phi.shape[1] if n_bins is None else n_bins
    values, is_defined, slopes = _evaluate(phi, level_index, _masses(levels, metric), metric, n_bins)
    n_defined = max(int(np.count_nonzero(is_defined)), 1)
    weights = np.full(len(phi), -1 / n_defined, phi.dtype)
    return 1 - values.sum().item() / n_defined, _differentiate(phi, slopes, weights, slopes)


def _masses(levels: npt.ArrayLike, metric: str) -> npt.NDArray[np.float64]:
    """Mass of an item of each level."""
    return _level_gains(levels) if metric == "ndcg" else (np.asarray(levels) > 0).astype(np.float64)


def _evaluate(
    phi: npt.NDArray[Any], level_index: npt.NDArray[Any], masses: npt.NDArray[np.float64], metric: str, n_bins: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[Any]]:
    """Values, whether they are defined, and their derivatives by half the products of the samples in each row."""
    from skhash.metrics import _kernels

    n, nbits = phi.shape
    n_blocks, size = -(-n // _kernels.LANES), (n_bins + 1) * _kernels.LANES
    real, is_graded = phi.dtype.type, metric == "ndcg"
    scale = real(n_bins / nbits)
    places = np.empty((n_blocks * _kernels.LANES, n), np.uint32)
    products, samples = np.empty(places.shape, phi.dtype), torch.from_numpy(phi)
    torch.mm(samples, samples.T, out=torch.from_numpy(products[:n]))
    ends = np.empty((n_blocks, 2), np.int64)
    items, masses_of_ties = np.empty((2, n_blocks * size))
    n_relevant, totals = np.empty((2, len(places)))
    bins = real(nbits), scale / 2, n_bins, places, np.empty(4 * size)
    _kernels.count_items(products, level_index, *bins, items, masses_of_ties, ends, n_relevant)
    ties = items, masses_of_ties, ends, totals, np.empty((12, size + _kernels.LANES))
    is_defined, normalizers = n_relevant[:n] > 0, n_relevant[:n]
    if metric == "ap":
        _kernels.average_precision_terms(*ties)
    elif metric == "fastap":
        _kernels.fast_ap_terms(*ties)
    else:
        discounts, normalizers = discount_table(1 << (n + 2).bit_length(), "log2"), np.empty(n)
        _kernels.count_gains(places, products, level_index, masses, discounts, n_bins, masses_of_ties, normalizers)
        _kernels.discounted_gain_terms(*ties, discounts)
    factors = is_defined / np.where(is_defined, normalizers, 1)
    slopes, table = products[:n], np.zeros(2 * size, real)
    of_ties = factors, ends, items, masses_of_ties, table  # which the kernel has replaced by the derivatives
    _kernels.write_slopes(places, level_index, masses, is_graded, scale, *of_ties, slopes)
    return totals[:n] * factors, is_defined, slopes


def _differentiate(
    phi: npt.NDArray[Any], slopes: npt.NDArray[Any], weights: npt.NDArray[Any], sums: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Derivative of the weighted sum of the values by the activations. `sums` is for work, and may be `slopes`."""
    from skhash.metrics import _kernels

    _kernels.add_transposed(slopes, weights / 2, sums)
    derivative: npt.NDArray[Any] = torch.mm(torch.from_numpy(sums), torch.from_numpy(phi)).numpy()
    return derivative


class _ListwiseMetric(torch.autograd.Function):
    """The compiled metric, with its derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        phi: torch.Tensor,
        level_index: npt.NDArray[Any],
        masses: npt.NDArray[np.float64],
        metric: str,
        n_bins: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        values, defined, ctx.slopes = _evaluate(phi.detach().numpy(), level_index, masses, metric, n_bins)
        ctx.save_for_backward(phi)
        ctx.mark_non_differentiable(is_defined := torch.from_numpy(defined))
        return torch.from_numpy(values), is_defined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[torch.Tensor, None, None, None, None]:
        (phi,) = ctx.saved_tensors
        weights = gradient.to(phi.dtype).numpy()
        slopes = _differentiate(phi.detach().numpy(), ctx.slopes, weights, np.empty_like(ctx.slopes))
        return torch.from_numpy(slopes), None, None, None, None
