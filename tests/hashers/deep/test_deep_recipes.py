"""What stands for parameters that are left None: the values that the Notes of each deep hasher promise."""

import ast
import math
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import skhash
from skhash import TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.hashers.deep import DeepHasher

HASHERS = [name for name in skhash.hashers.__all__ if issubclass(getattr(skhash, name), DeepHasher)]
COLUMNS = {"steps": "n_steps", "rows": "batch_size", "step size": "learning_rate", "weight decay": "weight_decay"}
EPOCHS = dict.fromkeys(HASHERS, (30, 125)) | dict.fromkeys(("CIBHashHasher", "NSHHasher", "TBHHasher"), (10, 300))
CONTRASTED = {"n_steps": 5000, "weight_decay": 1e-4}
IN_PROSE = {
    "CIBHashHasher": CONTRASTED | {"batch_size": 64, "learning_rate": 0.003},
    "NSHHasher": CONTRASTED | {"batch_size": 50, "learning_rate": 0.001},
}
OWN_DROPOUT = {"CIBHashHasher": 0.0, "NSHHasher": 0.0, "TBHHasher": 0.0}
SGD_RATES = {  # linear, and with a backbone
    "CIBHashHasher": (0.3, 0.3),
    "DHNHasher": (1.0, 0.1),
    "DPSHHasher": (0.3, 0.01),
    "DTSHHasher": (0.1, 0.1),
    "GreedyHashHasher": (0.1, 0.1),
    "HashNetHasher": (1.0, 0.1),
    "MIHashHasher": (1.0, 1.0),
    "NSHHasher": (0.1, 0.03),
    "TALRHasher": (1.0, 1.0),
    "TBHHasher": (0.1, 0.1),
}


def value(word):
    try:
        return ast.literal_eval(word)
    except ValueError:
        return word


def recipes(name):
    """The table in the Notes of a hasher: for each kind of it the parameters and their values."""
    if name in IN_PROSE:
        return dict.fromkeys(("linear", "any backbone"), IN_PROSE[name])
    lines = [re.split(r"\s{2,}", line.strip()) for line in getattr(skhash, name).__doc__.splitlines()]
    start = next(i for i, line in enumerate(lines) if line[0] == "hasher")
    names = [COLUMNS.get(column, column) for column in lines[start][1:]]
    end = next(i for i in range(start + 2, len(lines)) if lines[i][0].startswith("="))
    return {line[0]: dict(zip(names, map(value, line[1:]), strict=True)) for line in lines[start + 2 : end]}


def options(kind):
    """Parameters of the hasher that a table calls so."""
    if kind == "linear, distances":
        return {"affinity": DistanceAffinity((20,), (1,))}
    objective = {"objective": ast.literal_eval(kind.split(", ")[1])} if ", " in kind else {}
    return objective | {"backbone": "mlp" if kind == "any backbone" else None}


class Stop:
    """A callback that stops after the first epoch."""

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        return True


def settled(name, kind, n=400, n_features=20, **more):
    X, y = np.random.default_rng(0).normal(size=(n, n_features)), np.arange(n) % 4
    hasher = getattr(skhash, name)(8, random_state=0, **options(kind), **more).set_callbacks(Stop())
    return hasher.fit(X, None if "affinity" in options(kind) else y).settings_


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in HASHERS for kind in recipes(name)])
def test_the_notes_say_what_stands_for_none(name, kind):
    expected = dict(recipes(name)[kind])
    n_epochs = math.ceil(expected.pop("n_steps") / math.ceil(400 / expected["batch_size"]))
    expected["n_epochs"] = min(max(n_epochs, EPOCHS[name][0]), EPOCHS[name][1])
    noise = 4 * 20 / 400
    expected["input_dropout"] = OWN_DROPOUT.get(name, pytest.approx(noise / (1 + noise)))
    expected["smoothing"] = 0.0
    assert settled(name, kind) == expected
    sgd = {"learning_rate": SGD_RATES[name][kind == "any backbone"], "weight_decay": 5e-4}
    assert settled(name, kind, optimizer="sgd") == expected | sgd


@pytest.mark.parametrize(("n", "n_epochs"), [(20, 125), (256 * 40, 63), (256 * 100, 30)])
def test_steps_make_a_bounded_number_of_epochs(n, n_epochs):
    assert settled("TALRHasher", 'linear, "ap"', n, 2)["n_epochs"] == n_epochs


def test_noise_is_bounded():
    assert settled("TALRHasher", 'linear, "ap"', 20, 60)["input_dropout"] == 0.75  # p / (1 - p) = 3


def test_what_is_given_stays():
    given = {"n_epochs": 2, "batch_size": 33, "learning_rate": 0.5, "weight_decay": 0.0, "input_dropout": 0.25}
    given["smoothing"] = 0.5
    assert settled("TALRHasher", 'linear, "ap"', **given, alpha=3) == given | {"alpha": 3, "init": "rotation"}


@pytest.mark.parametrize(
    ("name", "backbone"), [("input_dropout", None), ("input_dropout", "mlp"), ("hidden_dropout", "mlp")]
)
def test_dropout_of_a_hasher_reaches_its_encoder(digits, name, backbone):
    plain = {"input_dropout": 0.0, "hidden_dropout": 0.0, "backbone": backbone, "n_epochs": 1, "random_state": 0}
    fits = [TALRHasher(8, **plain | {name: p}).fit(digits.X, digits.y) for p in (0.0, 0.5)]
    assert (fits[0].weights_["hash.weight"] != fits[1].weights_["hash.weight"]).any()
    for hasher in fits:
        assert_array_equal(hasher.project(digits.X), hasher.project(digits.X))
