"""Threads: the pool that runs compiled kernels, and limits for other libraries.

Codes and metrics are the same for any number of threads. Kernels write each result in one
thread. The rounding of sums inside BLAS, OpenMP and torch depends on the number of threads, so
these run on one thread.

A pool lasts for one call, so that a forked process never waits for it, and several threads may
use pools at once. A fork waits until no thread compiles a kernel or changes a limit, since that
thread does not exist in the forked process.
"""

import _thread
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from sklearn.utils import gen_batches
from threadpoolctl import ThreadpoolController

from skhash._compat import openmp_n_threads

SLICES_PER_THREAD = 4  # more slices than threads, because some take longer than others


def run_in_slices(kernel: Callable[[slice], object], n: int, *, min_size: int = 1) -> None:
    """Run a kernel on successive slices of ``range(n)``, of at least `min_size`, on several threads.

    The kernel must release the GIL, and write to its own slice only. There are as many threads as `free_threads` says.
    """
    n_threads = max(1, min(free_threads(), n // min_size))
    with _BUSY.counted(n_threads):
        if n_threads == 1:
            kernel(slice(0, n))
            return
        slices = gen_batches(n, max(min_size, -(-n // (SLICES_PER_THREAD * n_threads))))
        with ThreadPoolExecutor(n_threads, thread_name_prefix="skhash") as pool:
            try:
                for _ in pool.map(kernel, slices):
                    pass
            except BaseException:  # an interruption must not wait for all slices
                pool.shutdown(cancel_futures=True)
                raise


class _Busy:
    """Number of threads of this process that run kernels."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Count no threads: those of other callers do not exist in a forked process."""
        self._lock, self.n_threads = threading.Lock(), 0

    @contextmanager
    def counted(self, n: int) -> Iterator[None]:
        """Return a context manager that counts n more threads."""
        with self._lock:
            self.n_threads += n
        try:
            yield
        finally:
            with self._lock:
                self.n_threads -= n


def n_threads() -> int:
    """Number of threads of kernels that the calling thread starts.

    It is that of `limited_threads`, or of scikit-learn's compiled code: ``OMP_NUM_THREADS``, threadpoolctl and the
    limits of joblib's workers count.
    """
    return _LIMIT.n_threads or openmp_n_threads()


def free_threads() -> int:
    """Number of these threads, at least 1, that other calls leave free, so that those of callers do not multiply."""
    return max(1, n_threads() - _BUSY.n_threads)


class limited_threads:  # noqa: N801  a class, since a generator takes longer than a search among few items
    """Context manager that lets kernels of the calling thread use n threads."""

    def __init__(self, n: int) -> None:
        self._n_threads = n

    def __enter__(self) -> None:
        self._before, _LIMIT.n_threads = _LIMIT.n_threads, self._n_threads

    def __exit__(self, *error: object) -> None:
        _LIMIT.n_threads = self._before


class _Limit(threading.local):
    """Number of threads of kernels that the calling thread starts; 0 is no limit."""

    n_threads = 0


_BUSY, _LIMIT = _Busy(), _Limit()


class _OfThread(threading.local):
    """Number of users of a setting in each thread."""

    n_users = 0


class SharedSetting:
    """A setting of the whole process that several threads may need at the same time.

    The first thread calls `change`, and the last one the function that `change` has returned, which restores the
    setting.
    """

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change, self._lock, self._n_users = change, threading.RLock(), 0
        self._thread = _OfThread()
        if hasattr(os, "register_at_fork"):
            hooks = {"after_in_parent": self._lock.release, "after_in_child": self._forget_other_threads}
            os.register_at_fork(before=self._lock.acquire, **hooks)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Return a context manager that holds the setting."""
        self._add_users(1)
        try:
            yield
        finally:
            self._add_users(-1)

    def _add_users(self, n: int) -> None:
        with self._lock:
            if self._n_users == 0:
                self._restore = self._change()
            self._n_users += n
            self._thread.n_users += n
            if self._n_users == 0:
                self._restore()

    def _forget_other_threads(self) -> None:
        """Release the setting in a forked process for the threads that do not exist there."""
        n_users, self._n_users = self._n_users, self._thread.n_users
        if n_users > 0 and self._n_users == 0:
            self._restore()
        self._lock.release()


@contextmanager
def one_thread() -> Iterator[None]:
    """Context manager that limits BLAS, OpenMP and torch to one thread.

    Limits of OpenMP and torch belong to the calling thread, those of most BLAS libraries to the process. Bodies may
    overlap in several threads.
    """
    torch = sys.modules.get("torch")
    with _loaded_libraries(torch is not None)["of a thread"].limit(limits=1), _PROCESS_LIMITS():
        if torch is None:
            yield
            return
        torch.set_num_threads(1)  # OpenMP, and MKL, which has its own number in each thread
        _TORCH.n_users += 1
        try:
            yield
        finally:
            _TORCH.n_users -= 1
            if _TORCH.n_users == 0:  # otherwise an outer body still needs one thread of MKL
                torch.set_num_threads(_n_torch_threads[0])  # threadpoolctl then restores OpenMP in this thread


@contextmanager
def openmp_threads(n: int) -> Iterator[None]:
    """Context manager that limits OpenMP and compiled kernels of the calling thread to n threads.

    ``threadpool_limits(n, user_api="openmp")`` would also restore limits of BLAS, which other threads may have changed.
    """
    with _loaded_libraries("torch" in sys.modules)["of a thread"].select(user_api="openmp").limit(limits=n):
        yield


@functools.cache
def _loaded_libraries(with_torch: bool) -> dict[str, ThreadpoolController]:
    """Loaded libraries by what their limits belong to; finding them is slow, so that the result is cached."""
    found = ThreadpoolController()
    kinds: dict[str, list[str]] = {"of a thread": [], "of the process": []}
    for library in found.lib_controllers:
        on_openmp = library.user_api == "openmp" or getattr(library, "threading_layer", None) == "openmp"
        kinds["of a thread" if on_openmp else "of the process"].append(library.filepath)
    return {kind: found.select(filepath=paths) for kind, paths in kinds.items()}


_TORCH = _OfThread()  # bodies of `one_thread` that limit torch
_n_torch_threads = [1]  # number of threads that torch gives to a new thread, outside of `one_thread`


def _limit_process() -> Callable[[], None]:
    torch = sys.modules.get("torch")
    if torch is not None:
        _read_in_new_thread(torch.get_num_threads)
    blas = _loaded_libraries(torch is not None)["of the process"]
    before = {library["filepath"]: library["num_threads"] for library in blas.info()}
    _set_n_threads(blas, 1)
    return functools.partial(_set_n_threads, blas, before)


def _read_in_new_thread(get_n_threads: Callable[[], int]) -> None:
    """Set `_n_torch_threads` from a new thread, because the calling one may have its own limit.

    A bare thread takes half as long as an executor (`benchmarks/one_sample.py`).
    """
    is_read = _thread.allocate_lock()
    is_read.acquire()

    def read() -> None:
        try:
            _n_torch_threads[0] = get_n_threads()
        finally:
            is_read.release()

    _thread.start_new_thread(read, ())
    is_read.acquire()


def _set_n_threads(libraries: ThreadpoolController, limits: int | dict[str, int]) -> None:
    """Set numbers of threads permanently.

    threadpoolctl ignores other threads until the thread that set a number leaves a context.
    """
    libraries.limit(limits=limits)
    with libraries.limit(limits=limits):
        pass


_PROCESS_LIMITS = SharedSetting(_limit_process)


_PROCESS = os.getpid()
_held_locks: list[Any] = []


def _hold_compiler_lock() -> None:
    """Wait until no other thread compiles a kernel, since its lock would stay locked in the forked process."""
    lock = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    if lock is not None:
        lock.acquire()
        _held_locks.append(lock)


def _release_compiler_lock() -> None:
    """Let threads compile again."""
    if _held_locks:
        _held_locks.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_compiler_lock,
        after_in_parent=_release_compiler_lock,
        after_in_child=_release_compiler_lock,
    )
    os.register_at_fork(after_in_child=_BUSY.forget)


def is_forked() -> bool:
    """Whether this process was forked after skhash was imported.

    If the parent has used several threads of OpenMP, a forked process lacks them, and OpenMP waits for them forever.
    """
    return os.getpid() != _PROCESS
