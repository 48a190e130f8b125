"""The kernel base class."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skhash import KSHHasher, SDHHasher


@pytest.mark.parametrize("Hasher", [KSHHasher, SDHHasher])
def test_activations_are_a_linear_map_of_kernel_values(digits, Hasher):
    hasher = Hasher(nbits=8, n_anchors=20, random_state=0).fit(digits.X, digits.y)
    is_anchor = (digits.X[:, None] == hasher.anchors_).all(axis=2)
    assert_array_equal(is_anchor.any(axis=0), True)
    assert is_anchor.any(axis=1).sum() == 20
    distances = np.linalg.norm(digits.X[:, None] - hasher.anchors_, axis=2)
    assert hasher.gamma_ == pytest.approx(2 / np.mean(distances**2))
    values = np.exp(-hasher.gamma_ * distances**2) @ hasher.projection_ + hasher.intercept_
    assert_allclose(hasher.project(digits.X), values, atol=1e-9)
    few = Hasher(nbits=8, gamma=0.01, random_state=0).fit(digits.X[:30], digits.y[:30])
    assert few.anchors_.shape == (30, 64)
    assert few.gamma_ == 0.01


def test_an_offset_changes_no_kernel_width(digits):
    """It is exact, since StructHash amplifies a change of the last digit into other codes."""
    width, *others = (
        KSHHasher(nbits=2, n_anchors=40, random_state=0).fit(digits.X + offset, digits.y).gamma_
        for offset in (0, 1e9, 1e9 * np.eye(64)[20])
    )
    assert others == [width, width]
