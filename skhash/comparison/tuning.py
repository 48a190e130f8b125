"""Tuning on training rows alone, with the same number of candidates for every method.

The training rows of a split are divided once more, four fifths to learn from and one fifth to
act as queries against them; the queries of the split itself are never looked at. The first
candidate is the default, so that tuning cannot throw it away unseen. Every seed is tuned
anew: the training rows of one split are queries of another.
"""

import json
import math
import time

import numpy as np

from skhash._targets import take_targets
from skhash.affinity import ClassAffinity
from skhash.metrics import RetrievalScorer
from skhash.registry import Around

HELD_OUT = 0.2  # share of the training rows that act as queries


def tune(make, space, data, budget, *, seed=0, figure="ap", known=(), keep=None):
    """Evaluate candidates for the parameters of a hasher by ranking held-out training rows.

    Parameters
    ----------
    make : callable
        ``make(**parameters)`` builds a hasher.
    space : dict
        Parameter to a list of candidates, or to a :class:`skhash.registry.Around`.
    data : Bunch
        As :func:`skhash.datasets.load_dataset` returns it; only its training rows are used.
    budget : int
        Number of candidates, the default among them; a small space may hold fewer.
    seed : int, default=0
        Decides the division of the training rows and the candidates.
    figure : str, default="ap"
        What is compared, a name as in :meth:`skhash.metrics.Metric.parse`.
    known : sequence of dict, default=()
        Candidates of an earlier call, which are not evaluated again.
    keep : callable, default=None
        Called with all candidates so far, the known ones included, after each new one.

    Returns
    -------
    list of dict
        One a candidate: "parameters", "score" (None where it failed), "error" and "seconds";
        the first one also "centres", what the default took where the space has a `Around`.

    Raises
    ------
    Exception
        What the default fails with; of another candidate it is noted as its error.

    Examples
    --------
    >>> from functools import partial
    >>> from skhash import KSHHasher
    >>> from skhash.comparison.tuning import best_candidate, tune
    >>> from skhash.datasets import load_dataset
    >>> make = partial(KSHHasher, 8, n_labeled=100, random_state=0)
    >>> candidates = tune(make, {"n_anchors": [10, 50]}, load_dataset("digits"), 2)
    >>> [sorted(candidate["parameters"]) for candidate in candidates]
    [[], ['n_anchors']]
    >>> best_candidate(candidates)["score"] >= candidates[0]["score"]
    True
    """
    division = split_training_samples(data, seed)
    found = {json.dumps(candidate["parameters"]): candidate for candidate in known}
    candidates: list = []
    for draw in ({}, *_draws(space, budget - 1, seed)):
        centres = candidates[0]["centres"] if candidates else {}
        parameters = {name: scaled(centres[name], value) if name in centres else value for name, value in draw.items()}
        key = json.dumps(parameters)
        if key not in found:
            found[key] = _evaluate(make, parameters, space, data, division, figure)
            if keep is not None:
                keep(list(found.values()))
        candidates.append(found[key])
    return candidates


def best_candidate(candidates):
    """Find the candidate of the highest score, the earliest of equal ones.

    Parameters
    ----------
    candidates : list of dict
        As :func:`tune` returns them.

    Returns
    -------
    dict
        The best one.
    """
    return max(candidates, key=lambda candidate: -math.inf if candidate["score"] is None else candidate["score"])


def split_training_samples(data, seed):
    """Divide the training rows of a split, evenly over the classes where there are any.

    Parameters
    ----------
    data : Bunch
        As :func:`skhash.datasets.load_dataset` returns it.
    seed : int
        Decides the division.

    Returns
    -------
    learned : ndarray of int
        Positions of the rows to learn from.
    held : ndarray of int
        Positions of the rows that act as queries.
    """
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

    n = len(data.X_train)
    groups: np.ndarray = np.zeros(n)
    splitter = ShuffleSplit(1, test_size=HELD_OUT, random_state=seed)
    if isinstance(data.affinity, ClassAffinity):
        _, groups, sizes = np.unique(np.ravel(data.y_train), return_inverse=True, return_counts=True)
        if sizes.min() > 1 and len(sizes) <= HELD_OUT * n:
            splitter = StratifiedShuffleSplit(1, test_size=HELD_OUT, random_state=seed)
    return next(splitter.split(np.zeros(n), groups))


def scaled(value, factor):
    """Multiply a parameter by a factor, to three digits; a whole number stays one, and at least 1.

    Parameters
    ----------
    value : int or float
        The parameter.
    factor : float
        The factor.

    Returns
    -------
    int or float
        The product.

    Examples
    --------
    >>> from skhash.comparison.tuning import scaled
    >>> scaled(300, 0.5), scaled(0.1, 1.23456)
    (150, 0.123)
    """
    if isinstance(value, int):
        return max(1, round(value * factor))
    return float(f"{value * factor:.3g}")


def _draws(space, n, seed):
    """Draw values of the parameters; factors of what the default takes where the space has a `Around`."""
    from scipy.stats import loguniform
    from sklearn.model_selection import ParameterSampler

    lists = {
        name: loguniform(1 / values.factor, values.factor) if isinstance(values, Around) else list(values)
        for name, values in space.items()
    }
    if all(isinstance(values, list) for values in lists.values()):
        n = min(n, math.prod(map(len, lists.values())))  # more are not to be had from a grid
    return list(ParameterSampler(lists, n, random_state=seed)) if space and n else []


def _evaluate(make, parameters, space, data, division, figure):
    """Fit a candidate and rank the held-out rows; the default (no parameters) is not allowed to fail."""
    start = time.perf_counter()
    candidate: dict = {"parameters": parameters, "score": None, "error": None}
    X, y = data.X_train, data.y_train
    learned, held = division
    try:
        hasher = make(store_database=True, **parameters).fit(X[learned], take_targets(y, learned))
        score = RetrievalScorer(figure, affinity=data.affinity)(hasher, X[held], take_targets(y, held))
        if not math.isfinite(score):
            raise ValueError("no held-out training row has a relevant one to find")
        candidate["score"] = score
        if not parameters:
            times = {name: values.center for name, values in space.items() if isinstance(values, Around)}
            candidate["centres"] = {
                name: settled_value(hasher, name) if centre is None else centre for name, centre in times.items()
            }
    except Exception as error:
        if not parameters:
            raise
        candidate["error"] = f"{type(error).__name__}: {error}"
    return candidate | {"seconds": time.perf_counter() - start}


def settled_value(hasher, name):
    """Look up what a fitted hasher took for a parameter, be it given or left None.

    Parameters
    ----------
    hasher : BaseHasher
        Fitted.
    name : str
        A parameter.

    Returns
    -------
    int or float
        Its value.

    Raises
    ------
    LookupError
        If the hasher does not tell.

    Examples
    --------
    >>> from skhash import KSHHasher
    >>> from skhash.comparison.tuning import settled_value
    >>> hasher = KSHHasher(nbits=4).fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
    >>> settled_value(hasher, "gamma") == hasher.gamma_, settled_value(hasher, "n_anchors")
    (True, 300)
    """
    places = [getattr(hasher, place, {}) for place in ("settings_", "functions_")]
    values = [getattr(hasher, name), getattr(hasher, f"{name}_", None), *(place.get(name) for place in places)]
    value = next((value for value in values if value is not None), None)
    if value is None:
        raise LookupError(f"{type(hasher).__name__} does not tell which {name} it took.")
    return getattr(value, "item", lambda: value)()
