import _oracles as oracles
import pytest
from hypothesis import given, settings

from skhash.metrics import (
    r_precision,
)


@settings(max_examples=60)
@given(items=oracles.tied_items(max_level=2))
def test_r_precision_equals_enumeration_of_all_orders(items):
    expected = oracles.r_precision(oracles.all_rankings(items))
    for ties, summary in oracles.OVER_ORDERS.items():
        value = r_precision(oracles.histogram(items), ties=ties, empty="zero")
        assert value == pytest.approx(summary(expected), abs=1e-12)
