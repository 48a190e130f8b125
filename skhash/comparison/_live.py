"""The line of a terminal that shows the fits in progress."""

import shutil
import time
from threading import RLock
from typing import Any, Protocol, TextIO

from skhash.comparison.progress import Progress
from skhash.comparison.watching import Plan

#: seconds between two lines about a fit where there is no terminal
_SECONDS = 60.0


class Shown(Protocol):
    """Work in progress, whose string is a line to print."""

    @property
    def position(self) -> int:
        """Its number among all work in progress."""
        ...


class LiveLine:
    """Context manager of a line that each step replaces on a terminal; elsewhere one line per minute is written."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self._is_terminal = file.isatty()
        self._shown = ""
        self._steps: dict[int, Shown] = {}
        self._written = time.monotonic()
        self._lock = RLock()  # steps of other processes arrive in other threads

    def __enter__(self) -> "LiveLine":
        return self

    def __exit__(self, *error: Any) -> None:
        self._replace("")

    def show(self, event: Plan | Shown) -> None:
        """Show the plan, or the latest step of the first of the fits in progress."""
        with self._lock:
            if isinstance(event, Plan):
                self._print(str(event))
                return
            self._steps[event.position] = event
            first = self._steps[min(self._steps)]
            more = f" (and {len(self._steps) - 1} more)" if len(self._steps) > 1 else ""
            if self._is_terminal:
                self._replace(f"{first}{more}"[: shutil.get_terminal_size().columns - 1])
            elif time.monotonic() - self._written >= _SECONDS:
                self._print(f"{first}{more}")

    def write(self, progress: Progress) -> None:
        """Write the line of a result."""
        with self._lock:
            self._steps.pop(progress.position, None)
            self._print(str(progress))

    def _print(self, text: str) -> None:
        self._replace("")
        self.file.write(f"{text}\n")  # one write: print writes the newline separately, and Ctrl-C may come before it
        self.file.flush()
        self._written = time.monotonic()

    def _replace(self, text: str) -> None:
        """Replace the line that is shown by another text."""
        if text or self._shown:
            blank = " " * len(self._shown)
            print(f"\r{blank}\r{text}", end="", file=self.file, flush=True)
        self._shown = text
