"""The steps of a fit: a callback that counts them, and a channel that sends them to another process."""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from threading import Thread
from typing import Any

from skhash.comparison.watching import Step

#: seconds between two reported steps of a fit
_INTERVAL = 0.2


class FitWatcher:
    """Callback of scikit-learn that calls `tell` with the steps of a fit, a few times a second."""

    def __init__(self, tell: Callable[[Step], object], position: int, label: str, n_fits: int = 1) -> None:
        self.tell, self.position, self.label, self.n_fits = tell, position, label, n_fits
        self._fit = 0

    def setup(self, estimator: Any, context: Any) -> None:
        """Start the time of a fit."""
        self._first: tuple[int, float] | None = None
        self._told = -math.inf  # the clock may be near 0 just after the machine has started
        self._fit = min(self._fit + 1, self.n_fits)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing after the fit."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing before a step."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Report a step, unless the last one was reported a moment ago."""
        if context.parent is None or not context.parent.max_subtasks:
            return
        now, n_done, n_steps = time.perf_counter(), context.task_id + 1, context.parent.max_subtasks
        if self._first is None:
            self._first = (n_done, now)
        if now - self._told < _INTERVAL and n_done < n_steps:
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
class Channel:
    """A connection on which a process sends its steps to the process that shows them."""

    address: Any
    key: bytes

    def send(self, step: Step) -> None:
        """Send a step, and ignore a connection that is closed."""
        with suppress(OSError, EOFError):
            if self.address not in _CONNECTIONS:
                _CONNECTIONS[self.address] = Client(self.address, authkey=self.key)
            _CONNECTIONS[self.address].send(step)


_CONNECTIONS: dict[Any, Connection] = {}  # of this process to the listeners


@contextmanager
def open_channel(tell: Callable[[Step], object]) -> Iterator[Channel]:
    """Context manager of a channel for other processes; `tell` is called with their steps, in threads."""
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
        yield Channel(listener.address, key)
    finally:
        listener.close()
