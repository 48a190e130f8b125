"""The linear base class, and the maps that its hashers start from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skhash import ITQHasher, LSHHasher, PCAHasher
from skhash.hashers.shallow._linear import orthonormal_map, principal_map, ridged_cholesky


@pytest.mark.parametrize("Hasher", [LSHHasher, PCAHasher, ITQHasher])
def test_activations_are_one_linear_map(digits, Hasher):
    hasher = Hasher(nbits=24, random_state=0).fit(digits.X)
    assert_allclose(hasher.mean_, digits.X.mean(axis=0))
    assert_allclose(hasher.project(digits.X_query), (digits.X_query - hasher.mean_) @ hasher.projection_)


def test_more_bits_than_components_are_an_orthonormal_map(digits):
    X = digits.X[:, 20:30] - digits.X[:, 20:30].mean(axis=0)
    directions = principal_map(X, 32, np.random.RandomState(0))
    assert_allclose(directions @ directions.T, np.eye(10), atol=1e-12)  # all distances between samples stay


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (1, 4), (4, 1)])
def test_orthonormal_maps_have_orthonormal_columns_or_rows(shape):
    Q = orthonormal_map(*shape, np.random.RandomState(0))
    assert Q.shape == shape
    small = Q.T @ Q if shape[0] >= shape[1] else Q @ Q.T
    assert_allclose(small, np.eye(min(shape)), atol=1e-12)


def test_orthonormal_maps_have_no_preferred_direction():
    rng = np.random.RandomState(0)
    first = np.array([orthonormal_map(3, 3, rng).ravel() for _ in range(2000)])
    assert_allclose(first.mean(axis=0), 0, atol=5 / np.sqrt(3 * 2000))


def test_the_cholesky_factor_of_ridged_moments():
    X = np.random.default_rng(0).normal(size=(4, 6))
    L = ridged_cholesky(X.T @ X, 0.5)
    assert_allclose(L @ L.T, X.T @ X + 0.5 * np.mean(np.sum(X**2, axis=0)) * np.eye(6))
    assert_array_equal(ridged_cholesky(np.zeros((3, 3)), 0.5), np.eye(3))
