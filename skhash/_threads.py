"""Threads: the one pool that runs compiled kernels, and limits for other libraries.

Promise: codes and metrics are the same for any number of threads. Kernels write each
result in one thread, so that their number decides the speed alone. Sums inside BLAS,
OpenMP and torch are rounded by the size of the team, so that they run on one thread.

The pool lives as long as one call. It leaves nothing that a forked process could wait for,
and several threads may use it at once.
"""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sklearn.utils import gen_batches
from threadpoolctl import ThreadpoolController

from skhash._compat import openmp_n_threads

SLICES_PER_THREAD = 4  # more slices than threads, because some take longer than others


def run_in_slices(kernel: Callable[[slice], object], n: int, *, min_size: int = 1) -> None:
    """Run a kernel on successive slices of ``range(n)``, on several threads.

    The number of threads is the one that scikit-learn's compiled code takes here:
    ``OMP_NUM_THREADS``, threadpoolctl and joblib's limits for its workers are respected.

    Parameters
    ----------
    kernel : callable
        Called with a slice. It must release the GIL and write to its own slice only.
    n : int
        Number of items.
    min_size : int, default=1
        Smallest slice that is worth a thread.

    Raises
    ------
    Exception
        The first exception that the kernel raises.
    """
    n_threads = min(openmp_n_threads(), n // min_size)
    if n_threads <= 1:
        kernel(slice(0, n))
        return
    slices = gen_batches(n, max(min_size, -(-n // (SLICES_PER_THREAD * n_threads))))
    with ThreadPoolExecutor(n_threads, thread_name_prefix="skhash") as pool:
        for _ in pool.map(kernel, slices):
            pass


class SharedSetting:
    """A setting of the whole process that several threads need at the same time.

    The first thread sets it, and the last one restores what was there before.

    Parameters
    ----------
    change : callable
        Changes the setting, and returns a function without arguments that restores it.
    """

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change, self._lock, self._n_users = change, threading.Lock(), 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Return a context manager that holds the setting."""
        with self._lock:
            if self._n_users == 0:
                self._restore = self._change()
            self._n_users += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_users -= 1
                if self._n_users == 0:
                    self._restore()


@contextmanager
def one_thread() -> Iterator[None]:
    """Context manager that limits BLAS, OpenMP and torch to one thread.

    Limits of OpenMP and of torch belong to the calling thread, those of most BLAS libraries to
    the process. Bodies may overlap in several threads.

    Yields
    ------
    None
        Nothing.

    Examples
    --------
    >>> import torch
    >>> from skhash._threads import one_thread
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    torch = sys.modules.get("torch")
    with _loaded_libraries(torch is not None)["of a thread"].limit(limits=1), _PROCESS_LIMITS():
        if torch is None:
            yield
            return
        torch.set_num_threads(1)  # OpenMP, and MKL, which has its own number in each thread
        try:
            yield
        finally:
            torch.set_num_threads(_n_torch_threads[0])  # then OpenMP gets back the number of this thread


@functools.cache
def _loaded_libraries(with_torch: bool) -> dict[str, ThreadpoolController]:
    """Loaded libraries by what their limits belong to. Finding them is slow: once, and once more with torch."""
    found = ThreadpoolController()
    kinds: dict[str, list[str]] = {"of a thread": [], "of the process": []}
    for library in found.lib_controllers:
        on_openmp = library.user_api == "openmp" or getattr(library, "threading_layer", None) == "openmp"
        kinds["of a thread" if on_openmp else "of the process"].append(library.filepath)
    return {kind: found.select(filepath=paths) for kind, paths in kinds.items()}


_n_torch_threads = [1]  # number of threads that torch gives to a new thread, outside of `one_thread`


def _limit_process() -> Callable[[], None]:
    torch = sys.modules.get("torch")
    if torch is not None:  # read in a new thread, because the calling one may have its own limit
        with ThreadPoolExecutor(1) as new_thread:
            _n_torch_threads[0] = new_thread.submit(torch.get_num_threads).result()
    blas = _loaded_libraries(torch is not None)["of the process"]
    before = {library["filepath"]: library["num_threads"] for library in blas.info()}
    _set_n_threads(blas, 1)
    return functools.partial(_set_n_threads, blas, before)


def _set_n_threads(libraries: ThreadpoolController, limits: int | dict[str, int]) -> None:
    """Set numbers of threads for good.

    threadpoolctl ignores other threads until the thread that set a number leaves a context.
    """
    libraries.limit(limits=limits)
    with libraries.limit(limits=limits):
        pass


_PROCESS_LIMITS = SharedSetting(_limit_process)
