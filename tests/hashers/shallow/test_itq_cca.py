"""CCA-ITQ against the generalized eigenproblem and scikit-learn's CCA."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh
from sklearn.cross_decomposition import CCA

from skhash import ITQCCAHasher
from skhash.hashers.shallow.itq_cca import _canonical_directions


@pytest.fixture
def two_views():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5))
    Y = X[:, :3] + rng.normal(size=(200, 3)) > 0
    return X - X.mean(axis=0), Y - Y.mean(axis=0)


@pytest.mark.parametrize("ridge", [1e-6, 0.1, 3.0])
def test_canonical_directions_solve_the_generalized_eigenproblem(two_views, ridge):
    X, Y = two_views
    Cxx, Cyy = (
        side.T @ side + ridge * np.trace(side.T @ side) / side.shape[1] * np.eye(side.shape[1]) for side in (X, Y)
    )
    squares, vectors = eigh(X.T @ Y @ np.linalg.solve(Cyy, Y.T @ X), Cxx)
    directions, correlations = _canonical_directions(X, Y, ridge)
    assert_allclose(correlations**2, squares[:-4:-1], rtol=1e-9)
    assert_allclose(directions * np.sign((directions * vectors[:, :-4:-1]).sum(axis=0)), vectors[:, :-4:-1], rtol=1e-6)


def test_canonical_directions_equal_those_of_sklearn(two_views):
    X, Y = two_views
    directions, correlations = _canonical_directions(X, Y, 1e-12)
    a, b = CCA(n_components=3, scale=False, max_iter=5000, tol=1e-12).fit_transform(X, Y)
    assert_allclose([np.corrcoef(a[:, k], b[:, k])[0, 1] for k in range(3)], correlations, rtol=1e-6)
    assert_allclose(np.abs([np.corrcoef(a[:, k], X @ directions[:, k])[0, 1] for k in range(3)]), 1, rtol=1e-6)


@pytest.mark.parametrize("nbits", [4, 16, 70])
def test_itq_cca_rotates_the_scaled_directions(digits, nbits):
    hasher = ITQCCAHasher(nbits=nbits, random_state=0).fit(digits.X, digits.y)
    labels = np.eye(10)[digits.y]
    X = digits.X - digits.X.mean(axis=0)
    directions, correlations = _canonical_directions(X, labels - labels.mean(axis=0), hasher.ridge)
    assert_array_equal(hasher.correlations_, correlations)
    assert correlations[-1] < 1e-6  # ten classes, nine canonical directions
    scaled = (directions * correlations)[:, :nbits]
    # a rotation, or the spread over more bits than directions, leaves all inner products of samples unchanged
    assert_allclose(hasher.projection_ @ hasher.projection_.T, scaled @ scaled.T, atol=1e-12)
