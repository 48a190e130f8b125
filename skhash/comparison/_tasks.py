"""One task of a comparison: tune if asked, fit, and rank one method on one split."""

import math
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from typing import Any, get_args

import numpy as np

from skhash import hashers
from skhash._estimators import named_warnings
from skhash.affinity import ClassAffinity, NeighborAffinity, label_matrix
from skhash.base import BaseHasher
from skhash.comparison._baselines import faiss_version, why_not
from skhash.comparison._neighbors import N_NEIGHBORS, SearchMetric, Vectors, evaluate_method, with_truth
from skhash.comparison._settings import Settings, Tuning, versions
from skhash.comparison.evaluation import evaluate_hasher
from skhash.comparison.methods import make_hasher, variant_of
from skhash.comparison.results import Result
from skhash.comparison.store import Record, Store
from skhash.comparison.tuning import best_candidate, tune
from skhash.datasets import Protocol, load_dataset, split
from skhash.registry import BASELINES, FOR_NEIGHBORS, VARIANTS


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
    tuning: Tuning | None = None
    keep_models: bool = False
    command: str | None = None

    @property
    def keeps_model(self) -> bool:
        """Whether there is a hasher to save."""
        return self.keep_models and self.method not in BASELINES

    @property
    def n_fits(self) -> int:
        """Number of fits: of the candidates, and the last one."""
        return 1 if self.tuning is None or not variant_of(self.method).method.search_space else self.tuning.budget + 1

    @property
    def label(self) -> str:
        """What is fitted, short enough for a line of a terminal."""
        return f"{self.method}, {self.nbits} bits"

    @property
    def full_label(self) -> str:
        """What is fitted, and on which split."""
        return f"{self.label}, seed {self.seed} of {self.data.dataset}"

    @property
    def settings(self) -> Settings:
        """Everything that decides the metrics."""
        variant = variant_of(self.method)
        parameters = dict(variant.parameters)
        if variant.method.class_name.startswith("Faiss"):
            parameters["faiss"] = faiss_version()
        return Settings(
            dataset=self.data.dataset,
            protocol=self.data.protocol_name,
            description=self.data.description,
            data=self.data.digest,
            method=self.method,
            nbits=self.nbits,
            seed=self.seed,
            class_name=variant.method.class_name,
            method_parameters=parameters,
            tuning=self.tuning,
            versions=versions(),
        )


@lru_cache(maxsize=1)
def load(source: str, protocol: str | Protocol | None, seed: int) -> Any:
    """Split of a data set, of which each process caches the last one."""
    return load_dataset(source, protocol=protocol, random_state=seed)


@lru_cache(maxsize=1)
def load_vectors(source: str, protocol: str | Protocol | None, seed: int) -> Vectors:
    """Items and queries of a split with the nearest neighbors, of which each process caches the last ones."""
    data = load(source, protocol, seed)
    return with_truth(data.X_database, data.X_query, data.affinity.metric)


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
    task = task_of(data.affinity)
    return DataSource(source, protocol, data.name, str(data.protocol), data.DESCR, digest, task)


def task_of(affinity: Any) -> str:
    """What is compared under a protocol with this affinity."""
    known = [NeighborAffinity(N_NEIGHBORS, metric=metric) for metric in get_args(SearchMetric)]
    return "neighbors" if affinity in known else "relevance"


@cache
def _warm_up() -> None:
    """Evaluate a tiny hasher, so that imports and compilation are not part of a measured time."""
    data = split(np.eye(40), np.arange(40) % 2)
    evaluate_hasher(make_hasher("lsh", 8, 0, data.affinity), data, details=True)


def run_task(task: Task, store: Store, watcher: Any = None) -> Result:
    """Result of a task, which is stored; `watcher` is a callback of the fits.

    An error does not stop other methods: the result holds it as `error`, with None for the metrics.
    """
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
        parameters=dict(variant_of(task.method).parameters),
    )
    try:
        with named_warnings(task.full_label):
            result = _measure(task, store, result, watcher)
    except Exception as error:
        result = replace(result, error=f"{type(error).__name__}: {error}")
        failure = traceback.format_exc()
    result = replace(result, seconds=time.perf_counter() - start)
    store.write_record(Record(task.settings, result, datetime.now(UTC).isoformat(), task.command, failure))
    return result


def _measure(task: Task, store: Store, result: Result, watcher: Any) -> Result:
    """The result with what was measured, or with the reason why the method does not apply."""
    with warnings.catch_warnings():  # `identify` has shown those of the file
        warnings.simplefilter("ignore")
        data = load(task.data.source, task.data.protocol, task.seed)
    reason = _why_not(task, data)
    if reason is not None:
        return replace(result, not_applicable=reason)
    if task.data.task == "neighbors":
        return replace(result, **_evaluate_neighbors(task, store, watcher))
    chosen, result = _tune(task, data, store, result, watcher)
    return replace(result, **_evaluate(task, data, store, chosen, watcher))


def _why_not(task: Task, data: Any) -> str | None:
    """Reason why a method cannot be fitted on this data set; None if it can."""
    if task.method in FOR_NEIGHBORS:
        return why_not(task.method, task.nbits, data.X_database[0].size, len(data.X_database))
    return why_not_applicable(task.method, data)


def why_not_applicable(method: str, data: Any) -> str | None:
    """Reason why a method cannot learn from a data set; None if it can."""
    if VARIANTS[method].method.needs_labels:
        try:
            label_matrix(data.affinity, data.y_train[:1])
        except ValueError:
            return f"it learns from labels, and relevance is given by a {type(data.affinity).__name__}"
    return None


def _tune(task: Task, data: Any, store: Store, result: Result, watcher: Any) -> tuple[dict[str, Any], Result]:
    """Chosen parameters, and the result with these."""
    space = VARIANTS[task.method].method.search_space
    if task.tuning is None or not space:
        return {}, result
    settings = task.settings
    candidates = tune(
        partial(_make_watched, task, data, watcher),
        space,
        data,
        task.tuning.budget,
        seed=task.seed,
        metric=task.tuning.metric,
        known=store.read_candidates(settings),
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


def _evaluate_neighbors(task: Task, store: Store, watcher: Any) -> dict[str, Any]:
    vectors = load_vectors(task.data.source, task.data.protocol, task.seed)
    models: list[Any] = []
    values = evaluate_method(task.method, task.nbits, task.seed, vectors, watcher, models.append)
    return values | _keep(task, store, *models)


def _evaluate(task: Task, data: Any, store: Store, chosen: dict[str, Any], watcher: Any) -> dict[str, Any]:
    hasher = _make_watched(task, data, watcher, **chosen)
    values = evaluate_hasher(hasher, data, details=True)
    if math.isnan(values["ap"]):
        raise ValueError("No query has a relevant sample in the database.")
    return values | _keep(task, store, hasher)


def _keep(task: Task, store: Store, *models: Any) -> dict[str, Any]:
    """Save the fitted hasher if asked, and return the field of the result that names its file."""
    return {"model": store.write_model(task.settings, models[0])} if task.keeps_model else {}
