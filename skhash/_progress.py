"""Progress of work on the terminal: lines, what is in progress, and the time that is left."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TextIO

#: seconds between two lines about work in progress where rich cannot show it
_PAUSE = 60.0


class LiveLine:
    """Context manager of what a terminal shows: finished lines, and with rich the work in progress below them."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self._status: Any = None
        self._written = time.monotonic()
        if file.isatty() and find_spec("rich") is not None:
            from rich.console import Console

            self._status = Console(file=file, highlight=False, markup=False).status("")

    def __enter__(self) -> "LiveLine":
        return self

    def __exit__(self, *error: Any) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, text: object) -> None:
        """Show the work in progress: below the lines on a terminal with rich, else as a line per minute."""
        if self._status is not None:
            self._status.update(str(text))
            self._status.start()
        elif time.monotonic() - self._written >= _PAUSE:
            self.write(text)

    def write(self, text: object) -> None:
        """Write a line."""
        if self._status is not None:
            self._status.stop()
        self.file.write(f"{text}\n")  # one write: print writes the newline separately, and Ctrl-C may come before it
        self.file.flush()
        self._written = time.monotonic()


@contextmanager
def progress(label: str, n: int, unit: str = "samples") -> Iterator[Callable[..., None]]:
    """Context manager of a function that takes the number of samples done, of n, and shows it on stderr.

    Its second argument is the number of those that an earlier run has done, which took no time of this one.
    """
    started = time.monotonic()

    def show(n_done: int, n_before: int = 0) -> None:
        text = f"{label}: {n_done:,} of {n:,} {unit}"
        if n_before < n_done < n:
            seconds = (time.monotonic() - started) / (n_done - n_before) * (n - n_done)
            text += f"; {format_seconds(seconds)} left"
        line.show(text)

    with LiveLine(sys.stderr) as line:
        yield show


def format_seconds(seconds: float) -> str:
    """A time in words, such as 'about 41 s' or 'about 2.5 h'."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
