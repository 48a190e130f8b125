"""Linear hashers, and the maps that they start from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skhash import ITQHasher, LSHHasher, PCAHasher


@pytest.mark.parametrize("Hasher", [LSHHasher, PCAHasher, ITQHasher])
def test_activations_are_one_linear_map(digits, Hasher):
    hasher = Hasher(nbits=24, random_state=0).fit(digits.X)
    assert_allclose(hasher.mean_, digits.X.mean(axis=0))
    assert_allclose(hasher.project(digits.X_query), (digits.X_query - hasher.mean_) @ hasher.projection_)


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (1, 4), (4, 1)])
def test_principal_directions_have_orthonormal_columns_or_rows(shape):
    """Rows if there are more bits than components, so that all distances between samples stay."""
    X = np.random.default_rng(0).standard_normal((50, shape[0]))
    Q = PCAHasher(shape[1], random_state=0).fit(X).projection_
    assert Q.shape == shape
    small = Q.T @ Q if shape[0] >= shape[1] else Q @ Q.T
    assert_allclose(small, np.eye(min(shape)), atol=1e-12)


def test_maps_to_more_bits_have_no_preferred_direction():
    X, n = np.random.default_rng(0).standard_normal((20, 3)), 500
    maps = np.array([PCAHasher(4, random_state=seed).fit(X).projection_ for seed in range(n)])
    assert_allclose(maps.mean(axis=0), 0, atol=5 / np.sqrt(4 * n))
