"""Precision and recall, at a rank and within a radius."""

import _oracles as oracles
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skhash.metrics import (
    RelevanceHistogram,
    precision,
    precision_recall_curve,
    recall,
    relevance_histogram,
)

AT_RANK = {precision: oracles.precision, recall: oracles.recall}


@pytest.mark.parametrize("metric", AT_RANK)
@settings(max_examples=60)
@given(items=oracles.tied_items(max_level=2), k=st.integers(1, 10))
def test_at_a_rank_equals_enumeration_of_all_orders(metric, items, k):
    expected = AT_RANK[metric](oracles.all_rankings(items), k)
    for ties, summary in oracles.OVER_ORDERS.items():
        value = metric(oracles.histogram(items), k=k, ties=ties, empty="zero")
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


@pytest.mark.parametrize("weights", [[0.3], [0.7, 0.1], [0.1, 0.2, 1 / 3], [1e-3, 1e3]])
def test_a_radius_includes_its_distance_whatever_the_rounding_of_weights(weights):
    zeros, ones = np.zeros((1, len(weights)), int), np.ones((1, len(weights)), int)
    H = relevance_histogram(zeros, ones, [0], [0], bit_weights=weights)
    assert precision(H, radius=sum(weights)) == recall(H, radius=sum(weights)) == 1
    assert recall(H, radius=sum(weights) * (1 - 1e-9)) == 0
    assert [float(values[0]) for values in precision_recall_curve(H, radii=sum(weights))[:2]] == [1, 1]


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
