"""ITQ: the quantization error and the subspace of the rotation."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA

from skhash import ITQHasher, PCAHasher
from skhash.hashers.shallow import itq
from skhash.hashers.shallow.linear import orthonormal_map


def quantization_error(V, rotation):
    return np.linalg.norm(np.where(V @ rotation >= 0, 1, -1) - V @ rotation)


def test_every_iteration_lowers_the_quantization_error(digits):
    pca = PCAHasher(16).fit(digits.X)
    V = pca.project(digits.X)
    V /= V.std()
    hashers = [ITQHasher(16, n_iter=n, random_state=0).fit(digits.X) for n in range(1, 15)]
    rotations = [pca.projection_.T @ hasher.projection_ for hasher in hashers]
    errors = [quantization_error(V, rotation) for rotation in rotations]
    assert (np.diff(errors) <= 1e-9).all()
    assert errors[-1] < errors[0]
    for rotation in rotations:
        assert_allclose(rotation.T @ rotation, np.eye(16), atol=1e-10)


def test_the_rotation_stays_in_the_subspace_of_pca(digits):
    hasher = ITQHasher(nbits=16, random_state=0).fit(digits.X)
    components = PCA(16, svd_solver="full").fit(digits.X).components_
    assert_allclose(hasher.projection_.T @ hasher.projection_, np.eye(16), atol=1e-10)
    assert_allclose(components.T @ components @ hasher.projection_, hasher.projection_, atol=1e-10)


def test_iterations_take_parts_of_many_samples_in_turn(digits, monkeypatch):
    of_all = ITQHasher(16, n_iter=20, random_state=0).fit(digits.X)
    monkeypatch.setattr(itq, "N_MAX_SAMPLES", len(digits.X) // 2)
    hasher, pca = ITQHasher(16, n_iter=20, random_state=0).fit(digits.X), PCAHasher(16).fit(digits.X)
    V, rng = pca.project(digits.X), np.random.RandomState(0)
    rotation, order = orthonormal_map(16, 16, rng), rng.permutation(len(V))
    n_parts = 2 + len(V) % 2
    for i in range(20):
        some = V[np.array_split(order, n_parts)[i % n_parts]]
        left, _, right = np.linalg.svd(some.T @ np.where(some @ rotation >= 0, 1, -1))
        rotation = left @ right
    assert_allclose(hasher.projection_, pca.projection_ @ rotation, atol=1e-9)
    V /= V.std()
    errors = [quantization_error(V, pca.projection_.T @ fitted.projection_) for fitted in (hasher, of_all)]
    assert errors[0] != errors[1]
    assert_allclose(errors[0], errors[1], rtol=0.01)
