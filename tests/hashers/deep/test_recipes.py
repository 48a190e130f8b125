"""The default values of parameters that are None, and the table of them in each docstring."""

import math

import numpy as np
import pytest
from _deep_helpers import Stop
from numpy.testing import assert_array_equal

import skhash
from skhash import TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.hashers.deep import DeepHasher

HASHERS = [name for name in skhash.hashers.__all__ if issubclass(getattr(skhash, name), DeepHasher)]
UNSUPERVISED = ("CIBHashHasher", "NSHHasher", "TBHHasher")
NAMES = ("n_steps", "batch_size", "learning_rate", "weight_decay")
#: for each hasher and kind of it the values of NAMES, the learning rate of SGD, and the further defaults
DEFAULTS = {
    ("CIBHashHasher", "linear"): ((5000, 64, 0.003, 1e-4), 0.3, {}),
    ("CIBHashHasher", "deep"): ((5000, 64, 0.003, 1e-4), 0.3, {}),
    ("DHNHasher", "linear"): ((2500, 256, 0.1, 0.5), 1.0, {"quantization_weight": 2.0}),
    ("DHNHasher", "deep"): ((1500, 256, 0.003, 0.1), 0.1, {"quantization_weight": 0.1}),
    ("DPSHHasher", "linear"): ((2500, 256, 0.02, 0.5), 0.3, {"quantization_weight": 0.1}),
    ("DPSHHasher", "deep"): ((1500, 256, 0.003, 0.1), 0.01, {"quantization_weight": 0.1}),
    ("DTSHHasher", "linear"): ((2500, 128, 0.02, 0.5), 0.1, {"quantization_weight": 1.0}),
    ("DTSHHasher", "deep"): ((1500, 128, 0.003, 0.1), 0.1, {"quantization_weight": 0.1}),
    ("GreedyHashHasher", "linear"): ((2500, 256, 0.02, 5.0), 0.1, {"quantization_weight": 0.1}),
    ("GreedyHashHasher", "deep"): ((1500, 256, 0.003, 0.1), 0.1, {"quantization_weight": 0.1}),
    ("HashNetHasher", "linear"): ((2500, 256, 0.02, 0.5), 1.0, {"max_beta": 5.0, "last_beta": 5.0}),
    ("HashNetHasher", "deep"): ((1500, 256, 0.003, 0.1), 0.1, {"max_beta": 5.0, "last_beta": 100.0}),
    ("MIHashHasher", "linear"): ((2500, 256, 0.1, 0.5), 1.0, {"alpha": 1.0}),
    ("MIHashHasher", "deep"): ((1500, 256, 0.003, 0.1), 1.0, {"alpha": 0.7}),
    ("NSHHasher", "linear"): ((5000, 50, 0.001, 1e-4), 0.1, {}),
    ("NSHHasher", "deep"): ((5000, 50, 0.001, 1e-4), 0.03, {}),
    ("TALRHasher", "ap"): ((2500, 256, 0.1, 0.5), 1.0, {"alpha": 1.0, "init": "rotation"}),
    ("TALRHasher", "ndcg"): ((1000, 500, 0.05, 0.3), 1.0, {"alpha": 2.0, "init": "rotation"}),
    ("TALRHasher", "fastap"): ((2500, 256, 0.1, 1.5), 1.0, {"alpha": 0.7, "init": "rotation"}),
    ("TALRHasher", "distances"): ((1000, 500, 0.02, 2.0), 1.0, {"alpha": 0.7, "init": "itq"}),
    ("TALRHasher", "deep"): ((1500, 256, 0.003, 0.1), 1.0, {"alpha": 0.7, "init": "rotation"}),
    ("TBHHasher", "linear"): ((1000, 256, 0.001, 1e-4), 0.1, {}),
    ("TBHHasher", "deep"): ((2000, 256, 0.003, 1e-4), 0.1, {}),
}


def settings(name, kind, n=40, n_features=20, **params):
    """The settings of a hasher of this kind after the first epoch of a fit."""
    X, y = np.random.default_rng(0).normal(size=(n, n_features)), np.arange(n) % 4
    params["backbone"] = "mlp" if kind == "deep" else None
    if kind in ("ap", "ndcg", "fastap"):
        params["objective"] = kind
    if kind == "distances":
        y, params["affinity"] = None, DistanceAffinity((20,), (1,))
    hasher = getattr(skhash, name)(8, random_state=0, **params).set_callbacks(Stop())
    return hasher.fit(X, y).settings_


def test_the_table_has_every_kind_of_every_hasher():
    assert set(DEFAULTS) == {(name, kind) for name in HASHERS for kind in getattr(skhash, name)._recipes}


@pytest.mark.parametrize(("name", "kind"), DEFAULTS)
def test_parameters_that_are_none_take_their_defaults(name, kind):
    values, sgd_rate, more = DEFAULTS[name, kind]
    expected = dict(zip(NAMES, values, strict=True)) | more
    n_epochs = math.ceil(expected.pop("n_steps") / math.ceil(40 / expected["batch_size"]))
    fewest, most = (10, 300) if name in UNSUPERVISED else (30, 125)
    expected["n_epochs"] = min(max(n_epochs, fewest), most)
    noise = 4 * 20 / 40
    expected["input_dropout"] = 0.0 if name in UNSUPERVISED else pytest.approx(noise / (1 + noise))
    expected["smoothing"] = 0.0
    assert settings(name, kind) == expected
    assert settings(name, kind, optimizer="sgd") == expected | {"learning_rate": sgd_rate, "weight_decay": 5e-4}


@pytest.mark.parametrize("name", HASHERS)
def test_the_docstring_has_the_table(name):
    doc = getattr(skhash, name).__doc__
    assert "{" not in doc
    rows = [line.split() for line in doc.splitlines()]
    for (hasher, kind), (values, sgd_rate, more) in DEFAULTS.items():
        if hasher == name:
            label = ["any", "backbone"] if kind == "deep" else [kind]
            assert [*label, *map(str, values), *map(str, more.values()), str(sgd_rate)] in rows


@pytest.mark.parametrize(("n", "n_epochs"), [(20, 125), (4 * 40, 63), (4 * 100, 30)])
def test_steps_make_a_bounded_number_of_epochs(n, n_epochs):
    assert settings("TALRHasher", "ap", n, 2, batch_size=4)["n_epochs"] == n_epochs


def test_noise_is_bounded():
    assert settings("TALRHasher", "ap", 20, 60)["input_dropout"] == 0.75  # p / (1 - p) = 3


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
