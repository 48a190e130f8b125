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
        The optimizer. It stores the state, whoever makes the step.
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
    return lambda: _step(optimizer)


def _step(optimizer: torch.optim.Optimizer) -> None:
    from skhash.engine._kernels import step_adamw

    if not all(optimizer.state[parameter] for group in optimizer.param_groups for parameter in group["params"]):
        optimizer.step()  # the first step makes the state
        return
    for group in optimizer.param_groups:
        beta1, beta2 = group["betas"]
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = optimizer.state[parameter]
            state["step"] += 1
            mean, square = _flat(state["exp_avg"]), _flat(state["exp_avg_sq"])
            numbers = group["lr"], group["weight_decay"], beta1, beta2, group["eps"], state["step"].item()
            step_adamw(_flat(parameter), _flat(parameter.grad), mean, square, *numbers)


def _flat(tensor: torch.Tensor) -> npt.NDArray[Any]:
    return tensor.detach().contiguous().view(-1).numpy()
