"""Compiled metrics of a batch whose samples rank each other, for training on the CPU.

One pass over the pairs computes the metrics on the soft counts of soft_histogram.py, with a derivative by hand. Other
devices use soft_histogram.py and the formulas of the metrics, and the tests compare both.
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
    """Soft metric "ap", "ndcg" or "fastap" of each sample as a query, of shape (n,), and whether it is defined.

    Activations `phi` of shape (n, nbits) are in [-1, 1], on the CPU; the diagonal of `level_index` is ignored.
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
    """One minus the mean of the defined metrics, and its derivative by the activations, of shape (n, nbits)."""
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
    """Values, whether they are defined, and derivatives of shape (n, n) by half the products of each row."""
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
    of_ties = factors, ends, items, masses_of_ties, table  # the kernel has replaced the counts by the derivatives
    _kernels.write_slopes(places, level_index, masses, is_graded, scale, *of_ties, slopes)
    return totals[:n] * factors, is_defined, slopes


def _differentiate(
    phi: npt.NDArray[Any], slopes: npt.NDArray[Any], weights: npt.NDArray[Any], sums: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Derivative of the weighted sum of the values by the activations; `sums` is overwritten, and may be `slopes`."""
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
