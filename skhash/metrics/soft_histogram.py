"""Soft counts: from real activations and levels to a RelevanceHistogram (He et al., CVPR 2018, section 4.2).

With phi in [-1, 1]^b the soft Hamming distance is d = (b - <phi, phi'>) / 2 (eq. 1). Each
distance is shared between the two nearest bins in proportion (eqs. 13 to 15). This is a triangular
kernel of one bin width: it conserves mass, and a whole distance falls into its own
bin only. As scatter-adds it takes O(M^2) in the batch, where the dense kernel takes
O(M^2 b); the backward pass is one gather.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from skhash.metrics.histogram import RelevanceHistogram


def soft_histogram(
    distances: torch.Tensor,
    level_index: torch.Tensor,
    levels: npt.ArrayLike,
    *,
    max_distance: float,
    n_bins: int | None = None,
    exclude_self: bool = True,
) -> RelevanceHistogram:
    """Histogram of soft counts, differentiable with respect to the distances.

    Parameters
    ----------
    distances : tensor of shape (n_queries, n_items)
        Soft distances in [0, max_distance].
    level_index : int64 tensor of shape (n_queries, n_items)
        Index of each pair's level.
    levels : array-like of shape (n_levels,)
        Levels, ascending from 0.
    max_distance : float
        Largest distance, the number of bits.
    n_bins : int, default=None
        Number of bins above bin 0. None uses one bin per bit; then the soft counts of
        whole distances are the hard counts.
    exclude_self : bool, default=True
        Leave item i out of the ranking of query i.

    Returns
    -------
    RelevanceHistogram
        Soft counts, float64 of shape (n_queries, n_bins + 1, n_levels).

    Examples
    --------
    >>> import torch
    >>> from skhash.metrics.soft_histogram import soft_histogram
    >>> distances, level_index = torch.tensor([[0.0, 1.25]]), torch.tensor([[0, 1]])
    >>> H = soft_histogram(
    ...     distances, level_index, [0, 1], max_distance=2, exclude_self=False
    ... )
    >>> H.counts[0].tolist()
    [[1.0, 0.0], [0.0, 0.75], [0.0, 0.25]]
    """
    n_bins = int(max_distance) if n_bins is None else n_bins
    position = distances if n_bins == max_distance else distances * (n_bins / max_distance)
    counts = _ScatterCounts.apply(position, level_index, n_bins, len(np.asarray(levels)), exclude_self)
    return RelevanceHistogram(counts, levels)


class _ScatterCounts(torch.autograd.Function):
    """Soft counts as scatter-adds, with their derivative."""

    @staticmethod
    def forward(
        ctx: Any, position: torch.Tensor, level_index: torch.Tensor, n_bins: int, n_levels: int, exclude_self: bool
    ) -> torch.Tensor:
        # at most n_bins - 1, so that the upper neighbor exists: the largest distance has a fraction of 1
        below = position.detach().floor().clamp_(0, n_bins - 1)
        upper = (position.double() - below).clamp_(0, 1)
        lower = 1 - upper
        if exclude_self:
            upper.fill_diagonal_(0)
            lower.fill_diagonal_(0)
        cell = below.long().mul_(n_levels).add_(level_index)
        n_cells = (n_bins + 1) * n_levels
        counts = torch.zeros(len(position), n_cells, dtype=torch.float64, device=position.device)
        counts.scatter_add_(1, cell, lower)
        counts[:, n_levels:].scatter_add_(1, cell, upper)  # the next bin
        ctx.save_for_backward(cell)
        ctx.exclude_self, ctx.dtype = exclude_self, position.dtype
        return counts.view(len(position), n_bins + 1, n_levels)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        (cell,) = ctx.saved_tensors
        step = (gradient[:, 1:] - gradient[:, :-1]).reshape(len(gradient), -1).to(ctx.dtype).gather(1, cell)
        if ctx.exclude_self:
            step.fill_diagonal_(0)
        return step, None, None, None, None
