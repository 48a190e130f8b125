"""Nested states as bytes of torch, which are read without running code."""

import copy
import io
import pickletools
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import torch

from skhash._files import qualified_name

N_MAX_LEVELS = 32  # of dicts and lists in a state
_CONTAINERS = (dict, OrderedDict, Counter, list, tuple, set, torch.Size)
_LEAVES = (type(None), bool, int, float, str)
# names that the pickle in the bytes may hold; torch allows more, such as bytearray of any size
_NAMES = {
    *("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3", "torch._utils _rebuild_parameter"),
    *("collections OrderedDict", "collections Counter", "__builtin__ set", "builtins set"),
    *("torch.storage UntypedStorage", "torch Size"),
    *(f"torch {name}" for name in dir(torch) if name.endswith("Storage") or isinstance(vars(torch)[name], torch.dtype)),
}


def payload_bytes(state: Any) -> bytes:
    """Bytes of a state of dicts, lists, tuples and sets of tensors, numbers, strings and None; else TypeError."""
    for value in leaves(state):
        if not (isinstance(value, np.generic | torch.Tensor) or type(value) in _LEAVES):
            raise TypeError(
                "The state of `optimizer` and `lr_schedule` must consist of tensors, numbers and strings to be saved: "
                f"a checkpoint is read without running code. Got a {qualified_name(type(value))}, which needs pickle."
            )
    # in memory: torch's writer aborts the process, or hides an interruption, if it is stopped while it writes to a file
    file = io.BytesIO()
    torch.save(_as_numbers(state), file)
    return file.getvalue()


def read_payload(content: bytes) -> Any:
    """State in the bytes of :func:`payload_bytes`, read without running code; damaged bytes raise any error."""
    file = io.BytesIO(content)
    _check_archive(file)
    state = torch.load(file, map_location="cpu", weights_only=True)
    for value in leaves(state):
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided or value.device.type != "cpu":
                raise ValueError(f"it has a tensor of layout {value.layout} on {value.device}")
            if value.numel() * value.element_size() > value.untyped_storage().nbytes():
                raise ValueError(f"it has a tensor of shape {tuple(value.shape)} without its values")
        elif type(value) not in _LEAVES:
            raise ValueError(f"it has a {qualified_name(type(value))}")
    return state


def leaves(state: Any) -> Iterator[Any]:
    """Iterator of the keys and values of a nested state that are not containers, each shared part once."""
    seen, waiting = set(), [(state, 0)]
    while waiting:
        value, level = waiting.pop()
        if type(value) not in _CONTAINERS:
            yield value
        elif level > N_MAX_LEVELS:
            raise ValueError(f"it has more than {N_MAX_LEVELS} levels of dicts and lists")
        elif id(value) not in seen:
            seen.add(id(value))
            parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
            waiting += [(part, level + 1) for part in parts]


def _as_numbers(state: Any) -> Any:
    """Copy of a state with numbers of Python in place of numpy scalars."""
    if isinstance(state, np.generic):
        return state.item()
    if isinstance(state, dict):
        copied = copy.copy(state)  # with its type, and what torch attaches to it
        for name, value in state.items():
            copied[name] = _as_numbers(value)
        return copied
    return type(state)([_as_numbers(value) for value in state]) if isinstance(state, list | tuple) else state


def _check_archive(file: BinaryIO) -> None:
    """Raise ValueError for compressed entries, which could expand, and for names that no state has."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if any(
            entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size for entry in entries
        ):
            raise ValueError("it has compressed parts")
        for entry in entries:
            if entry.filename.endswith("data.pkl"):
                for code, name, _ in pickletools.genops(archive.read(entry)):
                    if code.name in ("INST", "STACK_GLOBAL") or (code.name == "GLOBAL" and name not in _NAMES):
                        raise ValueError(f"it has the name {name}, which no state has")
    file.seek(0)
