"""Backbones that are modules, optimizers and schedules that are functions."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from _helpers import Overflowing
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from torch import nn

from skhash import TALRHasher
from skhash.engine import Encoder

quick = partial(TALRHasher, nbits=16, n_epochs=3, batch_size=100, random_state=0)


@pytest.fixture(scope="module")
def plain(digits):
    return quick().fit(digits.X, digits.y)


@pytest.fixture
def backbone():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1))


def test_mlp_backbone(digits):
    hasher = quick(backbone="mlp", learning_rate=1e-3, n_epochs=6).fit(digits.X, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) > 0.5


def test_many_samples_have_the_activations_of_the_encoder():
    X = np.random.default_rng(0).normal(size=(5000, 4))
    hasher = quick(nbits=3, backbone="mlp", n_epochs=1, input_dropout=0.5).fit(X, X[:, 0] > 0)
    encoder = Encoder(4, 3, "mlp")
    encoder.load_state_dict({name: torch.from_numpy(value) for name, value in hasher.weights_.items()})
    with torch.no_grad():
        expected = encoder.eval()(encoder.read(X, slice(None))).numpy()
    activations = hasher.project(X)
    assert activations.dtype == np.float32
    assert_allclose(activations, expected, rtol=1e-5, atol=1e-5)


def test_a_module_is_copied(digits, backbone):
    backbone = backbone.eval()
    before = pickle.dumps(backbone.state_dict())
    hasher = quick(backbone=backbone).fit(digits.X, digits.y)
    assert hasher.backbone is backbone
    assert not backbone.training
    assert pickle.dumps(backbone.state_dict()) == before
    assert all(parameter.grad is None for parameter in backbone.parameters())
    codes = hasher.encode(digits.X_query)
    for copy in (pickle.loads(pickle.dumps(hasher)), clone(hasher).fit(digits.X, digits.y)):
        assert_array_equal(copy.encode(digits.X_query), codes)
    nn.init.zeros_(backbone[0].weight)  # the fitted hasher does not depend on the module
    assert_array_equal(pickle.loads(pickle.dumps(hasher)).encode(digits.X_query), codes)


def test_the_mode_of_a_module_does_not_count(digits, backbone):
    codes = [quick(backbone=backbone.train(mode)).fit(digits.X, digits.y).encode(digits.X) for mode in (True, False)]
    assert_array_equal(*codes)


def test_a_frozen_module_keeps_its_weights_and_statistics(digits, backbone):
    before = {name: value.clone().numpy() for name, value in backbone.state_dict().items()}
    frozen, slow = (quick(backbone=backbone, backbone_lr_scale=scale).fit(digits.X, digits.y) for scale in (0, 0.1))
    for name, value in before.items():
        assert_array_equal(frozen.weights_[f"backbone.{name}"], value)
    for name in ("0.weight", "1.running_mean"):
        assert (slow.weights_[f"backbone.{name}"] != before[name]).any()
    assert all(parameter.requires_grad for parameter in backbone.parameters())


def test_optimizer_and_schedule_may_be_functions(digits, plain):
    n_steps = 3 * 5  # epochs, batches

    def adam(groups):
        return torch.optim.AdamW(groups, fused=True)

    def cosine(optimizer):
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=n_steps)

    made = quick(optimizer=adam, lr_schedule=cosine).fit(digits.X, digits.y)
    assert_array_equal(plain.encode(digits.X), made.encode(digits.X))
    assert len(plain.history_) == len(made.history_) == 3
    for ours, theirs in zip(plain.history_, made.history_, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)  # the compiled step of AdamW rounds in another order


@pytest.mark.parametrize("options", [{"optimizer": "sgd"}, {"lr_schedule": "constant"}, {"weight_decay": 0.0}], ids=str)
def test_options_of_the_optimizer(digits, plain, options):
    hasher = quick(**options).fit(digits.X, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) > plain.score(digits.X_query, digits.y_query) - 0.1
    assert hasher.history_ != plain.history_


def test_a_loss_that_is_not_finite_is_reported(digits):
    hasher = quick(backbone=Overflowing(), learning_rate=0.5)
    with pytest.raises(FloatingPointError, match=r"nan in epoch 1. Lower `learning_rate` \(now 0.5\).* values in X"):
        hasher.fit(digits.X, digits.y)


def test_mixed_precision(digits):
    exact, mixed = (quick(backbone="mlp", mixed_precision=mixed).fit(digits.X, digits.y) for mixed in (False, True))
    assert exact.history_ != mixed.history_
    losses = ([entry["loss"] for entry in hasher.history_] for hasher in (exact, mixed))
    assert_allclose(*losses, rtol=0.1)  # bfloat16 uses the weights of each step, not the first ones
    assert mixed.project(digits.X).dtype == np.float32
    assert mixed.score(digits.X, digits.y) > 0.4
