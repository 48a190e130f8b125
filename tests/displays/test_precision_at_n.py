"""Precision among the first N items."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from skhash.displays import PrecisionAtNDisplay
from skhash.metrics import precision


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
