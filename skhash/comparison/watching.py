"""What a running comparison tells: the plan before the first fit, and the steps within a fit."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from threading import Thread
from typing import Any

#: seconds between two steps of a fit that are told
INTERVAL = 0.2


@dataclass(frozen=True)
class Plan:
    """What will be computed. Its string says the protocol of each data set in a line.

    Parameters
    ----------
    descriptions : list of str
        The split of each data set in a sentence.
    n_tasks : int
        Number of results.
    """

    descriptions: list[str]
    n_tasks: int

    def __str__(self) -> str:
        return "\n".join(self.descriptions)


@dataclass(frozen=True)
class Step:
    """An epoch or a bit that a fit has learned. Its string is a line to print.

    Parameters
    ----------
    position : int
        Index of the result among all results.
    label : str
        Method and number of bits.
    unit : str
        "epoch" or "bit".
    n_done, n_steps : int
        Number of learned epochs or bits, and of all.
    seconds : float, default=None
        Time of all fits of this result at this speed. None after the first epoch or bit, which
        may compile and load.
    seconds_left : float, default=0.0
        Estimated time until the end of the last of them.
    loss : float, default=None
        Loss of the epoch, if the method has one.
    fit, n_fits : int, default=1
        Which fit it is, and how many the result takes: each candidate of its tuning, and the last.
    n_tasks : int, default=0
        Number of results.
    total_seconds_left : float, default=0.0
        Estimated time until the end of the comparison.
    """

    position: int
    label: str
    unit: str
    n_done: int
    n_steps: int
    seconds: float | None = None
    seconds_left: float = 0.0
    loss: float | None = None
    fit: int = 1
    n_fits: int = 1
    n_tasks: int = 0
    total_seconds_left: float = 0.0

    def __str__(self) -> str:
        text = f"[{self.position + 1}/{self.n_tasks}] {self.label}"
        text += f", candidate {self.fit} of {self.n_fits - 1}" if self.fit < self.n_fits else ""
        text += f": {self.unit} {self.n_done} of {self.n_steps}"
        text += "" if self.loss is None else f", loss {self.loss:.3g}"
        if self.seconds is None:
            return text
        times = (self.seconds_left, self.total_seconds_left)  # in few words, so that 80 columns are enough
        left, total = (format_seconds(seconds).removeprefix("about ") for seconds in times)
        return f"{text}; {left} left, {total} in all"


def format_seconds(seconds: float) -> str:
    """A time in words.

    Parameters
    ----------
    seconds : float
        The time.

    Returns
    -------
    str
        About how long.

    Examples
    --------
    >>> from skhash.comparison.watching import format_seconds
    >>> format_seconds(41), format_seconds(600), format_seconds(9000)
    ('about 41 s', 'about 10 min', 'about 2.5 h')
    """
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


class FitWatcher:
    """Callback of scikit-learn that tells the steps of a fit, a few times a second.

    Parameters
    ----------
    tell : callable
        Called with a `Step`.
    position : int
        Index of the result.
    label : str
        What is fitted.
    n_fits : int, default=1
        Number of fits that will be told.
    """

    def __init__(self, tell: Callable[[Step], object], position: int, label: str, n_fits: int = 1) -> None:
        self.tell, self.position, self.label, self.n_fits = tell, position, label, n_fits
        self._fit = 0

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin to measure."""
        self._first: tuple[int, float] | None = None
        self._told = 0.0
        self._fit = min(self._fit + 1, self.n_fits)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing after the fit."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing before a step."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Tell a step, unless the last one is recent."""
        if context.parent is None or not context.parent.max_subtasks:
            return
        now, n_done, n_steps = time.perf_counter(), context.task_id + 1, context.parent.max_subtasks
        if self._first is None:
            self._first = (n_done, now)
        if now - self._told < INTERVAL and n_done < n_steps:
            return
        self._told = now
        place = (self.position, self.label, context.task_name, n_done, n_steps)
        loss = estimator.history_[-1].get("loss")
        if n_done == self._first[0]:
            self.tell(Step(*place, None, 0.0, loss, self._fit, self.n_fits))
            return
        speed = (now - self._first[1]) / (n_done - self._first[0])
        left = speed * (n_steps - n_done + n_steps * (self.n_fits - self._fit))
        self.tell(Step(*place, speed * n_steps * self.n_fits, left, loss, self._fit, self.n_fits))


@dataclass(frozen=True)
class Line:
    """A way for the steps from a process to the one that shows them.

    Parameters
    ----------
    address : str or tuple
        Address of the listener.
    key : bytes
        Its key.
    """

    address: Any
    key: bytes

    def tell(self, step: Step) -> None:
        """Send a step. One that does not arrive is only not shown."""
        with suppress(OSError, EOFError):
            if self.address not in _CONNECTIONS:
                _CONNECTIONS[self.address] = Client(self.address, authkey=self.key)
            _CONNECTIONS[self.address].send(step)


_CONNECTIONS: dict[Any, Connection] = {}  # of this process to the listeners


@contextmanager
def open_line(tell: Callable[[Step], object]) -> Iterator[Line]:
    """Line on which other processes tell steps; `tell` is called in threads."""
    key = os.urandom(32)
    listener = Listener(authkey=key, backlog=128)

    def receive(connection: Connection) -> None:
        with suppress(OSError, EOFError):  # the process has ended
            while True:
                tell(connection.recv())

    def accept() -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                Thread(target=receive, args=(listener.accept(),), daemon=True).start()

    Thread(target=accept, daemon=True).start()
    try:
        yield Line(listener.address, key)
    finally:
        listener.close()
