"""Progress of a comparison: a line per finished fit, and the time that is left."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from skhash.comparison._tasks import Task
from skhash.comparison.results import Result


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
    """

    result: Result
    n_done: int
    n_tasks: int
    seconds_left: float
    reused: bool = False

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
    text = f"AP_T {result.ap:.3f}, NDCG_T {result.ndcg:.3f}, fitted in {result.fit_seconds:.1f} s"
    if result.n_candidates > 1:
        text += f" after {result.n_candidates} candidates in {result.tuning_seconds:.1f} s"
    return text


def estimate_seconds_left(tasks: Sequence[Task], results: Sequence[Result | None], n_jobs: int = 1) -> float:
    """Estimated seconds until the end: each task takes the mean time of similar tasks.

    Parameters
    ----------
    tasks : sequence of Task
        All tasks.
    results : sequence of Result or None
        Result of each task, None if it is not finished. At least one is.
    n_jobs : int, default=1
        Number of processes.

    Returns
    -------
    float
        Seconds.
    """
    seconds: dict[Hashable, list[float]] = {}
    for task, result in zip(tasks, results, strict=True):
        if result is not None:
            for key in _similar(task):
                seconds.setdefault(key, []).append(result.seconds)
    left = 0.0
    for task, result in zip(tasks, results, strict=True):
        if result is None:
            known = next(seconds[key] for key in _similar(task) if key in seconds)
            left += sum(known) / len(known)
    return left / n_jobs


def _similar(task: Task) -> tuple[Hashable, ...]:
    """Keys of the tasks that take about as long, the most similar first; the last is that of all tasks."""
    return (task.data, task.method, task.nbits), (task.data, task.method), task.method, None


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
    >>> from skhash.comparison.progress import format_seconds
    >>> format_seconds(41), format_seconds(600), format_seconds(9000)
    ('about 41 s', 'about 10 min', 'about 2.5 h')
    """
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
