"""Ranges over the orders of ties are those of the metric."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skhash import LSHHasher
from skhash.displays import TieRangeDisplay
from skhash.metrics import average_precision, ndcg


def test_tie_range_of_histograms_is_that_of_the_metric(digits, itq, histogram):
    lsh = LSHHasher(nbits=12, random_state=0).fit(digits.X)
    histograms = {"itq": histogram(itq), "mine": histogram(lsh)}
    for metric, function in (("ap", average_precision), ("ndcg", ndcg)):
        display = TieRangeDisplay.from_histograms(histograms, metric=metric)
        bars, points = display.ranges_.get_segments(), display.points_
        for H, bar, point, line in zip(histograms.values(), bars, points, (0, 1), strict=True):
            worst, average, best = (function(H, ties=ties) for ties in ("worst", "average", "best"))
            assert worst < average < best
            assert_allclose(bar, [[worst, line], [best, line]], rtol=1e-12)
            assert_allclose(point.get_xydata(), [[average, line]], rtol=1e-12)
        assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["itq", "mine"]
        assert f"{points[0].get_xdata()[0]:.3f}" in [text.get_text() for text in display.ax_.texts]
        bottom, top = display.ax_.get_ylim()
        assert bottom > 1 > 0 > top  # the first method at the top


def test_tie_range_of_one_histogram_is_that_of_several(digits, itq, histogram):
    H = histogram(itq)
    alone, named = TieRangeDisplay.from_histogram(H, "itq"), TieRangeDisplay.from_histograms({"itq": H})
    assert (alone.names, alone.worst, alone.best) == (named.names, named.worst, named.best)


def test_tie_range_of_results_averages_the_seeds(results):
    display = TieRangeDisplay.from_results(results, nbits=8)
    assert display.names == ["itq", "lsh"]
    assert display.metric_name == "AP at 8 bits"
    for order, metric in (("average", "ap"), ("worst", "ap_worst"), ("best", "ap_best")):
        rows = [row for row in results if row["nbits"] == 8]
        expected = [np.mean([row[metric] for row in rows if row["method"] == name]) for name in display.names]
        assert_allclose(getattr(display, order), expected, rtol=1e-12)


def test_tie_range_of_an_estimator_ranks_as_its_score(digits, itq, structhash, histogram):
    for hasher, name in ((itq, "ITQ"), (structhash, "StructHash")):
        display = TieRangeDisplay.from_estimator(hasher, digits.X_query, digits.y_query)
        assert display.names == [name]
        assert_allclose(display.average, hasher.score(digits.X_query, digits.y_query), rtol=1e-12)
    display = TieRangeDisplay.from_estimator(structhash, digits.X_query, digits.y_query, metric="ndcg")
    by_weights = histogram(structhash, bit_weights=structhash.bit_weights_)
    assert_allclose(display.best, ndcg(by_weights, ties="best"), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "metric", "options"),
    [
        ("ndcg_at_20_delayed_log2", ndcg, {"k": 20, "discount": "delayed_log2"}),
        ("ap_at_20_retrieved", average_precision, {"k": 20, "normalizer": "retrieved"}),
        ("ap_at_20", average_precision, {"k": 20}),
    ],
)
def test_tie_range_takes_metrics_with_options(digits, itq, name, metric, options, histogram):
    H = histogram(itq)
    display = TieRangeDisplay.from_histograms({"itq": H}, metric=name)
    expected = [metric(H, ties=ties, **options) for ties in ("worst", "average", "best")]
    assert_allclose([display.worst[0], display.average[0], display.best[0]], expected, rtol=1e-12)
