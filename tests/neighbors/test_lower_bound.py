"""The lower bound of a mean, against its definition in plain loops and by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skhash.neighbors.choose_code import _lower_bound as lower_bound


def largest_capital(values, mean, alpha):
    """The largest capital of bets against a mean, value by value."""
    capital = largest = 1.0
    total, squares, variance = 0.5, 0.25, 0.25
    for i, x in enumerate(values, 1):
        bet = min(math.sqrt(2 * math.log(1 / alpha) / (len(values) * variance)), 0.75 / mean)
        capital *= 1 + bet * (x - mean)
        largest = max(largest, capital)
        total += x
        squares += (x - total / (i + 1)) ** 2
        variance = squares / (i + 1)
    return largest


@given(st.lists(st.integers(0, 10), min_size=1, max_size=60), st.sampled_from([0.5, 0.95, 0.999]))
def test_capital_reaches_the_threshold_at_the_bound(tenths, confidence):
    values = np.array(tenths) / 10
    bound = lower_bound(values, confidence)
    assert 0 <= bound < 1
    assert largest_capital(values, bound + 1e-6, 1 - confidence) <= 1 / (1 - confidence)
    if bound > 0:
        assert largest_capital(values, bound - 1e-6, 1 - confidence) >= 1 / (1 - confidence)


def test_bounds_of_simple_values():
    assert lower_bound(np.zeros(50), 0.95) == 0
    assert lower_bound(np.ones(1), 0.95) == 0
    bounds = [lower_bound(np.ones(n), 0.95) for n in (10, 100, 1000)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > 0.99
    values = np.random.default_rng(0).random(500)
    assert lower_bound(values, 0.99) < lower_bound(values, 0.9) < values.mean()


@pytest.mark.parametrize("n", [50, 200])
def test_it_holds_where_a_normal_bound_fails(n):
    rng, mean, n_draws = np.random.default_rng(0), 0.97, 1000
    draws = (rng.random((n_draws, n)) < mean).astype(float)  # most recalls are 1, and few are 0
    normal = draws.mean(1) - 1.645 * draws.std(1, ddof=1) / math.sqrt(n)
    assert np.mean(normal > mean) > 0.08
    # a draw whose bound is above the mean is one whose capital against it reaches 1 / alpha
    assert np.mean([lower_bound(values, 0.95) > mean for values in draws[:300]]) <= 0.05
