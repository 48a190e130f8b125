"""Devices and seeds: where training runs, and what alone decides its result."""

import random
import threading
from contextlib import contextmanager

import numpy as np
import torch
from threadpoolctl import threadpool_limits

_GENERATORS = threading.RLock()


def resolve_device(device):
    """Turn a device parameter into a torch device that is there.

    Parameters
    ----------
    device : "auto" or str
        "auto" takes a CUDA device if there is one; otherwise any name that torch knows.

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
        if resolved.type not in ("cpu", "cuda", "mps", "xpu"):
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
    before, was_deterministic = generator_states(device), torch.are_deterministic_algorithms_enabled()
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    torch.use_deterministic_algorithms(deterministic or was_deterministic)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic)
        restore_generators(before, device)


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
    """Set the global generators to what :func:`generator_states` returned."""
    name, key, *rest = states["numpy"]
    torch.set_rng_state(states["torch"])
    np.random.set_state((name, key.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    random.setstate(states["python"])
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


@contextmanager
def one_thread(wanted=True):
    """Run torch and BLAS on one CPU thread inside the body.

    Sums that a team of threads shares are rounded by the size of the team. Besides,
    waking a team costs more than a small step takes, and many times more while other
    processes want the same cores.

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
    n_threads = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        with threadpool_limits(1 if wanted else None, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(n_threads)
