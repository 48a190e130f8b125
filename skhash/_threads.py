"""One thread for sums: a team's are rounded by its size, and small ones take it longer.

The limits of BLAS belong to the process, those of OpenMP to each of its threads. Bodies that
overlap in several threads share the former: the first one in sets them, the last one out lifts them.
"""

import functools
import sys
import threading
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController


class SharedLimit:
    """A setting of the whole process that bodies in several threads want at once.

    Each on its own would lift it from under another, or take the other's for what was there before.

    Parameters
    ----------
    make : callable
        Makes the setting; returns a function without arguments that undoes it.
    """

    def __init__(self, make):
        self._make, self._lock, self._bodies = make, threading.Lock(), 0

    @contextmanager
    def __call__(self):
        """Hold the setting."""
        with self._lock:
            if not self._bodies:
                self._undo = self._make()
            self._bodies += 1
        try:
            yield
        finally:
            with self._lock:
                self._bodies -= 1
                if not self._bodies:
                    self._undo()


@functools.cache
def _libraries(with_torch):
    """Find the loaded libraries, which takes longer than a small product: once, and once more with torch.

    Returns those of OpenMP, the BLAS that are built on it, whose limits are those of a thread,
    too, and the other BLAS.
    """
    found = ThreadpoolController()
    kinds: dict = {"openmp": [], "blas on openmp": [], "blas": []}
    for library in found.lib_controllers:
        on_openmp = library.user_api == "blas" and getattr(library, "threading_layer", None) == "openmp"
        kinds["blas on openmp" if on_openmp else library.user_api].append(library.filepath)
    return {kind: found.select(filepath=paths) for kind, paths in kinds.items()}


def _loaded(kind):
    return _libraries("torch" in sys.modules)[kind]


def one_openmp_thread():
    """Limit OpenMP to one thread, in the calling thread: a context manager."""
    return _loaded("openmp").limit(limits=1)


@contextmanager
def one_blas_thread():
    """Limit BLAS to one thread, for most builds in the whole process."""
    with _loaded("blas on openmp").limit(limits=1), _ONE_BLAS_THREAD():
        yield


def _limit_blas():
    blas = _loaded("blas")
    before = {library["filepath"]: library["num_threads"] for library in blas.info()}
    _set_limits(blas, 1)
    return functools.partial(_set_limits, blas, before)


def _set_limits(libraries, limits):
    """Set limits for good; threadpoolctl lets no other thread change them until this one has left such a context."""
    libraries.limit(limits=limits)
    with libraries.limit(limits=limits):
        pass


_ONE_BLAS_THREAD = SharedLimit(_limit_blas)
