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
from pathlib import Path
from typing import Any, get_args

import numpy as np

from skhash import hashers
from skhash._validation import as_count, as_count_or_none, is_count
from skhash.affinity import ClassAffinity, NeighborAffinity, Relevance
from skhash.base import BaseHasher
from skhash.codes.bits import MAX_NBITS
from skhash.comparison._baselines import faiss_version, why_not
from skhash.comparison._neighbors import N_NEIGHBORS, SearchMetric, Vectors, evaluate_method
from skhash.comparison.evaluation import METRICS, Metrics, as_metrics, evaluate_hasher
from skhash.comparison.methods import expand_methods, make_hasher, variant_of
from skhash.comparison.progress import FitWatcher, Plan, Progress, Step, estimate_seconds_left
from skhash.comparison.results import Record, Result, Store, key_of, read_list, read_records, versions, write_list
from skhash.comparison.tables import CODE_METRICS, REAL_METRICS, group_by
from skhash.comparison.tuning import Candidate, best_candidate, tune
from skhash.datasets import PROTOCOLS, Protocol, load_dataset, split
from skhash.datasets.loading import check_names
from skhash.datasets.protocols import check_protocol
from skhash.exceptions import InvalidFileError
from skhash.metrics import Metric
from skhash.registry import BASELINES, FOR_NEIGHBORS, PAPER, VARIANTS, Space
from skhash.unwrap import named_warnings

#: largest number of queries whose values are kept by default
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
    scale: bool = False,
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
        "shallow", "supervised", "unsupervised"; for neighbors also "baselines" or their names. Names that end in
        "-paper" have the settings of their paper, and belong to no group.
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
    report : callable, default=None
        Called with a :class:`Progress` after each result; ``report=print`` prints a line.
    watch : callable, default=None
        Called with a :class:`Plan` before the first fit, and in a single process with a :class:`Step`
        a few times a second while a method learns in epochs or bit by bit.
    tune : int, default=None
        Number of candidates for the parameters of every method including the default; see
        :mod:`skhash.comparison.tuning`. None takes the default parameters. Settings of a paper are not tuned.
    tune_metric : str, default="ap"
        Metric that compares candidates, a name as in :meth:`skhash.metrics.Metric.parse`.
    n_jobs : int, default=1
        Number of processes. They share the cores.
    folder : str or Path, default=None
        Where finished results are stored, each in a file, and all in ``results.json``.
        Stored results of the same settings are reused unless they failed, or lack a metric. A function
        is the same metric if it has the same name.
        A damaged file is named in a warning, and its result is computed again. ``results.json`` keeps the results of
        other data sets, methods, numbers of bits and seeds, and :func:`read_results` returns them, too. Tables list
        the methods apart that are not in `methods`: name all that are to be ranked, which costs no new fit.
    fresh : bool, default=False
        Compute all results again, and list no others in ``results.json``.
    keep_models : bool, default=False
        Save each fitted hasher in the folder ``models`` of `folder` by :func:`skhash.persistence.save`; `model` of
        its result names the file. Stored results without one are computed again.
    command : str, default=None
        The command line, which is stored with the results.
    scale : bool, default=False
        Scale features to variance 1 by a StandardScaler, fitted to the training samples of each split. Kept models are
        a Pipeline with it, and the name of the data set in results ends in ", scaled". Distances that decide what
        is relevant are those of the samples as given, so the task "neighbors" has no scale.

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
    n_jobs = as_count(n_jobs, "n_jobs")
    tune = as_count_or_none(tune, "tune", what="an int >= 2, the default and one more candidate", least=2)
    if keep_models and folder is None:
        raise ValueError("`keep_models` must be False without a folder. Got True: pass `folder`.")
    store = Store(folder)  # fails before the first fit if the folder cannot be written
    if folder is not None and fresh:
        _check_own_results(folder)
    chosen = None if metrics is None else as_metrics(metrics)
    options = _Options(store, chosen, per_query, tune, tune_metric, fresh, keep_models, command, scale)
    tasks = _plan(dataset, task, protocol, methods, nbits, n_seeds, options)
    names = [each.blank.method for each in tasks]
    descriptions = list(dict.fromkeys(each.blank.description for each in tasks))
    others = [] if folder is None or fresh else _other_results(folder, tasks)
    results: dict[int, Result] = {}

    def show(step: Step) -> None:
        if watch is not None:
            left = estimate_seconds_left(names, results, step=step)
            watch(replace(step, n_tasks=len(tasks), total_seconds_left=left))

    if watch is not None:
        watch(Plan(descriptions, len(tasks)))
    for position, found, reused in _run_tasks(tasks, n_jobs, show):
        results[position] = result = replace(found, asked_seeds=int(n_seeds))
        if folder is not None and not (reused and len(results) < len(tasks)):
            write_list(folder, _together(others, [results[i] for i in sorted(results)]))
        if report is not None:
            left = estimate_seconds_left(names, results, n_jobs)
            report(Progress(result, len(results), len(tasks), left, reused, position))
    return [results[i] for i in range(len(tasks))], "\n".join(descriptions)


@dataclass(frozen=True)
class _Options:
    """What all fits of a comparison have in common."""

    store: Store
    metrics: Mapping[str, Metric] | None
    per_query: bool | None
    tune: int | None
    tune_metric: str
    fresh: bool
    keep_models: bool
    command: str | None
    scale: bool


@dataclass(frozen=True)
class _Task:
    """A fit: its result without measured values, the protocol, and a hash of the arrays of the split of seed 0."""

    blank: Result
    protocol: str | Protocol | None
    digest: str
    options: _Options

    @property
    def label(self) -> str:
        """What is fitted, short enough for a line of a terminal."""
        return f"{self.blank.method}, {self.blank.nbits} bits"

    @property
    def space(self) -> Space:
        """Parameters to tune; empty for none."""
        is_fixed = self.options.tune is None or self.blank.method.endswith(PAPER)
        return {} if is_fixed else variant_of(self.blank.method).method.search_space

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the metrics, in the form of JSON. Its hash finds a stored result."""
        blank, options, parameters = self.blank, self.options, dict(self.blank.parameters)
        class_name = variant_of(blank.method).method.class_name
        if class_name.startswith("Faiss"):
            parameters["faiss"] = faiss_version()
        return {
            **{name: blank[name] for name in ("dataset", "protocol", "description", "method", "nbits", "seed")},
            "data": self.digest,
            "class": class_name,
            "parameters": parameters,
            "tuning": options.tune and {"budget": options.tune, "metric": options.tune_metric},
            "versions": versions(),
        }

    @property
    def keeps_model(self) -> bool:
        """Whether there is a hasher to save."""
        return self.options.keep_models and self.blank.method not in BASELINES

    @property
    def model(self) -> Path | None:
        """File of the fitted hasher; None without a folder."""
        return self.options.store.path("models", self.settings, "safetensors")


def _check_own_results(folder: str | os.PathLike[str]) -> None:
    """Raise ValueError if a comparison would replace results of methods that skhash does not have."""
    try:
        names = dict.fromkeys(result.method for result in read_list(folder))
    except (OSError, InvalidFileError):  # there is nothing to lose
        return
    if own := [name for name in names if name not in VARIANTS and name not in FOR_NEIGHBORS]:
        raise ValueError(
            f"{folder} must have results of methods of skhash only. Got {', '.join(own)}, which would be lost. Choose "
            "another folder."
        )


def _other_results(folder: str | os.PathLike[str], tasks: Sequence[_Task]) -> list[Result]:
    """Results in the ``results.json`` of a folder whose data set, method, number of bits or seed is not that of a task.

    Those of a data set of the tasks say whether their method is asked for. Results of other data that have the name of
    such a data set are left out, with a warning.
    """
    planned = {_place(task.blank) for task in tasks}
    try:
        others = [result for result in read_list(folder) if _place(result) not in planned]
    except InvalidFileError:  # it is replaced
        return []
    if not others:
        return []
    digests = {(task.blank.dataset, task.blank.protocol): task.digest for task in tasks}
    planned_files = {task.options.store.path("rows", task.settings, "json") for task in tasks}
    records = read_records(folder, planned_files)

    def is_of_other_data(result: Result) -> bool:
        record, digest = records.get(key_of(result)), digests.get((result.dataset, result.protocol))
        return record is not None and digest is not None and record.settings.get("data") != digest

    kept = [result for result in others if not is_of_other_data(result)]
    if len(kept) < len(others):
        names = ", ".join(dict.fromkeys(result.dataset for result in others if is_of_other_data(result)))
        warnings.warn(
            f"{len(others) - len(kept)} earlier results of {names} in {folder} are no longer listed: the data have "
            "changed since.",
            UserWarning,
            stacklevel=3,
        )
    methods, asked_seeds = {task.blank.method for task in tasks}, len({task.blank.seed for task in tasks})
    return [
        replace(result, asked_seeds=asked_seeds, is_asked=result.method in methods)
        if (result.dataset, result.protocol) in digests
        else result
        for result in kept
    ]


def _place(result: Result) -> tuple[Any, ...]:
    """Values that identify a result in a list."""
    return result.dataset, result.protocol, result.method, result.nbits, result.seed


def _together(others: Sequence[Result], results: Sequence[Result]) -> list[Result]:
    """Results by data set, seed and number of bits; those of a data set have the same metrics, None if not measured."""
    if not others:
        return list(results)
    together = []
    for group in group_by([*others, *results], "dataset", "protocol").values():
        names = [*group[-1].metrics, *(name for result in group for name in result.metrics)]
        for result in sorted(group, key=lambda result: (result.seed, result.nbits)):
            together.append(replace(result, metrics=dict.fromkeys(names) | dict(result.metrics)))
    return together


def _plan(
    datasets: Any,
    task: str | None,
    protocol: str | Protocol | None,
    methods: Iterable[str],
    nbits: Iterable[int],
    n_seeds: int,
    options: _Options,
) -> list[_Task]:
    """Tasks by data set, seed, number of bits and method, after checks of all arguments and data sets."""
    task, protocol = _check_task(task, protocol)
    methods = expand_methods(methods, task)
    if not methods:
        raise ValueError(f"`methods` must name at least one method for the task {task!r}. Got none.")
    if not isinstance(nbits, Iterable):
        raise TypeError(f"`nbits` must be a list of ints. Got {nbits!r} instead. Pass [{nbits!r}].")
    nbits = list(dict.fromkeys(nbits))
    if not nbits or not all(is_count(number, MAX_NBITS) for number in nbits):
        raise ValueError(f"`nbits` must hold ints from 1 to {MAX_NBITS}. Got {nbits} instead.")
    nbits = list(map(int, nbits))
    n_seeds = as_count(n_seeds, "n_seeds")
    _check_options(task, options)
    is_one = isinstance(datasets, str) or not isinstance(datasets, Iterable)
    names = list(dict.fromkeys([datasets] if is_one else datasets))
    if not names:
        raise ValueError("`dataset` must name at least one data set. Got none.")
    check_names(names)
    sources = [_identify(os.fspath(name), protocol, options.scale) for name in names]
    if len({source["dataset"] for source, _ in sources}) < len(sources):
        raise ValueError(f"`dataset` must have data sets with different names. Got {names} instead.")
    metrics = [*REAL_METRICS, *CODE_METRICS] if task == "neighbors" else list(options.metrics or METRICS)
    return [
        _Task(
            Result(
                **source,
                method=method,
                nbits=bits,
                seed=seed,
                metrics=dict.fromkeys(metrics),
                parameters=dict(variant_of(method).parameters),
            ),
            protocol,
            digest,
            options,
        )
        for source, digest in sources
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
    """Raise ValueError for metrics or a tuning that the task does not have."""
    budget = options.tune
    if task == "neighbors":
        if options.scale:
            raise ValueError("`scale` must be False for the task 'neighbors', whose truth are the vectors as given.")
        if options.metrics is not None:
            raise ValueError("`metrics` must be None for the task 'neighbors', which has its own.")
        if budget is not None:
            raise ValueError(f"`tune` must be None for the task 'neighbors'. Got {budget} instead.")
        return
    if budget is not None:
        Metric.parse(options.tune_metric)


def _identify(source: str, protocol: str | Protocol | None, scale: bool) -> tuple[dict[str, Any], str]:
    """What results say about a data set, and the hash of the split of seed 0; ValueError if it has a single class."""
    import joblib

    data = _load(source, protocol, 0, scale)
    if isinstance(data.affinity, ClassAffinity) and len(np.unique(data.y_database)) == 1:
        raise ValueError(f"`dataset` must have at least two classes. Got a single class in {source!r}.")
    parts = [data.X_query, data.y_query, data.X_database, data.y_database, data.train_index]
    if len(data.train_index) < len(data.X_train):  # they are of other classes, and not in the database
        parts += [data.X_train, data.y_train]
    names = {"task": _task_of(data.affinity), "source": source, "dataset": data.name, "protocol": str(data.protocol)}
    return names | {"description": data.DESCR}, joblib.hash(parts)


def _task_of(affinity: Any) -> str:
    """Task of a protocol with this affinity."""
    known = [NeighborAffinity(N_NEIGHBORS, metric=metric) for metric in get_args(SearchMetric)]
    return "neighbors" if affinity in known else "relevance"


@lru_cache(maxsize=1)
def _load(source: str, protocol: str | Protocol | None, seed: int, scale: bool) -> Any:
    """Split of a data set, for the task "neighbors" with its vectors; each process caches the last one."""
    data = load_dataset(source, protocol=protocol, random_state=seed)
    if scale:
        _scale(data)
    if _task_of(data.affinity) == "neighbors":
        data.vectors = Vectors(data.X_database, data.X_query, data.affinity.metric)
    return data


def _scale(data: Any) -> None:
    """Scale the samples of a split by its training samples, and keep the scaler."""
    from sklearn.preprocessing import StandardScaler

    data.scaler = StandardScaler().fit(data.X_train.astype(np.float64))
    scaled = {id(X): data.scaler.transform(X) for X in (data.X_train, data.X_database, data.X_query)}
    data.X_train, data.X_database, data.X_query = (scaled[id(X)] for X in (data.X_train, data.X_database, data.X_query))
    data.name += ", scaled"
    data.DESCR = data.DESCR.rstrip(".") + "; features scaled to variance 1."


def _run_tasks(
    tasks: Sequence[_Task], n_jobs: int, show: Callable[[Step], object]
) -> Iterator[tuple[int, Result, bool]]:
    """Yield position, result and whether it was stored before: stored results first, others as they finish."""
    import joblib

    waiting = []
    for position, task in enumerate(tasks):
        stored = _stored_result(task)
        if stored is None:
            waiting.append(position)
        else:
            yield position, stored, True
    try:
        if n_jobs == 1:
            for position in waiting:
                task = tasks[position]
                n_fits = 1 + (task.options.tune or 0) if task.space else 1
                yield position, _run_task(task, FitWatcher(show, position, task.label, n_fits)), False
            return
        threads = max(1, joblib.cpu_count() // n_jobs)
        with joblib.parallel_config("loky", inner_max_num_threads=threads):
            jobs = (joblib.delayed(_run_numbered)(position, tasks[position]) for position in waiting)
            with _interrupts_ignored():
                finished = joblib.Parallel(n_jobs, return_as="generator_unordered", batch_size=1)(jobs)
            for position, result in finished:
                yield position, result, False
    finally:
        _load.cache_clear()


def _stored_result(task: _Task) -> Result | None:
    """Stored result of a task with its metrics; None if it must be computed."""
    stored, options = None if task.options.fresh else task.options.store.read(task.settings), task.options
    if stored is None or stored.error is not None:
        return None
    if stored.not_applicable is not None:
        return replace(stored, metrics=task.blank.metrics)
    if not set(task.blank.metrics) <= set(stored.metrics):
        return None
    if task.keeps_model and task.model is not None and not task.model.is_file():
        return None
    if options.per_query and stored.per_query is None:
        return None
    values = {} if options.per_query is False else stored.per_query or {}
    return replace(
        stored,
        metrics={name: stored.metrics[name] for name in task.blank.metrics},
        per_query={name: values[name] for name in task.blank.metrics if name in values} or None,
    )


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Context manager that lets started processes ignore Ctrl-C, so that only this process reacts to it."""
    if threading.current_thread() is not threading.main_thread():  # it cannot set signals, and gets none
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run_numbered(position: int, task: _Task) -> tuple[int, Result]:
    return position, _run_task(task)


@cache
def _warm_up() -> None:
    """Evaluate a tiny hasher, so that imports and compilation are not part of a measured time."""
    data = split(np.eye(40), np.arange(40) % 2)
    evaluate_hasher(make_hasher("lsh", 8, 0, data.affinity), data, details=True)


def _run_task(task: _Task, watcher: Any = None) -> Result:
    """Result of a task, which is stored. An error is kept in the result, and does not stop other tasks."""
    _warm_up()
    getattr(hashers, variant_of(task.blank.method).method.class_name, None)  # imports torch for deep ones
    start, failure = time.perf_counter(), None
    try:
        with named_warnings(f"{task.label}, seed {task.blank.seed} of {task.blank.dataset}"):
            result = _measure(task, watcher)
    except Exception as error:
        result = replace(task.blank, error=f"{type(error).__name__}: {error}")
        failure = traceback.format_exc()
    result = replace(result, seconds=time.perf_counter() - start)
    finished = datetime.now(UTC).isoformat()
    task.options.store.write(Record(task.settings, result, finished, task.options.command, failure))
    return result


def _measure(task: _Task, watcher: Any) -> Result:
    """Result of a task, with the reason if the method does not apply."""
    blank, options = task.blank, task.options
    with warnings.catch_warnings():  # `_identify` has shown those of the file
        warnings.simplefilter("ignore")
        data = _load(str(blank.source), task.protocol, blank.seed, options.scale)
    reason = _why_not(blank.method, blank.nbits, data)
    if reason is not None:
        return replace(blank, not_applicable=reason)
    if _needs_images(blank.method):
        data = _as_images(data)
    if blank.task == "neighbors":
        values, hasher = evaluate_method(blank.method, blank.nbits, blank.seed, data.vectors, watcher)
    else:
        values, chosen = {}, {}
        if task.space:
            candidates = _tune(task, data, watcher)
            chosen = dict(best_candidate(candidates).parameters)
            values = {"parameters": {**blank.parameters, **chosen}, "n_candidates": len(candidates)}
            values["tuning_seconds"] = sum(candidate.seconds for candidate in candidates)
        hasher = _make_watched(blank, data, watcher, **chosen)
        values |= evaluate_hasher(hasher, data, metrics=options.metrics or METRICS, details=True)
        if math.isnan(values[next(iter(blank.metrics))]):
            raise ValueError("No query has a relevant sample in the database.")
    if options.per_query is False or (options.per_query is None and len(data.X_query) > MAX_QUERIES):
        values.pop("per_query", None)
    metrics = {name: values.pop(name, None) for name in blank.metrics}
    return replace(blank, metrics=metrics, **values, model=_keep_model(task, data, hasher))


def _why_not(method: str, nbits: int, data: Any) -> str | None:
    """Reason why a method cannot be fitted on this data set; None if it can."""
    if method in FOR_NEIGHBORS:
        return why_not(method, nbits, data.X_database[0].size, len(data.X_database))
    if VARIANTS[method].method.needs_labels:
        try:
            one = data.y_train[:1]
            Relevance.between(one, one, data.affinity).labels()
        except ValueError:
            return f"it learns from labels, and relevance is given by a {type(data.affinity).__name__}"
    if _needs_images(method) and "image_shape" not in data and data.X_train.ndim != 4:
        return "it learns from images, and the samples are vectors"
    return None


def _needs_images(method: str) -> bool:
    return variant_of(method).parameters.get("backbone") == "conv"


def _as_images(data: Any) -> Any:
    """Split whose samples have the shape of images."""
    if "image_shape" not in data:
        return data
    parts = ("X_train", "X_database", "X_query")
    return type(data)(**data | {part: data[part].reshape(-1, *data.image_shape) for part in parts})


def _tune(task: _Task, data: Any, watcher: Any) -> list[Candidate]:
    """Candidates for the parameters, those of an earlier run included."""
    options, settings = task.options, task.settings | {"tuning": task.options.tune_metric}  # the budget decides none
    return tune(
        partial(_make_watched, task.blank, data, watcher),
        task.space,
        data,
        options.tune or 0,
        seed=task.blank.seed,
        metric=options.tune_metric,
        known=[] if options.fresh else options.store.read_candidates(settings),
        save=partial(options.store.write_candidates, settings),
    )


def _make_watched(blank: Result, data: Any, watcher: Any, **parameters: Any) -> BaseHasher:
    hasher = make_hasher(blank.method, blank.nbits, blank.seed, data.affinity, **parameters)
    return hasher if watcher is None else hasher.set_callbacks(watcher)


def _keep_model(task: _Task, data: Any, hasher: Any) -> str | None:
    """Save the fitted hasher if asked, and return its path in the folder, with slashes."""
    path = task.model
    if path is None:
        return None
    if not task.keeps_model:
        path.unlink(missing_ok=True)  # that of an earlier fit
        return None
    from sklearn.pipeline import make_pipeline

    from skhash.persistence import save  # imports safetensors

    path.parent.mkdir(exist_ok=True)
    save(make_pipeline(data.scaler, hasher) if task.options.scale else hasher, path)
    return f"models/{path.name}"
