"""Progress of a comparison: a line per finished fit, and the time that is left."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from skhash.comparison._layouts import LAYOUTS
from skhash.comparison._tasks import Task
from skhash.comparison.methods import variant_of
from skhash.comparison.results import Result
from skhash.comparison.watching import Step, format_seconds

#: median seconds of a fit of each family in the tables of the documentation; only their ratios count
_USUAL_SECONDS = {"deep": 35.0, "structhash": 50.0, "shallow": 1.0, "baseline": 1.0}


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
    heads = LAYOUTS[result.task].matrices
    metrics = [f"{LAYOUTS[result.task].heads[name]} {result[name]:.3f}" for name in heads if result[name] is not None]
    text = f"{', '.join(metrics)}, fitted in {result.fit_seconds:.1f} s"
    if result.n_candidates > 1:
        text += f" after {result.n_candidates} candidates in {result.tuning_seconds:.1f} s"
    return text


def estimate_seconds_left(
    tasks: Sequence[Task],
    results: Mapping[int, Result],
    n_jobs: int = 1,
    steps: Mapping[int, Step] | None = None,
) -> float:
    """Estimated seconds until all tasks are done, from the mean time of similar tasks; 0 if nothing is known.

    `results` and `steps` are by position in `tasks`. A step's speed counts instead of the time of its fit, because the
    first fit of a process also loads and compiles.
    """
    steps = {position: step for position, step in (steps or {}).items() if step.seconds is not None}
    seconds = {position: result.seconds for position, result in results.items()}
    for position, step in steps.items():
        if position not in results or step.n_fits == 1:  # the candidates of a tuning take different times
            seconds[position] = (step.seconds or 0.0) + _beyond_fit(results.get(position))
    if not seconds:
        return 0.0
    known: dict[Hashable, list[float]] = {}
    for position, value in seconds.items():
        for key, usual in _similar(tasks[position]):
            known.setdefault(key, []).append(value / usual)
    left = 0.0
    for position, task in enumerate(tasks):
        if position in results:
            continue
        if position in steps:
            left += steps[position].seconds_left
        else:
            left += next(usual * sum(known[key]) / len(known[key]) for key, usual in _similar(task) if key in known)
    return left / n_jobs


def _beyond_fit(result: Result | None) -> float:
    """Seconds of a result outside of its fit."""
    return 0.0 if result is None or result.fit_seconds is None else max(0.0, result.seconds - result.fit_seconds)


def _similar(task: Task) -> Iterator[tuple[Hashable, float]]:
    """Yield keys of groups of similar tasks, the most similar first, each with the time that scales its mean."""
    usual = _USUAL_SECONDS[variant_of(task.method).method.family]
    yield (task.data, task.method, task.nbits), 1.0
    yield (task.data, task.method), 1.0
    yield (None, task.method), 1.0
    yield task.data, usual
    yield None, usual
