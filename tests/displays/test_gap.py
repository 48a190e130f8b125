"""StructHash's history."""

from numpy.testing import assert_array_equal

from skhash.displays import GapDisplay


def test_gap_reads_the_history(structhash):
    display = GapDisplay.from_estimator(structhash)
    for name, line in display.lines_.items():
        assert_array_equal(line.get_xdata(), range(1, 6))
        assert_array_equal(line.get_ydata(), [entry[name] for entry in structhash.history_])
    assert display.lines_.keys() == {"objective", "bound", "gap", "effective_bits", "n_cuts"}
    assert display.tolerance == structhash.C_ * structhash.tol
    assert display.ax_.shape == (2, 2)
