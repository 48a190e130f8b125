"""FastAP: the precision at the end of each tie."""

import _oracles as oracles
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skhash.metrics import (
    RelevanceHistogram,
    fast_ap,
    histogram_from_distances,
)


def histogram_of(items):
    """Histogram of one query given as (distance, level) pairs with levels 0 and 1."""
    return RelevanceHistogram(oracles.histogram(items, [(0, 1)]).counts[:1], np.array([0, 1]))


@settings(max_examples=100)
@given(oracles.tied_items(max_level=1))
def test_it_is_at_least_the_worst_order_and_at_most_one(items):
    H = histogram_of(items)
    value, worst = fast_ap(H, empty="zero"), oracles.average_precision(oracles.one_ranking(items, "worst"))[0]
    assert worst - 1e-12 <= value <= 1 + 1e-12
    if H.counts[..., 1].max() <= 1:  # no tie holds two relevant items
        assert value == pytest.approx(worst, abs=1e-12)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=10))
def test_without_ties_it_is_ap(levels):
    H = histogram_from_distances([np.arange(len(levels))], levels=[levels])
    expected = oracles.average_precision(np.array([levels]))
    assert_allclose(fast_ap(H, empty="zero"), expected, atol=1e-12)


def test_no_order_of_the_ties_bounds_it_from_above():
    items = [(0, 0)] * 4 + [(1, 1)] * 3
    best = oracles.average_precision(oracles.one_ranking(items, "best"))[0]
    assert fast_ap(histogram_of(items)) == pytest.approx(3 / 7)
    assert best == pytest.approx((1 / 5 + 2 / 6 + 3 / 7) / 3)
