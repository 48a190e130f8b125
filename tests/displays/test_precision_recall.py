"""Precision and recall within each radius."""

from numpy.testing import assert_allclose

from skhash.displays import PrecisionRecallDisplay
from skhash.metrics import precision, recall


def test_precision_and_recall_are_those_within_each_radius(digits, itq, histogram):
    H = histogram(itq)
    line = PrecisionRecallDisplay.from_histogram(H).lines_[0]
    radii = range(13)
    assert_allclose(line.get_xdata(), [recall(H, radius=r) for r in radii], rtol=1e-12)
    assert_allclose(line.get_ydata(), [precision(H, radius=r) for r in radii], rtol=1e-12)


def test_the_radius_counts_bits_whatever_they_weigh(digits, structhash, histogram):
    display = PrecisionRecallDisplay.from_estimator(structhash, digits.X_query, digits.y_query)
    H = histogram(structhash)
    assert_allclose(display.precision, [precision(H, radius=r) for r in range(6)], rtol=1e-12)
