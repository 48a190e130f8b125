"""AGH against the dense anchor graph."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.metrics.pairwise import euclidean_distances

from skhash import AGHHasher


def anchor_weights(hasher, X):
    """Weights of the nearest anchors of each sample, by their definition."""
    distances = euclidean_distances(X - hasher.mean_, hasher.anchors_)
    nearest = np.sort(distances, axis=1)[:, hasher.n_neighbors - 1]
    kernel = np.where(distances <= nearest[:, None], np.exp(-hasher.gamma_ * distances**2), 0)
    return kernel / kernel.sum(axis=1, keepdims=True), nearest


@pytest.fixture(scope="module", params=[2, 5])
def graph(request, digits):
    """A hasher with two layers, its first activations, and the dense affinities of its anchor graph."""
    options = {"n_layers": 2, "n_anchors": 60, "n_neighbors": request.param, "random_state": 0}
    hasher = AGHHasher(40, **options).fit(digits.X)
    Z, nearest = anchor_weights(hasher, digits.X)
    assert hasher.gamma_ == pytest.approx(1 / nearest.mean() ** 2)
    return hasher, hasher.project(digits.X)[:, :20], Z / Z.sum(axis=0) @ Z.T


def test_activations_are_eigenvectors_of_the_dense_graph(graph):
    hasher, Y, A = graph
    assert_allclose(A.sum(axis=1), 1)
    assert_allclose(A @ Y, Y * hasher.eigenvalues_, atol=1e-7)
    assert_allclose(Y.T @ Y, len(A) * np.eye(20), atol=1e-6)
    assert_allclose(Y.sum(axis=0), 0, atol=1e-6)  # balanced before the signs are taken
    assert_allclose(hasher.eigenvalues_, np.linalg.eigvalsh(A)[::-1][1:21], atol=1e-10)


def test_thresholds_are_those_of_the_dense_graph(graph):
    hasher, Y, A = graph
    L = np.eye(len(A)) - A

    def second(y, b):
        return np.where(y >= 0, y - b[1], b[0] - y)

    for y, thresholds in zip(Y.T[:6], hasher.thresholds_.T[:6], strict=True):
        assert second(y, thresholds).sum() == pytest.approx(0, abs=1e-6)
        best = minimize(
            lambda b, y=y: second(y, b) @ L @ second(y, b),
            x0=[-1, 1],
            constraints={"type": "eq", "fun": lambda b, y=y: second(y, b).sum()},
            tol=1e-12,
        )
        assert_allclose(thresholds, best.x, atol=1e-4)


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("nbits", [1, 7, 12])
def test_activations_of_two_layers(digits, n_layers, nbits):
    hasher = AGHHasher(nbits, n_layers=n_layers, n_anchors=60, random_state=0).fit(digits.X)
    n_columns = -(-nbits // n_layers)
    activations = hasher.project(digits.X)
    Y, F = activations[:, :n_columns], activations[:, n_columns:]
    assert hasher.eigenvalues_.shape == (n_columns,)
    assert_allclose(Y, anchor_weights(hasher, digits.X)[0] @ hasher.projection_, atol=1e-8)
    assert_allclose(activations.sum(axis=0), 0, atol=1e-6)
    assert F.shape[1] == (nbits // 2 if n_layers == 2 else 0)
    below, above = hasher.thresholds_
    y = Y[:, : F.shape[1]]
    assert_allclose(F, np.where(y >= 0, y - above, below - y))
    assert ((below < 0) & (above > 0)).all()
    assert np.isfinite(hasher.project(digits.X[:3] + 1e4)).all()  # far from all anchors


def test_two_rings_have_different_bits():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 600)
    ring = np.repeat([1.0, 4.0], 300)
    X = ring[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    bits = AGHHasher(nbits=1, n_anchors=40, random_state=0).fit(X).transform(X)[:, 0]
    assert len(set(zip(ring, bits, strict=True))) == 2


def test_few_eigenvectors_are_expanded_by_an_orthonormal_map(digits):
    few, many = (AGHHasher(n, n_layers=1, n_anchors=9, random_state=0).fit(digits.X) for n in (8, 40))
    assert many.eigenvalues_.shape == (8,)
    distances = (euclidean_distances(hasher.project(digits.X)) for hasher in (few, many))
    assert_allclose(*distances, atol=1e-5)


def test_anchors_near_no_sample_are_left_out(digits, monkeypatch):
    anchors = np.vstack([digits.X[:30] - digits.X.mean(axis=0), np.full((1, 64), 1e3)])
    monkeypatch.setattr(AGHHasher, "_draw_anchors", lambda self, X, rng: (anchors, 1))
    hasher = AGHHasher(nbits=8, random_state=0).fit(digits.X)
    assert_array_equal(hasher.anchors_, anchors[:-1])
    assert np.isfinite(hasher.project(digits.X_query)).all()


def test_gamma_is_the_coefficient_of_the_kernel(digits):
    options = {"n_anchors": 60, "n_neighbors": 5, "random_state": 0}
    default, narrow = (AGHHasher(8, gamma=gamma, **options).fit(digits.X) for gamma in (None, 0.01))
    assert narrow.gamma_ == pytest.approx(0.01)
    assert_allclose(
        narrow.project(digits.X)[:, :4], anchor_weights(narrow, digits.X)[0] @ narrow.projection_, atol=1e-8
    )
    again = AGHHasher(8, gamma=default.gamma_, **options).fit(digits.X)
    assert_array_equal(again.anchors_, default.anchors_)
    assert_allclose(again.gamma_, default.gamma_, rtol=1e-12)
