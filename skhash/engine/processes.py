"""Processes that train together: those of the process group of torch. Without a group there is one."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

Value = TypeVar("Value")


def n_processes() -> int:
    """Number of processes that train together.

    Returns
    -------
    int
        1 without a process group.

    Examples
    --------
    >>> from skhash.engine.processes import n_processes
    >>> n_processes()
    1
    """
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this process is the one that writes files.

    Returns
    -------
    bool
        True for one process.

    Examples
    --------
    >>> from skhash.engine.processes import is_first
    >>> is_first()
    True
    """
    return n_processes() == 1 or dist.get_rank() == 0


def gather(value: Value) -> list[Value]:
    """Values of all processes, in order.

    Parameters
    ----------
    value : object
        Value of this process. It is pickled.

    Returns
    -------
    list
        One value per process.

    Examples
    --------
    >>> from skhash.engine.processes import gather
    >>> gather(3)
    [3]
    """
    values = [value] * n_processes()
    if len(values) > 1:
        dist.all_gather_object(values, value)
    return values


def from_first(value: Value) -> Value:
    """Value of the first process.

    Parameters
    ----------
    value : object
        Value of this process; that of the first one is pickled.

    Returns
    -------
    object
        The value, the same in every process.

    Examples
    --------
    >>> from skhash.engine.processes import from_first
    >>> from_first(3)
    3
    """
    if n_processes() == 1:
        return value
    values: list[Any] = [value if is_first() else None]
    dist.broadcast_object_list(values, src=0)
    received: Value = values[0]
    return received


def call_in_first(function: Callable[[], Value]) -> Value:
    """What a function returns in the first process, which alone calls it.

    Parameters
    ----------
    function : callable
        Function without arguments.

    Returns
    -------
    object
        Its value, the same in every process.

    Raises
    ------
    Exception
        What the function raises, in every process.

    Examples
    --------
    >>> from skhash.engine.processes import call_in_first
    >>> call_in_first(lambda: 3)
    3
    """
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
