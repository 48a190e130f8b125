import _oracles as oracles
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score, roc_auc_score

from skhash.metrics import (
    average_precision,
    histogram_from_distances,
    roc_auc,
)


@settings(max_examples=60)
@given(items=oracles.tied_items(max_level=2))
def test_equals_enumeration_of_all_orders(items):
    expected = oracles.roc_auc(oracles.all_rankings(items))
    for ties, summary in oracles.OVER_ORDERS.items():
        value = roc_auc(oracles.histogram(items), ties=ties, empty="zero")
        assert value == pytest.approx(summary(expected), abs=1e-12)


def test_agrees_with_sklearn_on_scores():
    rng = np.random.default_rng(0)
    relevant = rng.integers(0, 2, (5, 60))
    scores = rng.normal(size=(5, 60)) + relevant  # without ties, which sklearn's average precision does not average
    H = histogram_from_distances(-scores, levels=relevant)
    for metric, reference in ((roc_auc, roc_auc_score), (average_precision, average_precision_score)):
        expected = [reference(r, s) for r, s in zip(relevant, scores, strict=True)]
        assert_allclose(metric(H, average=False), expected, rtol=1e-12)
        assert metric(H) == pytest.approx(np.mean(expected), rel=1e-12)
    rounded = histogram_from_distances(-scores.round(), levels=relevant)
    expected = [roc_auc_score(r, s) for r, s in zip(relevant, scores.round(), strict=True)]
    assert_allclose(roc_auc(rounded, average=False), expected, rtol=1e-12)


def test_roc_auc_of_a_query_without_an_irrelevant_item_is_undefined():
    H = oracles.histogram([(0, 1), (1, 1)], [(0, 1), (1, 0)])
    with pytest.warns(UserWarning, match="1 of 2 queries have no pair of a relevant and an irrelevant item"):
        assert roc_auc(H) == 1
    assert np.isnan(roc_auc(H, average=False)[0])
