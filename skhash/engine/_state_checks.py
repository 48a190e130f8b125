"""Checks of the state of a training before it is restored: what comes from a file may be anything."""

import math
from typing import Any

import torch

_N_MT = 624  # words of a Mersenne Twister
_N_MAX_INT = 2**128  # the state of PCG64


def check_state(trainer: Any, state: dict[str, Any]) -> None:
    """Raise ValueError unless a state can be that of a training.

    Generators of random numbers with a position out of range, for one, would read outside
    of their memory.

    Parameters
    ----------
    trainer : Trainer
        The training before the state is restored: it has the same parts.
    state : dict
        State to restore.
    """
    fresh, schedule = trainer.state_dict(), trainer.schedule
    given = dict.fromkeys(fresh) | state
    for name in ("n_epochs_done", "encoder", "objective", "order"):
        check_like(given[name], fresh[name], name)
    n_done = given["n_epochs_done"]
    if type(n_done) is not int or not 0 <= n_done <= schedule.n_epochs:
        raise ValueError(f"`n_epochs_done` is {n_done} of {schedule.n_epochs}")
    check_finite(given["encoder"], "encoder")
    _check_optimizer(given["optimizer"], trainer.optimizer, is_known=not callable(schedule.optimizer))
    if callable(schedule.lr_schedule):
        _check_scheduler(given["scheduler"], trainer.scheduler)
    else:
        check_like(given["scheduler"], fresh["scheduler"], "scheduler")
    _check_generators(given["generators"], fresh["generators"])


def check_like(given: Any, fresh: Any, where: str) -> None:
    """Raise ValueError unless a nested value has the parts, types and shapes of another one.

    Parameters
    ----------
    given : object
        Value of a file.
    fresh : object
        Value to compare with. Its numbers and tensors may be others, nothing else.
    where : str
        Its name, for the message.
    """
    if isinstance(fresh, torch.Tensor):
        if not isinstance(given, torch.Tensor) or given.shape != fresh.shape or given.dtype != fresh.dtype:
            raise ValueError(f"`{where}` must be a {fresh.dtype} tensor of shape {tuple(fresh.shape)}")
    elif isinstance(fresh, dict):
        if not isinstance(given, dict) or given.keys() != fresh.keys():
            raise ValueError(f"`{where}` has other parts")
        for name, value in fresh.items():
            check_like(given[name], value, f"{where}.{name}")
    elif isinstance(fresh, list | tuple):
        if type(given) is not type(fresh) or len(given) != len(fresh):
            raise ValueError(f"`{where}` must be a {type(fresh).__name__} of {len(fresh)} values")
        for i, (part, value) in enumerate(zip(given, fresh, strict=True)):
            check_like(part, value, f"{where}[{i}]")
    elif type(fresh) in (int, float):
        if type(given) not in (int, float) or not -_N_MAX_INT < given < _N_MAX_INT:
            raise ValueError(f"`{where}` must be a finite number")
    elif type(given) is not type(fresh) or given != fresh:
        raise ValueError(f"`{where}` must be {fresh!r}")


def check_finite(tensors: dict[str, torch.Tensor], where: str) -> None:
    """Raise ValueError if a tensor is not finite.

    Parameters
    ----------
    tensors : dict
        The tensors.
    where : str
        Their name, for the message.
    """
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"`{where}.{name}` has values that are not finite")


def check_twister(state: tuple[Any, ...], where: str) -> None:
    """Raise ValueError unless the numbers of a state of a RandomState are in their ranges.

    Parameters
    ----------
    state : tuple
        What :func:`pack_state` returns.
    where : str
        Its name, for the message.
    """
    _, key, position, has_gauss, _ = state
    in_range = type(position) is int and 0 <= position <= _N_MT and has_gauss in (0, 1)
    if not in_range or key.min() < 0 or key.max() >= 2**32:
        raise ValueError(f"`{where}` is no state of a Mersenne Twister")


def _check_generators(given: Any, fresh: dict[str, Any]) -> None:
    """Raise ValueError unless states can be those of the global generators. Those of a GPU may be there or not."""
    if not isinstance(given, dict) or given.keys() - {"cuda"} != fresh.keys() - {"cuda"}:
        raise ValueError("`generators` has other parts")
    check_like(given["torch"], fresh["torch"], "generators.torch")
    check_like(given["numpy"], fresh["numpy"], "generators.numpy")
    if "cuda" in given and not (isinstance(given["cuda"], torch.Tensor) and given["cuda"].dtype == torch.uint8):
        raise ValueError("`generators.cuda` must be a tensor of bytes")
    check_twister(given["numpy"], "generators.numpy")
    python = given["python"]
    if not (
        isinstance(python, tuple)
        and len(python) == 3
        and isinstance(python[1], tuple)
        and len(python[1]) == _N_MT + 1
        and all(type(word) is int and 0 <= word < 2**32 for word in python[1])
        and python[1][-1] <= _N_MT
        and (python[2] is None or (type(python[2]) is float and math.isfinite(python[2])))
    ):
        raise ValueError("`generators.python` is no state of a Mersenne Twister")


def _check_optimizer(given: Any, optimizer: torch.optim.Optimizer, is_known: bool) -> None:
    """Raise ValueError unless a state is that of an optimizer. What one of the user stores is not known."""
    fresh = optimizer.state_dict()
    if not isinstance(given, dict) or given.keys() != fresh.keys() or not isinstance(given["state"], dict):
        raise ValueError("`optimizer` has other parts")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if given["state"].keys() - set(range(len(parameters))):
        raise ValueError("`optimizer.state` has other parameters")
    for index, values in given["state"].items():
        where = f"optimizer.state[{index}]"
        if not isinstance(values, dict):
            raise ValueError(f"`{where}` must be a dict")
        for name, value in values.items() if is_known else ():
            if isinstance(value, torch.Tensor) and value.shape not in ((), parameters[index].shape):
                raise ValueError(f"`{where}.{name}` must have the shape of its parameter")
    if is_known:
        check_like(given["param_groups"], fresh["param_groups"], "optimizer.param_groups")
        if any(a["params"] != b["params"] for a, b in zip(given["param_groups"], fresh["param_groups"], strict=True)):
            raise ValueError("`optimizer.param_groups` has other parameters")


def _check_scheduler(given: Any, scheduler: Any) -> None:
    """Raise ValueError for a state that would replace a method of a scheduler of the user."""
    if not isinstance(given, dict) or any(callable(getattr(type(scheduler), str(name), None)) for name in given):
        raise ValueError("`scheduler` has other parts")
