"""Dropout that takes little time on the CPU, too."""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable


class Dropout(nn.Dropout):
    """Dropout that draws one random byte per value in a compiled kernel on the CPU.

    The probability is rounded to a multiple of 1 / 256 there. torch's global generator seeds the kernel, which is much
    faster than torch's dropout (``benchmarks/growth.py`` times steps with dropout).
    """

    def forward(
        self, X: torch.Tensor, mean: torch.Tensor | None = None, scale: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``(X - mean) / scale`` of shape (n, n_features), in training with dropout."""
        if not (self.training and self.p > 0 and X.device.type == "cpu" and X.dtype == torch.float32 and X.ndim == 2):
            X = X if mean is None else X - mean
            return super().forward(X if scale is None else X / scale)
        mean = X.new_zeros(X.shape[1]) if mean is None else mean
        outputs: torch.Tensor = _CenterAndDrop.apply(X, mean, *self.draw(1.0 if scale is None else scale.item()))
        return outputs

    def draw(self, scale: float) -> tuple[float, int, int]:
        """Factor of the kept values, number of the 256 bytes that drop a value, and seed, for one batch."""
        n_dropped = min(round(256 * self.p), 255)
        return 256 / (256 - n_dropped) / scale, n_dropped, int(torch.randint(2**63 - 1, ())) if self.p > 0 else 0


class _CenterAndDrop(torch.autograd.Function):
    """The compiled dropout; its derivative drops the same values."""

    @staticmethod
    def forward(
        ctx: Any, X: torch.Tensor, mean: torch.Tensor, factor: float, n_dropped: int, seed: int
    ) -> torch.Tensor:
        ctx.options = factor, n_dropped, seed
        return _center_and_drop(X, mean, *ctx.options)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        zeros = gradient.new_zeros(gradient.shape[1])
        return _center_and_drop(gradient, zeros, *ctx.options), None, None, None, None


def _center_and_drop(X: torch.Tensor, mean: torch.Tensor, factor: float, n_dropped: int, seed: int) -> torch.Tensor:
    from skhash.engine._kernels import center_and_drop

    outputs = torch.empty(X.shape, dtype=X.dtype)
    arrays = X.detach().contiguous().numpy(), np.arange(len(X)), mean.numpy()
    center_and_drop(*arrays, np.float32(factor), n_dropped, np.uint64(seed), outputs.numpy())
    return outputs
