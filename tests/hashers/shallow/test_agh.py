"""AGH against the dense anchor graph."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances

from skhash import AGHHasher
from skhash.hashers.shallow.agh import _anchor_graph_map, _anchor_weights, _second_thresholds


@pytest.fixture(scope="module", params=[2, 5])
def graph(request, digits):
    """Samples, anchors, their weights and the dense affinities of an anchor graph."""
    anchors = KMeans(60, n_init=1, max_iter=5, random_state=0).fit(digits.X).cluster_centers_
    Z, t = _anchor_weights(digits.X, anchors, request.param)
    return digits.X, anchors, request.param, Z, t, Z.toarray() / Z.sum(axis=0) @ Z.T.toarray()


def test_anchor_weights(graph):
    X, anchors, s, Z, t, _ = graph
    distances = euclidean_distances(X, anchors)
    nearest = np.sort(distances, axis=1)[:, s - 1]
    assert t == pytest.approx(nearest.mean() ** 2)
    kernel = np.where(distances <= nearest[:, None], np.exp(-(distances**2) / t), 0)
    assert_allclose(Z.toarray(), kernel / kernel.sum(axis=1, keepdims=True), atol=1e-12)
    far, _ = _anchor_weights(X[:3] + 1e4, anchors, s, t)
    assert_allclose(far.sum(axis=1), 1)


def test_eigenvectors_are_those_of_the_dense_graph(graph):
    X, _, _, Z, _, A = graph
    assert_allclose(A.sum(axis=1), 1)
    W, eigenvalues = _anchor_graph_map(Z, 20)
    Y = Z @ W
    assert_allclose(A @ Y, Y * eigenvalues, atol=1e-9)
    assert_allclose(Y.T @ Y, len(X) * np.eye(20), atol=1e-7)
    assert_allclose(Y.sum(axis=0), 0, atol=1e-8)
    assert_allclose(eigenvalues, np.linalg.eigvalsh(A)[::-1][1:21], atol=1e-10)


def test_thresholds_are_those_of_the_dense_graph(graph):
    _, _, _, Z, _, A = graph
    Y = Z @ _anchor_graph_map(Z, 6)[0]
    L = np.eye(len(A)) - A

    def second(y, b):
        return np.where(y >= 0, y - b[1], b[0] - y)

    for y, thresholds in zip(Y.T, _second_thresholds(Y, Z).T, strict=True):
        assert second(y, thresholds).sum() == pytest.approx(0, abs=1e-8)
        best = minimize(
            lambda b, y=y: second(y, b) @ L @ second(y, b),
            x0=[-1, 1],
            constraints={"type": "eq", "fun": lambda b, y=y: second(y, b).sum()},
            tol=1e-12,
        )
        assert_allclose(thresholds, best.x, atol=1e-4)


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("nbits", [1, 7, 12])
def test_activations_are_eigenvectors_and_their_second_layer(digits, n_layers, nbits):
    hasher = AGHHasher(nbits, n_layers=n_layers, n_anchors=60, random_state=0).fit(digits.X)
    Z, _ = _anchor_weights(digits.X - hasher.mean_, hasher.anchors_, 2, hasher.bandwidth_)
    n_columns = -(-nbits // n_layers)
    W, eigenvalues = _anchor_graph_map(Z, n_columns)
    assert_allclose(hasher.eigenvalues_, eigenvalues)
    activations = hasher.project(digits.X)  # as for new samples
    Y, F = activations[:, :n_columns], activations[:, n_columns:]
    assert_allclose(Y, Z @ W, atol=1e-8)
    assert_allclose(activations.sum(axis=0), 0, atol=1e-6)  # balanced before the signs are taken
    assert F.shape[1] == (nbits // 2 if n_layers == 2 else 0)
    below, above = hasher.thresholds_
    y = Y[:, : F.shape[1]]
    assert_allclose(F, np.where(y >= 0, y - above, below - y))
    assert ((below < 0) & (above > 0)).all()


def test_two_rings_have_different_bits():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 600)
    ring = np.repeat([1.0, 4.0], 300)
    X = ring[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    bits = AGHHasher(nbits=1, n_anchors=40, random_state=0).fit(X).transform(X)[:, 0]
    assert len(set(zip(ring, bits, strict=True))) == 2


def test_few_eigenvectors_are_expanded_by_an_orthonormal_map(digits):
    hasher = AGHHasher(nbits=40, n_layers=1, n_anchors=9, random_state=0).fit(digits.X)
    assert hasher.eigenvalues_.shape == (8,)
    Z, _ = _anchor_weights(digits.X - hasher.mean_, hasher.anchors_, 2, hasher.bandwidth_)
    Y = Z @ _anchor_graph_map(Z, 8)[0]
    activations = hasher.project(digits.X)
    assert_allclose(euclidean_distances(activations), euclidean_distances(Y), atol=1e-5)


def test_anchors_near_no_sample_are_left_out(digits, monkeypatch):
    anchors = np.vstack([digits.X[:30] - digits.X.mean(axis=0), np.full((1, 64), 1e3)])
    monkeypatch.setattr(AGHHasher, "_draw_anchors", lambda self, X, rng: anchors)
    hasher = AGHHasher(nbits=8, random_state=0).fit(digits.X)
    assert_array_equal(hasher.anchors_, anchors[:-1])
    assert np.isfinite(hasher.project(digits.X_query)).all()
