"""Streams: partial_fit goes on with the same model and the same optimizer."""

import pickle
import re

import numpy as np
import pytest
import torch
from _helpers import Dataset, digit_images
from numpy.testing import assert_allclose, assert_array_equal

from skhash import CIBHashHasher, HashNetHasher, NSHHasher, TALRHasher, TBHHasher
from skhash.affinity import DistanceAffinity, PrecomputedAffinity, SharedLabelsAffinity
from skhash.persistence import load, save


def chunks(X, y, size=100):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(X), size)]


@pytest.mark.parametrize("Hasher", [TALRHasher, HashNetHasher])
def test_a_stream_is_learned(digits, Hasher):
    hasher = Hasher(16, random_state=0)
    for _ in range(8):
        for X, y in chunks(digits.X, digits.y):
            hasher.partial_fit(X, y)
    codes, queries = hasher.transform(digits.X), hasher.transform(digits.X_query)
    nearest = digits.y[(queries[:, None] != codes).sum(-1).argmin(axis=1)]
    assert np.mean(nearest == digits.y_query) > 0.8
    assert hasher.n_epochs_ == len(hasher.history_) == 8 * len(chunks(digits.X, digits.y))
    assert len(hasher.database_.codes.rows) == len(chunks(digits.X, digits.y)[-1][0])


def test_a_stream_goes_on_after_a_pickle(digits):
    uninterrupted, pickled = TALRHasher(16, random_state=0), TALRHasher(16, random_state=0)
    for X, y in chunks(digits.X, digits.y):
        uninterrupted.partial_fit(X, y)
        pickled = pickle.loads(pickle.dumps(pickled)).partial_fit(X, y)
    assert_array_equal(uninterrupted.encode(digits.X), pickled.encode(digits.X))
    assert uninterrupted.history_ == pickled.history_


def test_a_stream_goes_on_from_a_fit(digits):
    hasher = TALRHasher(16, n_epochs=5, random_state=0).fit(digits.X, digits.y)
    before = hasher.encode(digits.X_query)
    hasher.set_params(learning_rate=1e-9).partial_fit(digits.X[:50], digits.y[:50])
    assert np.mean(hasher.encode(digits.X_query) != before) < 0.01
    assert hasher.n_epochs_ == 6


def test_a_fit_forgets_the_stream(digits):
    fresh = TALRHasher(16, n_epochs=2, random_state=0).fit(digits.X, digits.y)
    streamed = TALRHasher(16, n_epochs=2, random_state=0).partial_fit(digits.X, digits.y).fit(digits.X, digits.y)
    assert_array_equal(fresh.database_.codes.rows, streamed.database_.codes.rows)


@pytest.mark.parametrize("after", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("Hasher", "name", "value"),
    [
        (TALRHasher, "nbits", 16),
        (TALRHasher, "backbone", None),
        (TALRHasher, "affinity", SharedLabelsAffinity()),
        (TALRHasher, "optimizer", "sgd"),
        (TALRHasher, "backbone_lr_scale", 0),
        (TBHHasher, "n_latent", 7),
        (NSHHasher, "n_latent", 7),
        (NSHHasher, "variant", "decoding"),
    ],
)
def test_a_stream_goes_on_with_the_same_model(digits, after, Hasher, name, value):
    X, y = digits.X[:100], digits.y[:100]
    hasher = Hasher(8, backbone="mlp", n_epochs=1, random_state=0)
    getattr(hasher, after)(X, y).set_params(**{name: value})
    if after == "fit" and name not in ("nbits", "backbone", "affinity"):  # fit stores only the weights of the encoder
        assert len(hasher.partial_fit(X, y).history_) == 2
    else:
        with pytest.raises(ValueError, match=rf"`{name}` must stay .* Got {re.escape(repr(value))} instead"):
            hasher.partial_fit(X, y)


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "function"])
def test_learning_rate_and_weight_decay_may_change(digits, optimizer):
    X, y, made = digits.X[:200], digits.y[:200], []

    def make(groups):
        made.append(torch.optim.SGD(groups))
        return made[-1]

    optimizer = make if optimizer == "function" else optimizer
    hasher = TALRHasher(8, backbone="mlp", optimizer=optimizer, weight_decay=0.5, learning_rate=0.1, random_state=0)
    before = hasher.partial_fit(X, y).weights_
    hasher.set_params(learning_rate=1e-12, weight_decay=0, backbone_lr_scale=0.5).partial_fit(X, y)
    for name in ("backbone.1.weight", "hash.weight"):
        assert_allclose(hasher.weights_[name], before[name], rtol=0, atol=1e-9)
    for last in made[1:]:
        assert {(g["lr"], g["weight_decay"]) for g in last.param_groups} == {(1e-12, 0.0), (5e-13, 0.0)}


def sgd(groups):
    return torch.optim.SGD(groups, momentum=0.9)


@pytest.mark.parametrize("affinity", ["auto", DistanceAffinity((20,), (1,)), PrecomputedAffinity(np.eye(10))], ids=type)
def test_a_stream_goes_on_after_a_file(digits, tmp_path, affinity):
    y = digits.y if getattr(affinity, "requires_y", True) else None
    hasher = TALRHasher(8, optimizer=sgd, affinity=affinity, random_state=0).partial_fit(digits.X, y)
    save(hasher, tmp_path / "hasher")
    with pytest.warns(UserWarning, match="optimizer is now 'adam'"):
        loaded = load(tmp_path / "hasher")
    with pytest.raises(ValueError, match=r"`optimizer` must stay 'torch.*SGD' in partial_fit. Got 'adam' instead"):
        loaded.partial_fit(digits.X, y)
    loaded.set_params(optimizer=sgd).partial_fit(digits.X, y)
    assert_array_equal(loaded.project(digits.X), hasher.partial_fit(digits.X, y).project(digits.X))


@pytest.mark.parametrize(
    ("y", "lack"), [(np.zeros(20, dtype=int), "two classes"), (np.arange(20), "one class of two samples")]
)
def test_samples_of_a_stream_that_teach_nothing(digits, y, lack):
    hasher = TALRHasher(8, random_state=0)
    for part in (slice(0, 20), slice(20, 40)):
        with pytest.warns(UserWarning, match=f"`y` must have at least {lack}.*teach little or nothing"):
            hasher.partial_fit(digits.X[part], y)
    assert hasher.partial_fit(digits.X[:20], digits.y[:20]).history_[-1]["loss"] > 0
    CIBHashHasher(8, random_state=0).partial_fit(digits.X[:20], y)  # y is not learned from


def test_a_stream_of_datasets():
    X, y = digit_images(np.uint8)
    expected, hasher = (TALRHasher(8, batch_size=20, random_state=0) for _ in range(2))
    for part in (slice(0, 30), slice(30, 60)):
        expected.partial_fit(X[part], y[part])
        hasher.partial_fit(Dataset(X[part], y[part]))
    assert_array_equal(hasher.database_.codes.rows, expected.database_.codes.rows)
    assert_array_equal(hasher.database_.y, y[30:])


def test_bad_samples_of_a_stream_change_nothing(digits):
    hasher = TALRHasher(8, random_state=0).partial_fit(digits.X, digits.y)
    codes = hasher.encode(digits.X_query)
    for X, y, message in (
        (digits.X[:, 1:], digits.y, "features"),
        (digits.X, digits.y[1:], "one target per sample"),
        (digits.X, None, "requires y"),
    ):
        with pytest.raises(ValueError, match=message):
            hasher.partial_fit(X, y)
    assert_array_equal(hasher.encode(digits.X_query), codes)


@pytest.mark.parametrize("change", [lambda y: y.astype(str), lambda y: np.eye(10)[y]])
def test_targets_of_another_kind_are_refused(digits, change):
    hasher = TALRHasher(8, random_state=0).partial_fit(digits.X[:100], digits.y[:100])
    with pytest.raises(ValueError, match="`y` must hold"):
        hasher.partial_fit(digits.X[:100], change(digits.y[:100]))
    assert hasher.score(digits.X[:100], digits.y[:100]) > 0
