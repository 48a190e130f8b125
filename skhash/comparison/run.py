"""Compare methods: every method on every split of every data set, in one process or in several."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from skhash._validation.numeric import is_count
from skhash.codes import MAX_NBITS
from skhash.comparison._layouts import LAYOUTS
from skhash.comparison._settings import Tuning
from skhash.comparison._tasks import Task, identify, load, load_vectors, run_task, task_of
from skhash.comparison._watching import Channel, FitWatcher, open_channel
from skhash.comparison.methods import expand_methods
from skhash.comparison.progress import Progress, estimate_seconds_left
from skhash.comparison.report import check_own_results, write_results
from skhash.comparison.results import Result
from skhash.comparison.store import Store
from skhash.comparison.watching import Plan, Step
from skhash.datasets import PROTOCOLS, Protocol
from skhash.datasets.loading import check_names
from skhash.datasets.protocols import check_protocol
from skhash.metrics import Metric


def compare(
    dataset: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "digits",
    *,
    task: str | None = None,
    protocol: str | Protocol | None = None,
    methods: Iterable[str] = ("talr", "itq", "lsh"),
    nbits: Iterable[int] = (32,),
    n_seeds: int = 3,
    report: Callable[[Progress], object] | None = None,
    watch: Callable[[Plan | Step], object] | None = None,
    tune: int | None = None,
    tune_metric: str = "ap",
    n_jobs: int = 1,
    folder: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    keep_models: bool = False,
    command: str | None = None,
) -> tuple[list[Result], str]:
    """Results of every method on every split of one or several data sets.

    Parameters
    ----------
    dataset : str, path or list of these, default="digits"
        Names or files, as in :func:`skhash.datasets.load_dataset`.
    task : "relevance" or "neighbors", default=None
        Whether methods find what is relevant, or keep the ten nearest neighbors of the given
        vectors, which needs no labels. None is that of the protocol.
    protocol : str or Protocol, default=None
        Protocol of all data sets. None takes the default of each, or "neighbors" for that task.
    methods : iterable of str, default=("talr", "itq", "lsh")
        Keys of `VARIANTS`, or groups: "all", "deep" (with a network below the hash layer),
        "shallow", "supervised", "unsupervised"; for neighbors also "baselines" or their names.
    nbits : iterable of int, default=(32,)
        Numbers of bits; for neighbors, of all that is stored of an item.
    n_seeds : int, default=3
        Number of seeds 0, 1, ... Each decides a split and the random draws of the methods.
    report : callable, default=None
        Called with a :class:`Progress` after each result; ``report=print`` prints a line.
    watch : callable, default=None
        Called with a :class:`Plan` before the first fit, and with a :class:`Step` a few times a
        second while a method learns in epochs or bit by bit. With several processes the steps
        come in other threads.
    tune : int, default=None
        Number of candidates for the parameters of every method including the default; see
        :mod:`skhash.comparison.tuning`. None takes the default parameters.
    tune_metric : str, default="ap"
        Metric that compares candidates, a name as in :meth:`skhash.metrics.Metric.parse`.
    n_jobs : int, default=1
        Number of processes. They share the cores.
    folder : str or Path, default=None
        Where finished results are stored, each in a file, and all in ``results.json``.
        Stored results of the same settings are reused unless they failed.
        A damaged file is named in a warning, and its result is computed again.
    fresh : bool, default=False
        Discard stored results of the same settings.
    keep_models : bool, default=False
        Save each fitted hasher in the folder ``models`` of `folder` by :func:`skhash.persistence.save`; `model` of
        its result names the file. Stored results without one are computed again.
    command : str, default=None
        The command line, which is stored with the results.

    Returns
    -------
    results : list of Result
        By data set, seed, number of bits and method.
    description : str
        The split in a sentence, one line per data set.

    Raises
    ------
    ValueError
        If a method or a data set is unknown, or an option is out of its range.
    OSError
        If a result cannot be stored. Finished results stay, and the same call continues.

    Examples
    --------
    >>> from skhash.comparison import compare
    >>> results, description = compare(methods=["lsh"], nbits=[8], n_seeds=1, report=print)
    [1/1] lsh, 8 bits, seed 0 of digits: AP_T 0..., NDCG_T 0..., fitted in ... s
    >>> results[0].ap_worst <= results[0].ap <= results[0].ap_best
    True
    """
    if not is_count(n_jobs):
        raise ValueError(f"`n_jobs` must be an int >= 1. Got {n_jobs!r} instead.")
    if keep_models and folder is None:
        raise ValueError("`keep_models` must be False without a folder. Got True: pass `folder`.")
    store = Store(folder)  # fails before the first fit if the folder cannot be written
    if folder is not None:
        check_own_results(folder, "would be lost. Choose another folder.")
    tuning = None if tune is None else Tuning(tune, tune_metric)
    tasks = _plan(dataset, task, protocol, methods, nbits, n_seeds, tuning, keep_models, command)
    results: dict[int, Result] = {}
    steps: dict[int, Step] = {}

    def tell(step: Step) -> None:
        steps[step.position] = step
        if watch is not None:
            left = estimate_seconds_left(tasks, dict(results), n_jobs, dict(steps))
            watch(replace(step, n_tasks=len(tasks), total_seconds_left=left))

    if watch is not None:
        watch(Plan(list(dict.fromkeys(task.data.description for task in tasks)), len(tasks)))
    for position, result, reused in _run_tasks(tasks, store, n_jobs, fresh, tell):
        results[position] = result
        if folder is not None and not reused:
            write_results(folder, [results[i] for i in sorted(results)])
        if report is not None:
            left = estimate_seconds_left(tasks, results, n_jobs, dict(steps))
            report(Progress(result, len(results), len(tasks), left, reused, position))
    ordered = [results[i] for i in range(len(tasks))]
    if folder is not None:
        write_results(folder, ordered)
    return ordered, "\n".join(dict.fromkeys(result.description for result in ordered))


def _plan(
    datasets: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    task: str | None,
    protocol: str | Protocol | None,
    methods: Iterable[str],
    nbits: Iterable[int],
    n_seeds: int,
    tuning: Tuning | None,
    keep_models: bool,
    command: str | None,
) -> list[Task]:
    """Tasks by data set, seed, number of bits and method, after checks of all arguments and data sets."""
    task, protocol = _check_task(task, protocol)
    methods = expand_methods(methods, task)
    if not isinstance(nbits, Iterable):
        raise TypeError(f"`nbits` must be a list of ints. Got {nbits!r} instead. Pass [{nbits!r}].")
    nbits = list(dict.fromkeys(nbits))
    if not methods:
        raise ValueError(f"`methods` must name at least one method for the task {task!r}. Got none.")
    if not nbits or not all(is_count(number, MAX_NBITS) for number in nbits):
        raise ValueError(f"`nbits` must hold ints from 1 to {MAX_NBITS}. Got {nbits} instead.")
    if not is_count(n_seeds):
        raise ValueError(f"`n_seeds` must be an int >= 1. Got {n_seeds!r} instead.")
    if tuning is not None and task == "neighbors":
        raise ValueError(f"`tune` must be None for the task 'neighbors'. Got {tuning.budget} instead.")
    if tuning is not None:
        Metric.parse(tuning.metric)
        if not is_count(tuning.budget) or tuning.budget < 2:
            raise ValueError(
                f"`tune` must be None or an int >= 2, the default and one more candidate. Got {tuning.budget} instead."
            )
    names = list(
        dict.fromkeys([datasets] if isinstance(datasets, str) or not isinstance(datasets, Iterable) else datasets)
    )
    if not names:
        raise ValueError("`dataset` must name at least one data set. Got none.")
    check_names(names)
    sources = [identify(os.fspath(name), protocol) for name in names]
    if len({source.dataset for source in sources}) < len(sources):
        raise ValueError(f"`dataset` must have data sets with different names. Got {names} instead.")
    return [
        Task(source, method, bits, seed, tuning, keep_models, command)
        for source in sources
        for seed in range(n_seeds)
        for bits in nbits
        for method in methods
    ]


def _check_task(task: str | None, protocol: str | Protocol | None) -> tuple[str, str | Protocol | None]:
    """Task and protocol; one that is None follows from the other."""
    if task not in (None, *LAYOUTS):
        raise ValueError(f"`task` must be None or one of {', '.join(LAYOUTS)}. Got {task!r} instead.")
    if task == "neighbors" and protocol is None:
        protocol = "neighbors"
    found = "relevance" if protocol is None else task_of(check_protocol(protocol).affinity)
    if task not in (None, found):
        names = ", ".join(name for name, known in PROTOCOLS.items() if task_of(known.affinity) == task)
        raise ValueError(f"`protocol` must be one of {names} for the task {task!r}. Got {str(protocol)!r} instead.")
    return found, protocol


def _run_tasks(
    tasks: Sequence[Task], store: Store, n_jobs: int, fresh: bool, tell: Callable[[Step], object]
) -> Iterator[tuple[int, Result, bool]]:
    """Yield position, result and whether it was stored before: stored results first, others as they finish."""
    import joblib

    waiting = []
    for position, task in enumerate(tasks):
        if fresh:
            store.discard(task.settings)
        stored = store.read_result(task.settings)
        if stored is None or stored.error is not None or _lacks_model(task, stored, store):
            waiting.append(position)
        else:
            yield position, stored, True
    if n_jobs == 1:
        limits = {"backend": "sequential"}
    else:
        limits = {"backend": "loky", "inner_max_num_threads": max(1, joblib.cpu_count() // n_jobs)}
    try:
        with open_channel(tell) if n_jobs > 1 else nullcontext(tell) as channel, joblib.parallel_config(**limits):
            jobs = (joblib.delayed(_run_numbered)(position, tasks[position], store, channel) for position in waiting)
            with _interrupts_blocked():
                finished = joblib.Parallel(n_jobs, return_as="generator_unordered", batch_size=1)(jobs)
            for position, result in finished:
                yield position, result, False
    finally:
        load.cache_clear()
        load_vectors.cache_clear()


def _lacks_model(task: Task, stored: Result, store: Store) -> bool:
    """Whether the fitted hasher of a stored result should be saved, and is not."""
    return task.keeps_model and stored.not_applicable is None and not store.has_model(task.settings)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Context manager in which started processes ignore Ctrl-C, so that only this process reacts to it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker as tracker_of_python

    from joblib.externals.loky.backend import resource_tracker as tracker_of_loky

    for tracker in (tracker_of_python, tracker_of_loky):
        tracker.ensure_running()  # a later start of it would unblock SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_numbered(
    position: int, task: Task, store: Store, channel: Channel | Callable[[Step], object]
) -> tuple[int, Result]:
    """Position and result of a task, whose steps go to a channel or to a function."""
    tell = channel.send if isinstance(channel, Channel) else channel
    return position, run_task(task, store, FitWatcher(tell, position, task.label, task.n_fits))
