"""SDH against brute force and scikit-learn's ridge regression."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from skhash import SDHHasher
from skhash.hashers.shallow import sdh
from skhash.hashers.shallow.sdh import _discrete_descent


def signs(values):
    return np.where(values >= 0, 1.0, -1.0)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    Y = np.eye(3)[[0, 0, 1, 1, 2, 2, 2, 0]]
    return SimpleNamespace(Y=Y, B=signs(rng.normal(size=(8, 2))), W=rng.normal(size=(2, 3)), F=rng.normal(size=(8, 2)))


def sdh_objective(Y, B, W, F, lam, nu):
    return np.sum((Y - B @ W) ** 2) + lam * np.sum(W**2) + nu * np.sum((B - F) ** 2)


@pytest.mark.parametrize("nu", [0.0, 1e-5, 0.5])
def test_every_column_of_the_descent_is_the_best_of_all(problem, monkeypatch, nu):
    Y, B, W, F = problem.Y, problem.B, problem.W, problem.F
    monkeypatch.setattr(sdh, "_MAX_SWEEPS", 1)
    expected = B.copy()
    for k in range(2):
        candidates = [
            np.column_stack([b if j == k else expected[:, j] for j in range(2)]) for b in product([-1, 1], repeat=8)
        ]
        expected = min(candidates, key=lambda B: sdh_objective(Y, B, W, F, 1, nu))
    assert_array_equal(_discrete_descent(B, W, Y @ W.T + nu * F), expected)


def test_no_sweep_increases_the_objective(monkeypatch):
    rng = np.random.default_rng(1)
    Y = np.eye(5)[rng.integers(0, 5, 100)]
    B, W, F = signs(rng.normal(size=(100, 12))), rng.normal(size=(12, 5)), rng.normal(size=(100, 12))
    monkeypatch.setattr(sdh, "_MAX_SWEEPS", 1)
    objectives = [sdh_objective(Y, B, W, F, 1, 0.1)]
    for _ in range(20):
        B = _discrete_descent(B, W, Y @ W.T + 0.1 * F)
        objectives.append(sdh_objective(Y, B, W, F, 1, 0.1))
    assert (np.diff(objectives) <= 1e-9).all()
    assert objectives[1] < objectives[0]
    assert objectives[-1] == objectives[-2]
    monkeypatch.undo()
    assert_array_equal(_discrete_descent(B, W, Y @ W.T + 0.1 * F), B)  # a fixed point


def test_every_iteration_solves_its_three_steps(digits, monkeypatch):
    X, y = digits.X[:120], digits.y[:120]
    lam, nu, ridge = 2.0, 0.3, 1e-6
    iterations = []

    def recorded(B, W, Q):
        iterations.append((B, W, Q, _discrete_descent(B, W, Q)))
        return iterations[-1][-1]

    monkeypatch.setattr(sdh, "_discrete_descent", recorded)
    hasher = SDHHasher(nbits=10, n_anchors=40, label_penalty=lam, code_weight=nu, ridge=ridge, random_state=0).fit(X, y)
    Y = np.eye(10)[y]
    features = rbf_kernel(X, hasher.anchors_, hasher.gamma_)
    moments = (features - features.mean(axis=0)).T @ (features - features.mean(axis=0))
    regression = Ridge(alpha=ridge * np.trace(moments) / 40)
    objectives = []
    for B, W, Q, after in iterations:
        assert_allclose(W, Ridge(alpha=lam, fit_intercept=False).fit(B, Y).coef_.T, atol=1e-9)  # G-step
        F = regression.fit(features, B).predict(features)  # F-step
        assert_allclose(Q, Y @ W.T + nu * F, atol=1e-6)
        objectives += [sdh_objective(Y, B, W, F, lam, nu), sdh_objective(Y, after, W, F, lam, nu)]
    assert 2 <= len(iterations) <= 5
    assert (np.diff(objectives) <= 1e-3).all()  # up to the ridge
    assert_allclose(hasher.project(X), regression.fit(features, iterations[-1][-1]).predict(features), atol=1e-6)
    assert np.mean(signs(hasher.project(X)) == iterations[-1][-1]) > 0.9
