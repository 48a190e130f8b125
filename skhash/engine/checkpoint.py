"""Checkpoints: the complete state of a training, written atomically."""

import errno
import hashlib
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from torch import nn

from skhash._files import atomic_write, qualified_name
from skhash.engine.data import evenly_spaced

N_FINGERPRINT_SAMPLES = 1000  # training samples that enter the fingerprint


class Checkpoint:
    """One file in a folder, named by the parameters and the data of the training.

    Several trainings can share a folder, as the clones of a grid search do: each finds the
    file of its own parameters and data.

    Parameters
    ----------
    folder : path-like
        Folder, created if it is missing.
    name : str
        Name of the file, see :func:`fingerprint`.

    Raises
    ------
    OSError
        If the folder cannot be created or written to.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.engine import Checkpoint
    >>> checkpoint = Checkpoint(tempfile.mkdtemp(), "0123456789abcdef")
    >>> checkpoint.read() is None
    True
    >>> checkpoint.write({"n_epochs_done": 3})
    >>> checkpoint.read()
    {'n_epochs_done': 3}
    """

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        self.path = Path(folder) / f"{name}.ckpt"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(
                errno.EACCES, "The folder of checkpoints is read-only. Choose another folder", str(folder)
            )

    def write(self, state: dict[str, Any]) -> None:
        """Write the state atomically: a kill at any moment leaves the old file or the new one.

        Parameters
        ----------
        state : dict
            Tensors, numbers, strings, tuples, lists, and dicts of these.

        Raises
        ------
        OSError
            If the file cannot be written. The last one is unchanged.
        """
        with atomic_write(self.path) as file:
            torch.save(state, file)

    def read(self) -> dict[str, Any] | None:
        """State in the file. No code in it is run.

        Returns
        -------
        dict or None
            The state; None if there is no file.
        """
        if not self.path.exists():
            return None
        state: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True)
        return state


def fingerprint(params: Mapping[str, Any], X: Any, targets: Any) -> str:
    """Hash of the parameters and the data of a training: shapes, and up to 1,000 samples.

    Parameters
    ----------
    params : dict
        Parameters of the estimator. A module is identified by the names and shapes of its
        tensors, a function by its name, any other object by its pickle.
    X : array or DatasetArray of shape (n_samples, ...)
        Training samples.
    targets : array of shape (n_samples, ...) or None
        Their targets.

    Returns
    -------
    str
        16 hexadecimal digits.

    Raises
    ------
    TypeError
        If a parameter cannot be pickled, and so cannot be identified.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine import fingerprint
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> fingerprint({"nbits": 8}, X, None) == fingerprint({"nbits": 16}, X, None)
    False
    """
    digest = hashlib.sha256()
    for name, value in sorted(params.items()):
        digest.update(f"{name}={_describe(name, value)};".encode())
    for values in (X, targets):
        if values is not None:
            part = values[evenly_spaced(values.shape[0], N_FINGERPRINT_SAMPLES)]
            part = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
            digest.update(f"{values.shape}{part.dtype}".encode())
            digest.update(repr(part.tolist()).encode() if part.dtype == object else part.tobytes())
    return digest.hexdigest()[:16]


def _describe(name: str, value: Any) -> str:
    kind = qualified_name(value)
    if hasattr(value, "__qualname__"):
        return kind
    if isinstance(value, nn.Module):  # the first weights of a module differ in each process
        return kind + repr([(name, tuple(tensor.shape)) for name, tensor in value.state_dict().items()])
    try:
        return kind + str(joblib.hash(value))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"`{name}` must be picklable when `checkpoint` is set. Got a {kind} that is not: {error}"
        ) from error


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
