"""CSQ: its loss against a loop over samples and bits, its gradients, the centers of classes, its labels."""

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
    draw,
    finite_at_extremes,
    has_right_gradients,
    loss_of,
    mean,
    objective_of,
    trainer_of,
)
from numpy.testing import assert_array_equal

from skhash import CSQHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, SharedLabelsAffinity
from skhash.engine import Trainer


def centers_of(n, nbits, seed=0):
    """The centers of n classes."""
    X = np.random.default_rng(0).normal(size=(2 * n, 5))
    return trainer_of(CSQHasher(nbits, random_state=seed), X, np.arange(2 * n) % n).objective.centers


def sigmoid(a):
    return 1 / (1 + math.exp(-a))


def target_bits(centers, own):
    """Bits 0 and 1 that most of the centers of a sample's labels have, 1/2 for a tie."""
    votes = [sum(centers[label][k] > 0 for label in own) for k in range(len(centers[0]))]
    return [0.5 if 2 * n == len(own) else float(2 * n > len(own)) for n in votes]


# --- the loss


@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_loop_over_samples_and_bits(case):
    y, affinity, _ = case_of(case)
    objective = objective_of(CSQHasher, affinity, quantization_weight=0.3)
    u = 1.5 * draw(len(y), NBITS, seed=4)
    centers = objective.centers.tolist()
    central, quantization = [], []
    for activations, target in zip(u.tolist(), y, strict=True):
        own = [target] if y.ndim == 1 else list(np.flatnonzero(target))
        for a, c in zip(activations, target_bits(centers, own), strict=True):
            h = sigmoid(a)
            central.append(-(c * math.log(h) + (1 - c) * math.log(1 - h)) if own else 0.0)
            quantization.append(math.log(math.cosh(abs(2 * h - 1) - 1)))
    expected = mean(central) + 0.3 * mean(quantization)
    assert loss_of(objective, u, y, affinity).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", ["classes", "several labels"])
def test_gradients_are_finite_differences(case):
    assert has_right_gradients(lambda affinity: objective_of(CSQHasher, affinity), case)


def test_a_tie_costs_the_mean_of_its_coin_flips():
    objective = objective_of(CSQHasher, SharedLabelsAffinity(), nbits=3)
    objective.centers[:2] = [[1, 1, -1], [1, -1, -1]]
    u = draw(1, 3, seed=3)
    flips = []
    for middle in (0.0, 1.0):
        bits = torch.tensor([[1.0, middle, 0.0]], dtype=torch.float64)
        flips.append(torch.nn.functional.binary_cross_entropy(torch.sigmoid(u), bits).item())
    both = torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    assert objective.central_loss(u, both).item() == pytest.approx(mean(flips), abs=1e-12)


def test_the_loss_vanishes_at_far_activations_with_the_signs_of_the_centers():
    y, affinity, _ = case_of("classes")
    objective = objective_of(CSQHasher, affinity, nbits=16, quantization_weight=1.0)
    codes = torch.from_numpy(objective.centers[y]).double()
    assert loss_of(objective, 30 * codes, y, affinity).item() < 1e-9
    assert loss_of(objective, -30 * codes, y, affinity).item() > 20


def test_the_penalty_is_largest_at_zero():
    penalty = objective_of(CSQHasher).penalty
    values = [penalty(torch.tensor([[a]], dtype=torch.float64)).item() for a in (0.0, 0.5, -0.5, 3.0, 50.0)]
    assert values[0] == pytest.approx(math.log(math.cosh(1)))
    assert values[0] > values[1] == values[2] > values[3] > values[4] == pytest.approx(0, abs=1e-12)


def test_extreme_activations_stay_finite():
    assert finite_at_extremes(objective_of(CSQHasher, ClassAffinity(), nbits=64, quantization_weight=0.5))


# --- the centers


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n", "nbits"), [(2, 1), (2, 2), (10, 16), (10, 32), (16, 16), (64, 64), (20, 16), (32, 16)])
def test_centers_of_a_power_of_two_are_half_of_the_bits_apart(n, nbits, seed):
    centers = centers_of(n, nbits, seed)
    assert centers.shape == (n, nbits)
    distances = (centers[:, None] != centers).sum(axis=2)[~np.eye(n, dtype=bool)]
    assert set(distances) <= ({nbits // 2} if n <= nbits else {nbits // 2, nbits})
    assert len(np.unique(centers, axis=0)) == n


@pytest.mark.parametrize(("n", "nbits"), [(10, 12), (10, 48), (200, 64), (3, 1), (9, 3)])
def test_other_centers_are_coin_flips(n, nbits):
    centers = centers_of(n, nbits, 0)
    assert centers.shape == (n, nbits)
    assert set(np.unique(centers)) == {-1, 1}
    assert len(np.unique(centers, axis=0)) == min(n, 2**nbits)
    assert abs(centers.mean()) < 4 / (n * nbits) ** 0.5


def test_no_bit_is_the_same_in_all_centers():
    centers = centers_of(32, 32, 0)
    assert (np.ptp(centers, axis=0) == 2).all()


def test_random_state_alone_decides_the_centers(digits):
    def centers(seed, X=digits.X, **params):
        return CSQHasher(16, n_epochs=1, random_state=seed, **params).fit(X, digits.y).class_codes_

    first = centers(0)
    assert first.dtype == np.int8
    assert_array_equal(centers(0, digits.X[:, ::2], learning_rate=0.5), first)
    assert (centers(1) != first).any()


# --- the hasher


def test_codes_are_near_the_centers_of_their_classes(digits):
    hasher = CSQHasher(16, n_epochs=20, random_state=0).fit(digits.X, digits.y)
    signs = 2 * hasher.transform(digits.X).astype(int) - 1
    nearest = hasher.classes_[(signs @ hasher.class_codes_.T).argmax(axis=1)]
    assert (nearest == digits.y).mean() > 0.85


def test_an_affinity_without_labels_is_refused(digits):
    with pytest.raises(ValueError, match=r"affinity.*labels"):
        CSQHasher(8, affinity=DistanceAffinity()).fit(digits.X, None)


def test_a_loaded_hasher_learns_on_with_its_centers(digits, tmp_path):
    with patch.object(Trainer, "run_epoch", autospec=True, side_effect=Trainer.run_epoch) as run_epoch:
        hasher = CSQHasher(8, batch_size=50, random_state=0).partial_fit(digits.X, digits.y)
    assert_array_equal(run_epoch.call_args.args[0].objective.centers, hasher.class_codes_)
    assert_learns_on_after_load(hasher, tmp_path / "hasher", digits.X, digits.y, "class_codes_")


def test_a_resumed_fit_has_the_same_centers(digits, tmp_path):
    make = partial(CSQHasher, 8, n_epochs=4, batch_size=50, random_state=0)
    assert_resumes_as_if_never_stopped(make, tmp_path, digits.X, digits.y, "class_codes_")
