"""What a resume compares: a digest of parameters, samples and targets that is the same in every process.

Arrays and plain values count with their values, objects with their class and their attributes. A function or class of
the user counts with its name and its source text, one of an installed library with its name. A torch module counts with
its classes, its repr and its state_dict. What has no name of its own, such as a lambda, or no source is refused.
"""

import functools
import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import joblib
import numpy as np
from scipy import sparse

from skhash._validation import qualified_name

WEIGHTS_OF = "weights of "  # begins the name of the entry of a module
N_MAX_CHARACTERS = 80  # of a value in a message
#: remedies for what has no identity
_NAMED = "Define it in a file, outside of functions (functools.partial sets its arguments)"
_PICKLED = "Leave it out of what pickle keeps (`__getstate__`)"

#: name of each part of a training to its description, for messages, and its digest
Identity = dict[str, tuple[str, str]]


def identify(params: Mapping[str, Any], X: Any, targets: Any, queries: Any = None) -> Identity:
    """Identity of a training: of its parameters, all samples, all targets and all queries."""
    identity: Identity = {}
    for name, value in params.items():
        identity[name] = (_describe(value), digest(value, name, weights=False))
        if _is_module(value):
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


def digest(value: Any, name: str, weights: bool = True) -> str:
    """Digest of a parameter; TypeError names the part of it that has no identity."""
    try:
        return str(joblib.hash(_as_data(value, name, weights)))
    except RecursionError as error:
        raise _refusal(name, value, "it refers to itself, or is nested too deeply") from error


def _as_data(value: Any, where: str, weights: bool = True) -> Any:
    """Lists of arrays and plain values, which joblib hashes alike in every process, in place of a value."""
    if isinstance(value, np.generic):
        value = value.item()  # 0.1 is the same parameter as a float and as a float64
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return ["objects", list(value.shape), _as_data(value.tolist(), where)]
        flat = np.ascontiguousarray(value).reshape(-1)  # joblib would tell the strides of equal arrays apart
        return ["array", repr(value.dtype), list(value.shape), np.asarray(flat)]
    if sparse.issparse(value):
        rows = value.tocsr()
        parts = (rows.data, *(part.astype(np.int64) for part in (rows.indices, rows.indptr)))
        return ["sparse", list(rows.shape), *(_as_data(part, where) for part in parts)]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *(_as_data(part, f"{where}[{i}]") for i, part in enumerate(value))]
    if isinstance(value, set | frozenset):
        return ["set", sorted(joblib.hash(_as_data(part, where)) for part in value)]
    if isinstance(value, dict):
        pairs = ([_as_data(key, where), _as_data(part, f"{where}.{key}")] for key, part in value.items())
        return ["dict", sorted(map(joblib.hash, pairs))]
    if _is_module(value):
        kinds = [_as_data(kind, where) for kind in dict.fromkeys(type(module) for module in value.modules())]
        state = value.state_dict() if weights else {}
        trained = [parameter.requires_grad for parameter in value.parameters()]
        values = [_as_data(part, where) for part in state.values()]
        return ["module", kinds, repr(value), list(state), values, trained, _generated_code(value, where)]
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        return _tensor_as_data(value)
    if isinstance(value, type | FunctionType | MethodType | functools.partial | ModuleType):
        return _code_as_data(value, where)
    return _object_as_data(value, where)


def _is_module(value: Any) -> bool:
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].nn.Module)


def _generated_code(module: Any, where: str) -> list[Any]:
    """Code of what torch has scripted or traced, with its constants; the classes do not have it."""
    codes: list[Any] = []
    for part in module.modules():
        with suppress(AttributeError, RuntimeError):  # others have none
            codes.append(str(part.code))
            constants = part.code_with_constants[1].const_mapping
            codes.append([[name, _as_data(value, where)] for name, value in sorted(constants.items())])
    return codes


def _tensor_as_data(tensor: Any) -> Any:
    torch: Any = sys.modules["torch"]
    if torch.nn.parameter.is_lazy(tensor):  # it has no values yet
        return ["lazy tensor", str(tensor.dtype)]
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()  # numpy lacks bfloat16
    return ["tensor", str(tensor.dtype), list(tensor.shape), tensor.requires_grad, content]


def _code_as_data(value: Any, where: str) -> Any:
    if isinstance(value, ModuleType):
        return ["library", value.__name__]
    if isinstance(value, functools.partial):
        return ["partial", *(_as_data(part, where) for part in (value.func, value.args, value.keywords))]
    if isinstance(value, MethodType):
        return ["method", _as_data(value.__func__, where), _as_data(value.__self__, where)]
    if isinstance(value, FunctionType):
        return ["function", *([qualified_name(value)] if _is_of_library(value) else _named_source(value, where))]
    kinds = [kind for kind in value.__mro__ if not _is_of_library(kind)]
    sources: list[Any] = [_named_source(kind, where) for kind in kinds]
    return ["class", *(sources or [qualified_name(value)])]


def _named_source(value: Any, where: str) -> list[str]:
    """Name and source text of a function or class; TypeError for what has none, such as a lambda."""
    if "<" in value.__qualname__:  # <lambda>, or f.<locals>.g, which may depend on the variables of f
        raise _refusal(where, value, "it has no name of its own", _NAMED)
    try:
        try:
            return [value.__qualname__, inspect.getsource(value)]
        except (OSError, TypeError):  # of a class in a notebook, only its methods have sources
            if not (isinstance(value, type) and _functions(value)):
                raise
            return [value.__qualname__, *(inspect.getsource(function) for function in _functions(value))]
    except (OSError, TypeError) as error:
        raise _refusal(where, value, "its source cannot be read", _NAMED) from error


def _functions(kind: type) -> list[FunctionType]:
    """Methods of a class, without those that a dataclass makes from text."""
    functions = [value for value in vars(kind).values() if isinstance(value, FunctionType)]
    return [function for function in functions if function.__code__.co_filename != "<string>"]


def _object_as_data(value: Any, where: str) -> Any:
    """Class and attributes of an object; a function that is cached or compiled stands for the one within."""
    if callable(value) and hasattr(value, "__wrapped__"):
        return ["wrapped", _as_data(value.__wrapped__, where)]
    try:
        if not hasattr(value, "__dict__"):
            return ["value", qualified_name(type(value)), joblib.hash(value)]
        state = value.__getstate__()
    except Exception as error:  # an object may raise anything here
        raise _refusal(where, value, f"pickle cannot keep it: {error}") from error
    return ["object", _as_data(type(value), where), _as_data(state, where)]


@functools.cache
def _is_installed(module: str) -> bool:
    """Whether a module belongs to Python, to an installed library or to skhash, so that names identify its code."""
    if module == "__main__":
        return False
    if module == __name__.partition(".")[0] or module in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _is_of_library(value: Any) -> bool:
    return _is_installed((value.__module__ or "builtins").partition(".")[0])


def _refusal(where: str, value: Any, reason: str, remedy: str = _PICKLED) -> TypeError:
    parameter = where.partition(".")[0].partition("[")[0]
    part = "" if where == parameter else f" at `{where}`"
    return TypeError(
        f"`{parameter}` must be identifiable when `checkpoint` is set: a resume continues only the same training. "
        f"Got a {qualified_name(value)}{part} instead, and {reason}. {remedy}, or set `checkpoint` to None."
    )


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
