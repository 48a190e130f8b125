"""Devices and seeds: where training runs, and what alone decides its result."""

import functools
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import numpy as np
import torch

from skhash._threads import SharedSetting, one_blas_thread, one_openmp_thread

_GENERATORS = threading.RLock()


def resolve_device(device):
    """Turn a device parameter into a torch device that is there.

    Parameters
    ----------
    device : "auto" or str
        "auto" takes a CUDA device if there is one; otherwise "cpu", "cuda" or "cuda:1" and the like.
        Other kinds lack the float64 that counts need.

    Returns
    -------
    torch.device
        The device.

    Raises
    ------
    ValueError
        If the device is unknown or not available.

    Examples
    --------
    >>> from skhash.engine.runtime import resolve_device
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        if resolved.type not in ("cpu", "cuda"):
            raise NotImplementedError
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise ValueError(f"device={device!r} is not available here; 'auto' or one of {there} is wanted.") from error
    return resolved


@contextmanager
def seeded(seed, device, deterministic=False):
    """Run a body under seeded global generators, and restore them afterwards.

    Dropout, user modules and augmentations draw from the global generators of
    torch, numpy and Python; inside the body `seed` decides them, outside nothing changes.

    Parameters
    ----------
    seed : int
        The seed.
    device : torch.device
        Its generator is forked as well.
    deterministic : bool, default=False
        Restrict torch to deterministic algorithms inside the body.

    Yields
    ------
    None
        Nothing.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine import seeded
    >>> def draw():
    ...     with seeded(0, torch.device("cpu")):
    ...         return torch.rand(2).tolist()
    >>> draw() == draw()
    True
    """
    # these generators belong to the process: fits in two threads take turns
    with _GENERATORS, _seeded(seed, device, deterministic):
        yield


@contextmanager
def _seeded(seed, device, deterministic):
    before, mode = generator_states(device), torch.get_deterministic_debug_mode()
    torch.set_rng_state(_seeded_state("cpu", seed))  # manual_seed would seed every GPU of the process as well
    if device.type == "cuda":
        torch.cuda.set_rng_state(_seeded_state(device, seed), device)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    if deterministic:
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        restore_generators(before, device)


def _seeded_state(device, seed):
    return torch.Generator(device).manual_seed(seed).get_state()


def generator_states(device):
    """Read the states of the global generators of torch (and of a CUDA device), numpy and Python.

    Parameters
    ----------
    device : torch.device
        The device.

    Returns
    -------
    dict
        Of tensors, numbers and tuples, as :func:`restore_generators` takes it.
    """
    name, key, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 (it is the global one that is meant)
    states = {
        "torch": torch.get_rng_state(),
        "numpy": (name, torch.from_numpy(np.asarray(key, dtype=np.int64)), *rest),
        "python": random.getstate(),
    }
    return states | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def restore_generators(states, device):
    """Set the global generators to what :func:`generator_states` returned, for this kind of device or another."""
    name, key, *rest = states["numpy"]
    torch.set_rng_state(states["torch"])
    np.random.set_state((name, key.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    random.setstate(states["python"])
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


@contextmanager
def one_thread(wanted=True):
    """Run torch and BLAS on one CPU thread inside the body.

    Sums that a team of threads shares are rounded by the size of the team. Besides,
    waking a team costs more than a small step takes, and many times more while other
    processes want the same cores. Bodies may overlap in several threads.

    Parameters
    ----------
    wanted : bool, default=True
        False changes nothing.

    Yields
    ------
    None
        Nothing.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine import one_thread
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    if not wanted:
        yield
        return
    with one_blas_thread(), one_openmp_thread(), _TORCH_THREADS():
        torch.set_num_threads(1)  # in this thread, of OpenMP and of MKL, which has a number of its own
        try:
            yield
        finally:
            torch.set_num_threads(_n_torch_threads[0])  # one_openmp_thread restores a limit of this thread alone


#: number of threads that torch gives a new thread, while a body of `one_thread` runs
_n_torch_threads = [1]


def _remember_torch_threads():
    """Read the number of torch in a new thread: the calling one may be under a limit of its own."""
    with ThreadPoolExecutor(1) as new_thread:
        _n_torch_threads[0] = new_thread.submit(torch.get_num_threads).result()
    return lambda: None


def full_precision(device):
    """Multiply float32 as float32 inside the body, not as the TF32 of a GPU, whose bits are not those of a CPU.

    Parameters
    ----------
    device : torch.device
        Where the body computes.

    Returns
    -------
    context manager
        To enter.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine import full_precision
    >>> with full_precision(torch.device("cuda")):
    ...     torch.backends.cudnn.conv.fp32_precision
    'ieee'
    """
    return _NO_TF32() if device.type == "cuda" else nullcontext()


def _forbid_tf32():
    before = [part.fp32_precision for part in _MULTIPLIERS]
    _set_precision(["ieee"] * len(_MULTIPLIERS))
    return functools.partial(_set_precision, before)


def _set_precision(values):
    for part, value in zip(_MULTIPLIERS, values, strict=True):
        part.fp32_precision = value


_MULTIPLIERS = (torch.backends.cudnn.conv, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
_NO_TF32 = SharedSetting(_forbid_tf32)
_TORCH_THREADS = SharedSetting(_remember_torch_threads)
