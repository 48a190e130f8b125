"""OrthoHash: its loss against a loop over classes, its gradients, the codes of classes, the labels that it takes."""

import math
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
import torch
from _helpers import (
    CASES,
    NBITS,
    assert_learns_on_after_load,
    assert_resumes_as_if_never_stopped,
    case_of,
    cosine,
    draw,
    finite_at_extremes,
    has_right_gradients,
    loss_of,
    mean,
    objective_of,
    trainer_of,
)
from numpy.testing import assert_array_equal

from skhash import OrthoHashHasher
from skhash.affinity import ClassAffinity, DistanceAffinity
from skhash.engine import Trainer


def codes_of(n, nbits, seed=0):
    """The codes of n classes."""
    X = np.random.default_rng(0).normal(size=(2 * n, 5))
    return trainer_of(OrthoHashHasher(nbits, random_state=seed), X, np.arange(2 * n) % n).objective.codes


def cross_entropy(activations, codes, own, scale, margin):
    """Loss of one sample, class by class; `own` holds the indices of its labels."""
    cosines = [cosine(activations, code) for code in codes]
    logits = [scale * (value - margin * (c in own)) for c, value in enumerate(cosines)]
    log_of_sum = math.log(sum(map(math.exp, logits)))
    return mean(log_of_sum - logits[c] for c in own)


# --- the loss


@pytest.mark.parametrize(("scale", "margin"), [(5.0, 0.3), (1.0, 0.0)])
@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_loop_over_classes(case, scale, margin):
    y, affinity, _ = case_of(case)
    objective = objective_of(OrthoHashHasher, affinity, scale=scale, margin=margin)
    u = 1.5 * draw(len(y), NBITS, seed=4)
    labels = [[target] if y.ndim == 1 else list(np.flatnonzero(target)) for target in y]
    codes = objective.codes.tolist()
    losses = [cross_entropy(a, codes, own, scale, margin) for a, own in zip(u.tolist(), labels, strict=True)]
    assert loss_of(objective, u, y, affinity).item() == pytest.approx(mean(losses), abs=1e-12)


@pytest.mark.parametrize("case", ["classes", "several labels"])
def test_gradients_are_finite_differences(case):
    options = {"scale": 5.0, "margin": 0.3}
    assert has_right_gradients(lambda affinity: objective_of(OrthoHashHasher, affinity, **options), case)


def test_the_loss_ignores_lengths_and_is_least_at_the_codes():
    y, affinity, _ = case_of("classes")
    objective = objective_of(OrthoHashHasher, affinity, nbits=16, scale=20.0, margin=0.3)
    u = draw(len(y), 16, seed=1)
    torch.testing.assert_close(loss_of(objective, 7 * u, y, affinity), loss_of(objective, u, y, affinity))
    codes = torch.from_numpy(objective.codes[y]).double().requires_grad_()
    loss = loss_of(objective, codes, y, affinity)
    assert loss < min(
        loss_of(objective, codes.detach() + draw(*codes.shape, seed=seed), y, affinity) for seed in range(20)
    )
    assert torch.autograd.grad(loss, codes)[0].norm() < 1e-4


def test_extreme_activations_stay_finite():
    assert finite_at_extremes(objective_of(OrthoHashHasher, ClassAffinity(), nbits=64, scale=8.0, margin=0.3))


# --- the codes of the classes


@pytest.mark.parametrize("nbits", [1, 7, 12, 16, 32, 64])
@pytest.mark.parametrize("n_codes", [2, 10, 40])
def test_codes_are_binary_and_balanced(n_codes, nbits):
    codes = codes_of(n_codes, nbits, 0)
    assert codes.shape == (n_codes, nbits)
    assert set(np.unique(codes)) == {-1, 1}
    assert (abs(codes.sum(axis=1, dtype=int)) == nbits % 2).all()
    assert abs(codes.mean(axis=0)).mean() <= 0.5  # over the classes, too, and two orthogonal codes agree in half


@pytest.mark.parametrize(
    ("n_codes", "nbits", "largest"), [(2, 8, 0.0), (10, 12, 0.0), (10, 16, 0.0), (10, 32, 0.125), (40, 64, 0.2)]
)
def test_codes_are_nearly_orthogonal(n_codes, nbits, largest):
    found = []
    for seed in range(5):
        codes = codes_of(n_codes, nbits, seed).astype(int)
        found.append(abs(codes @ codes.T / nbits)[~np.eye(n_codes, dtype=bool)].max())
    assert np.median(found) <= largest
    assert max(found) <= max(largest, 0.25)  # one draw of several may be a little worse


def test_codes_repeat_only_if_there_are_too_few():
    codes = codes_of(30, 4, 0)  # six codes have two bits of each kind
    _, counts = np.unique(codes, axis=0, return_counts=True)
    assert_array_equal(counts, [5] * 6)
    assert len(np.unique(codes_of(30, 8, 0), axis=0)) == 30


def test_random_state_alone_decides_the_codes(digits):
    def class_codes(seed, X=digits.X, **params):
        hasher = OrthoHashHasher(16, n_epochs=1, random_state=seed, **params)
        return hasher.fit(X, digits.y).class_codes_

    first = class_codes(0)
    assert first.dtype == np.int8
    assert_array_equal(class_codes(0, digits.X[:, ::2], learning_rate=0.5), first)
    assert (class_codes(1) != first).any()


# --- the hasher


def test_bits_come_near_the_codes_of_the_classes(digits):
    hasher = OrthoHashHasher(16, n_epochs=20, random_state=0).fit(digits.X, digits.y)
    signs = 2 * hasher.transform(digits.X).astype(int) - 1
    nearest = hasher.classes_[(signs @ hasher.class_codes_.T).argmax(axis=1)]
    assert (nearest == digits.y).mean() > 0.85


@pytest.mark.parametrize(("name", "value"), [("scale", 0), ("margin", -0.1)])
def test_bad_parameters_are_refused(digits, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        OrthoHashHasher(8, **{name: value}).fit(digits.X, digits.y)


def test_an_affinity_without_labels_is_refused(digits):
    with pytest.raises(ValueError, match=r"affinity.*labels"):
        OrthoHashHasher(8, affinity=DistanceAffinity()).fit(digits.X, None)


def test_partial_fit_keeps_the_codes_of_the_classes(digits):
    hasher = OrthoHashHasher(8, batch_size=50, random_state=0).partial_fit(digits.X, digits.y)
    codes, few = hasher.class_codes_.copy(), digits.y < 7
    with patch.object(Trainer, "run_epoch", autospec=True, side_effect=Trainer.run_epoch) as run_epoch:
        hasher.partial_fit(digits.X[few], digits.y[few])
    assert_array_equal(hasher.class_codes_, codes)
    assert_array_equal(run_epoch.call_args.args[0].objective.codes, codes)
    with pytest.raises(ValueError, match=r"`y` must hold classes of the first call.*\[10\]"):
        hasher.partial_fit(digits.X, digits.y + 1)


def test_a_loaded_hasher_learns_on_with_its_codes(digits, tmp_path):
    hasher = OrthoHashHasher(8, batch_size=50, random_state=0).partial_fit(digits.X, digits.y)
    assert_learns_on_after_load(hasher, tmp_path / "hasher", digits.X, digits.y, "class_codes_")


def test_a_resumed_fit_has_the_same_codes(digits, tmp_path):
    make = partial(OrthoHashHasher, 8, n_epochs=4, batch_size=50, random_state=0)
    assert_resumes_as_if_never_stopped(make, tmp_path, digits.X, digits.y, "class_codes_")
