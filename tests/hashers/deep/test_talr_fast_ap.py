"""FastAP as an objective of TALR."""

from functools import partial

import numpy as np
import pytest
import torch
from _helpers import draw, loss_of
from numpy.testing import assert_allclose, assert_array_equal
from pytorch_metric_learning import losses
from torch.nn.functional import normalize

from skhash import ITQHasher, TALRHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, SharedLabelsAffinity
from skhash.hashers.deep.talr import _TALRObjective, soft_metric
from skhash.metrics import (
    average_precision,
    precision,
    relevance_histogram,
)
from skhash.metrics.soft_histogram import soft_histogram

quick = partial(TALRHasher, nbits=16, objective="fastap", n_epochs=4, batch_size=100, random_state=0)


def plain_fastap(distances, relevant, width, n_bins):
    """FastAP of one query by its definition: each item in each bin by the triangular kernel."""
    total = items = relevant_items = 0.0
    for center in (width * i for i in range(n_bins + 1)):
        shares = [max(0.0, 1 - abs(distance - center) / width) for distance in distances]
        items += sum(shares)
        here = sum(share for share, is_relevant in zip(shares, relevant, strict=True) if is_relevant)
        relevant_items += here
        if here:
            total += here * relevant_items / items
    return total / sum(relevant)


@pytest.mark.parametrize("n_bins", [None, 3, 9])
@pytest.mark.parametrize("kind", ["classes", "several labels"])
def test_loss_is_the_double_loop(kind, n_bins):
    labels = np.random.default_rng(3).integers(0, 2, (20, 3))
    y, affinity = {
        "classes": (np.r_[8, 9, np.arange(18) // 2 % 7], ClassAffinity()),
        "several labels": (np.r_[0 * labels[:2], labels[2:]], SharedLabelsAffinity()),
    }[kind]  # nothing is relevant to the first two rows
    phi, relevant = torch.tanh(0.7 * draw(20, 6)).numpy(), affinity(y, y) > 0
    values = []
    for q in range(20):
        others = [i for i in range(20) if i != q]
        if relevant[q, others].any():
            distances = [(6 - sum(phi[q] * phi[i])) / 2 for i in others]
            values.append(plain_fastap(distances, relevant[q, others], 6 / (n_bins or 6), n_bins or 6))
    assert len(values) < 20
    loss = loss_of(_TALRObjective(affinity, "fastap", alpha=0.7, n_bins=n_bins), draw(20, 6), y)
    assert 1 - loss.item() == pytest.approx(np.mean(values), abs=1e-12)


@pytest.mark.parametrize("n_bins", [5, 10, 32])
def test_loss_and_gradient_are_those_of_pytorch_metric_learning(n_bins):
    """On unit embeddings, whose squared distances in [0, 4] fall into the same bins."""
    y = torch.from_numpy(np.arange(25) // 2 % 8)
    theirs, ours = (draw(25, 6).requires_grad_() for _ in range(2))
    units = normalize(ours, dim=1)
    relevant = (y[:, None] == y).long().fill_diagonal_(0)
    H = soft_histogram(2 - 2 * units @ units.T, relevant, [0, 1], max_distance=4, n_bins=n_bins)
    loss, expected = _TALRObjective(None, "fastap").loss(H), losses.FastAPLoss(num_bins=n_bins)(theirs, y)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
    loss.backward()
    expected.backward()
    assert_allclose(ours.grad, theirs.grad, atol=1e-12)


def codes_and_classes():
    return (draw(30, 5) >= 0).numpy().astype(np.uint8), np.arange(30) % 4


def test_on_codes_it_is_the_mean_precision_within_the_radius_of_each_relevant_item():
    codes, y = codes_and_classes()
    H = relevance_histogram(codes, codes, y, exclude_self=True)
    within = np.stack([precision(H, radius=r, average=False) for r in range(6)], axis=1)
    relevant = H.counts[:, :, 1]
    expected = (relevant * within).sum(1) / relevant.sum(1)
    soft = soft_histogram(
        torch.from_numpy((codes[:, None] != codes).sum(-1)).double(),
        torch.from_numpy((y[:, None] == y).astype(np.int64)),
        [0, 1],
        max_distance=5,
    )
    assert_allclose(soft_metric(soft, "fastap"), expected, atol=1e-14)
    loss = loss_of(_TALRObjective(ClassAffinity(), "fastap"), 100 * torch.from_numpy(2.0 * codes - 1), y)
    assert 1 - loss.item() == pytest.approx(expected.mean(), abs=1e-12)
    assert (expected >= average_precision(H, ties="worst", average=False) - 1e-12).all()


@pytest.mark.parametrize("n_bins", [None, 3])
def test_gradients(n_bins):
    y = np.array([0, 0, 1, 1, 2, 2, 2, 3])
    objective = _TALRObjective(ClassAffinity(), "fastap", alpha=0.7, n_bins=n_bins)
    activations = draw(8, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: loss_of(objective, a, y), activations, eps=1e-7, atol=1e-5)


def test_rows_without_a_relevant_one_do_not_count():
    objective = _TALRObjective(ClassAffinity(), "fastap")
    codes = torch.ones(6, 8)
    codes[2:] = -1
    assert loss_of(objective, 100 * codes, np.array([0, 0, 1, 2, 3, 4])).item() == pytest.approx(0)
    alone = (100 * codes).requires_grad_()
    loss = loss_of(objective, alone, np.arange(6))
    loss.backward()
    assert loss.item() == 1
    assert_array_equal(alone.grad, torch.zeros(6, 8))
    codes[3, 0] = torch.nan
    assert loss_of(objective, codes, np.array([0, 0, 1, 1, 2, 2])).isnan()


@pytest.mark.parametrize("backbone", [None, "mlp"])
def test_learns_digits_better_than_itq(digits, backbone):
    hasher = quick(n_epochs=20, backbone=backbone).fit(digits.X, digits.y)
    itq = ITQHasher(nbits=16, random_state=0).fit(digits.X, digits.y)
    query = digits.X_query, digits.y_query
    assert hasher.score(*query) > itq.score(*query) + 0.1
    assert hasher.history_[-1]["loss"] < hasher.history_[0]["loss"]


def test_scores_and_validation_are_ap(digits):
    hasher = quick(early_stopping=True).fit(digits.X, digits.y)
    H = relevance_histogram(hasher.encode(digits.X_query), hasher.database_codes_, digits.y_query, digits.y, nbits=16)
    assert hasher.score(digits.X_query, digits.y_query) == pytest.approx(average_precision(H), abs=1e-14)
    plain = quick(objective="ap", early_stopping=True, learning_rate=1e-12, n_epochs=1).fit(digits.X, digits.y)
    hasher = quick(early_stopping=True, learning_rate=1e-12, n_epochs=1).fit(digits.X, digits.y)
    assert hasher.history_[0]["validation"] == plain.history_[0]["validation"]  # the same first codes
    assert hasher.history_[0]["loss"] != plain.history_[0]["loss"]


def test_grades_count_as_relevant_or_not(digits):
    graded, plain = (
        quick(affinity=DistanceAffinity(percentiles=p, levels=levels)).fit(digits.X)
        for p, levels in (((5, 1), (1, 2)), ((5,), (1,)))
    )
    assert_array_equal(graded.database_codes_, plain.database_codes_)
