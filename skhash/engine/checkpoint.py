"""Checkpoints: the whole state of a training, written whole or not at all."""

import hashlib
import pickle
from pathlib import Path

import joblib
import numpy as np
import torch
from torch import nn

from skhash._files import atomic_write, qualified_name
from skhash.engine.data import evenly_spaced

SAMPLED_ROWS = 1000  # of the training rows enter the fingerprint


class Checkpoint:
    """One file in a folder, named by what is trained on what.

    Two trainings share a folder without harm, as the clones of a grid search do: each
    finds the file of its own parameters and rows.

    Parameters
    ----------
    folder : path-like
        Created if missing.
    name : str
        Of the file, see :func:`fingerprint`.

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

    def __init__(self, folder, name):
        self.path = Path(folder) / f"{name}.ckpt"
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, state):
        """Replace the file in one step: a kill at any moment leaves the old one or the new one.

        Parameters
        ----------
        state : dict
            Tensors, numbers, strings, tuples, lists and dicts of these.
        """
        with atomic_write(self.path) as file:
            torch.save(state, file)

    def read(self):
        """Read the state; no code in it is run.

        Returns
        -------
        dict or None
            The state, None if there is no file.
        """
        if not self.path.exists():
            return None
        return torch.load(self.path, map_location="cpu", weights_only=True)


def fingerprint(params, X, targets):
    """Name what is trained on what: parameters, shapes, and up to 1,000 rows spread over the data.

    Parameters
    ----------
    params : dict
        Parameters of the estimator. A module counts by the names and shapes of its
        tensors, another object by all that pickle keeps of it, a function by its name.
    X : array or DatasetArray of shape (n_samples, ...)
        Training rows.
    targets : array of shape (n_samples, ...) or None
        Their targets.

    Returns
    -------
    str
        Of 16 hexadecimal digits.

    Raises
    ------
    TypeError
        If a parameter cannot be pickled: two trainings with such parameters could not be told apart.

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
            part = values[evenly_spaced(values.shape[0], SAMPLED_ROWS)]
            part = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
            digest.update(f"{values.shape}{part.dtype}".encode())
            digest.update(repr(part.tolist()).encode() if part.dtype == object else part.tobytes())
    return digest.hexdigest()[:16]


def _describe(name, value):
    kind = qualified_name(value)
    if hasattr(value, "__qualname__"):
        return kind
    if isinstance(value, nn.Module):  # first weights are drawn anew in each process
        return kind + repr([(name, tuple(tensor.shape)) for name, tensor in value.state_dict().items()])
    try:
        return kind + joblib.hash(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"{name} is a {kind} that cannot be pickled ({error}); with a checkpoint, parameters that can are wanted."
        ) from error


def as_arrays(state):
    """Turn the tensors of a nested state into arrays, which load where torch is another.

    Parameters
    ----------
    state : dict, list, tuple, tensor or other value
        The state.

    Returns
    -------
    dict, list, tuple, ndarray or other value
        A copy with arrays in place of tensors.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine import as_arrays
    >>> as_arrays({"step": (1, torch.zeros(2))})
    {'step': (1, array([0., 0.], dtype=float32))}
    """
    return _map(state, torch.Tensor, lambda tensor: tensor.detach().cpu().numpy().copy())


def as_tensors(state):
    """Turn the arrays of a nested state into tensors.

    Parameters
    ----------
    state : dict, list, tuple, ndarray or other value
        The state, as :func:`as_arrays` returns it.

    Returns
    -------
    dict, list, tuple, tensor or other value
        A copy with tensors in place of arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine import as_tensors
    >>> as_tensors({"step": (1, np.zeros(2))})
    {'step': (1, tensor([0., 0.], dtype=torch.float64))}
    """
    return _map(state, np.ndarray, torch.tensor)


def _map(state, kind, function):
    if isinstance(state, dict):
        return {name: _map(value, kind, function) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(_map(value, kind, function) for value in state)
    return function(state) if isinstance(state, kind) else state
