"""Nested states: arrays in place of tensors, and back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def as_arrays(state: Any) -> Any:
    """Copy of a nested state with arrays in place of tensors, which any version of torch can read.

    Parameters
    ----------
    state : dict, list, tuple, tensor or other value
        The state.

    Returns
    -------
    dict, list, tuple, ndarray or other value
        The copy.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine import as_arrays
    >>> as_arrays({"step": (1, torch.zeros(2))})
    {'step': (1, array([0., 0.], dtype=float32))}
    """
    return _map(state, torch.Tensor, lambda tensor: tensor.detach().cpu().numpy().copy())


def as_tensors(state: Any) -> Any:
    """Copy of a nested state with tensors in place of arrays.

    Parameters
    ----------
    state : dict, list, tuple, ndarray or other value
        The state, as :func:`as_arrays` returns it.

    Returns
    -------
    dict, list, tuple, tensor or other value
        The copy.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine import as_tensors
    >>> as_tensors({"step": (1, np.zeros(2))})
    {'step': (1, tensor([0., 0.], dtype=torch.float64))}
    """
    return _map(state, np.ndarray, torch.tensor)


def _map(state: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    if isinstance(state, dict):
        return {name: _map(value, kind, function) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(_map(value, kind, function) for value in state)
    return function(state) if isinstance(state, kind) else state
