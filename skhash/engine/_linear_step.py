"""Loss and gradients of a linear encoder on the CPU, computed by hand.

One compiled pass reads and centers the samples and applies dropout. The objective returns the derivative of its loss
with respect to the activations. The graph of torch would take as long as the computation (``benchmarks/engine.py``).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from skhash.engine.encoder import Encoder
from skhash.engine.objective import Objective
from skhash.engine.processes import n_processes


class LinearStep:
    """Loss of a batch of a linear encoder; the gradients are stored in the parameters."""

    def __init__(self, encoder: Encoder, objective: Objective, X: Any, max_samples: int) -> None:
        from skhash.engine._kernels import center_and_drop

        self.encoder, self.X, self._center_and_drop = encoder, X, center_and_drop
        self._differentiate: Any = objective.loss_by_hand
        is_array = isinstance(X, np.ndarray) and X.flags.c_contiguous and X.flags.writeable
        self._is_plain = is_array and X.dtype in (np.float32, np.float64) and encoder.offset is None
        self._parameters = encoder.hash.weight, encoder.hash.bias
        self._values = tuple(parameter.detach() for parameter in self._parameters)  # torch records no graph for them
        self._gradients = tuple(torch.empty_like(value) for value in self._values)
        self._samples = torch.empty(max_samples, X.shape[1]).numpy()
        self._mean, self._scale, self._dropout = encoder.mean.numpy(), encoder.scale.numpy(), encoder.dropout

    @np.errstate(over="ignore", invalid="ignore")  # the training loop raises if the loss is not finite
    def __call__(self, indices: npt.NDArray[np.int64], targets: Any) -> float:
        """Loss of the batch with these indices and targets."""
        (weight, bias), (weight_slopes, bias_slopes) = self._values, self._gradients
        samples = torch.from_numpy(self._read(indices))
        outputs = torch.addmm(bias, samples, weight.T)
        loss: float
        loss, slopes = self._differentiate(outputs.numpy(), targets)
        slopes = torch.from_numpy(slopes)
        torch.mm(slopes.T, samples, out=weight_slopes)
        torch.sum(slopes, 0, out=bias_slopes)
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            if parameter.grad is not gradient:
                parameter.grad = gradient
        return loss

    def _read(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Samples of a batch, centered, scaled and with dropout, of shape (n_batch, n_features)."""
        factor, n_dropped, seed = self._dropout.draw(self._scale.item())
        samples, X = self._samples[: len(indices)], self.X
        if not self._is_plain:
            X, indices = self.encoder.read(X, indices).numpy(), np.arange(len(indices))
        self._center_and_drop(X, indices, self._mean, np.float32(factor), n_dropped, np.uint64(seed), samples)
        return samples


def is_by_hand(encoder: Encoder, objective: Objective, augment: Any) -> bool:
    """Whether :class:`LinearStep` suits: a linear encoder on the CPU, a known derivative, one process, no `augment`."""
    layers = encoder.backbone, encoder.norm
    is_linear = type(encoder) is Encoder and all(type(layer) is nn.Identity for layer in layers)
    is_alone = n_processes() == 1 and next(objective.parameters(), None) is None
    is_on_cpu = encoder.mean.device.type == "cpu"
    return is_linear and is_on_cpu and is_alone and augment is None and objective.loss_by_hand is not None
