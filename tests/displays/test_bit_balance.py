"""Balance and correlation of bits."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from skhash.displays import BitBalanceDisplay


def test_bit_balance_draws_shares_and_correlations(digits, itq):
    display = BitBalanceDisplay.from_estimator(itq, digits.X)
    codes = itq.transform(digits.X).astype(float)
    for bar, share in zip(display.bars_, codes.mean(axis=0), strict=True):
        assert_allclose(sorted([bar.get_y(), bar.get_y() + bar.get_height()]), sorted([0.5, share]), rtol=1e-12)
    assert_allclose(display.image_.get_array(), np.abs(np.corrcoef(codes, rowvar=False)), rtol=0, atol=1e-12)
    assert display.image_.get_clim() == (0, 1)
    packed = BitBalanceDisplay.from_codes(itq.encode(digits.X), nbits=12)
    assert_array_equal(packed.correlation, display.correlation)


def test_bit_balance_of_constant_bits_has_no_nan():
    display = BitBalanceDisplay.from_codes(np.ones((10, 3), np.uint8))
    assert_array_equal(display.image_.get_array(), np.eye(3))
