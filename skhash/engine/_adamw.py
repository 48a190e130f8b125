"""Steps of AdamW on few parameters on the CPU, without what torch's optimizers cost in Python for each step."""

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import torch

N_MAX_VALUES = 2**18  # values of the parameters, below which the overhead is a large part of a step


def stepper(optimizer: torch.optim.Optimizer, is_built_in: bool) -> Callable[[], Any]:
    """Function that makes a step of an optimizer.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        The optimizer. It stores the state, also where the compiled step changes it.
    is_built_in : bool
        Whether it is the AdamW of the training loop, with parameters on the CPU.

    Returns
    -------
    callable
        A compiled step for few values, else the step of the optimizer.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    is_small = sum(parameter.numel() for parameter in parameters) <= N_MAX_VALUES
    are_plain = all(parameter.dtype == torch.float32 and parameter.is_contiguous() for parameter in parameters)
    if not (is_built_in and is_small and are_plain):
        return optimizer.step
    return _CompiledSteps(optimizer)


class _CompiledSteps:
    """Function that makes a step of AdamW. It keeps the arrays of tensors, which take longer to make than to use."""

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
        """A tensor of parameter i as a flat array, made again where it is another tensor than in the last step."""
        made_from, array = self._arrays.get((i, name), (None, None))
        if made_from is not tensor or array is None:
            array = tensor.detach().contiguous().view(-1).numpy()
            if tensor.is_contiguous():  # the array shares its memory
                self._arrays[i, name] = tensor, array
        return array
