"""The command ``skhash fit``."""

import argparse
import ast
import json
import sys
import time
from functools import partial
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash._files import check_writable
from skhash._validation import with_nearest
from skhash.affinity import Relevance
from skhash.affinity.targets import as_targets
from skhash.base import BaseHasher
from skhash.cli._options import import_from_here
from skhash.cli._pictures import learn_from, open_pictures, readable, unread_samples
from skhash.cli._samples import TRAINED_ON, errors_of, open_samples
from skhash.comparison import make_hasher
from skhash.comparison.progress import FitWatcher
from skhash.comparison.tuning import divide_samples
from skhash.datasets.kinds import kind_of
from skhash.metrics import RetrievalScorer
from skhash.persistence import save_with_notes
from skhash.unwrap import first_step, hasher_input, named_warnings

_N_NEIGHBORS, _MAX_QUERIES = 10, 1000  # of the score without labels


def fit(options: argparse.Namespace) -> int:
    """Fit a hasher to the samples of a file, score it, and save it."""
    import_from_here([options.method])
    hasher = make_hasher(options.method, options.bits, options.seed, "auto")
    if not isinstance(hasher, BaseHasher):
        raise TypeError(
            "--method must be a class that derives from skhash.base.BaseHasher, so that it can be saved. Got "
            f"{options.method}, a {type(hasher).__name__}."
        )
    hasher.set_params(**_parameters(options, hasher))._validate_params()
    check_writable(options.out)
    labeled = hasher.__sklearn_tags__().target_tags.required or options.held_out > 0
    if options.fine_tune or kind_of(options.data).holds == "pictures":
        if options.scale:
            raise ValueError("--scale must not be used with pictures, whose features already have one scale.")
        needed = _prepare_training(hasher, options) if options.fine_tune else ()
        images, network = open_pictures(options.data, options, labeled=labeled, needed=needed)
        _check_labels(hasher, images.targets, options)
        if options.fine_tune:
            hasher.set_params(backbone=network)
            first, samples = None, unread_samples(readable(images, options))
        else:
            first, samples = learn_from(images, network, options)
    else:
        first, samples = None, open_samples(options.data, options)
        _check_labels(hasher, samples.targets(), options)
    name = f"{options.method}, {options.bits} bits"
    with errors_of(options.data):
        targets = samples.targets()
        y = None if targets is None else as_targets(targets)
        learned, held_out = np.arange(samples.n), np.arange(0)
        if options.held_out:
            classes = None if y is None else Relevance.of(y).classes
            learned, held_out = divide_samples(samples.n, classes, options.held_out, options.seed)
        X = samples.array()
        X_learned = X[learned] if options.held_out else X  # no copy, because X may be mapped
        y_learned, y_held_out = (None if y is None else y[part] for part in (learned, held_out))
        print(f"{name}: {len(learned):,} samples, {len(held_out):,} held out", file=sys.stderr)
        start = time.perf_counter()
        model = _fit(hasher, X_learned, y_learned, options.scale, name)
        seconds = time.perf_counter() - start
        if samples.features is not None:  # later tables are read by these names
            first_step(model).feature_names_in_ = np.array(samples.features, dtype=object)
        notes = {} if samples.keys is None else {TRAINED_ON: np.sort(samples.keys()[learned])}
        save_with_notes(model if first is None else make_pipeline(first, model), options.out, notes)
        print(f"{name}, fitted to {len(learned):,} samples in {seconds:.1f} s: {options.out}")
        if options.held_out and not (options.fine_tune and y is None):  # without labels, vectors tell what is near
            print(_score(model, X_learned, y_learned, X[held_out], y_held_out))
    return 0


def _check_labels(hasher: BaseHasher, targets: Any, options: argparse.Namespace) -> None:
    """Raise ValueError, before any work, if a method lacks the labels that it learns from."""
    if targets is None and hasher.__sklearn_tags__().target_tags.required:
        raise ValueError(
            f"--method {options.method} must have labels to learn from. Got none in {options.data}: write X and y into "
            "an .npz file, name a column of a table by --labels, or put pictures into a folder for each class."
        )


def _prepare_training(hasher: BaseHasher, options: argparse.Namespace) -> list[tuple[str, str]]:
    """Set the parameters of a hasher that trains a network with pictures; return the modules and packages it needs."""
    known = hasher.get_params(deep=False)
    if "backbone" not in known:
        raise ValueError(
            f"--fine-tune must be used with a deep method, such as talr, which trains a network. Got {options.method}."
        )
    if kind_of(options.data).holds != "pictures":
        raise ValueError(f"--fine-tune must be used with pictures. Got {options.data}.")
    from torch import cuda

    given = {text.partition("=")[0] for text in options.set}
    better = {"augment": "auto", "mixed_precision": cuda.is_available()}
    better = {name: value for name, value in better.items() if name in known and name not in given}
    hasher.set_params(**better)
    return [("kornia", "kornia")] if "augment" in better else []


def _parameters(options: argparse.Namespace, hasher: BaseHasher) -> dict[str, Any]:
    """Parameters of --set: literals of Python or JSON, or else text."""
    # nbits and random_state have options of their own
    known = sorted(hasher.get_params(deep=False).keys() - {"nbits", "random_state"})
    parameters = {}
    for text in options.set:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise ValueError(
                f"--set must be name=value with a parameter of {options.method}: {', '.join(known)}. "
                f"Got {with_nearest([name], known) if equals else repr(text)} instead."
            )
        parameters[name] = _value(value)
    return parameters


def _value(text: str) -> Any:
    """Value of a text: a literal of Python or JSON, or the text itself."""
    for parse in (ast.literal_eval, json.loads):
        try:
            return parse(text)
        except (ValueError, SyntaxError):  # it is not of this kind
            continue
    return text


def _fit(hasher: BaseHasher, X: Any, y: Any, scale: bool, name: str) -> BaseHasher | Pipeline:
    """Fitted hasher, or with `scale` a Pipeline that begins with a fitted scaler."""
    model = make_pipeline(StandardScaler().fit(X), hasher) if scale else hasher
    watcher = FitWatcher(partial(print, file=sys.stderr, flush=True), 0, name, interval=0.0)
    with named_warnings(name):  # not model.fit, where the callback also gets the steps of the Pipeline
        watcher.watch(hasher).fit(hasher_input(model, X), y)
    return model


def _score(model: Any, X: Any, y: Any, X_held_out: Any, y_held_out: Any) -> str:
    """A line with the score of held-out queries against the training samples."""
    affinity: Any = "auto"
    if y is None:
        k = min(_N_NEIGHBORS, len(X))
        X_held_out, head, metric = X_held_out[:_MAX_QUERIES], f"R@{k}", f"neighbor_recall_at_{k}"
        y, y_held_out = X, X_held_out
    else:
        head, metric, affinity = "AP_T", "ap", Relevance.of(y).affinity
    names = [metric, f"{metric}_worst", f"{metric}_best"]
    values = RetrievalScorer(names, (X, y), affinity=affinity)(model, X_held_out, y_held_out)
    score, worst, best = (values[name] for name in names)
    size = f"{len(X_held_out):,} held-out queries against the {len(X):,} training samples"
    return f"{head} {score:.3f}, tie range [{worst:.3f}, {best:.3f}]: {size}"
