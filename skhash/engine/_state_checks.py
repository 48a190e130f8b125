"""Checks of the state of a training before it is restored, because a file may hold anything."""

from typing import Any

import numpy as np
import torch

from skhash._validation.limits import is_twister

_N_MAX = 2**63  # of numbers
_CHANGING = ("lr", "initial_lr", "weight_decay")  # entries of a group that may change between calls of partial_fit
_SCALARS = ("step", "mu_product", "eta", "mu")  # entries of a state that are scalars
# optimizers of torch whose other entries have the shape of the parameter
_ELEMENTWISE = ("AdamW", "Adam", "SGD", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adadelta", "ASGD")


def check_state(trainer: Any, state: dict[str, Any]) -> None:
    """Raise ValueError unless a state suits a trainer.

    For example, a generator whose position is out of range would read outside of its memory.
    """
    fresh, schedule = trainer.state_dict(), trainer.schedule
    if not isinstance(state, dict) or fresh.keys() - state.keys():
        raise ValueError("it lacks parts")
    given = state
    for name in ("n_epochs_done", "encoder", "objective"):
        check_like(given[name], fresh[name], name)
    check_like(given["order"], fresh["order"], "order", n_max=2**128)
    n_done = given["n_epochs_done"]
    if type(n_done) is not int or not 0 <= n_done <= schedule.n_epochs:
        raise ValueError(f"`n_epochs_done` is {n_done} of {schedule.n_epochs}")
    check_weights(given["encoder"], "encoder")
    _check_optimizer(given["optimizer"], trainer.optimizer, schedule)
    if callable(schedule.lr_schedule):
        _check_kinds(given["scheduler"], fresh["scheduler"], "scheduler")
    else:
        check_like(given["scheduler"], fresh["scheduler"], "scheduler")
    _check_generators(given["generators"], fresh["generators"])


def check_like(given: Any, fresh: Any, where: str, n_max: int = _N_MAX) -> None:
    """Raise ValueError unless a nested value has the keys, types and shapes of `fresh`, and numbers below `n_max`."""
    fresh = fresh.item() if isinstance(fresh, np.generic) else fresh
    if isinstance(fresh, torch.Tensor):
        if not isinstance(given, torch.Tensor) or given.shape != fresh.shape or given.dtype != fresh.dtype:
            raise ValueError(f"`{where}` must be a {fresh.dtype} tensor of shape {tuple(fresh.shape)}")
    elif isinstance(fresh, dict):
        if not isinstance(given, dict) or given.keys() != fresh.keys():
            raise ValueError(f"`{where}` has other parts")
        for name, value in fresh.items():
            check_like(given[name], value, f"{where}.{name}", n_max)
    elif isinstance(fresh, list | tuple):
        if type(given) is not type(fresh) or len(given) != len(fresh):
            raise ValueError(f"`{where}` must be a {type(fresh).__name__} of {len(fresh)} values")
        for i, (part, value) in enumerate(zip(given, fresh, strict=True)):
            check_like(part, value, f"{where}[{i}]", n_max)
    elif type(fresh) in (int, float):
        if type(given) not in (int, float) or not -n_max < given < n_max:
            raise ValueError(f"`{where}` must be a number within {-n_max} and {n_max}")
    elif type(given) is not type(fresh) or given != fresh:
        raise ValueError(f"`{where}` must be {fresh!r}")


def check_weights(weights: dict[str, torch.Tensor], where: str) -> None:
    """Raise ValueError unless the weights of an encoder are finite and its scale is positive."""
    _check_finite(weights, where)
    if "scale" in weights and not (weights["scale"] > 0).all():
        raise ValueError(f"`{where}.scale` must be positive")


def _check_finite(tensors: dict[str, torch.Tensor], where: str) -> None:
    """Raise ValueError if a tensor is not finite."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"`{where}.{name}` has values that are not finite")


def _check_generators(given: Any, fresh: dict[str, Any]) -> None:
    """Raise ValueError unless states can be those of the global generators; the state of a GPU is optional."""
    if not isinstance(given, dict) or given.keys() - {"cuda"} != fresh.keys() - {"cuda"}:
        raise ValueError("`generators` has other parts")
    check_like(given["torch"], fresh["torch"], "generators.torch")
    check_like(given["numpy"], fresh["numpy"], "generators.numpy")
    if "cuda" in given and not (isinstance(given["cuda"], torch.Tensor) and given["cuda"].dtype == torch.uint8):
        raise ValueError("`generators.cuda` must be a tensor of bytes")
    _, key, position, has_gauss, _ = given["numpy"]
    if not is_twister(key, position) or has_gauss not in (0, 1):
        raise ValueError("`generators.numpy` is not a state of a Mersenne Twister")
    python = given["python"]
    if type(python) is not tuple or len(python) != 3:
        raise ValueError("`generators.python` must be a tuple of 3 values")
    check_like(python[:2], fresh["python"][:2], "generators.python")
    if not is_twister(python[1][:-1], python[1][-1]) or not (python[2] is None or type(python[2]) is float):
        raise ValueError("`generators.python` is not a state of a Mersenne Twister")


def _check_optimizer(given: Any, optimizer: torch.optim.Optimizer, schedule: Any) -> None:
    """Raise ValueError unless a state suits an optimizer."""
    fresh = optimizer.state_dict()
    if not isinstance(given, dict) or given.keys() != fresh.keys() or not isinstance(given["state"], dict):
        raise ValueError("`optimizer` has other parts")
    groups = given["param_groups"]
    if not isinstance(groups, list) or len(groups) != len(fresh["param_groups"]):
        raise ValueError("`optimizer.param_groups` has other parts")
    is_known = type(optimizer).__module__.startswith("torch.optim.") and type(optimizer).__name__ in _ELEMENTWISE
    is_built_in = isinstance(schedule.optimizer, str) and isinstance(schedule.lr_schedule, str)
    for i, (group, fresh_group) in enumerate(zip(groups, fresh["param_groups"], strict=True)):
        check = check_like if is_known else _check_kinds
        check(group, fresh_group, f"optimizer.param_groups[{i}]")
        fixed = fresh_group.keys() - set(_CHANGING) if is_built_in else {"params"}
        if any(group[name] != fresh_group[name] for name in fixed):
            raise ValueError(f"`optimizer.param_groups[{i}]` is that of another optimizer")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if given["state"].keys() - set(range(len(parameters))):
        raise ValueError("`optimizer.state` has other parameters")
    for index, values in given["state"].items():
        where = f"optimizer.state[{index}]"
        if not isinstance(values, dict):
            raise ValueError(f"`{where}` must be a dict")
        if is_known:
            _check_elementwise(values, parameters[index], where)


def _check_elementwise(values: dict[str, Any], parameter: torch.Tensor, where: str) -> None:
    """Raise ValueError unless the values can be the state of an optimizer for this parameter."""
    for name, value in values.items():
        if name in _SCALARS and type(value) in (int, float):
            value = torch.tensor(value, dtype=torch.float64)
        if value is None:  # no momentum yet
            continue
        if not isinstance(value, torch.Tensor) or value.shape != (() if name in _SCALARS else parameter.shape):
            raise ValueError(f"`{where}.{name}` must have the shape of its parameter")
        _check_finite({name: value}, where)
        if name == "step" and value < 0:
            raise ValueError(f"`{where}.step` must be >= 0")


def _check_kinds(given: Any, fresh: dict[str, Any], where: str) -> None:
    """Raise ValueError unless a dict has the keys of `fresh`, and for each key a value of the same type or None."""
    if not isinstance(given, dict) or given.keys() != fresh.keys():
        raise ValueError(f"`{where}` has other parts")
    for name, value in fresh.items():
        value = value.item() if isinstance(value, np.generic) else value
        kinds = [float if type(each) is int else type(each) for each in (value, given[name])]
        if kinds[0] is not kinds[1] and type(None) not in kinds:
            raise ValueError(f"`{where}.{name}` must be a {type(value).__name__}")
