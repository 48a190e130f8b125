"""The compiler of kernels, and the folders that keep their machine code.

numba keeps machine code in the first folder that it can write: ``NUMBA_CACHE_DIR``, ``__pycache__`` beside the module,
or the cache folder of the user. It reads no folder that it cannot write, and raises an error where there is no other,
as in a container with a read-only file system. Here the folders before the first writable one are read as well, and
without a writable one kernels are compiled in each process.
"""

import os
import pickle
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache

_SETTINGS: Any = numba.config  # mypy does not see what numba sets there
_has_warned = False


def kernel(function: Callable[..., Any]) -> Any:
    """Return the compiled form of a function that Python calls.

    It releases the GIL, for `run_in_slices`, and does not check divisions by 0.
    """
    if _SETTINGS.DISABLE_JIT:
        raise ValueError(
            "The environment variable NUMBA_DISABLE_JIT must be 0 or not set, because searches, metrics and most fits "
            f"of skhash need compiled code. Got {_SETTINGS.DISABLE_JIT} instead: to debug a function of your own, "
            "call its `py_func`."
        )
    compiled: Any = numba.njit(nogil=True, error_model="numpy")(function)
    compiled._cache = _KernelCache(function)
    return compiled


class _KernelCache(NullCache):
    """Machine code of a kernel in the folders of numba."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._caches = []
        for cache_class in _CACHE_CLASSES:
            with suppress(RuntimeError):  # numba's error where a kind of folder does not apply
                cache = cache_class(function)
                is_given = _SETTINGS.CACHE_DIR and cache.cache_path.startswith(_SETTINGS.CACHE_DIR)
                if is_given or os.path.isabs(cache.cache_path):  # not the folder "~" of a user without a home
                    self._caches.append(cache)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for the types of arguments, or None if no folder has it."""
        for cache in self._caches:
            with suppress(OSError):
                try:
                    if (found := cache.load_overload(sig, target_context)) is not None:
                        return found
                except (EOFError, pickle.UnpicklingError):  # a crash of the machine has cut a file short
                    cache.flush()
                _check_writable(cache.cache_path)
                return None
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel in the first folder that can be written, or warn once in a process."""
        global _has_warned
        reasons = []
        for cache in self._caches:
            try:
                _check_writable(cache.cache_path)
                cache.save_overload(sig, data)
                return
            except OSError as error:
                reasons.append(str(error))
        if not _has_warned:
            _has_warned = True
            warnings.warn(
                "Compiled kernels of skhash cannot be kept: each process compiles them again, which takes seconds. "
                "Set the environment variable NUMBA_CACHE_DIR to a folder that can be written, or that was filled when "
                f"the image of the container was built. Tried: {'; '.join(reasons) or 'no folder'}.",
                stacklevel=1,
            )


def _check_writable(folder: str) -> None:
    """Raise OSError if no file can be made in a folder, which need not exist."""
    os.makedirs(folder, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()


def _cache_class(locator: type) -> type:
    """Class of numba's cache in one kind of folder, which need not be writable."""
    unchecked = type(locator.__name__, (locator,), {"ensure_cache_path": lambda self: None})
    implementation = type("Implementation", (CompileResultCacheImpl,), {"_locator_classes": [unchecked]})
    return type("Cache", (FunctionCache,), {"_impl_class": implementation})


_CACHE_CLASSES = [_cache_class(locator) for locator in CompileResultCacheImpl._locator_classes]
