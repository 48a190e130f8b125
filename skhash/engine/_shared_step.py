"""A training step that several processes share: each runs the backbone on its part of the batch.

Every process reads the whole batch and runs the backbone on its part of the samples. The outputs are gathered, and
every process computes the rest of the loss from all of them, as one process does. DistributedDataParallel divides the
gradients by the number of processes, so the gradient of a gathered output is multiplied by this number.

The random numbers of a step (noise, random views) come from generators that are in the same state in every process.
The backbone draws from other generators, because its samples differ between the processes.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from skhash.engine.encoder import Encoder
from skhash.engine.objective import Objective
from skhash.engine.processes import n_processes
from skhash.engine.runtime import generator_states, seeded


def shared_loss(encoder: Encoder, objective: Objective) -> Callable[..., torch.Tensor]:
    """Function of samples, targets and indices that returns the loss; several processes share the backbone."""
    if n_processes() == 1:
        return functools.partial(objective, encoder)
    if next(encoder.backbone.parameters(), None) is not None:
        encoder.run_backbone = _DividedBackbone(encoder.backbone)
    return DistributedDataParallel(_Step(encoder, objective), find_unused_parameters=True)


class _Step(nn.Module):
    """Encoder and objective as one module."""

    def __init__(self, encoder: Encoder, objective: Objective) -> None:
        super().__init__()
        self.encoder, self.objective = encoder, objective

    def forward(self, X: torch.Tensor, targets: Any, indices: Any) -> torch.Tensor:
        loss: torch.Tensor = self.objective(self.encoder, X, targets, indices)
        return loss


class _DividedBackbone:
    """Outputs of a backbone for a batch whose samples are divided among the processes.

    Batches of fewer than two samples per process are not divided.
    """

    def __init__(self, backbone: nn.Module) -> None:
        self.backbone, self.is_dividing = backbone, False
        for module in backbone.modules():
            if isinstance(module, _BatchNorm):
                module.forward = functools.partial(self._normalize, module, module.forward)  # type: ignore[method-assign]

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        n_parts, rank = n_processes(), dist.get_rank()
        if len(X) < 2 * n_parts:
            return self.backbone(X)  # type: ignore[no-any-return]
        sizes = [len(X) // n_parts + (i < len(X) % n_parts) for i in range(n_parts)]
        self.is_dividing = True
        try:
            outputs = _with_own_draws(self.backbone, X.split(sizes)[rank], rank)
        finally:
            self.is_dividing = False
        gathered: torch.Tensor = _Gather.apply(outputs.float(), sizes, rank)
        return gathered

    def _normalize(
        self, module: _BatchNorm, normalize: Callable[[torch.Tensor], torch.Tensor], X: torch.Tensor
    ) -> torch.Tensor:
        """Batch normalization by the moments of the whole batch, not of the part."""
        if not (self.is_dividing and module.training):
            return normalize(X)
        axes, shape = [0, *range(2, X.ndim)], (1, -1, *(1 for _ in X.shape[2:]))
        values = X.float()
        n = _Sum.apply(values.new_tensor([values.numel() / values.shape[1]]))
        mean = _Sum.apply(values.sum(axes)) / n
        deviations = values - mean.view(shape)
        variance = _Sum.apply(deviations.square().sum(axes)) / n
        if module.running_mean is not None:
            _update_moments(module, mean.detach(), (variance * n / (n - 1)).detach())
        outputs = deviations * torch.rsqrt(variance + module.eps).view(shape)
        if module.affine:
            outputs = outputs * module.weight.view(shape) + module.bias.view(shape)
        normalized: torch.Tensor = outputs.to(X.dtype)
        return normalized


def _update_moments(module: _BatchNorm, mean: torch.Tensor, variance: torch.Tensor) -> None:
    """Running moments after one more batch."""
    module.num_batches_tracked.add_(1)  # type: ignore[union-attr]
    rate = 1 / float(module.num_batches_tracked) if module.momentum is None else module.momentum  # type: ignore[arg-type]
    module.running_mean.lerp_(mean, rate)  # type: ignore[union-attr]
    module.running_var.lerp_(variance, rate)  # type: ignore[union-attr]


def _with_own_draws(backbone: nn.Module, X: torch.Tensor, rank: int) -> torch.Tensor:
    """Outputs of a backbone that draws other random numbers in each process.

    The generators are restored afterwards; if it drew, each advances by one number, so that they stay equal.
    """
    shared = torch.Generator()
    shared.set_state(torch.get_rng_state())
    seed = int(torch.randint(2**31 - 2**16, (), generator=shared)) + rank
    with seeded(seed, X.device):
        before = generator_states(X.device)
        outputs: torch.Tensor = backbone(X)
        drew = _differ(before, generator_states(X.device))
    if drew:
        torch.rand(())
    return outputs


def _differ(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether states of generators differ."""
    (_, key, *rest), (_, next_key, *next_rest) = before["numpy"], after["numpy"]
    tensors = [(before[name], after[name]) for name in ("torch", "cuda") if name in before]
    same = all(torch.equal(*pair) for pair in [*tensors, (key, next_key)])
    return not (same and rest == next_rest and before["python"] == after["python"])


class _Gather(torch.autograd.Function):
    """The outputs of all processes. All compute the same loss, so no gradients are exchanged."""

    @staticmethod
    def forward(ctx: Any, outputs: torch.Tensor, sizes: list[int], rank: int) -> torch.Tensor:
        ctx.sizes, ctx.rank = sizes, rank
        padded = outputs.new_zeros(max(sizes), *outputs.shape[1:])
        padded[: len(outputs)] = outputs
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradient.split(ctx.sizes)[ctx.rank] * len(ctx.sizes), None, None


class _Sum(torch.autograd.Function):
    """Sum over the processes, of values and of gradients."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total
