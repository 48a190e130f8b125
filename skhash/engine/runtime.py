"""Devices, seeds and settings of torch for a training."""

import functools
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from skhash._threads import SharedSetting

_GENERATORS = threading.RLock()


def _forget_other_threads() -> None:
    """Give a forked process a lock of its own, since a thread that trains does not exist there."""
    global _GENERATORS
    _GENERATORS = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def seeded(seed: int, device: torch.device, deterministic: bool = False) -> Iterator[None]:
    """Context manager that seeds the global generators, and restores them afterwards.

    Dropout, user modules and augmentations draw from the global generators of torch, numpy
    and Python. Inside the body `seed` decides what they draw; outside nothing changes. The
    generators belong to the process, so that the bodies of two threads take turns.

    Parameters
    ----------
    seed : int
        The seed.
    device : torch.device
        Its generator is seeded as well.
    deterministic : bool, default=False
        Restrict torch to deterministic algorithms inside the body.

    Yields
    ------
    None
        Nothing.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine.runtime import seeded
    >>> def draw():
    ...     with seeded(0, torch.device("cpu")):
    ...         return torch.rand(2).tolist()
    >>> draw() == draw()
    True
    """
    seed = int(seed)
    with _GENERATORS:
        before, mode = generator_states(device), torch.get_deterministic_debug_mode()
        # torch.manual_seed would also seed every GPU of the process
        torch.set_rng_state(torch.Generator("cpu").manual_seed(seed).get_state())
        if device.type == "cuda":
            torch.cuda.set_rng_state(torch.Generator(device).manual_seed(seed).get_state(), device)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        if deterministic:
            torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.set_deterministic_debug_mode(mode)
            restore_generators(before, device)


def generator_states(device: torch.device) -> dict[str, Any]:
    """States of the global generators of torch, numpy and Python, and of a CUDA device."""
    name, key, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 (the global generator is meant)
    states = {
        "torch": torch.get_rng_state(),
        "numpy": (name, torch.from_numpy(np.asarray(key, dtype=np.int64)), *rest),
        "python": random.getstate(),
    }
    return states | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def restore_generators(states: dict[str, Any], device: torch.device) -> None:
    """Set the global generators to the states of :func:`generator_states`."""
    name, key, *rest = states["numpy"]
    if not 0 <= rest[0] <= len(key):  # of a file; numpy would read outside its memory
        raise ValueError("The state of numpy's generator must have a position within its words.")
    torch.set_rng_state(states["torch"])
    np.random.set_state((name, key.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    random.setstate(states["python"])
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


@contextmanager
def own_settings() -> Iterator[None]:
    """Context manager that gives torch its default settings, whatever the caller has set.

    Autocast, inference mode, no_grad, a default device and a default dtype have no effect, and float32 is multiplied as
    float32. Deterministic algorithms stay, since they give the same codes.
    """
    is_cpu = torch.empty(0).is_cpu  # get_default_device of torch 2.9 fails after set_default_device(None)
    with (
        nullcontext() if is_cpu else torch.device("cpu"),  # this context makes every call of torch slower
        # contexts inside have no cache either: it would last as long as these, and keep the first weights of a training
        torch.autocast("cpu", enabled=False, cache_enabled=False),
        torch.autocast("cuda", enabled=False, cache_enabled=False),
        torch.inference_mode(False),  # with gradients, too
        _DEFAULTS(),
    ):
        yield


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """Context manager that multiplies float32 as float32, and not as the TF32 of a GPU, which changes bits.

    Parameters
    ----------
    device : torch.device
        Device of the computation.

    Returns
    -------
    context manager
        It does nothing on a CPU.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine.runtime import full_precision
    >>> with full_precision(torch.device("cuda")):
    ...     torch.backends.cudnn.conv.fp32_precision
    'ieee'
    """
    return _NO_TF32() if device.type == "cuda" else nullcontext()


def _in_float32(*parts: Any) -> Callable[[], None]:
    """Set parts of torch, and the dtype of new tensors, to float32, and return a function that restores both."""
    changed = [part for part in parts if part.fp32_precision not in ("none", "ieee")]
    before = [part.fp32_precision for part in changed], torch.get_default_dtype()
    _set_precision(changed, ["ieee"] * len(changed), torch.float32)
    return functools.partial(_set_precision, changed, *before)


def _set_precision(parts: list[Any], values: list[str], dtype: torch.dtype) -> None:
    for part, value in zip(parts, values, strict=True):
        part.fp32_precision = value
    torch.set_default_dtype(dtype)


_BACKENDS: Any = torch.backends
_MULTIPLIERS = _BACKENDS.cuda.matmul, _BACKENDS.mkldnn.matmul, _BACKENDS.mkldnn.conv
_DEFAULTS = SharedSetting(functools.partial(_in_float32, *_MULTIPLIERS))
_NO_TF32 = SharedSetting(functools.partial(_in_float32, *_MULTIPLIERS, _BACKENDS.cudnn.conv))


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
