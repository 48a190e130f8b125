"""CCA-ITQ against the generalized eigenproblem and scikit-learn's CCA."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigh
from sklearn.cross_decomposition import CCA

from skhash import ITQCCAHasher


@pytest.fixture
def two_views():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5))
    return X, (X[:, :3] + rng.normal(size=(200, 3)) > 0).astype(int)


def canonical_directions(X, Y, ridge):
    """Directions of X and their correlations, in descending order, by the generalized eigenproblem."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    Cxx, Cyy = (
        side.T @ side + ridge * np.trace(side.T @ side) / side.shape[1] * np.eye(side.shape[1]) for side in (X, Y)
    )
    squares, vectors = eigh(X.T @ Y @ np.linalg.solve(Cyy, Y.T @ X), Cxx)
    return vectors[:, ::-1][:, : Y.shape[1]], np.sqrt(np.maximum(squares[::-1][: Y.shape[1]], 0))


@pytest.mark.parametrize("ridge", [1e-6, 0.1, 3.0])
def test_labels_that_a_sample_has_several_of_give_canonical_directions(two_views, ridge):
    directions, correlations = canonical_directions(*two_views, ridge)
    hasher = ITQCCAHasher(nbits=3, ridge=ridge, random_state=0).fit(*two_views)
    assert_allclose(hasher.correlations_, correlations, rtol=1e-9)
    scaled = directions * correlations
    assert_allclose(hasher.projection_ @ hasher.projection_.T, scaled @ scaled.T, rtol=1e-6)


def test_canonical_correlations_equal_those_of_sklearn(two_views):
    a, b = CCA(n_components=3, scale=False, max_iter=5000, tol=1e-12).fit_transform(*two_views)
    correlations = ITQCCAHasher(nbits=3, ridge=1e-12, random_state=0).fit(*two_views).correlations_
    assert_allclose([np.corrcoef(a[:, k], b[:, k])[0, 1] for k in range(3)], correlations, rtol=1e-6)


@pytest.mark.parametrize("nbits", [4, 16, 70])
def test_itq_cca_rotates_the_scaled_directions(digits, nbits):
    hasher = ITQCCAHasher(nbits=nbits, random_state=0).fit(digits.X, digits.y)
    directions, correlations = canonical_directions(digits.X, np.eye(10)[digits.y], hasher.ridge)
    assert_allclose(hasher.correlations_, correlations, atol=1e-6)
    assert correlations[-1] < 1e-6  # ten classes, nine canonical directions
    scaled = (directions * correlations)[:, :nbits]
    # a rotation, or the spread over more bits than directions, leaves all inner products of samples unchanged
    assert_allclose(hasher.projection_ @ hasher.projection_.T, scaled @ scaled.T, atol=1e-9)
