"""Spectral hashing against the formulas, and a random walk."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA

from skhash import SpectralHasher


def eigenvalue(mode, length, eps=0.1):
    return 1 - np.exp(-((eps * mode * np.pi / length) ** 2) / 2)


@pytest.mark.parametrize("nbits", [1, 7, 40])
def test_the_smallest_eigenvalues_are_chosen(nbits):
    rng = np.random.default_rng(nbits)
    hasher = SpectralHasher(nbits).fit(rng.uniform(size=(300, 6)) * rng.uniform(0.5, 5, 6))
    values = {(i, mode): eigenvalue(mode, length) for i, length in enumerate(hasher.lengths_) for mode in range(1, 400)}
    assert list(zip(hasher.axes_, hasher.modes_, strict=True)) == sorted(values, key=values.get)[:nbits]


def test_activations_are_eigenvectors_of_a_random_walk_on_a_line():
    n = 41
    X = np.linspace(-3, 9, n)[:, None] * [0.6, 0.8]
    steps = np.eye(n, k=1) + np.eye(n, k=-1)
    walk = steps / steps.sum(axis=1, keepdims=True)
    hasher = SpectralHasher(nbits=10).fit(X)
    assert_array_equal(hasher.modes_, np.arange(1, 11))
    activations = hasher.project(X)
    assert_allclose(walk @ activations, np.cos(np.pi * np.arange(1, 11) / (n - 1)) * activations, atol=1e-9)
    crossings = np.abs(np.diff(activations >= 0, axis=0)).sum(axis=0)
    assert_array_equal(crossings, hasher.modes_)


def test_activations_on_a_box():
    x, y = (axis.ravel() for axis in np.meshgrid(np.linspace(0, 3.1, 32), np.linspace(0, 1, 11)))
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    activations = SpectralHasher(nbits=5).fit(np.column_stack([x, y]) @ turn).project(np.column_stack([x, y]) @ turn)
    waves = [np.cos(np.pi * x / 3.1 * m) for m in (1, 2, 3)] + [np.cos(np.pi * y), np.cos(np.pi * x / 3.1 * 4)]
    assert_allclose(np.abs(activations), np.abs(np.column_stack(waves)), atol=1e-9)  # an axis may point either way


def test_activations_follow_the_formulas(digits):
    hasher = SpectralHasher(nbits=16).fit(digits.X)
    pca = PCA(16, svd_solver="full").fit(digits.X)
    V = pca.transform(digits.X) * np.sign((pca.components_ * hasher.components_.T).sum(axis=1))
    a, b = V.min(axis=0), V.max(axis=0)
    for k, (axis, mode) in enumerate(zip(hasher.axes_, hasher.modes_, strict=True)):
        expected = np.sin(np.pi / 2 + mode * np.pi / (b - a)[axis] * (V[:, axis] - a[axis]))
        assert_allclose(hasher.project(digits.X)[:, k], expected, atol=1e-9)
    eigenvalues = eigenvalue(hasher.modes_, hasher.lengths_[hasher.axes_])
    assert (np.diff(eigenvalues) >= 0).all()
