import warnings

import _oracles as oracles
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skhash.metrics import (
    RelevanceHistogram,
    histogram_from_distances,
    precision,
    precision_recall_curve,
    r_precision,
    recall,
    relevance_histogram,
)

AT_RANK = {precision: oracles.precision, recall: oracles.recall}


@pytest.fixture(scope="module")
def problem():
    """Real distances of 6 queries to 15 items, with ties, and their relevance; query 0 is far from everything."""
    rng = np.random.default_rng(0)
    distances = rng.integers(0, 8, (6, 15)) / 2
    distances[0] += 10
    relevant = rng.integers(0, 2, (6, 15))
    H = histogram_from_distances(distances, np.arange(6), np.arange(15), affinity=lambda a, b: relevant)
    return distances, relevant, H


@pytest.mark.parametrize("metric", AT_RANK)
@settings(deadline=None, max_examples=60)
@given(items=oracles.tied_items(max_level=2), k=st.integers(1, 10))
def test_at_a_rank_equals_enumeration_of_all_orders(metric, items, k):
    expected = AT_RANK[metric](oracles.all_rankings(items), k)
    for ties, summary in oracles.OVER_ORDERS.items():
        value = metric(oracles.histogram(items), k=k, ties=ties, empty="zero")
        assert value == pytest.approx(summary(expected), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(items=oracles.tied_items(max_level=2))
def test_r_precision_equals_enumeration_of_all_orders(items):
    expected = oracles.r_precision(oracles.all_rankings(items))
    for ties, summary in oracles.OVER_ORDERS.items():
        value = r_precision(oracles.histogram(items), ties=ties, empty="zero")
        assert value == pytest.approx(summary(expected), abs=1e-12)


@pytest.mark.parametrize("radius", [-1, 0, 0.5, 1.7, 3.5, 10, 100])
def test_within_a_radius_equals_direct_counting(problem, radius):
    distances, relevant, H = problem
    ball = distances <= radius
    hits = (ball & (relevant > 0)).sum(axis=1)
    assert_allclose(precision(H, radius=radius, average=False), oracles.ratio(hits, ball.sum(axis=1)), rtol=1e-15)
    assert_allclose(recall(H, radius=radius, average=False), hits / relevant.sum(axis=1), rtol=1e-15)


def test_an_empty_ball_has_precision_zero_and_counts_in_the_mean():
    H = oracles.histogram([(0, 1), (1, 0)], [(2, 1), (3, 0)])
    assert precision(H, radius=0, average=False).tolist() == [1, 0]
    assert (precision(H, radius=0), recall(H, radius=1)) == (0.5, 0.5)


@pytest.mark.parametrize("metric", [precision, recall])
def test_within_a_radius_takes_soft_counts(metric):
    counts = np.random.default_rng(0).uniform(0, 2, (3, 5, 2))
    H, T = (RelevanceHistogram(c, np.arange(2)) for c in (counts, torch.tensor(counts)))
    assert metric(T, radius=2).item() == pytest.approx(metric(H, radius=2), rel=1e-12)


def test_curve_is_precision_and_recall_at_every_radius(problem):
    H = oracles.histogram([(0, 1), (1, 0), (3, 2)], [(2, 1), (3, 0), (3, 0)])
    for counts, radii in ((H, None), (H, [3, 0.5]), (problem[-1], [0, 1.5, 12])):
        p, r, at = precision_recall_curve(counts, radii=radii)
        assert at.tolist() == ([0, 1, 2, 3] if radii is None else radii)
        assert_allclose(p, [precision(counts, radius=radius) for radius in at], rtol=1e-15)
        assert_allclose(r, [recall(counts, radius=radius) for radius in at], rtol=1e-15)


def test_curve_of_real_distances_spans_them(problem):
    distances, _, H = problem
    p, r, radii = precision_recall_curve(H)
    assert (len(p), len(r), radii[0], radii[-1]) == (101, 101, distances.min(), distances.max())
    assert r[-1] == 1
    assert (np.diff(r) >= 0).all()


@pytest.mark.parametrize(("empty", "expected"), [("skip", 1), ("zero", 0.5), ("one", 1), ("nan", np.nan)])
def test_curve_treats_empty_queries_by_one_policy_and_one_warning(empty, expected):
    H = oracles.histogram([(0, 1)], [(0, 0)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        p, r, _ = precision_recall_curve(H, empty=empty)
    assert_allclose([p, r], np.full((2, 4), expected))
    assert [str(w.message)[:12] for w in caught] == ["1 of 2 queri"] * (empty == "skip")


@pytest.mark.parametrize("weights", [[0.3], [0.7, 0.1], [0.1, 0.2, 1 / 3], [1e-3, 1e3]])
def test_a_radius_includes_its_distance_whatever_the_rounding_of_weights(weights):
    zeros, ones = np.zeros((1, len(weights)), int), np.ones((1, len(weights)), int)
    H = relevance_histogram(zeros, ones, [0], [0], bit_weights=weights)
    assert precision(H, radius=sum(weights)) == recall(H, radius=sum(weights)) == 1
    assert recall(H, radius=sum(weights) * (1 - 1e-9)) == 0
    assert [float(values[0]) for values in precision_recall_curve(H, radii=sum(weights))[:2]] == [1, 1]


def test_a_curve_of_soft_counts_with_a_gradient():
    counts = torch.rand((3, 5, 2), dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    curve = precision_recall_curve(RelevanceHistogram(counts, np.array([0, 1])))
    expected = precision_recall_curve(RelevanceHistogram(counts.detach().numpy(), np.array([0, 1])))
    for values, same in zip(curve, expected, strict=True):
        assert_allclose(values, same, rtol=1e-12)


def test_a_curve_needs_a_histogram():
    with pytest.raises(TypeError, match=r"`H` must be a RelevanceHistogram.* Got ndarray"):
        precision_recall_curve(np.zeros((2, 3)))


@pytest.mark.parametrize("metric", [precision, recall])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Exactly one of `k` and `radius` must be given. Got k=None and radius=None"),
        ({"k": 1, "radius": 2}, "Exactly one of .* Got k=1 and radius=2"),
        ({"k": 0}, "`k` must be None or an int >= 1. Got 0"),
        ({"k": 1, "ties": "random"}, "`ties` must be one of .* Got 'random'"),
        ({"radius": "2"}, "`radius` must be None or a number. Got '2'"),
        ({"radius": float("nan")}, "`radius` must be None or a number. Got nan"),
    ],
)
def test_unclear_options_are_refused(metric, options, message):
    with pytest.raises(ValueError, match=message):
        metric(oracles.histogram([(0, 1)]), **options)


def test_a_histogram_of_no_query_is_refused():
    with pytest.raises(ValueError, match=r"`H` must have at least one query"):
        precision(RelevanceHistogram(np.zeros((0, 9, 2)), np.array([0, 1])), k=1)
