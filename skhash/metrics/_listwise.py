"""Metrics of a batch whose samples rank each other, compiled, for training on the CPU.

One pass over the pairs computes what soft_histogram.py and the formulas of the metrics define, with the
derivative by hand. Those stay the definition, the path of other devices, and the oracle of the tests.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd.function import once_differentiable

from skhash.metrics._ties import _discount_table
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
    masses = _level_gains(levels) if metric == "ndcg" else (np.asarray(levels) > 0).astype(np.float64)
    values: tuple[torch.Tensor, torch.Tensor] = _ListwiseMetric.apply(phi, level_index, masses, metric, n_bins)
    return values


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
        from skhash.metrics import _kernels

        n, nbits = phi.shape
        code = {"ap": _kernels.AP, "ndcg": _kernels.NDCG, "fastap": _kernels.FAST_AP}[metric]
        discounts = _discount_table(1 << (n + 2).bit_length(), "log2")
        products = ((phi / 2) @ phi.T).numpy()
        real = products.dtype.type
        values, defined, slopes = np.empty(n), np.empty(n, dtype=bool), np.empty_like(products)
        bins = real(nbits / 2), real(n_bins / nbits), n_bins
        _kernels.listwise_metric(products, level_index, *bins, code, masses, discounts, values, defined, slopes)
        ctx.save_for_backward(phi)
        ctx.slopes = slopes
        ctx.mark_non_differentiable(is_defined := torch.from_numpy(defined))
        return torch.from_numpy(values), is_defined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[torch.Tensor, None, None, None, None]:
        from skhash.metrics import _kernels

        (phi,) = ctx.saved_tensors
        sums = np.empty_like(ctx.slopes)
        _kernels.add_transposed(ctx.slopes, gradient.to(phi.dtype).numpy() / 2, sums)
        return torch.from_numpy(sums) @ phi, None, None, None, None
