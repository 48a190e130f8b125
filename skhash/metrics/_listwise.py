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
    distances: torch.Tensor,
    level_index: npt.NDArray[Any],
    levels: npt.ArrayLike,
    metric: str,
    *,
    max_distance: float,
    n_bins: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tie-aware metric on soft counts, differentiable with respect to the distances.

    Parameters
    ----------
    distances : float32 tensor of shape (n, n)
        Soft distances in [0, max_distance], on the CPU.
    level_index : uint32 ndarray of shape (n, n)
        Index of each pair's level; the diagonal is ignored.
    levels : array-like of shape (n_levels,)
        Levels, ascending from 0.
    metric : "ap", "ndcg" or "fastap"
        The metric.
    max_distance : float
        Largest distance, the number of bits.
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
    >>> distances = torch.tensor([[0.0, 0.5, 2.0], [0.5, 0.0, 1.5], [2.0, 1.5, 0.0]])
    >>> same_class = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=np.uint32)
    >>> listwise_metric(distances, same_class, [0, 1], "ap", max_distance=2)
    (tensor([1.0000, 0.9339, 0.0000], dtype=torch.float64), tensor([ True,  True, False]))
    """
    n_bins = int(max_distance) if n_bins is None else n_bins
    position = distances if n_bins == max_distance else distances * (n_bins / max_distance)
    masses = _level_gains(levels) if metric == "ndcg" else (np.asarray(levels) > 0).astype(np.float64)
    values: tuple[torch.Tensor, torch.Tensor] = _ListwiseMetric.apply(position, level_index, masses, metric, n_bins)
    return values


class _ListwiseMetric(torch.autograd.Function):
    """The compiled metric, with its derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        position: torch.Tensor,
        level_index: npt.NDArray[Any],
        masses: npt.NDArray[np.float64],
        metric: str,
        n_bins: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        from skhash.metrics import _kernels

        n = len(position)
        code = {"ap": _kernels.AP, "ndcg": _kernels.NDCG, "fastap": _kernels.FAST_AP}[metric]
        values, defined, slopes = np.empty(n), np.empty(n, dtype=bool), np.empty((n, n), dtype=np.float32)
        discounts = _discount_table(1 << (n + 2).bit_length(), "log2")
        pairs = position.detach().numpy(), level_index
        _kernels.listwise_metric(*pairs, n_bins, code, masses, discounts, values, defined, slopes)
        ctx.slopes = torch.from_numpy(slopes)
        ctx.mark_non_differentiable(is_defined := torch.from_numpy(defined))
        return torch.from_numpy(values), is_defined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[torch.Tensor, None, None, None, None]:
        return gradient.to(ctx.slopes.dtype)[:, None] * ctx.slopes, None, None, None, None
