"""Precision among the first N items."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from skhash.displays import PrecisionAtNDisplay, PrecisionRecallDisplay, TieRangeDisplay
from skhash.metrics import precision
from skhash.trec import histogram_of_run


def test_precision_at_n_is_that_of_the_metric(digits, itq, structhash, histogram):
    H = histogram(itq)
    line = PrecisionAtNDisplay.from_histogram(H, n=[1, 10, 400]).lines_[0]
    assert_array_equal(line.get_xdata(), [1, 10, 400])
    assert_allclose(line.get_ydata(), [precision(H, k=k) for k in (1, 10, 400)], rtol=1e-12)
    weighted = histogram(structhash, bit_weights=structhash.bit_weights_)
    display = PrecisionAtNDisplay.from_estimator(structhash, digits.X_query, digits.y_query, n=[1, 10, 400])
    assert_allclose(display.precision, [precision(weighted, k=k) for k in (1, 10, 400)], rtol=1e-12)


def test_the_default_ranks_end_with_the_database(digits, itq, structhash):
    for hasher in (itq, structhash):
        display = PrecisionAtNDisplay.from_estimator(hasher, digits.X_query, digits.y_query)
        assert (display.n[0], display.n[-1], len(np.unique(display.n))) == (1, len(digits.X), len(display.n))


def test_the_default_ranks_of_a_run_are_those_of_its_longest_query():
    found = {"b": {f"d{i}": float(-i) for i in range(40)}, "c": {"d1": 1.0}}
    H = histogram_of_run(found, {query: {"d1": 1, "d99": 1} for query in "abc"})
    display = PrecisionAtNDisplay.from_histogram(H)
    assert (display.n[0], display.n[-1]) == (1, 40)
    assert_allclose(display.precision[[0, 1, -1]], [1 / 3, 1 / 3, (0 + 1 / 40 + 1 / 40) / 3])
    curve = PrecisionRecallDisplay.from_histogram(H)
    assert_allclose(curve.recall[-1], (0 + 1 / 2 + 1 / 2) / 3)
    assert_allclose(TieRangeDisplay.from_histogram(H, metric="recall_at_2").average, [1 / 3])
