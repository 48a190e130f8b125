"""Handling of Ctrl-C that also works where Python or a library would lose it."""

import _thread
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

#: seconds until a Ctrl-C at an unsafe moment is repeated
_PAUSE = 0.05
#: modules that are unsafe to interrupt, with all that they call: imports, and the loading of compiled kernels
_UNSAFE = ("importlib._bootstrap", "_frozen_importlib", "llvmlite.")


class Interrupt:
    """Context manager that repeats a Ctrl-C where Python or a library would lose it.

    Imports and functions called by C code swallow a KeyboardInterrupt, and numba crashes if it is loading a kernel.
    """

    def __enter__(self) -> "Interrupt":
        is_main = threading.current_thread() is threading.main_thread()
        self._handles = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._handles:
            self._show_ignored, sys.unraisablehook = sys.unraisablehook, self._on_ignored
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._handles:
            self._handles = False
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.unraisablehook = self._show_ignored

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if _is_unsafe(frame):
            self._try_again()
        else:
            raise KeyboardInterrupt

    def _on_ignored(self, ignored: "sys.UnraisableHookArgs") -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            self._try_again()
        else:
            self._show_ignored(ignored)

    def _try_again(self) -> None:
        # not by a threading.Timer, whose locks the interrupted code may hold
        _thread.start_new_thread(self._interrupt_later, ())

    def _interrupt_later(self) -> None:
        time.sleep(_PAUSE)
        if self._handles:
            _thread.interrupt_main()


def _is_unsafe(frame: FrameType | None) -> bool:
    """Whether the code at a frame is called by a module that must not be interrupted."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_UNSAFE):
            return True
        frame = frame.f_back
    return False
