"""The one evaluation of a ranking, for scorers, validation and comparisons."""

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skhash.affinity import Relevance
from skhash.metrics import (
    Metric,
    Ranking,
    average_precision,
    evaluate_histograms,
    evaluate_ranking,
    fast_ap,
    ndcg,
    precision,
    precision_recall_curve,
    relevance_histogram,
)
from skhash.metrics.evaluation import evaluate_queries


def test_queries_without_a_value_give_one_warning():
    one_kind = relevance_histogram([[0, 0], [0, 1]], [[0, 1], [1, 1]], [7, 5], [7, 7])
    with pytest.warns(UserWarning, match="queries have no") as warned:
        values = evaluate_histograms([one_kind], ["roc_auc", "ap", "ndcg"])
    assert [str(w.message).split(" in the")[0] for w in warned] == [
        "2 of 2 queries have no pair of a relevant and an irrelevant item, and 1 of 2 queries have no relevant item",
    ]
    assert warned[0].filename == __file__
    assert math.isnan(values["roc_auc"])


RNG = np.random.default_rng(0)
#: codes and classes of 30 queries and 80 items; classes 4 and 5 are missing in the database
CODES = [RNG.integers(0, 2, (n, 12)) for n in (30, 80)]
TARGETS = RNG.integers(0, 6, 30), RNG.integers(0, 4, 80)


@pytest.fixture
def ranking():
    return Ranking(*CODES, Relevance.between(*TARGETS))


def histogram(bit_weights=None):
    return relevance_histogram(*CODES, *TARGETS, bit_weights=bit_weights)


def counted(monkeypatch):
    """List of the passes over a ranking: whether each uses the weights."""
    passes, count = [], Ranking.histograms
    monkeypatch.setattr(
        Ranking, "histograms", lambda self, *, weighted=True: passes.append(weighted) or count(self, weighted=weighted)
    )
    return passes


@pytest.mark.parametrize("empty", ["zero", "one", "nan"])
def test_metrics_of_a_ranking_are_those_of_its_histogram(ranking, empty):
    names = ["ap", "ndcg_at_5", Metric.parse("precision_radius_3"), "fast_ap"]
    H = histogram()
    expected = {
        "ap": average_precision(H, empty=empty),
        "ndcg_at_5": ndcg(H, k=5, empty=empty),
        "precision_radius_3": precision(H, radius=3, empty=empty),
        "fast_ap": fast_ap(H, empty=empty),
    }
    values = evaluate_ranking(ranking, names, empty=empty)
    assert list(values) == list(expected)
    assert values == pytest.approx(expected, abs=1e-14, nan_ok=True)


def test_all_metrics_and_their_values_per_query_take_one_pass(ranking, monkeypatch):
    calls = counted(monkeypatch)
    means, values = evaluate_queries(ranking, ["ap", "recall_radius_2", "ap"], empty="zero")
    assert len(calls) == 1
    assert list(means) == list(values) == ["ap", "recall_radius_2"]
    assert_array_equal(values["ap"], average_precision(histogram(), empty="zero", average=False))
    assert means == {name: of_queries.mean() for name, of_queries in values.items()}


@pytest.mark.parametrize(
    ("names", "passes"),
    [(["ap", "r_precision"], [True]), (["precision_radius_2"], [False]), (["ap", "recall_radius_3"], [True, False])],
)
def test_bits_with_weights_take_a_second_pass_only_if_a_metric_counts_bits(ranking, names, passes, monkeypatch):
    weights = np.linspace(0.1, 2, 12)
    found = counted(monkeypatch)
    values = evaluate_ranking(dataclasses.replace(ranking, bit_weights=weights), names, empty="zero")
    assert found == passes
    for name in names:
        H = histogram(None if "radius" in name else weights)
        assert values[name] == pytest.approx(Metric.parse(name)(H, empty="zero"), abs=1e-14)


def test_curves_of_single_queries_have_their_mean():
    H = histogram()
    per_query = precision_recall_curve(H, empty="zero", average=False)
    assert per_query[0].shape == per_query[1].shape == (30, 13)
    for values, mean in zip(per_query[:2], precision_recall_curve(H, empty="zero"), strict=False):
        assert_allclose(values.mean(axis=0), mean, rtol=1e-14)
