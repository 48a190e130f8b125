"""The default values of parameters that are None are those of the table in each docstring."""

import ast
import inspect
import itertools
import math
import re

import numpy as np
import pytest
import torch
from _helpers import Stop
from numpy.testing import assert_array_equal

import skhash
from skhash import TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.hashers.deep import DeepHasher

HASHERS = [name for name in skhash.hashers.__all__ if issubclass(getattr(skhash, name), DeepHasher)]


def table(name):
    """The rows of the table in a docstring, by their first cells: the values by the heads of their columns."""
    lines = iter(inspect.getdoc(getattr(skhash, name)).splitlines())
    heads = next(re.split(r"\s{2,}", line) for line in lines if line.startswith("hasher "))
    rows = [re.split(r"\s{2,}", line) for line in itertools.takewhile(lambda line: line[:3] != "===", list(lines)[1:])]
    return {kind: dict(zip(heads[1:], map(value_of, cells), strict=True)) for kind, *cells in rows}


def value_of(cell):
    try:
        return ast.literal_eval(cell)
    except ValueError:
        return cell


RECIPES = [(name, kind) for name in HASHERS for kind in table(name)]


def is_deep(kind):
    return kind in ("any backbone", "any other backbone") or kind.startswith("deep")


def network(n_features):
    return torch.nn.Sequential(torch.nn.Linear(n_features, 8), torch.nn.ReLU())


def settings(name, kind, n=40, n_features=20, **params):
    """The settings of a hasher of this kind after the first epoch of a fit."""
    X, y = np.random.default_rng(0).normal(size=(n, n_features)), np.arange(n) % 4
    params["backbone"] = "mlp" if is_deep(kind) else network(n_features) if kind == "a module" else None
    if kind in ("ap", "ndcg", "fast_ap"):
        params["objective"] = kind
    if kind == "distances":
        y, params["affinity"] = None, DistanceAffinity((20,), (1,))
    hasher = getattr(skhash, name)(8, random_state=0, **params).set_callbacks(Stop())
    return hasher.fit(X, y).settings_


@pytest.mark.parametrize(("name", "kind"), RECIPES)
def test_parameters_that_are_none_take_their_defaults(name, kind):
    Hasher = getattr(skhash, name)
    expected = table(name)[kind]
    rate = expected.pop("learning_rate (sgd)")
    n_epochs = math.ceil(expected.pop("n_steps") / math.ceil(40 / expected["batch_size"]))
    fewest, most = map(int, re.search(r"between (\d+) and (\d+) epochs", Hasher.__doc__).groups())
    expected["n_epochs"] = min(max(n_epochs, fewest), most)
    if kind != "a module":  # which has no dropout of ours
        noise = min(4 * 20 / 40, 1) if is_deep(kind) else min(3 * 20 / 40, 0.6)
        default = inspect.signature(Hasher).parameters["input_dropout"].default
        expected["input_dropout"] = pytest.approx(noise / (1 + noise)) if default is None else default
    if is_deep(kind):
        expected["hidden_dropout"] = float(re.search(r"hidden units of .*None uses\s+([\d.]+)\.", Hasher.__doc__)[1])
    elif kind != "a module":
        expected["smoothing"] = 0.0
    expected["backbone_lr_scale"] = 1.0
    if name == "NSHHasher":
        expected["own_view"] = "sorted"  # unless the user gives an augmentation
    if name == "CIBHashHasher":
        expected |= {"temperature": 0.7, "kl_weight": 0.1}  # of vectors
    assert settings(name, kind) == expected
    sgd = {"learning_rate": rate, "weight_decay": 5e-4}
    assert settings(name, kind, optimizer="sgd") == expected | sgd


@pytest.mark.parametrize(("n", "n_epochs"), [(20, 125), (4 * 40, 63), (4 * 100, 30)])
def test_steps_make_a_bounded_number_of_epochs(n, n_epochs):
    assert settings("TALRHasher", "ap", n, 2, batch_size=4)["n_epochs"] == n_epochs


@pytest.mark.parametrize(("n_features", "ratio"), [(2, 0.4), (5, 1), (20, 1), (40, 2), (80, 3)])
def test_noise_grows_with_the_features_per_sample(n_features, ratio):
    p = settings("TALRHasher", "any backbone", 20, n_features)["input_dropout"]
    assert p / (1 - p) == pytest.approx(ratio)


def test_noise_of_linear_hashers_is_bounded():
    assert settings("TALRHasher", "ap", 20, 60)["input_dropout"] == pytest.approx(0.375)  # p / (1 - p) = 0.6


def test_given_values_are_used():
    given = {"n_epochs": 2, "batch_size": 33, "learning_rate": 0.5, "weight_decay": 0.0, "input_dropout": 0.25}
    given |= {"smoothing": 0.5, "backbone_lr_scale": 0.5}
    assert settings("TALRHasher", "ap", **given, alpha=3) == given | {"alpha": 3, "init": "rotation"}


@pytest.mark.parametrize(
    ("name", "backbone"),
    [("hidden_dropout", None), ("input_dropout", "conv"), ("input_dropout", "module"), ("hidden_dropout", "module")],
)
def test_a_dropout_that_the_network_does_not_use_is_refused(digits, name, backbone):
    X = digits.X.reshape(-1, 1, 8, 8) if backbone == "conv" else digits.X
    backbone = network(digits.X.shape[1]) if backbone == "module" else backbone
    hasher = TALRHasher(8, backbone=backbone, n_epochs=1, random_state=0, **{name: 0.2})
    with pytest.raises(ValueError, match=rf"`{name}` must be None or 0 with .*, which does not use it\. Got 0\.2"):
        hasher.fit(X, digits.y)
    assert name not in hasher.set_params(**{name: 0.0}).fit(X, digits.y).settings_


@pytest.mark.parametrize(
    ("name", "backbone"), [("input_dropout", None), ("input_dropout", "mlp"), ("hidden_dropout", "mlp")]
)
def test_dropout_of_a_hasher_reaches_its_encoder(digits, name, backbone):
    plain = {"input_dropout": 0.0, "hidden_dropout": 0.0, "backbone": backbone, "n_epochs": 1, "random_state": 0}
    fits = [TALRHasher(8, **plain | {name: p}).fit(digits.X, digits.y) for p in (0.0, 0.5)]
    assert (fits[0].weights_["hash.weight"] != fits[1].weights_["hash.weight"]).any()
    for hasher in fits:
        assert_array_equal(hasher.project(digits.X), hasher.project(digits.X))
