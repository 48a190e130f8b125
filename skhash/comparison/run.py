"""Compare methods: every method on every split of every data set, in one process or in several."""

import math
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from typing import Any, get_args

import numpy as np

from skhash import hashers
from skhash._estimators import named_warnings
from skhash._validation import is_count
from skhash.affinity import ClassAffinity, NeighborAffinity, label_matrix
from skhash.base import BaseHasher
from skhash.codes import MAX_NBITS
from skhash.comparison._baselines import faiss_version, why_not
from skhash.comparison._neighbors import N_NEIGHBORS, SearchMetric, Vectors, evaluate_method, with_truth
from skhash.comparison.evaluation import METRICS, FunctionMetric, Metrics, as_metrics, evaluate_hasher
from skhash.comparison.methods import expand_methods, make_hasher, variant_of
from skhash.comparison.progress import FitWatcher, Plan, Progress, Step, estimate_seconds_left
from skhash.comparison.report import check_own_results, versions, write_results
from skhash.comparison.results import Record, Result, Store
from skhash.comparison.tables import CODE_METRICS, REAL_METRICS
from skhash.comparison.tuning import best_candidate, tune
from skhash.datasets import PROTOCOLS, Protocol, load_dataset, split
from skhash.datasets.loading import check_names
from skhash.datasets.protocols import check_protocol
from skhash.metrics import Metric
from skhash.registry import BASELINES, FOR_NEIGHBORS, VARIANTS

#: queries of which the values are kept by default
MAX_QUERIES = 10_000
_TASKS = ("relevance", "neighbors")


def compare(
    dataset: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "digits",
    *,
    task: str | None = None,
    protocol: str | Protocol | None = None,
    methods: Iterable[str] = ("talr", "itq", "lsh"),
    nbits: Iterable[int] = (32,),
    n_seeds: int = 3,
    metrics: Metrics | None = None,
    per_query: bool | None = None,
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
    metrics : list or dict, default=None
        Names as :meth:`skhash.metrics.Metric.parse` reads them, such as "ndcg_at_10", and functions of a
        :class:`~skhash.metrics.RelevanceHistogram`; a dict has their names as keys. The first one orders the methods.
        None is `METRICS`. The task "neighbors" has metrics of its own.
    per_query : bool, default=None
        Whether results hold the value of each query by metric. None keeps them for up to 10,000 queries.
        The task "neighbors" has none.
    report : callable, default=None
        Called with a :class:`Progress` after each result; ``report=print`` prints a line.
    watch : callable, default=None
        Called with a :class:`Plan` before the first fit, and in a single process with a :class:`Step`
        a few times a second while a method learns in epochs or bit by bit.
    tune : int, default=None
        Number of candidates for the parameters of every method including the default; see
        :mod:`skhash.comparison.tuning`. None takes the default parameters.
    tune_metric : str, default="ap"
        Metric that compares candidates, a name as in :meth:`skhash.metrics.Metric.parse`.
    n_jobs : int, default=1
        Number of processes. They share the cores.
    folder : str or Path, default=None
        Where finished results are stored, each in a file, and all in ``results.json``.
        Stored results of the same settings are reused unless they failed, or lack a metric. A function
        is the same metric if it has the same name.
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
        If a method, a metric or a data set is unknown, or an option is out of its range.
    OSError
        If a result cannot be stored. Finished results stay, and the same call continues.

    Examples
    --------
    >>> from skhash.comparison import compare
    >>> results, description = compare(methods=["lsh"], nbits=[8], n_seeds=1, report=print)
    [1/1] lsh, 8 bits, seed 0 of digits: AP_T 0..., NDCG_T 0..., fitted in ... s
    >>> results[0]["ap_worst"] <= results[0]["ap"] <= results[0]["ap_best"]
    True
    """
    if not is_count(n_jobs):
        raise ValueError(f"`n_jobs` must be an int >= 1. Got {n_jobs!r} instead.")
    if keep_models and folder is None:
        raise ValueError("`keep_models` must be False without a folder. Got True: pass `folder`.")
    store = Store(folder)  # fails before the first fit if the folder cannot be written
    if folder is not None:
        check_own_results(folder)
    chosen = None if metrics is None else as_metrics(metrics)
    options = _Options(chosen, per_query, tune, tune_metric, keep_models, command)
    tasks = _plan(dataset, task, protocol, methods, nbits, n_seeds, options)
    results: dict[int, Result] = {}

    def show(step: Step) -> None:
        if watch is not None:
            left = estimate_seconds_left(tasks, results, step=step)
            watch(replace(step, n_tasks=len(tasks), total_seconds_left=left))

    if watch is not None:
        watch(Plan(list(dict.fromkeys(task.data.description for task in tasks)), len(tasks)))
    for position, result, reused in _run_tasks(tasks, store, n_jobs, fresh, show):
        results[position] = result
        if folder is not None and not reused:
            write_results(folder, [results[i] for i in sorted(results)])
        if report is not None:
            left = estimate_seconds_left(tasks, results, n_jobs)
            report(Progress(result, len(results), len(tasks), left, reused, position))
    ordered = [results[i] for i in range(len(tasks))]
    if folder is not None:
        write_results(folder, ordered)
    return ordered, "\n".join(dict.fromkeys(task.data.description for task in tasks))


@dataclass(frozen=True)
class _Options:
    """What all tasks of a comparison have in common."""

    metrics: Mapping[str, Metric | FunctionMetric] | None = None
    per_query: bool | None = None
    tune: int | None = None
    tune_metric: str = "ap"
    keep_models: bool = False
    command: str | None = None


@dataclass(frozen=True)
class DataSource:
    """A data set under a protocol; `digest` is a hash of the arrays of the split of seed 0."""

    source: str
    protocol: str | Protocol | None
    dataset: str
    protocol_name: str
    description: str
    digest: str
    task: str = "relevance"


@dataclass(frozen=True)
class Task:
    """A method, a number of bits and a seed on a data set."""

    data: DataSource
    method: str
    nbits: int
    seed: int
    options: _Options

    @property
    def keeps_model(self) -> bool:
        """Whether there is a hasher to save."""
        return self.options.keep_models and self.method not in BASELINES

    @property
    def metric_names(self) -> list[str]:
        """Names of the metrics of a result."""
        if self.data.task == "neighbors":
            return [*REAL_METRICS, *CODE_METRICS]
        return list(self.options.metrics or METRICS)

    @property
    def n_fits(self) -> int:
        """Number of fits: of the candidates, and the last one."""
        budget = self.options.tune
        return 1 if budget is None or not variant_of(self.method).method.search_space else budget + 1

    @property
    def label(self) -> str:
        """What is fitted, short enough for a line of a terminal."""
        return f"{self.method}, {self.nbits} bits"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the metrics, as JSON holds it: a stored result is found by the hash of it."""
        variant, budget = variant_of(self.method), self.options.tune
        parameters = dict(variant.parameters)
        if variant.method.class_name.startswith("Faiss"):
            parameters["faiss"] = faiss_version()
        return {
            "dataset": self.data.dataset,
            "protocol": self.data.protocol_name,
            "description": self.data.description,
            "data": self.data.digest,
            "method": self.method,
            "nbits": self.nbits,
            "seed": self.seed,
            "class": variant.method.class_name,
            "parameters": parameters,
            "tuning": budget and {"budget": budget, "metric": self.options.tune_metric},
            "versions": versions(),
        }


def _plan(
    datasets: Any,
    task: str | None,
    protocol: str | Protocol | None,
    methods: Iterable[str],
    nbits: Iterable[int],
    n_seeds: int,
    options: _Options,
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
    _check_options(task, options)
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
        Task(source, method, bits, seed, options)
        for source in sources
        for seed in range(n_seeds)
        for bits in nbits
        for method in methods
    ]


def _check_task(task: str | None, protocol: str | Protocol | None) -> tuple[str, str | Protocol | None]:
    """Task and protocol; one that is None follows from the other."""
    if task not in (None, *_TASKS):
        raise ValueError(f"`task` must be None or one of {', '.join(_TASKS)}. Got {task!r} instead.")
    if task == "neighbors" and protocol is None:
        protocol = "neighbors"
    found = "relevance" if protocol is None else _task_of(check_protocol(protocol).affinity)
    if task not in (None, found):
        names = ", ".join(name for name, known in PROTOCOLS.items() if _task_of(known.affinity) == task)
        raise ValueError(f"`protocol` must be one of {names} for the task {task!r}. Got {str(protocol)!r} instead.")
    return found, protocol


def _check_options(task: str, options: _Options) -> None:
    """Raise ValueError for metrics or a tuning that the task does not have, or a budget that is out of range."""
    budget = options.tune
    if task == "neighbors":
        if options.metrics is not None:
            raise ValueError("`metrics` must be None for the task 'neighbors', which has its own.")
        if budget is not None:
            raise ValueError(f"`tune` must be None for the task 'neighbors'. Got {budget} instead.")
        return
    if budget is not None:
        Metric.parse(options.tune_metric)
        if not is_count(budget) or budget < 2:
            raise ValueError(
                f"`tune` must be None or an int >= 2, the default and one more candidate. Got {budget} instead."
            )


def identify(source: str, protocol: str | Protocol | None) -> DataSource:
    """Data set with what identifies it, read from the split of seed 0; ValueError if it has a single class."""
    import joblib

    data = load(source, protocol, 0)
    if isinstance(data.affinity, ClassAffinity) and len(np.unique(data.y_database)) == 1:
        raise ValueError(f"`dataset` must have at least two classes. Got a single class in {source!r}.")
    parts = [data.X_query, data.y_query, data.X_database, data.y_database, data.train_index]
    if len(data.train_index) < len(data.X_train):  # they are of other classes, and not in the database
        parts += [data.X_train, data.y_train]
    digest = joblib.hash(parts)
    return DataSource(source, protocol, data.name, str(data.protocol), data.DESCR, digest, _task_of(data.affinity))


def _task_of(affinity: Any) -> str:
    """What is compared under a protocol with this affinity."""
    known = [NeighborAffinity(N_NEIGHBORS, metric=metric) for metric in get_args(SearchMetric)]
    return "neighbors" if affinity in known else "relevance"


@lru_cache(maxsize=1)
def load(source: str, protocol: str | Protocol | None, seed: int) -> Any:
    """Split of a data set, of which each process caches the last one."""
    return load_dataset(source, protocol=protocol, random_state=seed)


@lru_cache(maxsize=1)
def load_vectors(source: str, protocol: str | Protocol | None, seed: int) -> Vectors:
    """Items and queries of a split with the nearest neighbors, of which each process caches the last ones."""
    data = load(source, protocol, seed)
    return with_truth(data.X_database, data.X_query, data.affinity.metric)


def _run_tasks(
    tasks: Sequence[Task], store: Store, n_jobs: int, fresh: bool, show: Callable[[Step], object]
) -> Iterator[tuple[int, Result, bool]]:
    """Yield position, result and whether it was stored before: stored results first, others as they finish."""
    import joblib

    waiting = []
    for position, task in enumerate(tasks):
        stored = None if fresh else _stored_result(task, store)
        if stored is None:
            waiting.append(position)
        else:
            yield position, stored, True
    try:
        if n_jobs == 1:
            for position in waiting:
                watcher = FitWatcher(show, position, tasks[position].label, tasks[position].n_fits)
                yield position, run_task(tasks[position], store, fresh, watcher), False
            return
        threads = max(1, joblib.cpu_count() // n_jobs)
        with joblib.parallel_config("loky", inner_max_num_threads=threads):
            jobs = (joblib.delayed(_run_numbered)(position, tasks[position], store, fresh) for position in waiting)
            with _interrupts_ignored():
                finished = joblib.Parallel(n_jobs, return_as="generator_unordered", batch_size=1)(jobs)
            for position, result in finished:
                yield position, result, False
    finally:
        load.cache_clear()
        load_vectors.cache_clear()


def _stored_result(task: Task, store: Store) -> Result | None:
    """Stored result of a task with its metrics; None if it must be computed."""
    stored = store.read(task.settings)
    if stored is None or stored.error is not None:
        return None
    if stored.not_applicable is not None:
        return replace(stored, metrics=dict.fromkeys(task.metric_names))
    model = store.path("models", task.settings, "safetensors")
    if task.keeps_model and (model is None or not model.is_file()):
        return None
    if not set(task.metric_names) <= set(stored.metrics):
        return None
    if task.options.per_query and task.data.task == "relevance" and stored.per_query is None:
        return None
    of_queries = stored.per_query if task.options.per_query in (None, True) else None
    return replace(
        stored,
        metrics={name: stored.metrics[name] for name in task.metric_names},
        per_query=of_queries and {name: of_queries[name] for name in task.metric_names if name in of_queries},
    )


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Context manager in which started processes ignore Ctrl-C, so that only this process reacts to it."""
    if threading.current_thread() is not threading.main_thread():  # it cannot set signals, and gets none
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run_numbered(position: int, task: Task, store: Store, fresh: bool) -> tuple[int, Result]:
    return position, run_task(task, store, fresh)


@cache
def _warm_up() -> None:
    """Evaluate a tiny hasher, so that imports and compilation are not part of a measured time."""
    data = split(np.eye(40), np.arange(40) % 2)
    evaluate_hasher(make_hasher("lsh", 8, 0, data.affinity), data, details=True)


def run_task(task: Task, store: Store, fresh: bool = False, watcher: Any = None) -> Result:
    """Result of a task, which is stored; it holds an error, which does not stop other tasks."""
    _warm_up()
    getattr(hashers, variant_of(task.method).method.class_name, None)  # imports torch for deep ones
    start = time.perf_counter()
    failure = None
    result = Result(
        task=task.data.task,
        source=task.data.source,
        dataset=task.data.dataset,
        protocol=task.data.protocol_name,
        description=task.data.description,
        method=task.method,
        nbits=task.nbits,
        seed=task.seed,
        metrics=dict.fromkeys(task.metric_names),
        parameters=dict(variant_of(task.method).parameters),
    )
    try:
        with named_warnings(f"{task.label}, seed {task.seed} of {task.data.dataset}"):
            result = _measure(task, store, fresh, result, watcher)
    except Exception as error:
        result = replace(result, error=f"{type(error).__name__}: {error}")
        failure = traceback.format_exc()
    result = replace(result, seconds=time.perf_counter() - start)
    store.write(Record(task.settings, result, datetime.now(UTC).isoformat(), task.options.command, failure))
    return result


def _measure(task: Task, store: Store, fresh: bool, result: Result, watcher: Any) -> Result:
    """The result with what was measured, or with the reason why the method does not apply."""
    with warnings.catch_warnings():  # `identify` has shown those of the file
        warnings.simplefilter("ignore")
        data = load(task.data.source, task.data.protocol, task.seed)
    reason = _why_not(task, data)
    if reason is not None:
        return replace(result, not_applicable=reason)
    if task.data.task == "neighbors":
        vectors = load_vectors(task.data.source, task.data.protocol, task.seed)
        values, hasher = evaluate_method(task.method, task.nbits, task.seed, vectors, watcher)
    else:
        chosen, result = _tune(task, data, store, fresh, result, watcher)
        hasher = _make_watched(task, data, watcher, **chosen)
        values = evaluate_hasher(hasher, data, metrics=task.options.metrics or METRICS, details=True)
        if math.isnan(values[task.metric_names[0]]):
            raise ValueError("No query has a relevant sample in the database.")
    keeps = task.options.per_query
    if keeps is False or (keeps is None and len(data.X_query) > MAX_QUERIES):
        values.pop("per_query", None)
    metrics = {name: values.pop(name, None) for name in task.metric_names}
    return replace(result, metrics=metrics, **values, model=_keep_model(task, store, hasher))


def _keep_model(task: Task, store: Store, hasher: Any) -> str | None:
    """Save the fitted hasher if asked, and return its path in the folder, with slashes."""
    path = store.path("models", task.settings, "safetensors")
    if path is None or store.folder is None:
        return None
    if not task.keeps_model:
        path.unlink(missing_ok=True)  # that of an earlier fit
        return None
    from skhash.persistence import save  # imports safetensors

    path.parent.mkdir(exist_ok=True)
    save(hasher, path)
    return path.relative_to(store.folder).as_posix()


def _why_not(task: Task, data: Any) -> str | None:
    """Reason why a method cannot be fitted on this data set; None if it can."""
    if task.method in FOR_NEIGHBORS:
        return why_not(task.method, task.nbits, data.X_database[0].size, len(data.X_database))
    if VARIANTS[task.method].method.needs_labels:
        try:
            label_matrix(data.affinity, data.y_train[:1])
        except ValueError:
            return f"it learns from labels, and relevance is given by a {type(data.affinity).__name__}"
    return None


def _tune(
    task: Task, data: Any, store: Store, fresh: bool, result: Result, watcher: Any
) -> tuple[dict[str, Any], Result]:
    """Chosen parameters, and the result with these."""
    space, budget = VARIANTS[task.method].method.search_space, task.options.tune
    if budget is None or not space:
        return {}, result
    settings = task.settings | {"tuning": task.options.tune_metric}  # the budget does not decide a score
    candidates = tune(
        partial(_make_watched, task, data, watcher),
        space,
        data,
        budget,
        seed=task.seed,
        metric=task.options.tune_metric,
        known=[] if fresh else store.read_candidates(settings),
        save=partial(store.write_candidates, settings),
    )
    chosen = dict(best_candidate(candidates).parameters)
    return chosen, replace(
        result,
        parameters={**result.parameters, **chosen},
        n_candidates=len(candidates),
        tuning_seconds=sum(candidate.seconds for candidate in candidates),
    )


def _make_watched(task: Task, data: Any, watcher: Any, **parameters: Any) -> BaseHasher:
    hasher = make_hasher(task.method, task.nbits, task.seed, data.affinity, **parameters)
    return hasher if watcher is None else hasher.set_callbacks(watcher)
