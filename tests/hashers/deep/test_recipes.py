"""The default values of parameters that are None, and the table of them in each docstring."""

import inspect
import math

import numpy as np
import pytest
from _helpers import Stop
from numpy.testing import assert_array_equal

import skhash
from skhash import TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.hashers.deep import DeepHasher

HASHERS = [name for name in skhash.hashers.__all__ if issubclass(getattr(skhash, name), DeepHasher)]
RECIPES = [(name, kind) for name in HASHERS for kind in getattr(skhash, name)._recipes]


def settings(name, kind, n=40, n_features=20, **params):
    """The settings of a hasher of this kind after the first epoch of a fit."""
    X, y = np.random.default_rng(0).normal(size=(n, n_features)), np.arange(n) % 4
    params["backbone"] = "mlp" if kind.startswith("deep") else None
    if "relevance" in kind:
        params["affinity"] = "auto"
    if kind in ("ap", "ndcg", "fastap"):
        params["objective"] = kind
    if kind == "distances":
        y, params["affinity"] = None, DistanceAffinity((20,), (1,))
    hasher = getattr(skhash, name)(8, random_state=0, **params).set_callbacks(Stop())
    return hasher.fit(X, y).settings_


@pytest.mark.parametrize(("name", "kind"), RECIPES)
def test_parameters_that_are_none_take_their_defaults(name, kind):
    Hasher = getattr(skhash, name)
    expected = dict(zip(Hasher._settings, Hasher._recipes[kind], strict=True))
    n_epochs = math.ceil(expected.pop("n_steps") / math.ceil(40 / expected["batch_size"]))
    fewest, most = Hasher._n_epochs_range
    expected["n_epochs"] = min(max(n_epochs, fewest), most)
    noise = 4 * 20 / 40 if kind.startswith("deep") else min(3 * 20 / 40, 0.6)
    default = inspect.signature(Hasher).parameters["input_dropout"].default
    default = 0.0 if name == "EmbeddingHasher" and "relevance" not in kind else default
    expected["input_dropout"] = pytest.approx(noise / (1 + noise)) if default is None else default
    expected["smoothing"] = 0.0
    if name == "NSHHasher":
        expected["own_view"] = "sorted"  # unless the user gives an augmentation
    assert settings(name, kind) == expected
    sgd = {"learning_rate": Hasher._sgd_rates[kind], "weight_decay": 5e-4}
    assert settings(name, kind, optimizer="sgd") == expected | sgd


@pytest.mark.parametrize("name", HASHERS)
def test_the_docstring_has_the_table(name):
    Hasher = getattr(skhash, name)
    assert "{" not in Hasher.__doc__
    rows = [line.split() for line in Hasher.__doc__.splitlines()]
    for kind, values in Hasher._recipes.items():
        label = "any backbone" if kind == "deep" else kind
        assert [*label.split(), *map(str, values), str(Hasher._sgd_rates[kind])] in rows


@pytest.mark.parametrize(("n", "n_epochs"), [(20, 125), (4 * 40, 63), (4 * 100, 30)])
def test_steps_make_a_bounded_number_of_epochs(n, n_epochs):
    assert settings("TALRHasher", "ap", n, 2, batch_size=4)["n_epochs"] == n_epochs


def test_noise_is_bounded():
    assert settings("TALRHasher", "ap", 20, 60)["input_dropout"] == pytest.approx(0.375)  # p / (1 - p) = 0.6
    assert settings("TALRHasher", "deep", 20, 60)["input_dropout"] == 0.75  # p / (1 - p) = 3


def test_given_values_are_used():
    given = {"n_epochs": 2, "batch_size": 33, "learning_rate": 0.5, "weight_decay": 0.0, "input_dropout": 0.25}
    given["smoothing"] = 0.5
    assert settings("TALRHasher", "ap", **given, alpha=3) == given | {"alpha": 3, "init": "rotation"}


@pytest.mark.parametrize(
    ("name", "backbone"), [("input_dropout", None), ("input_dropout", "mlp"), ("hidden_dropout", "mlp")]
)
def test_dropout_of_a_hasher_reaches_its_encoder(digits, name, backbone):
    plain = {"input_dropout": 0.0, "hidden_dropout": 0.0, "backbone": backbone, "n_epochs": 1, "random_state": 0}
    fits = [TALRHasher(8, **plain | {name: p}).fit(digits.X, digits.y) for p in (0.0, 0.5)]
    assert (fits[0].weights_["hash.weight"] != fits[1].weights_["hash.weight"]).any()
    for hasher in fits:
        assert_array_equal(hasher.project(digits.X), hasher.project(digits.X))
