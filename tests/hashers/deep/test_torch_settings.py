"""What the caller has set in torch changes no code of a hasher that torch trains, and is as it was afterwards."""

import copy
from contextlib import ExitStack, contextmanager
from functools import cache

import numpy as np
import pytest
import torch
from _helpers import quick
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits
from torch import nn

import skhash
from skhash import EmbeddingHasher, TALRHasher
from skhash.hashers.deep import DeepHasher
from skhash.persistence import load, save

pytestmark = pytest.mark.filterwarnings("ignore:Please use the new API settings")  # of torch 2.9, when it is set below

X, y = load_digits(return_X_y=True)
X, y = X[:90].astype(np.float32), y[:90]
DEEP = [name for name in skhash.hashers.__all__ if issubclass(getattr(skhash, name), DeepHasher)] + ["EmbeddingHasher"]


@contextmanager
def changed(change, value, default):
    change(value)
    try:
        yield
    finally:
        change(default)


SETTINGS = {
    "autocast, bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast, float16": lambda: torch.autocast("cpu", torch.float16),
    "default dtype float64": lambda: changed(torch.set_default_dtype, torch.float64, torch.float32),
    "default dtype float16": lambda: changed(torch.set_default_dtype, torch.float16, torch.float32),
    "default device": lambda: changed(torch.set_default_device, "meta", None),
    "device": lambda: torch.device("meta"),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "deterministic": lambda: changed(torch.use_deterministic_algorithms, True, False),
    "precision": lambda: changed(torch.set_float32_matmul_precision, "medium", "highest"),
}


@contextmanager
def every_setting_at_once():
    with ExitStack() as settings:
        for setting in SETTINGS.values():
            settings.enter_context(setting())
        yield


every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)


def state():
    """The settings of torch that decide numbers."""
    return {
        "autocast": (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ),
        "dtype": torch.get_default_dtype(),
        "device": torch.empty(0).device,
        "mode": (torch.is_inference_mode_enabled(), torch.is_grad_enabled()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": (torch.get_float32_matmul_precision(), torch.backends.mkldnn.matmul.fp32_precision),
    }


@cache
def fitted(name):
    return quick(name, n_epochs=1, backbone="mlp").fit(X, y)


def results(name, path):
    """What each door of a hasher returns."""
    again = quick(name, n_epochs=1, backbone="mlp").fit(X, y)
    stream = quick(name).partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    save(fitted(name), path)
    loaded = load(path)
    return {
        "fit": again.encode(X),
        "loss": [entry["loss"] for entry in again.history_],
        "partial_fit": stream.project(X),
        "load": loaded.encode(X[:1]),
        "encode": fitted(name).encode(X),
        "project_queries": fitted(name).project_queries(X),
        "score": fitted(name).score(X, y),
    }


@cache
def expected(name, folder):
    return results(name, folder / "expected.safetensors")


@pytest.mark.filterwarnings("ignore:The codes find the other view")  # of NSH, in one epoch
@pytest.mark.parametrize(
    ("name", "setting"),
    [
        *(pytest.param(name, every_setting_at_once, id=f"{name}-all") for name in DEEP),
        *(
            pytest.param(name, setting, id=f"{name}-{key}", marks=[] if name == "NSHHasher" else pytest.mark.slow)
            for name in DEEP
            for key, setting in SETTINGS.items()
        ),
    ],
)
def test_settings_of_the_caller_change_nothing(name, setting, tmp_path, tmp_path_factory):
    usual = expected(name, tmp_path_factory.getbasetemp())
    with setting():
        before = state()
        found = results(name, tmp_path / "hasher.safetensors")
        assert state() == before
    for door, value in usual.items():
        assert_array_equal(found[door], value, err_msg=door, strict=True)


@every_setting
def test_settings_of_the_caller_change_no_factors(setting):
    def factors():
        return EmbeddingHasher(32, factors=True, n_epochs=1, random_state=0).fit(X).encode_factors(X)

    usual = factors()
    with setting():
        found = factors()
    assert_array_equal(found, usual, strict=True)


class Failing(nn.Module):
    """A backbone that notes the settings that it sees, and fails in training."""

    seen = None

    def forward(self, X):
        Failing.seen = state()
        if self.training:
            raise ArithmeticError
        return X


@every_setting
def test_a_backbone_sees_the_defaults_and_an_error_restores_the_settings(setting):
    defaults = state()
    with setting():
        before = state()
        with pytest.raises(ArithmeticError):
            TALRHasher(8, backbone=Failing(), n_epochs=1, random_state=0).fit(X, y)
        assert state() == before
    seen = Failing.seen
    assert not seen["autocast"][0]
    assert seen["precision"][1] in ("none", "ieee")
    assert [seen[name] for name in ("dtype", "device", "mode")] == [
        defaults[name] for name in ("dtype", "device", "mode")
    ]


def test_a_backbone_of_float64_is_trained_in_float32():
    torch.manual_seed(0)
    backbone = nn.Linear(64, 16)
    hashers = [
        TALRHasher(8, backbone=module, n_epochs=1, random_state=0)
        for module in (backbone, copy.deepcopy(backbone).double())
    ]
    codes = [hasher.fit(X, y).encode(X) for hasher in hashers]
    assert_array_equal(*codes)
