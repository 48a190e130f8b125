"""Compiled steps of AdamW for few parameters on the CPU (``benchmarks/engine.py``)."""

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import torch

N_MAX_VALUES = 2**18  # of all parameters; with more, the overhead of torch is a small part of a step


def stepper(optimizer: torch.optim.Optimizer, is_built_in: bool) -> Callable[[], Any]:
    """Function that makes a step of an optimizer: compiled for few values of the built-in AdamW, else that of torch."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    is_small = sum(parameter.numel() for parameter in parameters) <= N_MAX_VALUES
    are_plain = all(parameter.dtype == torch.float32 and parameter.is_contiguous() for parameter in parameters)
    if not (is_built_in and is_small and are_plain):
        return optimizer.step
    return _CompiledSteps(optimizer)


class _CompiledSteps:
    """Function that makes a compiled step of AdamW; it keeps the arrays of the tensors from step to step."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        from skhash.engine._kernels import step_adamw

        self.optimizer, self._step_adamw = optimizer, step_adamw
        self._arrays: dict[tuple[int, str], tuple[torch.Tensor, npt.NDArray[Any]]] = {}

    def __call__(self) -> None:
        pairs = [(group, parameter) for group in self.optimizer.param_groups for parameter in group["params"]]
        states = [self.optimizer.state[parameter] for _, parameter in pairs]
        if not all(states):
            self.optimizer.step()  # the first step makes the state
            return
        for i, ((group, parameter), state) in enumerate(zip(pairs, states, strict=True)):
            if parameter.grad is not None:
                value, gradient = self._array(i, "value", parameter), self._array(i, "gradient", parameter.grad)
                mean, square, n_steps = (
                    self._array(i, name, state[name]) for name in ("exp_avg", "exp_avg_sq", "step")
                )
                n_steps += 1
                numbers = group["lr"], group["weight_decay"], *group["betas"], group["eps"], n_steps.item()
                self._step_adamw(value, gradient, mean, square, *numbers)

    def _array(self, i: int, name: str, tensor: torch.Tensor) -> npt.NDArray[Any]:
        """Tensor of parameter i as a flat array, which is made again if the tensor is another object."""
        made_from, array = self._arrays.get((i, name), (None, None))
        if made_from is not tensor or array is None:
            array = tensor.detach().contiguous().view(-1).numpy()
            if tensor.is_contiguous():  # the array shares its memory
                self._arrays[i, name] = tensor, array
        return array
