"""HashNet's losses and relaxed codes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import DPSHHasher, HashNetHasher, StructHashHasher
from skhash.displays import GapDisplay, QuantizationDisplay


def test_quantization_reads_the_stages_and_relaxes_the_codes(digits, hashnet, histogram):
    display = QuantizationDisplay.from_estimator(hashnet, digits.X_query)
    stages = [entry for entry in hashnet.history_ if "beta" in entry]
    assert len(stages) == 3
    assert_array_equal(display.relaxed_line_.get_ydata(), [entry["relaxed_loss"] for entry in stages])
    assert_array_equal(display.binary_line_.get_ydata(), [entry["binary_loss"] for entry in stages])
    codes = np.tanh(stages[-1]["beta"] * hashnet.project(digits.X_query))
    expected = np.histogram(codes, bins=40, range=(-1, 1))[0] / codes.size
    assert_allclose([bar.get_height() for bar in display.bars_], expected, rtol=1e-9, atol=1e-12)
    assert display.gap_ in display.ax_[0].collections


def test_quantization_reads_the_hasher_of_a_pipeline(digits):
    hasher = HashNetHasher(nbits=4, n_epochs=2, n_stages=1, random_state=0)
    model = make_pipeline(StandardScaler(), hasher).fit(digits.X, digits.y)
    display = QuantizationDisplay.from_estimator(model, digits.X_query)
    activations = model[-1].project(model[0].transform(digits.X_query))
    assert_array_equal(display.codes, np.tanh(display.beta[-1] * activations))


def test_hashers_without_the_history_are_rejected(digits, itq, hashnet):
    with pytest.raises(
        ValueError, match=r"history_ with 'beta'.* as a HashNetHasher has. Got an instance of ITQHasher instead"
    ):
        QuantizationDisplay.from_estimator(itq, digits.X_query)
    with pytest.raises(
        ValueError, match=r"'objective'.* as a StructHashHasher has. Got an instance of HashNetHasher instead"
    ):
        GapDisplay.from_estimator(hashnet)
    dpsh = DPSHHasher(nbits=4, n_epochs=1, random_state=0).fit(digits.X, digits.y)
    with pytest.raises(ValueError, match="Got an instance of DPSHHasher instead"):
        QuantizationDisplay.from_estimator(dpsh, digits.X_query)
    with pytest.raises(NotFittedError):
        GapDisplay.from_estimator(StructHashHasher())
