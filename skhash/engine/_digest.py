"""Digests of values: of arrays by slices, of functions and classes by their code, of other objects by their pickle."""

import copyreg
import dis
import functools
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import nn

from skhash._files import qualified_name

N_SLICE_BYTES = 2**23  # of an array that are in memory at a time
_HEAP_TYPE = 2**9  # flag of a class that is defined in Python
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_MODULE_INTERNALS = frozenset(vars(nn.Module()))  # handled by their meaning, or without influence on the outputs
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Digester:
    """Digests that are equal in every process, and differ if values could act differently.

    Without `weights`, only the shapes of the tensors of a module count.
    """

    def __init__(self, weights: bool = True) -> None:
        self.weights = weights
        self._done: dict[int, tuple[Any, bytes]] = {}  # with the values, so that no other one gets their id
        self._open: dict[int, int] = {}  # depth of each value that is being digested: cycles end there

    def digest(self, value: Any, where: str) -> bytes:
        """Digest of a value; TypeError names the part of the value `where` that cannot be identified."""
        if isinstance(value, np.generic) and value.dtype.kind in "biufcUS":
            value = value.item()  # 0.1 is the same parameter as a float and as a float64
        if type(value) in _PLAIN:
            return f"{type(value).__name__}:{value!r}".encode(errors="backslashreplace")
        key = id(value)
        if key in self._done:
            return self._done[key][1]
        if key in self._open:
            return f"cycle:{len(self._open) - self._open[key]}".encode()
        self._open[key] = len(self._open)
        try:
            result = self._digest_parts(value, where)
        except RecursionError as error:
            raise TypeError(_message(where, value, "it is nested too deeply")) from error
        finally:
            del self._open[key]
        self._done[key] = (value, result)
        return result

    def _digest_parts(self, value: Any, where: str) -> bytes:
        if isinstance(value, np.ndarray) or sparse.issparse(value):
            return b"array:" + digest_array(value, where)
        if isinstance(value, torch.Tensor):
            return b"tensor:" + self._tensor(value, where)
        if isinstance(value, nn.Module):
            return self._module(value, where)
        if isinstance(value, type):
            return self._class(value, where)
        if isinstance(value, FunctionType):
            return self._function(value, where)
        if isinstance(value, CodeType):
            return self._code(value, where)
        if isinstance(value, ModuleType):
            return f"module:{value.__name__}".encode()
        if type(value) in (list, tuple):
            return self._join(
                type(value).__name__, (self.digest(part, f"{where}[{i}]") for i, part in enumerate(value))
            )
        if type(value) in (set, frozenset):
            return self._join(type(value).__name__, sorted(self.digest(part, where) for part in value))
        if type(value) is dict:
            return self._join("dict", sorted(self._pairs(value.items(), where)))
        return self._object(value, where)

    @staticmethod
    def _join(kind: str, parts: Iterable[bytes]) -> bytes:
        total = hashlib.sha256(kind.encode())
        for part in parts:
            total.update(len(part).to_bytes(8, "little") + part)
        return kind.encode() + b":" + total.digest()

    def _pairs(self, items: Iterable[tuple[Any, Any]], where: str) -> Iterator[bytes]:
        for key, value in items:
            place = f"{where}.{key}" if isinstance(key, str) else f"{where}[{key!r:.40}]"
            yield self._join("pair", (self.digest(key, where), self.digest(value, place)))

    def _tensor(self, tensor: torch.Tensor, where: str) -> bytes:
        kind = f"{type(tensor).__name__} {tensor.dtype} {tensor.requires_grad}"
        if nn.parameter.is_lazy(tensor):
            return kind.encode()
        kind += f" {tuple(tensor.shape)}"
        if not self.weights:
            return kind.encode()
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise TypeError(_message(where, tensor, f"its layout is {tensor.layout}"))
        values = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)
        return self._join(kind, [digest_array(values.numpy(), where)])

    def _module(self, module: nn.Module, where: str) -> bytes:
        if isinstance(module, torch.jit.ScriptModule):
            graph = re.sub(r"\s*#.*|___torch_mangle_\d+\.", "", str(module.inlined_graph))  # no files, no counters
            tensors = [*module.named_parameters(), *module.named_buffers()]
            return self._join("script", [graph.encode(), self.digest(tensors, where)])
        own = {name: value for name, value in vars(module).items() if name not in _MODULE_INTERNALS}
        parts = {
            "class": type(module),
            "parameters": module._parameters,
            "buffers": module._buffers,
            "hooks": [list(getattr(module, name).values()) for name in _HOOKS],  # their keys count up in a process
        }
        children = [self.digest(value, f"{where}.{name}") for name, value in module._modules.items()]
        names = self.digest(list(module._modules), where)
        return self._join("module", [*self._pairs((parts | own).items(), where), names, *children])

    def _class(self, kind: type, where: str) -> bytes:
        if _has_installed_name(kind) or not kind.__flags__ & _HEAP_TYPE:
            return f"class:{qualified_name(kind)}".encode()
        bases = [self.digest(base, f"{where}.{base.__name__}") for base in kind.__bases__]
        attributes = {name: _unwrapped(value) for name, value in vars(kind).items()}
        counted = {
            name: value
            for name, value in attributes.items()
            if (name[:2] != "__" or isinstance(value, FunctionType)) and name not in ("_abc_impl", *_slots(kind))
        }
        return self._join("class", [kind.__qualname__.encode(), *bases, *sorted(self._pairs(counted.items(), where))])

    def _function(self, function: FunctionType, where: str) -> bytes:
        if _has_installed_name(function):
            return b"function:" + qualified_name(function).encode()
        parts: dict[str, Any] = {
            "code": function.__code__,
            "defaults": function.__defaults__,
            "keyword defaults": function.__kwdefaults__,
            "attributes": {key: value for key, value in vars(function).items() if key != "__wrapped__"},
        }
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                parts[f"closure {name}"] = cell.cell_contents
            except ValueError:  # the variable has no value yet
                parts[f"closure {name}"] = Ellipsis
        if not is_installed(function.__module__):
            parts |= {f"global {name}": value for name, value in _read_globals(function)}
        digests = (
            self._join(name, [self.digest(value, f"{where}.{name.split()[-1]}")]) for name, value in parts.items()
        )
        return self._join("function", sorted(digests))

    def _code(self, code: CodeType, where: str) -> bytes:
        n_arguments = code.co_argcount + code.co_kwonlyargcount
        parts = (
            code.co_code,
            code.co_consts,
            code.co_names,
            code.co_varnames[:n_arguments],
            (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags),
            code.co_exceptiontable,
        )
        return self._join("code", (self.digest(part, where) for part in parts))

    def _object(self, value: Any, where: str) -> bytes:
        if callable(value) and hasattr(value, "__wrapped__"):  # a function that is cached or compiled
            return self._join("wrapper", [self.digest(value.__wrapped__, where)])
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception as error:  # an object may raise anything here
            raise TypeError(_message(where, value, f"pickle cannot keep it: {error}")) from error
        if isinstance(reduced, str):
            module = getattr(value, "__module__", None)
            return f"name:{qualified_name(type(value))} {module} {reduced}".encode()
        make, arguments, state, items, pairs = (*reduced[:5], None, None, None)[:5]
        parts = [self.digest(part, where) for part in (make, arguments)]
        if isinstance(state, dict):
            parts += sorted(self._pairs(state.items(), where))
        else:
            parts.append(self.digest(state, where))
        parts.append(self._join("items", (self.digest(item, where) for item in items or ())))
        parts.append(self._join("pairs", sorted(self._pairs(pairs or (), where))))
        return self._join("object", parts)


def digest_array(values: Any, where: str) -> bytes:
    """Digest of the dtype, shape and values of an array or sparse matrix, which is read by slices."""
    total = hashlib.sha256(f"{values.dtype.str if values.dtype.names is None else values.dtype}{values.shape}".encode())
    if not sparse.issparse(values) and values.ndim == 0:
        values = values.reshape(1)
    n = values.shape[0]
    size = values.nnz * 16 if sparse.issparse(values) else values.nbytes
    step = max(1, N_SLICE_BYTES * n // max(size, 1))
    rows = values.tocsr() if sparse.issparse(values) else values
    for start in range(0, n, step):
        part = rows[start : start + step]
        if sparse.issparse(part):
            part = part.copy()
            part.sum_duplicates()
            part.eliminate_zeros()
            for piece in (part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data):
                total.update(np.ascontiguousarray(piece).view(np.uint8).data)
        elif part.dtype.hasobject:
            total.update(Digester().digest(part.tolist(), where))
        else:
            total.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return total.digest()


@functools.cache
def is_installed(module: str | None) -> bool:
    """Whether a module belongs to Python, to an installed library or to skhash, so that names identify its code."""
    top = (module or "builtins").partition(".")[0]
    if top == "__main__":
        return False
    if top == __name__.partition(".")[0] or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _has_installed_name(value: Any) -> bool:
    """Whether a class or function is what its name in an installed module refers to."""
    if not is_installed(value.__module__):
        return False
    found: Any = sys.modules.get(value.__module__ or "builtins")
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _read_globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of the globals that a function reads; for a module, of the attribute that is read."""
    codes = [function.__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        instructions = list(dis.get_instructions(code))
        for place, instruction in enumerate(instructions, 1):
            if instruction.opname not in ("LOAD_GLOBAL", "LOAD_NAME") or instruction.argval not in function.__globals__:
                continue  # built-in functions are in the names of the code
            name, value = instruction.argval, function.__globals__[instruction.argval]
            for following in instructions[place:]:
                is_own_module = isinstance(value, ModuleType) and not is_installed(value.__name__)
                if not is_own_module or following.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    break
                if not hasattr(value, following.argval):
                    break
                name, value = f"{name}.{following.argval}", getattr(value, following.argval)
            yield name, value


def _unwrapped(value: Any) -> Any:
    """Functions of a method or property of a class."""
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    return value.func if isinstance(value, functools.cached_property) else value


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _message(where: str, value: Any, reason: str) -> str:
    parameter = where.partition(".")[0].partition("[")[0]
    part = "" if where == parameter else f" at `{where}`"
    return (
        f"`{parameter}` must be identifiable when `checkpoint` is set: a resume goes on with the same training only. "
        f"Got a {qualified_name(type(value))}{part} instead, and {reason}. Leave it out of what pickle keeps "
        "(`__getstate__`), or set `checkpoint` to None."
    )
