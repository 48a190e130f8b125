import _oracles as oracles
import numpy as np
import pytest
from hypothesis import given, settings

from skhash.metrics import (
    RelevanceHistogram,
    reciprocal_rank,
)


@settings(max_examples=60)
@given(items=oracles.tied_items(max_level=2))
def test_equals_enumeration_of_all_orders(items):
    expected = oracles.reciprocal_rank(oracles.all_rankings(items))
    for ties, summary in oracles.OVER_ORDERS.items():
        value = reciprocal_rank(oracles.histogram(items), ties=ties, empty="zero")
        assert value == pytest.approx(summary(expected), abs=1e-12)


def test_reciprocal_rank_of_a_tie_of_thousands():
    n, p, before = 5000, 3, 7
    chances = np.cumprod(1 - p / (n - np.arange(n - p + 1)))  # no relevant item among the first j + 1
    at = -np.diff(np.concatenate([[1], chances]))
    counts = np.array([[[before, 0], [n - p, p]]])
    expected = at @ (1 / (before + 1 + np.arange(len(at))))
    assert reciprocal_rank(RelevanceHistogram(counts, np.arange(2))) == pytest.approx(expected, rel=1e-10)


def test_soft_counts_have_no_reciprocal_rank():
    with pytest.raises(ValueError, match=r"`H` must have whole counts for reciprocal_rank"):
        reciprocal_rank(RelevanceHistogram(np.full((1, 2, 2), 0.7), np.array([0, 1])))
