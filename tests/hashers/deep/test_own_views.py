"""Own views: always the first positive of NSH, learned by the codes, and counted."""

import math
import warnings

import numpy as np
import pytest
import torch
from _helpers import NBITS, WIDTH, Head, StopAfter, draw
from numpy.testing import assert_allclose, assert_array_equal

from skhash import NSHHasher
from skhash.exceptions import DegenerateCodesWarning
from skhash.hashers.deep.nsh import (
    OwnViews,
    _count_found,
    _nearest_draw,
    _NSHObjective,
    _own_view_first,
    _soft_permutation,
    _weaken,
    warn_if_not_found,
)


def draw_distances(n=7, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, NBITS + 1, (n, n)).astype(float))


def test_own_view_precedes_all_others_which_keep_their_order():
    distances = draw_distances()
    moved = _own_view_first(distances)
    others = ~torch.eye(len(distances), dtype=torch.bool)
    assert (moved.diagonal()[:, None] < moved).masked_select(others).all()
    assert_allclose(moved[others], distances[others] + 1)
    assert moved.min() >= 0


def test_moving_the_own_view_keeps_the_gradient():
    distances, weights = draw_distances().requires_grad_(), draw(7, 7)
    (_own_view_first(distances) * weights).sum().backward()
    torch.testing.assert_close(distances.grad, weights)


@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
def test_loss_is_the_likelihood_of_the_first_row_of_the_soft_permutation(tau):
    distances = draw_distances()
    first = _soft_permutation(distances.min(1, keepdim=True).values, distances, tau)[:, 0]
    expected = -np.mean([math.log(first[i, i]) for i in range(len(first))])
    _, loss = OwnViews(torch.neg, first=True, weight=2.0).sort(distances, 2, tau)
    assert loss.item() == pytest.approx(2 * expected, abs=1e-12)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_count_is_that_of_a_double_loop(m):
    distances = draw_distances()
    found = sum(sum(other < row[i] for other in row) < m for i, row in enumerate(distances.tolist()))
    assert _count_found(distances, m) == found


def make_objective(**options):
    views = draw(12, WIDTH, seed=1), draw(12, WIDTH, seed=2)
    calls = iter(range(100))
    torch.manual_seed(0)
    return _NSHObjective(
        lambda X: views[next(calls) % 2].repeat(len(X) // 12, 1), WIDTH, WIDTH, 4, **options
    ).double(), views[0]


def test_first_adds_the_loss_and_sorted_does_not():
    with torch.random.fork_rng():
        losses = []
        for own_view, weight in (("first", 0.0), ("first", 2.0), ("sorted", 2.0), ("sorted", 0.0)):
            objective, X = make_objective(own_view=own_view, own_view_weight=weight)
            losses.append(objective(Head(mean=0.0, scale=1.0), X, None, np.arange(12)).item())
    assert losses[2] == losses[3] != losses[0] < losses[1]


def test_own_views_are_counted_per_epoch():
    own_views = OwnViews(torch.neg, first=False, weight=1.0)
    for _ in range(2):
        own_views.sort(draw_distances(), 2, 1.0)
    assert own_views.shares() == {"own_views_found": _count_found(draw_distances(), 2).item() / 7}
    own_views.start_epoch()
    assert own_views.shares() == {}


def test_views_of_another_shape_are_not_mixed():
    images = torch.rand(5, 3, 4, 4)
    assert _weaken(lambda batch: batch[..., :2], torch.tensor(0.5), images).shape == (5, 3, 4, 2)


def replace(batch):
    return batch.mean(0) + 100 * torch.randn_like(batch)  # a view that has nothing of the sample


@pytest.mark.parametrize("own_view", ["first", "sorted"])
def test_a_view_that_cannot_be_found_warns_and_keeps_the_fit(digits, own_view):
    hasher = NSHHasher(16, augment=replace, own_view=own_view, n_epochs=2, batch_size=50, random_state=0)
    with pytest.warns(UserWarning, match="for only [0-9]+ % of the samples.*Weaken `augment`") as caught:
        hasher.fit(digits.X[:200])
    assert caught[0].filename == __file__
    assert hasher.history_[-1]["own_views_found"] < 0.9
    assert hasher.transform(digits.X[:2]).shape == (2, 16)


def test_an_error_of_the_warning_loses_nothing(digits):
    hasher = NSHHasher(16, augment=replace, own_view="sorted", n_epochs=1, batch_size=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DegenerateCodesWarning)
        with pytest.raises(UserWarning, match="Weaken `augment`"):
            hasher.fit(digits.X[:200])
    assert hasher.transform(digits.X[:2]).shape == (2, 16)


def test_only_the_last_count_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_not_found([{"own_views_found": 0.1}, {"own_views_found": 0.9}, {"loss": 1.0}], stacklevel=1)
        warn_if_not_found([{"loss": 1.0}], stacklevel=1)
        warn_if_not_found([{"own_views_found": 0.8, "augment_strength": 0.3}], stacklevel=1)


def test_strength_follows_the_share_of_own_views_found():
    own_views = OwnViews(torch.neg, first=True, weight=1.0)
    for n_far, bound in ((0, 1.0), (1, 0.1)):  # of ten own views: all of them, and 80 %, are found
        for n_steps in (1, 500):
            before = own_views.strength.item()
            for _ in range(n_steps):
                own_views.sort(1 - torch.eye(10) + torch.diag(torch.arange(10) < 2 * n_far) * 3, 1, 1.0)
            assert (own_views.strength.item() > before) == (bound == 1)
        assert own_views.strength.item() == pytest.approx(bound)


def test_weakened_views_lie_between_the_samples_and_their_views():
    X, views = draw(5, WIDTH), draw(5, WIDTH, seed=1)
    weak = _weaken(lambda copies: views.repeat(4, 1), torch.tensor(0.125, dtype=X.dtype), X)
    torch.testing.assert_close(weak, 0.75 * X + 0.25 * views)


@pytest.mark.parametrize("n_draws", [1, 4, 11])
@pytest.mark.parametrize("shape", [(WIDTH,), (2, 3, 4)])
@pytest.mark.parametrize("scale", [2.0**90, 1.0, 2.0**-90])
def test_nearest_draw_of_each_sample_is_that_of_a_double_loop(shape, n_draws, scale):
    X, drawn = scale * torch.rand(5, *shape), []

    def augment(copies):
        versions = copies + scale * torch.randn_like(copies)
        drawn.extend(versions.split(5))
        return versions

    views = _nearest_draw(augment, n_draws, X)
    assert len(drawn) == n_draws
    for i in range(5):
        expected = min((draw[i] for draw in drawn), key=lambda view: (view - X[i]).double().square().sum().item())
        assert torch.equal(views[i], expected)


@pytest.mark.parametrize(("strength", "sizes"), [(0.1, 8 * [20]), (0.5, 8 * [20]), (0.75, 4 * [20] + [5]), (1.0, [5])])
def test_a_weak_augmentation_takes_the_nearest_of_more_draws(strength, sizes):
    calls = []
    _weaken(lambda batch: calls.append(len(batch)) or 2 * batch, torch.tensor(strength), draw(5, WIDTH))
    assert calls == sizes


def test_full_strength_is_the_augmentation_itself():
    X = draw(5, WIDTH)
    assert torch.equal(_weaken(torch.neg, torch.tensor(1.0), X), -X)


@pytest.mark.parametrize(
    ("augment", "own_view", "expected"),
    [
        (torch.neg, None, "first"),
        (torch.neg, "sorted", "sorted"),
        ("auto", None, "sorted"),
        ("auto", "first", "first"),
    ],
)
def test_own_view_is_the_first_by_default_with_a_given_augmentation(digits, augment, own_view, expected):
    options = {"augment": augment, "n_epochs": 1, "batch_size": 50, "random_state": 0, "store_database": False}
    hashers = [NSHHasher(16, own_view=value, **options).fit(digits.X[:200]) for value in (own_view, expected)]
    assert [hasher.settings_["own_view"] for hasher in hashers] == [expected, expected]
    assert ("augment_strength" in hashers[0].history_[-1]) == (expected == "first")
    assert_array_equal(*(hasher.transform(digits.X[:20]) for hasher in hashers))


def test_strength_is_continued_by_a_resume(digits, tmp_path):
    options = {
        "augment": torch.neg,
        "own_view": "first",
        "batch_size": 50,
        "n_epochs": 4,
        "random_state": 0,
        "nbits": 16,
    }
    whole = NSHHasher(**options).fit(digits.X[:200])
    with pytest.raises(KeyboardInterrupt):
        NSHHasher(**options, checkpoint=tmp_path).set_callbacks(StopAfter(2)).fit(digits.X[:200])
    resumed = NSHHasher(**options, checkpoint=tmp_path).fit(digits.X[:200], resume=True)
    assert resumed.history_ == whole.history_


def test_default_noise_is_found(digits):
    hasher = NSHHasher(16, n_epochs=2, batch_size=50, random_state=0).fit(digits.X[:500])
    assert hasher.history_[-1]["own_views_found"] > 0.5
