"""Ctrl-C that also stops a fit where Python ignores it."""

import signal
import threading
from types import FrameType
from typing import Any


class Interrupt:
    """Context manager that remembers a Ctrl-C, so that :meth:`check` can raise it again.

    Python ignores a KeyboardInterrupt inside of a function that C code calls, such as while numba loads a kernel.
    """

    def __init__(self) -> None:
        self.came = False

    def __enter__(self) -> "Interrupt":
        is_main = threading.current_thread() is threading.main_thread()
        self._handles = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._handles:
            signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if it came and was ignored. Other threads leave it to the main one."""
        if self.came and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
