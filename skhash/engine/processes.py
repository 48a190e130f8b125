"""Processes that train together: the process group of torch, or one process without a group."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

Value = TypeVar("Value")


def n_processes() -> int:
    """Number of processes that train together, 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this process is the one that writes files."""
    return n_processes() == 1 or dist.get_rank() == 0


def gather(value: Value) -> list[Value]:
    """Values of all processes, in order; they are pickled."""
    values = [value] * n_processes()
    if len(values) > 1:
        dist.all_gather_object(values, value)
    return values


def from_first(value: Value) -> Value:
    """Value of the first process, which is pickled."""
    if n_processes() == 1:
        return value
    values: list[Any] = [value if is_first() else None]
    dist.broadcast_object_list(values, src=0)
    received: Value = values[0]
    return received


def call_in_first(function: Callable[[], Value]) -> Value:
    """What a function returns or raises in the first process, which alone calls it."""
    if n_processes() == 1:
        return function()
    outcome: tuple[Any, Exception | None] = None, None
    if is_first():
        try:
            outcome = function(), None
        except Exception as error:  # the others wait for an answer
            outcome = None, error
    value: Value
    value, raised = from_first(outcome)
    if raised is not None:
        raise raised
    return value
