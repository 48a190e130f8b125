"""What a running comparison reports: its plan, the steps within a fit, finished fits, and the time that is left."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from skhash._progress import format_seconds
from skhash.comparison.methods import variant_of
from skhash.comparison.results import Result
from skhash.comparison.tables import layout_of

#: median seconds of a fit of each family in the tables of the documentation; only their ratios count
_USUAL_SECONDS = {"deep": 35.0, "vectors": 35.0, "structhash": 50.0, "shallow": 1.0, "baseline": 1.0, "own": 1.0}


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
        Number of results; 0 for a fit that is no part of a comparison.
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
        text = f"[{self.position + 1}/{self.n_tasks}] {self.label}" if self.n_tasks else self.label
        text += f", candidate {self.fit} of {self.n_fits - 1}" if self.fit < self.n_fits else ""
        text += f": {self.unit} {self.n_done} of {self.n_steps}"
        text += "" if self.loss is None else f", loss {self.loss:.3g}"
        if self.seconds is None:
            return text
        times = (self.seconds_left, self.total_seconds_left)  # short, so that 80 columns are enough
        left, total = (format_seconds(seconds).removeprefix("about ") for seconds in times)
        return f"{text}; {left} left, {total} in all" if self.n_tasks else f"{text}; {left} left"


class FitWatcher:
    """Callback of scikit-learn that calls `report` with the steps of a fit, at most one per `interval` seconds."""

    def __init__(
        self, report: Callable[[Step], object], position: int, label: str, n_fits: int = 1, interval: float = 0.2
    ) -> None:
        self.report, self.position, self.label, self.n_fits = report, position, label, n_fits
        self.interval = interval
        self._fit = 0

    def watch(self, hasher: Any) -> Any:
        """`hasher`, of which this is a callback; before 1.9 scikit-learn has none, and nothing is reported."""
        return hasher.set_callbacks(self) if hasattr(hasher, "set_callbacks") else hasher

    def setup(self, estimator: Any, context: Any) -> None:
        """Start the time of a fit."""
        self._first: tuple[int, float] | None = None
        self._last = -math.inf  # the clock may be near 0 just after the machine has started
        self._fit = min(self._fit + 1, self.n_fits)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing after the fit."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing before a step."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Report a step, unless the last report was a moment ago."""
        if context.parent is None or not context.parent.max_subtasks:
            return
        now, n_done, n_steps = time.perf_counter(), context.task_id + 1, context.parent.max_subtasks
        n_first, start = self._first = self._first or (n_done, now)
        if now - self._last < self.interval and n_done < n_steps:
            return
        self._last = now
        place = (self.position, self.label, context.task_name, n_done, n_steps)
        seconds, left = None, 0.0
        if n_done > n_first:
            speed = (now - start) / (n_done - n_first)
            seconds = speed * n_steps * self.n_fits
            left = speed * (n_steps - n_done + n_steps * (self.n_fits - self._fit))
        self.report(Step(*place, seconds, left, estimator.history_[-1].get("loss"), self._fit, self.n_fits))


@dataclass(frozen=True)
class Progress:
    """A result that is finished, and how many are left. Its string is a line to print.

    Parameters
    ----------
    result : Result
        The result.
    n_done : int
        Number of finished results.
    n_tasks : int
        Number of all results.
    seconds_left : float
        Estimated time until the end.
    reused : bool, default=False
        Whether the result was read from the folder of an earlier run.
    position : int, default=0
        Index of the result among all results.
    """

    result: Result
    n_done: int
    n_tasks: int
    seconds_left: float
    reused: bool = False
    position: int = 0

    def __str__(self) -> str:
        result = self.result
        line = f"[{self.n_done}/{self.n_tasks}] {result.method}, {result.nbits} bits, seed {result.seed} "
        line += f"of {result.dataset}: {_outcome(result)}"
        if self.reused:
            return f"{line}; reused"
        return line if self.n_done == self.n_tasks else f"{line}; {format_seconds(self.seconds_left)} left"


def _outcome(result: Result) -> str:
    if result.error:
        return f"failed: {result.error}"
    if result.not_applicable:
        return f"not applicable: {result.not_applicable}"
    layout = layout_of([result])
    shown = [name for name in layout.matrices if result[name] is not None]
    metrics = [f"{layout.heads[name]} {result[name]:.3f}" for name in shown]
    text = f"{', '.join(metrics)}, fitted in {result.fit_seconds:.1f} s"
    if result.n_candidates > 1:
        text += f" after {result.n_candidates} candidates in {result.tuning_seconds:.1f} s"
    return text


def estimate_seconds_left(
    methods: Sequence[str], results: Mapping[int, Result], n_jobs: int = 1, step: Step | None = None
) -> float:
    """Estimated seconds until all fits are done, from results by position and the step of a fit; 0 if unknown."""
    seconds, left = {position: result.seconds for position, result in results.items()}, 0.0
    if step is not None and step.seconds is not None and step.position not in results:
        seconds[step.position], left = step.seconds, step.seconds_left
    families = [variant_of(method).method.family for method in methods]
    usual = [_USUAL_SECONDS[family] for family in families]
    of_method: dict[str, list[float]] = {}
    for position, value in seconds.items():
        of_method.setdefault(methods[position], []).append(value)
    # methods of the user take any time, which says nothing of the others
    ratios = [value / usual[position] for position, value in seconds.items() if families[position] != "own"]
    ratio = fmean(ratios) if ratios else 0.0
    for position, method in enumerate(methods):
        if position not in seconds:
            left += fmean(of_method[method]) if method in of_method else ratio * usual[position]
    return left / n_jobs
