"""HashNet: its loss against a plain double loop, its stages, its variants."""

import math

import numpy as np
import pytest
import torch
from _helpers import objective_of
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from skhash import HashNetHasher
from skhash.affinity import ClassAffinity, Relevance, SharedLabelsAffinity
from skhash.hashers.deep import hashnet

CLASSES = {
    "balanced": [0, 0, 1, 1, 2, 2, 3, 3],
    "imbalanced": [0, 0, 0, 0, 0, 0, 1, 2],
    "no dissimilar pair": [4, 4, 4, 4],
    "no similar pair": [0, 1, 2, 3],
}
LABELS = [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 1, 1], [0, 0, 0]]


def likelihood(g, similar, continuous, scale, class_ratio):
    """Compute HashNet's loss pair by pair, in plain Python."""
    n = len(g)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    n_similar = sum(similar[i][j] for i, j in pairs)
    n_dissimilar = len(pairs) - n_similar
    loss = weights = 0.0
    for i, j in pairs:
        if class_ratio == "batch":
            weight = len(pairs) / (n_similar if similar[i][j] else n_dissimilar)
        else:
            weight = class_ratio if similar[i][j] else 1.0
        if similar[i][j]:
            weight *= continuous[i][j]
        product = scale * sum(a * b for a, b in zip(g[i], g[j], strict=True))
        loss += weight * (math.log1p(math.exp(product)) - (product if similar[i][j] else 0.0))
        weights += weight
    return loss / weights


@pytest.mark.parametrize("class_ratio", ["batch", 1.0, 9.0])
@pytest.mark.parametrize("case", CLASSES)
def test_the_loss_of_classes_is_the_double_loop(case, class_ratio):
    y = np.array(CLASSES[case])
    g = np.tanh(np.random.default_rng(0).normal(size=(len(y), 5)))
    expected = likelihood(g, y[:, None] == y, np.ones((len(y), len(y))), 2.0, class_ratio)
    value = objective_of(HashNetHasher, ClassAffinity(), scale=2.0, class_ratio=class_ratio).likelihood(
        torch.tensor(g), Relevance.of(y)
    )
    assert value.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("similarity", ["binary", "continuous"])
@pytest.mark.parametrize("class_ratio", ["batch", 1.0])
def test_the_loss_of_shared_labels_is_the_double_loop(similarity, class_ratio):
    y = np.array(LABELS)
    jaccard = [[np.sum(a & b) / max(np.sum(a | b), 1) if similarity == "continuous" else 1.0 for b in y] for a in y]
    g = np.tanh(np.random.default_rng(1).normal(size=(len(y), 4)))
    expected = likelihood(g, (y @ y.T) > 0, jaccard, 0.7, class_ratio)
    objective = objective_of(
        HashNetHasher, SharedLabelsAffinity(), scale=0.7, class_ratio=class_ratio, similarity=similarity
    )
    assert objective.likelihood(torch.tensor(g), Relevance.of(y)).item() == pytest.approx(expected, abs=1e-12)


def test_continuous_similarity_takes_targets_as_the_affinity_does():
    y = np.array(LABELS)
    g = torch.tensor(np.tanh(np.random.default_rng(1).normal(size=(len(y), 4))))
    shared = objective_of(HashNetHasher, SharedLabelsAffinity(), scale=1.0, similarity="continuous")
    assert shared.likelihood(g, Relevance.of(csr_array(y))).item() == shared.likelihood(g, Relevance.of(y)).item()
    classes = np.arange(len(y)) % 2
    same = objective_of(HashNetHasher, ClassAffinity(), scale=1.0, similarity="continuous")
    assert same.likelihood(g, Relevance.of(classes[:, None])).item() == same.likelihood(g, Relevance.of(classes)).item()


def test_continuous_similarity_of_graded_levels():
    y = np.array([0.0, 1.0, 2.0, 4.0])

    def affinity(a, b):
        return np.maximum(3 - np.abs(a[:, None] - b), 0)

    levels = affinity(y, y)
    g = np.tanh(np.random.default_rng(2).normal(size=(4, 3)))
    expected = likelihood(g, levels > 0, levels / 3, 1.0, "batch")
    objective = objective_of(HashNetHasher, affinity, scale=1.0, similarity="continuous")
    value = objective.likelihood(torch.tensor(g), Relevance.of(y, affinity))
    assert value.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("similarity", ["binary", "continuous"])
def test_gradients(similarity):
    objective = objective_of(HashNetHasher, SharedLabelsAffinity(), scale=0.5, similarity=similarity)
    z = torch.tensor(np.random.default_rng(3).normal(size=(6, 4)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: objective(lambda X: X, z, Relevance.of(LABELS), np.arange(6)), (z,))


def test_large_products_stay_finite():
    z = torch.full((4, 64), 50.0, requires_grad=True)
    loss = objective_of(HashNetHasher, ClassAffinity(), scale=100.0)(
        lambda X: X, z, Relevance.of([0, 0, 1, 1]), np.arange(4)
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


def test_gradient_is_that_of_equation_7():
    """Eq. 7 is of one ordered pair; the loss has both orders of each pair, and is divided by the weights (eq. 2)."""
    y, scale = np.array(CLASSES["imbalanced"]), 2.0
    n, similar = len(y), y[:, None] == y
    g = np.tanh(np.random.default_rng(0).normal(size=(n, 5)))
    pairs = ~np.eye(n, dtype=bool)
    n_pairs, n_similar = pairs.sum(), (similar & pairs).sum()
    w = pairs * np.where(similar, n_pairs / n_similar, n_pairs / (n_pairs - n_similar))
    eq_7 = w * scale * (1 / (1 + np.exp(-scale * g @ g.T)) - similar)  # times g_jk, of the pair (i, j)
    leaf = torch.tensor(g, requires_grad=True)
    objective_of(HashNetHasher, ClassAffinity(), scale=scale).likelihood(leaf, Relevance.of(y)).backward()
    np.testing.assert_allclose(leaf.grad, 2 * eq_7 @ g / w.sum(), atol=1e-14)


def test_the_loss_of_codes_does_not_change_between_stages():
    """Theorem 1: sgn(tanh(beta z)) does not depend on beta."""
    z, y = torch.tensor(np.random.default_rng(0).normal(size=(8, 5))), np.array(CLASSES["balanced"])
    objective = objective_of(HashNetHasher, ClassAffinity(), scale=2.0, n_stages=10, max_beta=5.0, last_beta=100.0)
    losses = []
    for stage in range(10):
        objective.start_stage(stage, 10)
        losses.append(objective.gap(z, Relevance.of(y)))
        codes = torch.where(torch.tanh(objective.beta * z) >= 0, 1.0, -1.0).double()
        assert losses[-1]["binary_loss"] == objective.likelihood(codes, Relevance.of(y)).item()
    assert len({loss["binary_loss"] for loss in losses}) == 1
    assert len({loss["relaxed_loss"] for loss in losses}) == 10


@pytest.mark.parametrize(("backbone", "end"), [(None, [5.0, 5.0]), ("mlp", [5.0, 100.0])])
def test_all_stages_but_the_sign_are_trained(digits, backbone, end):
    """Algorithm 1 with m = 10: the stages 0 to 9 are trained, and stage 10, at infinity, is the sign."""
    hasher = HashNetHasher(8, backbone=backbone, n_epochs=10, random_state=0).fit(digits.X[:200], digits.y[:200])
    betas = [entry["beta"] for entry in hasher.history_]
    assert len(betas) == 10
    assert betas[0] == 1
    assert betas[-2:] == pytest.approx(end)
    assert (np.diff(betas[:-1]) > 0).all()
    assert_array_equal(hasher.transform(digits.X_query), hasher.project(digits.X_query) >= 0)


def test_stages_close_the_gap(digits):
    hasher = HashNetHasher(16, n_stages=4, max_beta=5, last_beta=200, n_epochs=22, random_state=0).fit(
        digits.X, digits.y
    )
    stages = [entry for entry in hasher.history_ if "beta" in entry]
    assert [entry["epoch"] for entry in stages] == [5, 11, 16, 22]
    assert [entry["beta"] for entry in stages] == pytest.approx([1, 2, 5, 200])
    for entry in stages:
        assert entry["quantization_gap"] == pytest.approx(entry["relaxed_loss"] - entry["binary_loss"])
    assert abs(stages[-1]["quantization_gap"]) < 0.01 * stages[-1]["binary_loss"]
    codes = torch.tensor(hasher.transform(digits.X) * 2.0 - 1, dtype=torch.float64)
    objective = objective_of(HashNetHasher, ClassAffinity(), scale=10 / 16)
    assert stages[-1]["binary_loss"] == pytest.approx(objective.likelihood(codes, Relevance.of(digits.y)).item())


def test_the_gap_of_many_samples_is_estimated_from_some(digits, monkeypatch):
    def last_entry():
        return HashNetHasher(16, n_epochs=2, random_state=0).fit(digits.X, digits.y).history_[-1]

    whole = last_entry()
    monkeypatch.setattr(hashnet, "_N_MEASURED", 250)
    some = last_entry()
    assert some != whole
    assert some == pytest.approx(whole, rel=0.2)


def test_fewer_epochs_than_stages_train_some_of_them_and_the_last_one(digits):
    def slopes(n_epochs):
        hasher = HashNetHasher(8, n_stages=10, max_beta=7, n_epochs=n_epochs, random_state=0)
        return [entry["beta"] for entry in hasher.fit(digits.X, digits.y).history_]

    all_slopes = slopes(10)
    assert slopes(3) == [all_slopes[stage] for stage in (3, 6, 9)]
    assert slopes(1) == all_slopes[-1:] == [7]


def test_without_continuation_beta_stays(digits):
    hasher = HashNetHasher(8, n_stages=1, n_epochs=3, random_state=0).fit(digits.X, digits.y)
    assert ["beta" in entry for entry in hasher.history_] == [False, False, True]
    assert hasher.history_[-1]["beta"] == 1


def test_learns(digits):
    hasher = HashNetHasher(16, n_epochs=40, random_state=0).fit(digits.X, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) > 0.8


def test_every_option_matters(digits):
    changes = ({}, {"class_ratio": 1.0}, {"class_ratio": 9.0}, {"scale": 0.1}, {"n_stages": 1}, {"max_beta": 50})
    plain, *others = (
        HashNetHasher(16, n_epochs=6, random_state=0, **options).fit(digits.X, digits.y).database_.codes.rows
        for options in changes
    )
    assert all((plain != other).any() for other in others)


def test_continuous_similarity_of_labels_matters():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, (60, 4))
    plain, continuous = (
        HashNetHasher(8, similarity=s, n_epochs=5, random_state=0).fit(X, y) for s in ("binary", "continuous")
    )
    assert (plain.database_.codes.rows != continuous.database_.codes.rows).any()
    again = HashNetHasher(8, similarity="continuous", n_epochs=5, random_state=0).fit(X, y)
    assert_array_equal(continuous.database_.codes.rows, again.database_.codes.rows)
