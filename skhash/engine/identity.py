"""The identity of a training: its parameters, samples and targets. A checkpoint of another identity is refused."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from torch import nn

from skhash._files import qualified_name
from skhash.engine._digest import Digester, digest_array
from skhash.engine.data import DatasetArray

WEIGHTS_OF = "weights of "  # begins the name of the entry of a module
N_MAX_CHARACTERS = 80  # of a value in a message


@dataclass(frozen=True)
class Identity:
    """What a training is made of: a description and a digest of each parameter and of the data.

    Parameters
    ----------
    entries : tuple of (str, str, str)
        Name, description for messages, and digest of each part.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine import fingerprint
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> there, here = (
    ...     fingerprint({"learning_rate": value}, X, None) for value in (0.1, 0.01)
    ... )
    >>> there == here
    False
    >>> here.differences(there)
    ['`learning_rate` is 0.1 in the checkpoint and 0.01 here']
    """

    entries: tuple[tuple[str, str, str], ...]

    @property
    def name(self) -> str:
        """Name of 16 hexadecimal digits, which tells trainings apart."""
        return hashlib.sha256(repr([(name, digest) for name, _, digest in self.entries]).encode()).hexdigest()[:16]

    def differences(self, other: "Identity") -> list[str]:
        """What another training, that of a checkpoint, does not have in common with this one.

        Parameters
        ----------
        other : Identity
            The other training.

        Returns
        -------
        list of str
            A clause for each part that differs; empty if the trainings are the same.
        """
        here, there = ({name: rest for name, *rest in identity.entries} for identity in (self, other))
        clauses = []
        for name in here | there:
            if name not in there or name not in here:
                clauses.append(f"`{name}` is known {'here' if name in here else 'in the checkpoint'} only")
            elif here[name][1] != there[name][1]:
                clauses.append(_clause(name, there[name][0], here[name][0]))
        return clauses


def _clause(name: str, there: str, here: str) -> str:
    if there != here:
        return f"`{name}` is {there} in the checkpoint and {here} here"
    if name in ("X", "y"):
        return f"`{name}` ({here}) has other values"
    if name.startswith(WEIGHTS_OF):
        module = name.removeprefix(WEIGHTS_OF)
        return f"`{module}` starts with other weights: build it from the same seed (torch.manual_seed) or the same file"
    return f"`{name}` ({here}) has other code or other values"


def fingerprint(params: Mapping[str, Any], X: Any, targets: Any) -> Identity:
    """Identity of a training: of its parameters, of all samples and of all targets.

    Parameters
    ----------
    params : dict
        Parameters of the estimator. A function is identified by its code, default values,
        closure and the globals that it reads, a module by its structure and its weights, and
        any other object by its class and what pickle keeps of it. Functions and classes of
        installed libraries are identified by their names.
    X : array or DatasetArray of shape (n_samples, ...)
        Training samples. They are read by slices. Of a torch Dataset it is the class, the
        shape, and what pickle keeps of it, unless pickle cannot keep it.
    targets : array of shape (n_samples, ...) or None
        Their targets.

    Returns
    -------
    Identity
        The identity, the same in every process.

    Raises
    ------
    TypeError
        If a parameter, or a part of it, cannot be identified.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine import fingerprint
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> fingerprint({"scale": lambda x: 2 * x}, X, None) == fingerprint(
    ...     {"scale": lambda x: 3 * x}, X, None
    ... )
    False
    """
    entries = []
    for name, value in params.items():
        is_module = isinstance(value, nn.Module)
        entries.append((name, _describe(value), Digester(weights=not is_module).digest(value, name)))
        if is_module:
            tensors = [*value.named_parameters(), *value.named_buffers()]
            entries.append((WEIGHTS_OF + name, f"{len(tensors)} tensors", Digester().digest(tensors, name)))
    entries.append(("X", _describe_data(X), _digest_samples(X)))
    entries.append(("y", _describe_data(targets), b"" if targets is None else digest_array(targets, "y")))
    return Identity(tuple((name, text, hashlib.sha256(digest).hexdigest()) for name, text, digest in entries))


def _digest_samples(X: Any) -> bytes:
    if not isinstance(X, DatasetArray):
        return digest_array(X, "X")
    declared = Digester().digest([qualified_name(X.dataset), X.shape], "X")
    try:
        return declared + Digester().digest(X.dataset, "X")
    except TypeError:  # pickle cannot keep it, for example because it holds an open file
        return declared


def _describe(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        text = repr(value.item() if isinstance(value, np.generic) else value)
    else:
        text = qualified_name(value if getattr(value, "__module__", None) else type(value))
    return text if len(text) <= N_MAX_CHARACTERS else f"{text[: N_MAX_CHARACTERS - 3]}..."


def _describe_data(values: Any) -> str:
    if values is None:
        return "None"
    kind = "sparse " if sparse.issparse(values) else ""
    if isinstance(values, DatasetArray):
        return f"{qualified_name(values.dataset)} of shape {values.shape}"
    return f"{kind}{values.dtype} of shape {tuple(values.shape)}"
