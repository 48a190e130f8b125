"""Rankings of a part of the items: relevant ones that were not retrieved count in the divisor, and stand at no rank."""

from dataclasses import replace

import _oracles as oracles
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skhash.metrics import (
    Metric,
    RelevanceHistogram,
    average_precision,
    evaluate_histograms,
    histogram_from_distances,
    precision,
    precision_recall_curve,
    roc_auc,
)
from skhash.metrics.metric import _FUNCTIONS


def with_lost(items, lost):
    """Histogram of retrieved items, pairs of a distance and a level, and of the levels of the others."""
    H = oracles.histogram([*items, (0, 3)])  # so that all levels have a place
    H.counts[0, 0, 3] -= 1
    return replace(H, unretrieved=np.bincount(lost, minlength=4)[None])


levels = st.lists(st.integers(0, 3), max_size=4).map(lambda levels: np.array(levels, dtype=int))


@settings(max_examples=100, deadline=None)
@given(items=oracles.tied_items(max_level=3).filter(lambda items: len(items) < 6), lost=levels)
def test_equals_enumeration_of_all_orders(items, lost):
    if not any(level for _, level in items) and not lost.any():
        lost = np.array([2])
    values = [oracles.of_a_part(ranking, lost) for ranking in oracles.all_rankings(items)]
    H = with_lost(items, lost)
    for layout in (H, replace(oracles.as_ragged(H), unretrieved=H.unretrieved)):
        for name in values[0]:
            for ties, summary in oracles.OVER_ORDERS.items():
                found = Metric.parse(name).with_ties(ties)(layout)
                assert found == pytest.approx(summary([value[name] for value in values]), abs=1e-12), (name, ties)


def test_all_metrics_are_enumerated():
    enumerated = {Metric.parse(name).function for name in oracles.of_a_part(np.ones(1, int), np.ones(0, int))}
    others = {"fast_ap", "roc_auc"}  # the tests below
    assert enumerated | {_FUNCTIONS[name] for name in others} == set(_FUNCTIONS.values())


@settings(max_examples=50, deadline=None)
@given(items=oracles.tied_items(max_level=3), lost=levels)
def test_metrics_of_distances_count_them_as_relevant(items, lost):
    distances, found = np.transpose(items)
    n_relevant = (found > 0).sum() + (lost > 0).sum()
    H = with_lost(items, lost)
    within = [(distances <= radius) for radius in range(4)]
    hits, sizes = (np.array([values.sum() for values in part]) for part in ([w & (found > 0) for w in within], within))
    curve = precision_recall_curve(H, empty="zero")
    assert_allclose(curve[0], oracles.ratio(hits, sizes) * (n_relevant > 0), atol=1e-15)
    assert_allclose(curve[1], hits / max(n_relevant, 1), atol=1e-15)
    names = ["precision_radius_1", "recall_radius_1", "fast_ap"]
    values = evaluate_histograms([H], names, empty="zero")
    fast_ap = oracles.ratio(hits, sizes)[distances[found > 0]].sum() / max(n_relevant, 1)
    assert list(values.values()) == pytest.approx([curve[0][1], curve[1][1], fast_ap], abs=1e-12)


def test_a_query_without_retrieved_items_has_a_value():
    counts, levels = np.array([[1, 1], [0, 2]]), np.array([0, 1])
    H = RelevanceHistogram(
        counts, levels, np.array([0.5, 0.25]), np.array([0, 0, 1, 2]), np.array([[0, 3], [0, 0], [0, 0]])
    )
    for part in (H, H.by_ranks()):
        assert average_precision(part, average=False).tolist() == [0, 0.75, 1]
        assert precision(part, k=2, average=False).tolist() == [0, 0.5, 1]
    nothing = RelevanceHistogram(counts[:0], levels, np.empty(0), np.zeros(2, int), np.array([[0, 3]]))
    names = [*oracles.of_a_part(np.ones(1, int), np.ones(0, int)), "fast_ap", "recall_radius_2"]
    assert set(evaluate_histograms([nothing], names).values()) == {0.0}
    assert average_precision(nothing) == 0


def test_pairs_with_items_that_nobody_has_seen_are_refused():
    H = histogram_from_distances([[1, 2]], levels=[[1, 0]])
    with pytest.raises(ValueError, match=r"`H` must rank all items for roc_auc"):
        roc_auc(replace(H, unretrieved=np.zeros((1, 2), int)))


@pytest.mark.parametrize("is_ragged", [False, True])
def test_shards_add_up(is_ragged):
    rng = np.random.default_rng(0)
    shards = [
        RelevanceHistogram(
            rng.integers(0, 3, (5, 4, 3)), levels, unretrieved=rng.integers(0, 3, (5, 3)).astype(np.uint8)
        )
        for levels in ([0, 1, 2], [0, 2, 5])
    ]
    if is_ragged:
        shards = [replace(oracles.as_ragged(H), unretrieved=H.unretrieved) for H in shards]
    together = sum(shards)
    assert_array_equal(together.levels, [0, 1, 2, 5])
    expected = np.zeros((5, 4), int)
    expected[:, :3] += shards[0].unretrieved
    expected[:, [0, 2, 3]] += shards[1].unretrieved
    assert_array_equal(together.unretrieved, expected)
    whole = replace(shards[1], unretrieved=None)
    assert_array_equal((shards[0] + whole).unretrieved[:, :3], shards[0].unretrieved)
    assert (whole + whole).unretrieved is None
    again = RelevanceHistogram.from_bytes(together.to_bytes())
    assert_array_equal(again.unretrieved, together.unretrieved)
    oracles.assert_same_histogram(again, together)


def test_wrong_numbers_are_refused():
    H = RelevanceHistogram(np.ones((2, 3, 2), int), [0, 1])
    with pytest.raises(ValueError, match=r"`unretrieved` must have a number for each query and level, shape \(2, 2\)"):
        replace(H, unretrieved=np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"`unretrieved` must be numbers of items, >= 0"):
        RelevanceHistogram.from_bytes(replace(H, unretrieved=np.full((2, 2), -1)).to_bytes())
