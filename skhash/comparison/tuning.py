"""Tuning on training samples alone, with the same number of candidates for every method.

The training samples of a split are divided again: four fifths to learn from, and one fifth
that acts as queries. The queries of the split itself are never used. The first candidate is
the default. Every seed is tuned again, since training samples of one split are queries of another.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.affinity import Relevance
from skhash.affinity.targets import as_targets
from skhash.metrics import RetrievalScorer
from skhash.registry import LogUniform, Space
from skhash.unwrap import named_warnings

_HELD_OUT = 0.2  # share of the training samples that act as queries


@dataclass(frozen=True)
class Candidate:
    """Parameters of a hasher, and their score.

    Parameters
    ----------
    parameters : dict
        Parameters that differ from the default.
    score : float, default=None
        Metric on the held-out samples; None if the fit failed.
    error : str, default=None
        Why it failed.
    seconds : float, default=0.0
        Time of fit and evaluation.
    centers : dict, default={}
        For the default only: its value of each parameter that a :class:`~skhash.registry.LogUniform` searches around.
    """

    parameters: Mapping[str, Any]
    score: float | None = None
    error: str | None = None
    seconds: float = 0.0
    centers: Mapping[str, float] = field(default_factory=dict)


def tune(
    make: Callable[..., Any],
    space: Space,
    data: Any,
    budget: int,
    *,
    seed: int = 0,
    metric: str = "ap",
    known: Iterable[Candidate] = (),
    save: Callable[[list[Candidate]], None] | None = None,
) -> list[Candidate]:
    """Candidates for the parameters of a hasher, scored on held-out training samples.

    Parameters
    ----------
    make : callable
        ``make(**parameters)`` returns a hasher.
    space : dict
        Parameter to a list of values, or to a :class:`skhash.registry.LogUniform`.
    data : Bunch
        Result of :func:`skhash.datasets.load_dataset`. Only its training samples are used.
    budget : int
        Number of candidates including the default. A small space may hold fewer.
    seed : int, default=0
        Decides the division of the training samples and the candidates.
    metric : str, default="ap"
        The score, a name as in :meth:`skhash.metrics.Metric.parse`.
    known : iterable of Candidate, default=()
        Candidates of an earlier call. Only those that failed are evaluated again.
    save : callable, default=None
        Called after each new candidate with all so far, including the known ones that did not fail.

    Returns
    -------
    list of Candidate
        The default first.

    Raises
    ------
    Exception
        The error of the default. Errors of other candidates are stored in them.

    Examples
    --------
    >>> from functools import partial
    >>> from skhash import KSHHasher
    >>> from skhash.comparison.tuning import best_candidate, tune
    >>> from skhash.datasets import load_dataset
    >>> make = partial(KSHHasher, 8, max_samples=100, random_state=0)
    >>> candidates = tune(make, {"n_anchors": [10, 50]}, load_dataset("digits"), 2)
    >>> [sorted(candidate.parameters) for candidate in candidates]
    [[], ['n_anchors']]
    >>> best_candidate(candidates).score >= candidates[0].score
    True
    """
    relevance = Relevance.between(data.y_train, data.y_train, data.affinity)
    division = divide_samples(len(data.X_train), relevance.classes, _HELD_OUT, seed)
    found = {json.dumps(dict(candidate.parameters)): candidate for candidate in known if candidate.error is None}
    candidates: list[Candidate] = []
    for draw in ({}, *_draw_parameters(space, budget - 1, seed)):
        centers = candidates[0].centers if candidates else {}
        parameters = {name: _scale(centers[name], value) if name in centers else value for name, value in draw.items()}
        key = json.dumps(parameters)
        if key not in found:
            found[key] = _evaluate(make, parameters, space, data, division, metric, len(candidates) + 1)
            if save is not None:
                save(list(found.values()))
        candidates.append(found[key])
    return candidates


def best_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Candidate with the highest score, the first of equal ones.

    Parameters
    ----------
    candidates : sequence of Candidate
        Result of :func:`tune`.

    Returns
    -------
    Candidate
        The best one.
    """
    return max(candidates, key=lambda candidate: -math.inf if candidate.score is None else candidate.score)


_Division = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def divide_samples(n: int, classes: npt.NDArray[Any] | None, share: float, seed: int) -> _Division:
    """Indices of samples to learn from and of a share of queries, stratified by the indices of classes if possible."""
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

    splitter = ShuffleSplit(1, test_size=share, random_state=seed)
    if classes is not None:
        sizes = np.bincount(classes)
        if sizes.min() > 1 and len(sizes) <= share * n:
            splitter = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
    learned, held_out = next(splitter.split(np.zeros(n), classes))
    return learned, held_out


def _scale(value: Any, factor: float) -> Any:
    """Product of a parameter and a factor, to three digits; for an int, an int of at least 1."""
    if isinstance(value, int):
        return max(1, round(value * factor))
    return float(f"{value * factor:.3g}")


def _draw_parameters(space: Space, n: int, seed: int) -> list[dict[str, Any]]:
    """Random values of the parameters; for a `LogUniform`, factors of its center."""
    from scipy.stats import loguniform
    from sklearn.model_selection import ParameterSampler

    lists: dict[str, Any] = {
        name: loguniform(1 / values.factor, values.factor) if isinstance(values, LogUniform) else list(values)
        for name, values in space.items()
    }
    if all(isinstance(values, list) for values in lists.values()):
        n = min(n, math.prod(map(len, lists.values())))  # a grid holds no more
    return list(ParameterSampler(lists, n, random_state=seed)) if space and n else []


def _evaluate(
    make: Callable[..., Any],
    parameters: dict[str, Any],
    space: Space,
    data: Any,
    division: _Division,
    metric: str,
    number: int,
) -> Candidate:
    """Candidate with its score on the held-out samples, or its error; that of the default is raised."""
    start = time.perf_counter()
    X, y = data.X_train, as_targets(data.y_train)
    learned, held_out = division
    try:
        hasher = make(store_database=True, **parameters)
        with named_warnings(hasher, f", candidate {number}"):
            hasher.fit(X[learned], y[learned])
            score = RetrievalScorer(metric, affinity=data.affinity)(hasher, X[held_out], y[held_out])
        if not math.isfinite(score):
            raise ValueError("No held-out training sample has a relevant training sample.")
        centers = {} if parameters else _centers(hasher, space)
    except Exception as error:
        if not parameters:
            raise
        return Candidate(parameters, None, f"{type(error).__name__}: {error}", time.perf_counter() - start)
    return Candidate(parameters, score, None, time.perf_counter() - start, centers)


def _centers(hasher: Any, space: Space) -> dict[str, Any]:
    """Center of each parameter that is searched around its default."""
    return {
        name: _fitted_value(hasher, name) if values.center is None else values.center
        for name, values in space.items()
        if isinstance(values, LogUniform)
    }


def _fitted_value(hasher: Any, name: str) -> Any:
    """Value that a fitted hasher uses for a parameter, given or chosen by fit."""
    settings, function = getattr(hasher, "settings_", {}), getattr(hasher, "function_", None)
    values = [
        getattr(hasher, name),
        getattr(hasher, f"{name}_", None),
        settings.get(name),
        getattr(function, name, None),
    ]
    value = next((value for value in values if value is not None), None)
    if value is None:
        raise LookupError(f"{type(hasher).__name__} does not store its value of {name}.")
    return getattr(value, "item", lambda: value)()
