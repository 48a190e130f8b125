"""Packed codes of activations: equal to those of numpy, and never those of activations that are not finite."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skhash import ITQHasher, LSHHasher
from skhash._encoding._packing import check_and_pack, range_terms

#: activations at the borders of bits and of the range
SPECIAL = [0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38, 1.0, -1.0]


@pytest.mark.parametrize("nbits", [1, 7, 8, 12, 64, 129])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_codes_are_the_packed_signs(dtype, nbits):
    rng = np.random.default_rng(nbits)
    activations = rng.standard_normal((37, nbits)).astype(dtype)
    if dtype is not np.float16:
        places = rng.random(activations.shape) < 0.3
        activations[places] = rng.choice(SPECIAL, places.sum())
    expected = np.packbits(activations >= 0, axis=1)
    given = activations.copy()
    for values in (activations, np.asfortranarray(activations), np.repeat(activations, 2, axis=1)[:, ::2]):
        assert_array_equal(check_and_pack(values, ITQHasher()), expected)
    assert_array_equal(activations, given)


@pytest.mark.parametrize("place", [(0, 0), (3, 11), (36, 63)])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_that_are_not_finite_are_refused(dtype, bad, place):
    activations = np.full((37, 64), np.finfo(dtype).max, dtype=dtype)
    check_and_pack(activations, ITQHasher())
    activations[place] = bad
    with pytest.raises(ValueError, match=r"finite activations\. Got NaN or infinity for 1 of 37 samples"):
        check_and_pack(activations, ITQHasher())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_range_terms_mark_the_floats_beyond_a_value(dtype):
    bits, sign, mask, limit = range_terms(np.dtype(dtype), 1e30)
    largest = dtype(1e30)
    values = np.array([0.0, -1.0, largest, -largest, np.nextafter(largest, dtype(np.inf)), np.inf, np.nan], dtype)
    marks = ((values.view(bits) & mask) + limit) & sign != 0
    assert_array_equal(marks, [False] * 4 + [True] * 3)


@pytest.mark.parametrize("n", [1, 767, 768, 769, 1535, 1536, 4096])
def test_activations_are_the_product_of_centered_samples(n):
    X = np.random.default_rng(0).standard_normal((n + 20, 20)) + 1e6
    hasher = LSHHasher(16, random_state=0).fit(X)
    expected = (X[:n].astype(np.longdouble) - hasher.mean_) @ hasher.projection_
    np.testing.assert_allclose(hasher._project(X[:n]), expected.astype(float), rtol=0, atol=1e-12)
