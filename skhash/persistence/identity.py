"""What a resume compares: a digest of parameters, samples and targets that is the same in every process.

Values are hashed by joblib: arrays and plain values count with their values, objects with their class and what pickle
keeps, functions and classes with their names. A torch module counts with its class, its repr and its state_dict.
What pickle cannot keep, such as a lambda, is refused.
"""

import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from joblib.hashing import NumpyHasher
from scipy import sparse

from skhash._validation import qualified_name

WEIGHTS_OF = "weights of "  # begins the name of the entry of a module
N_MAX_CHARACTERS = 80  # of a value in a message
#: packages whose classes are told by their names
_LIBRARIES = sys.stdlib_module_names | {"numpy", "scipy", "skhash", "sklearn", "torch"}

#: name of each part of a training to its description, for messages, and its digest
Identity = dict[str, tuple[str, str]]


def identify(params: Mapping[str, Any], X: Any, targets: Any, queries: Any = None) -> Identity:
    """Identity of a training: of its parameters, all samples, all targets and all queries."""
    identity: Identity = {}
    for name, value in params.items():
        is_module = "torch" in sys.modules and isinstance(value, sys.modules["torch"].nn.Module)
        identity[name] = (_describe(value), digest(_structure(value) if is_module else value, name))
        if is_module:
            state = value.state_dict()
            identity[WEIGHTS_OF + name] = (f"{len(state)} tensors", digest(state, name))
    identity["X"] = (_describe_data(X), _digest_samples(X))
    identity["y"] = (_describe_data(targets), digest(targets, "y"))
    identity["queries"] = (_describe_data(queries), digest(queries, "queries"))
    return identity


def differences(here: Identity, there: Identity) -> list[str]:
    """Clause for each part in which a training differs from that of a checkpoint."""
    clauses = []
    for name in here | there:
        (text, value), (text_there, value_there) = here.get(name, ("unknown", "")), there.get(name, ("unknown", ""))
        if value == value_there:
            continue
        if text != text_there:
            clauses.append(f"`{name}` is {text_there} in the checkpoint and {text} here")
        elif name in ("X", "y", "queries"):
            clauses.append(f"`{name}` ({text}) has other values")
        elif name.startswith(WEIGHTS_OF):
            remedy = "build it from the same seed (torch.manual_seed) or the same file"
            clauses.append(f"`{name.removeprefix(WEIGHTS_OF)}` starts with other weights: {remedy}")
        else:
            clauses.append(f"`{name}` ({text}) has other code or other values")
    return clauses


def digest(value: Any, name: str) -> str:
    """Digest of a parameter; TypeError if it is one that nothing identifies."""
    try:
        return str(_Hasher().hash(value))
    except Exception as error:  # an object may raise anything while it is pickled
        raise TypeError(
            f"`{name}` must be identifiable when `checkpoint` is set: a resume continues only the same training. Got a "
            f"{qualified_name(value)} instead, which cannot be hashed: {next(iter(error.args), '')}. Define functions "
            "and classes in a file, outside of functions (functools.partial sets arguments), leave out of objects what "
            "pickle does not keep (`__getstate__`), or set `checkpoint` to None."
        ) from error


class _Hasher(NumpyHasher):
    """Hasher of joblib that tells arrays by their values alone, and torch's modules and tensors by theirs."""

    def memoize(self, obj: Any) -> None:
        """Note no object: one that occurs twice counts as two equal ones, which a copy or a file may have."""

    def save(self, obj: Any) -> None:
        """Hash a value, or a part of one."""
        torch: Any = sys.modules.get("torch")
        if isinstance(obj, np.generic):
            obj = obj.item()  # 0.1 is the same parameter as a float and as a float64
        elif isinstance(obj, frozenset):
            obj = ["frozenset", set(obj)]  # joblib orders sets alone; the order depends on the process
        elif isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
            content = np.ascontiguousarray(obj).reshape(-1).view(np.uint8)  # memory maps and strides do not count
            obj = ["array", repr(obj.dtype), obj.shape, hashlib.sha256(content.data).digest()]
        elif sparse.issparse(obj):
            rows = obj.tocsr()
            obj = ["sparse", rows.shape, rows.data, *(part.astype(np.int64) for part in (rows.indices, rows.indptr))]
        elif torch is not None and isinstance(obj, torch.nn.Module):
            obj = [*_structure(obj), dict(obj.state_dict())]
        elif torch is not None and isinstance(obj, torch.Tensor):
            content = obj.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()  # numpy lacks bfloat16
            obj = ["tensor", str(obj.dtype), tuple(obj.shape), obj.requires_grad, content]
        super().save(obj)


def _structure(module: Any) -> list[Any]:
    """What identifies a torch module beside its weights; TypeError for a scripted one, whose code is its own."""
    if isinstance(module, sys.modules["torch"].jit.ScriptModule):
        raise TypeError("the code of a scripted or traced module has no name")
    kinds = [qualified_name(type(part)) for part in module.modules()]
    return ["module", kinds, repr(module), [parameter.requires_grad for parameter in module.parameters()]]


def code_of(kinds: Iterable[type], *, packages: bool = False) -> list[bytes]:
    """Content of the files of classes; TypeError for a class without a file, as of a notebook.

    Classes of an installed package have none. With `packages` they have that of all files in its folder.
    """
    files: set[Path] = set()
    for name in {kind.__module__ for kind in kinds}:
        if name.partition(".")[0] in _LIBRARIES:
            continue
        module = sys.modules.get(name)
        if (place := getattr(module, "__file__", None)) is None:
            raise TypeError(f"the classes of {name} have no file")
        file = Path(place)
        if packages and getattr(module, "__package__", None):
            files |= set(file.parent.rglob("*.py"))
        elif packages or {"site-packages", "dist-packages"}.isdisjoint(file.parts):
            files.add(file)
    return [path.read_bytes() for path in sorted(files)]


def _digest_samples(X: Any) -> str:
    dataset = getattr(X, "dataset", None)  # of a DatasetArray
    if dataset is None:
        return digest(X, "X")
    try:
        return digest([qualified_name(dataset), list(X.shape), dataset], "X")
    except TypeError:  # for example because it holds an open file
        return digest([qualified_name(dataset), list(X.shape)], "X")


def _describe(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        text = repr(value.item() if isinstance(value, np.generic) else value)
    else:
        text = qualified_name(value if getattr(value, "__module__", None) else type(value))
    return text if len(text) <= N_MAX_CHARACTERS else f"{text[: N_MAX_CHARACTERS - 3]}..."


def _describe_data(values: Any) -> str:
    if values is None:
        return "None"
    if getattr(values, "dataset", None) is not None:
        return f"{qualified_name(values.dataset)} of shape {tuple(values.shape)}"
    return f"{'sparse ' if sparse.issparse(values) else ''}{values.dtype} of shape {tuple(values.shape)}"
