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
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, get_args
from uuid import uuid4

import numpy as np
from sklearn.utils import Bunch, get_tags

from skhash._validation import as_count, as_count_or_none, is_count, qualified_name
from skhash.affinity import ClassAffinity, NeighborAffinity, Relevance
from skhash.base import BaseHasher
from skhash.codes.bits import MAX_NBITS
from skhash.comparison._baselines import faiss_version, why_not
from skhash.comparison._neighbors import N_NEIGHBORS, SearchMetric, Vectors, evaluate_method
from skhash.comparison.evaluation import METRICS, Metrics, as_metrics, evaluate_hasher
from skhash.comparison.methods import expand_methods, make_hasher, source_of, variant_of
from skhash.comparison.progress import FitWatcher, Plan, Progress, Step, estimate_seconds_left
from skhash.comparison.results import Record, Result, Store, key_of, read_list, read_records, versions, write_list
from skhash.comparison.tables import CODE_METRICS, REAL_METRICS, group_by
from skhash.comparison.tuning import Candidate, best_candidate, tune
from skhash.datasets import PROTOCOLS, Protocol, load_dataset, split
from skhash.datasets.loading import check_names
from skhash.datasets.protocols import check_protocol
from skhash.exceptions import InvalidFileError
from skhash.metrics import Metric
from skhash.registry import BASELINES, COMPARED, FOR_NEIGHBORS, GROUPS, HASHERS, PAPER, VARIANTS, Space, import_class
from skhash.unwrap import find_hasher, named_warnings

#: largest number of queries whose values are kept by default
MAX_QUERIES = 10_000
_TASKS = ("relevance", "neighbors")
#: what a split in memory holds
_PARTS = [f"{name}_{part}" for part in ("train", "query", "database") for name in "Xy"]
_PARTS += ["affinity", "train_index", "name", "protocol", "DESCR"]


def compare(
    dataset: Any = "digits",
    *,
    task: str | None = None,
    protocol: str | Protocol | None = None,
    methods: Iterable[str] | Mapping[str, Any] | None = None,
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
    dataset : str, path, (X, y), Bunch or list of these, default="digits"
        Names or files, as in :func:`skhash.datasets.load_dataset`, or samples in memory: a tuple (X, y), which each
        seed splits by the protocol, or a split as `load_dataset` returns it, which all seeds share.
    task : "relevance" or "neighbors", default=None
        Whether methods find what is relevant, or keep the ten nearest neighbors of the given
        vectors, which needs no labels. None is that of the protocol.
    protocol : str or Protocol, default=None
        Protocol of all data sets. None takes the default of each, or "neighbors" for that task. A Bunch has its own.
    methods : iterable of str, or dict of str to str or estimator, default=None
        Keys of `VARIANTS`, or groups: "all", "deep" (with a network below the hash layer),
        "shallow", "supervised", "unsupervised"; for neighbors also "baselines" or their names. None takes "talr", "itq"
        and "lsh", and for neighbors "embedding", "itq", "pq", "opq" and "rabitq". Names that end in
        "-conv" are networks of convolutions, and those that end in "-paper" have the settings of their paper: both
        belong to no group. For methods of your own a dict of the names in tables: ``{"mine": estimator, "itq":
        "itq"}``. See :func:`make_hasher` for what it can hold, and for what is set in an estimator.
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
        is the same metric if it has the same name. A method of your own is the same if its parameters, and the code
        of its module and of those in the same folder of its package, are the same.
        A damaged file is named in a warning, and its result is computed again. ``results.json`` keeps the results of
        other data sets, methods, numbers of bits and seeds, and :func:`read_results` returns them, too. Tables list
        the methods apart that are not in `methods`: name all that are to be ranked, which costs no new fit.
    fresh : bool, default=False
        Compute all results again, and list no others in ``results.json``.
    keep_models : bool, default=False
        Save each fitted hasher in the folder ``models`` of `folder` by :func:`skhash.persistence.save`; `model` of
        its result names the file. Stored results without one are computed again. A warning names each method of
        your own that cannot be saved.
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
    TypeError
        If a method or a data set is of another kind.
    OSError
        If a result cannot be stored. Finished results stay, and the same call continues.

    Examples
    --------
    >>> from skhash.comparison import compare
    >>> results, description = compare(methods=["lsh"], nbits=[8], n_seeds=1, report=print)
    [1/1] lsh, 8 bits, seed 0 of digits: AP_T 0..., NDCG_T 0..., fitted in ... s
    >>> results[0]["ap_worst"] <= results[0]["ap"] <= results[0]["ap_best"]
    True

    A method of your own, on samples of your own:

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skhash import ITQHasher
    >>> mine = make_pipeline(StandardScaler(), ITQHasher())
    >>> results, description = compare(
    ...     load_digits(return_X_y=True),
    ...     methods={"mine": mine, "itq": "itq"},
    ...     nbits=[16],
    ...     n_seeds=1,
    ... )
    >>> [(result.dataset, result.method) for result in results]
    [('data', 'mine'), ('data', 'itq')]
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
class _DataSet:
    """A data set: its name or file, or what is in memory under a random name, by which processes cache it."""

    name: str
    given: Any = field(default=None, compare=False)

    @classmethod
    def of(cls, dataset: Any) -> "_DataSet":
        """Source of what a user gives; TypeError or ValueError if it is none."""
        if isinstance(dataset, str | os.PathLike):
            return cls(os.fspath(dataset))
        if isinstance(dataset, Bunch) and (missing := [name for name in _PARTS if name not in dataset]):
            raise ValueError(
                "`dataset` must be a split as load_dataset returns it, if it is a Bunch. Got one without "
                f"{', '.join(missing)}: pass the tuple (X, y)."
            )
        if not isinstance(dataset, Bunch) and not (isinstance(dataset, tuple) and len(dataset) == 2):
            raise TypeError(
                "`dataset` must be a name, a path, a tuple (X, y), a split as load_dataset returns it, or a list of "
                f"these. Got {'a tuple' if isinstance(dataset, tuple) else qualified_name(dataset)} instead."
            )
        return cls(uuid4().hex, dataset)


@dataclass(frozen=True)
class _Own:
    """A method of the user: an estimator, how it is shown, the name of its class, and a hash of code and parameters."""

    estimator: Any
    text: str
    kind: str
    digest: str

    @classmethod
    def of(cls, given: Any, task: str) -> "_Own":
        """Method of an estimator or of the name of a class; TypeError or ValueError if it does not suit the task."""
        estimator = make_hasher(given, 8, 0, "auto")
        is_suitable = isinstance(estimator, BaseHasher) and not get_tags(estimator).target_tags.required
        if task == "neighbors" and not is_suitable:
            raise ValueError(
                "A method of your own must derive from skhash.base.BaseHasher and need no labels for the task "
                f"'neighbors'. Got {qualified_name(estimator)} instead."
            )
        text = given if isinstance(given, str) else " ".join(repr(given).split())
        return cls(estimator, text, qualified_name(find_hasher(estimator)), source_of(estimator))


@dataclass(frozen=True)
class _Measurement:
    """A fit: its result without measured values, its data and method, and a hash of the split of seed 0."""

    blank: Result
    source: _DataSet
    own: _Own | None
    protocol: str | Protocol | None
    digest: str
    options: _Options

    @property
    def method(self) -> Any:
        """Name or estimator of the method."""
        return self.blank.method if self.own is None else self.own.estimator

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
        if self.own is not None:
            class_name, parameters = self.own.kind, {"digest": self.own.digest}
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
        can_be_saved = self.own is None or isinstance(find_hasher(self.own.estimator), BaseHasher)
        return self.options.keep_models and self.blank.method not in BASELINES and can_be_saved

    @property
    def model(self) -> Path | None:
        """File of the fitted hasher; None without a folder."""
        return self.options.store.path("models", self.settings, "safetensors")


def _check_own_results(folder: str | os.PathLike[str]) -> None:
    """Raise ValueError if `fresh` would discard what no comparison has computed, such as rows of another program."""
    try:
        listed = read_list(folder)
    except (OSError, InvalidFileError):  # there is nothing to lose
        return
    if unknown := [result for result in listed if result.method not in VARIANTS and result.method not in FOR_NEIGHBORS]:
        stored = read_records(folder)
        if lost := dict.fromkeys(result.method for result in unknown if key_of(result) not in stored):
            raise ValueError(
                f"{folder} must have results of comparisons only. Got {', '.join(lost)}, which would be lost. Choose "
                "another folder."
            )


def _other_results(folder: str | os.PathLike[str], tasks: Sequence[_Measurement]) -> list[Result]:
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
    methods: Iterable[str] | Mapping[str, Any] | None,
    nbits: Iterable[int],
    n_seeds: int,
    options: _Options,
) -> list[_Measurement]:
    """Tasks by data set, seed, number of bits and method, after checks of all arguments and data sets."""
    is_one = isinstance(datasets, str | Bunch) or not isinstance(datasets, Iterable) or hasattr(datasets, "shape")
    listed = [datasets] if is_one or _is_pair(datasets) else list(datasets)
    check_names([name for name in listed if isinstance(name, str | os.PathLike)])
    sources = list(dict.fromkeys(map(_DataSet.of, listed)))
    if not sources:
        raise ValueError("`dataset` must name at least one data set. Got none.")
    task, protocol = _check_task(task, protocol, [source.given for source in sources])
    names, own = _check_methods(COMPARED[task] if methods is None else methods, task)
    if not names:
        raise ValueError(f"`methods` must name at least one method for the task {task!r}. Got none.")
    if not isinstance(nbits, Iterable):
        raise TypeError(f"`nbits` must be a list of ints. Got {nbits!r} instead. Pass [{nbits!r}].")
    nbits = list(dict.fromkeys(nbits))
    if not nbits or not all(is_count(number, MAX_NBITS) for number in nbits):
        raise ValueError(f"`nbits` must hold ints from 1 to {MAX_NBITS}. Got {nbits} instead.")
    nbits = list(map(int, nbits))
    n_seeds = as_count(n_seeds, "n_seeds")
    _check_options(task, options)
    _warn_of_models(own, options)
    found = [(source, *_identify(source, protocol, options.scale)) for source in sources]
    if len({about["dataset"] for _, about, _ in found}) < len(found):
        raise ValueError(
            "`dataset` must have data sets with different names. Got "
            f"{', '.join(about['dataset'] for _, about, _ in found)} instead: skhash.datasets.split(X, y, name=...) "
            "names samples in memory."
        )
    metrics = [*REAL_METRICS, *CODE_METRICS] if task == "neighbors" else list(options.metrics or METRICS)
    return [
        _Measurement(
            Result(
                **about,
                method=method,
                nbits=bits,
                seed=seed,
                metrics=dict.fromkeys(metrics),
                parameters={"estimator": own[method].text} if method in own else dict(variant_of(method).parameters),
            ),
            source,
            own.get(method),
            protocol,
            digest,
            options,
        )
        for source, about, digest in found
        for seed in range(n_seeds)
        for bits in nbits
        for method in names
    ]


def _is_pair(value: Any) -> bool:
    """Whether a value is a pair (X, y), and no tuple of data sets."""
    return isinstance(value, tuple) and not all(isinstance(part, str | os.PathLike | tuple | Bunch) for part in value)


def _check_methods(methods: Any, task: str) -> tuple[list[str], dict[str, _Own]]:
    """Names of methods, and those of them that are methods of the user."""
    if not isinstance(methods, Mapping):
        methods = {name: name for name in expand_methods(methods, task)}
    names, own = [], {}
    for name, given in methods.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"`methods` must have names as keys. Got {name!r} instead.")
        if name not in (*VARIANTS, *FOR_NEIGHBORS, *GROUPS):
            names.append(name)
            own[name] = _Own.of(given, task)
        elif isinstance(given, str) and given == name:
            names += expand_methods([name], task)
        else:
            raise ValueError(f"`methods` must have another name for a method of your own than {name!r} of skhash.")
    return list(dict.fromkeys(names)), own


def _warn_of_models(own: Mapping[str, _Own], options: _Options) -> None:
    """Warn of the methods of the user that cannot be saved."""
    others = [name for name, method in own.items() if not isinstance(find_hasher(method.estimator), BaseHasher)]
    if options.keep_models and others:
        warnings.warn(
            f"`keep_models` keeps no model of {', '.join(others)}, since only hashers that derive from "
            "skhash.base.BaseHasher can be saved: use joblib.",
            UserWarning,
            stacklevel=4,
        )


def _check_task(
    task: str | None, protocol: str | Protocol | None, given: Iterable[Any]
) -> tuple[str, str | Protocol | None]:
    """Task and protocol; one that is None follows from the other, or from the splits that are given."""
    if task not in (None, *_TASKS):
        raise ValueError(f"`task` must be None or one of {', '.join(_TASKS)}. Got {task!r} instead.")
    if splits := [data for data in given if isinstance(data, Bunch)]:
        if protocol is not None:
            raise ValueError(f"`protocol` must be None for a Bunch, which is split already. Got {str(protocol)!r}.")
        tasks = {_task_of(data.affinity) for data in splits} | ({task} if task else set())
        if len(tasks) > 1:
            raise ValueError("`task` must be None or that of each Bunch, by its affinity. Got both tasks.")
        task = tasks.pop()
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


def _identify(source: _DataSet, protocol: str | Protocol | None, scale: bool) -> tuple[dict[str, Any], str]:
    """What results say about a data set, and the hash of the split of seed 0; ValueError if it has a single class."""
    import joblib

    data = _load(source, protocol, 0, scale)
    name = source.name if source.given is None else None
    if isinstance(data.affinity, ClassAffinity) and len(np.unique(data.y_database)) == 1:
        raise ValueError(f"`dataset` must have at least two classes. Got a single class in {name or data.name!r}.")
    parts = [data.X_query, data.y_query, data.X_database, data.y_database, data.train_index]
    if len(data.train_index) < len(data.X_train):  # they are of other classes, and not in the database
        parts += [data.X_train, data.y_train]
    names = {"task": _task_of(data.affinity), "source": name, "dataset": data.name, "protocol": str(data.protocol)}
    return names | {"description": data.DESCR}, joblib.hash(parts)


def _task_of(affinity: Any) -> str:
    """Task of a protocol with this affinity."""
    known = [NeighborAffinity(N_NEIGHBORS, metric=metric) for metric in get_args(SearchMetric)]
    return "neighbors" if affinity in known else "relevance"


@lru_cache(maxsize=1)
def _load(source: _DataSet, protocol: str | Protocol | None, seed: int, scale: bool) -> Any:
    """Split of a data set, for the task "neighbors" with its vectors; each process caches the last one."""
    if source.given is None:
        data = load_dataset(source.name, protocol=protocol, random_state=seed)
    elif isinstance(source.given, Bunch):
        data = Bunch(**source.given)
    else:
        X, y = source.given
        data = split(X, y, protocol or ("labelme" if y is None else "holdout"), seed)
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
    tasks: Sequence[_Measurement], n_jobs: int, show: Callable[[Step], object]
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


def _stored_result(task: _Measurement) -> Result | None:
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


def _run_numbered(position: int, task: _Measurement) -> tuple[int, Result]:
    return position, _run_task(task)


@cache
def _warm_up() -> None:
    """Evaluate a tiny hasher, so that imports and compilation are not part of a measured time."""
    data = split(np.eye(40), np.arange(40) % 2)
    evaluate_hasher(make_hasher("lsh", 8, 0, data.affinity), data, details=True)


def _run_task(task: _Measurement, watcher: Any = None) -> Result:
    """Result of a task, which is stored. An error is kept in the result, and does not stop other tasks."""
    _warm_up()
    if (kind := HASHERS.get(variant_of(task.blank.method).method.class_name)) is not None:
        import_class(kind)  # and torch for deep ones
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


def _measure(task: _Measurement, watcher: Any) -> Result:
    """Result of a task, with the reason if the method does not apply."""
    blank, options = task.blank, task.options
    with warnings.catch_warnings():  # `_identify` has shown those of the file
        warnings.simplefilter("ignore")
        data = _load(task.source, task.protocol, blank.seed, options.scale)
    reason = _why_not(blank.method, blank.nbits, data)
    if reason is not None:
        return replace(blank, not_applicable=reason)
    if _needs_images(blank.method):
        data = _as_images(data)
    if blank.task == "neighbors":
        values, hasher = evaluate_method(task.method, blank.nbits, blank.seed, data.vectors, watcher)
        values["parameters"] = {**blank.parameters, **values["parameters"]}
    else:
        values, chosen = {}, {}
        if task.space:
            candidates = _tune(task, data, watcher)
            chosen = dict(best_candidate(candidates).parameters)
            values = {"parameters": {**blank.parameters, **chosen}, "n_candidates": len(candidates)}
            values["tuning_seconds"] = sum(candidate.seconds for candidate in candidates)
        hasher = _make_watched(task, data, watcher, **chosen)
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
    if variant_of(method).method.needs_labels:
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


def _tune(task: _Measurement, data: Any, watcher: Any) -> list[Candidate]:
    """Candidates for the parameters, those of an earlier run included."""
    options, settings = task.options, task.settings | {"tuning": task.options.tune_metric}  # the budget decides none
    return tune(
        partial(_make_watched, task, data, watcher),
        task.space,
        data,
        options.tune or 0,
        seed=task.blank.seed,
        metric=options.tune_metric,
        known=[] if options.fresh else options.store.read_candidates(settings),
        save=partial(options.store.write_candidates, settings),
    )


def _make_watched(task: _Measurement, data: Any, watcher: Any, **parameters: Any) -> Any:
    hasher = make_hasher(task.method, task.blank.nbits, task.blank.seed, data.affinity, **parameters)
    is_watched = watcher is not None and isinstance(hasher, BaseHasher)  # a Pipeline would report its steps
    return watcher.watch(hasher) if is_watched else hasher


def _keep_model(task: _Measurement, data: Any, hasher: Any) -> str | None:
    """Save the fitted hasher if asked, and return its path in the folder, with slashes."""
    path = task.model
    if path is None:
        return None
    path.unlink(missing_ok=True)  # that of an earlier fit
    if not task.keeps_model:
        return None
    from sklearn.pipeline import make_pipeline

    from skhash.persistence import save  # imports safetensors

    path.parent.mkdir(exist_ok=True)
    try:
        save(make_pipeline(data.scaler, hasher) if task.options.scale else hasher, path)
    except (TypeError, ValueError) as error:
        if task.own is None:
            raise
        warnings.warn(f"The model is not kept. {error}", UserWarning, stacklevel=2)
        return None
    return f"models/{path.name}"
