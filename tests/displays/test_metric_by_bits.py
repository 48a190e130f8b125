"""Means and standard deviations over the seeds of a comparison."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skhash.comparison import Result
from skhash.displays import MetricByBitsDisplay, RecallByBytesDisplay, TieRangeDisplay


def test_lines_and_bars_are_means_and_deviations_over_the_seeds(results):
    for metric in ("ap", "precision_radius_2", "fit_seconds"):
        display = MetricByBitsDisplay.from_results(results, metric=metric)
        for name, line, container in zip(["itq", "lsh"], display.lines_, display.errorbars_, strict=True):
            values = np.array(
                [[row[metric] for row in results if (row["method"], row["nbits"]) == (name, n)] for n in (8, 16)]
            )
            assert_allclose(line.get_xydata(), np.column_stack([[8, 16], values.mean(axis=1)]), rtol=1e-12)
            bars = np.array(container.lines[2][0].get_segments())[..., 1]
            assert_allclose(bars[:, 1] - bars[:, 0], 2 * np.std(values, axis=1, ddof=1), rtol=1e-9)
        assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["8", "16"]


def test_missing_results_and_failed_fits_are_left_out(results):
    some = [row for row in results if (row["method"], row["nbits"]) != ("lsh", 16)]
    some = [row | {"ap": None} if (row["method"], row["seed"]) == ("itq", 1) else row for row in some]
    display = MetricByBitsDisplay.from_results(some)
    assert np.isnan(display.mean[1, 1])
    assert_array_equal(display.lines_[1].get_xdata(), [8])
    assert_array_equal(display.mean[0], [results[0]["ap"], next(row["ap"] for row in results if row["nbits"] == 16)])
    assert np.isnan(display.spread[0]).all()
    assert not display.errorbars_[0].has_yerr


def test_the_label_of_a_method_that_lacks_seeds_says_so(results):
    fewer = [row for row in results if (row["method"], row["seed"]) != ("itq", 1)]
    assert TieRangeDisplay.from_results(fewer, nbits=8).names == ["itq (1 of 2 seeds)", "lsh"]
    asked = MetricByBitsDisplay.from_results([row | {"asked_seeds": 3} for row in fewer])
    assert [text.get_text() for text in asked.ax_.get_legend().get_texts()] == [
        "itq (1 of 3 seeds)",
        "lsh (2 of 3 seeds)",
    ]
    alone = MetricByBitsDisplay.from_results(results)
    assert [line.get_color() for line in asked.lines_] == [line.get_color() for line in alone.lines_]


def test_the_best_of_a_size_has_all_seeds():
    recalls = {"itq": {0: 0.5, 1: 0.5}, "embedding": {0: 0.75}}
    rows = [
        {"method": name, "nbits": 64, "bytes_per_item": 8, "seed": seed, "recall": recall}
        for name, of_method in recalls.items()
        for seed, recall in of_method.items()
    ]
    display = RecallByBytesDisplay.from_results(rows, metric="recall")
    assert_array_equal(display.rings_.get_offsets(), [[8, 0.5]])
    none = RecallByBytesDisplay.from_results([row | {"asked_seeds": 3} for row in rows], metric="recall")
    assert len(none.rings_.get_offsets()) == 0


def test_results_of_one_data_set_are_selected(results):
    others = [row | {"dataset": "usps", "protocol": "5k", "ap": 0.5} for row in results]
    both = results + others
    assert_array_equal(MetricByBitsDisplay.from_results(both, dataset="usps").mean, np.full((2, 2), 0.5))
    assert_array_equal(
        MetricByBitsDisplay.from_results(both, dataset="digits").mean, MetricByBitsDisplay.from_results(results).mean
    )
    with pytest.raises(ValueError, match=r"`results` must have a single dataset\. Got digits, usps instead"):
        MetricByBitsDisplay.from_results(both)
    with pytest.raises(ValueError, match=r"`results` must have a single protocol\. Got holdout, 5k.* Pass the results"):
        MetricByBitsDisplay.from_results(results + [row | {"protocol": "5k"} for row in results])


def test_results_are_those_of_compare_or_their_entries(results):
    display = MetricByBitsDisplay.from_results([Result.from_dict(row) for row in results])
    assert_array_equal(display.mean, MetricByBitsDisplay.from_results(results).mean)
    with pytest.raises(TypeError, match=r"`results` must be those of compare.* Got an instance of str instead"):
        MetricByBitsDisplay.from_results("ap")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (TieRangeDisplay.from_results, "must have a single nbits. Got 8, 16 instead. Choose one: nbits=8."),
        (lambda results: TieRangeDisplay.from_results(results, nbits=32), "`nbits` .* `results`: 8, 16. Got 32"),
        (lambda results: MetricByBitsDisplay.from_results(results, dataset="mnist"), "`dataset` .* Got 'mnist'"),
        (
            lambda results: MetricByBitsDisplay.from_results(results, metric="map"),
            "`metric` must have a value in all results: ap, ap_worst.* Got 'map' instead",
        ),
        (lambda results: MetricByBitsDisplay.from_results(results, metric="nbits"), "Got 'nbits' instead"),
        (lambda results: TieRangeDisplay.from_results(results, nbits=8, metric="ndcg"), "Got 'ndcg_worst' instead"),
        (lambda results: MetricByBitsDisplay.from_results([]), "at least one result with metrics"),
    ],
)
def test_unusable_results_are_rejected(call, message, results):
    with pytest.raises(ValueError, match=message):
        call(results)
