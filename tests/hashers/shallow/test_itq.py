"""ITQ: the quantization error and the subspace of the rotation."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA

from skhash import ITQHasher
from skhash.hashers.shallow._linear import principal_map, quantizing_rotation


def quantization_error(V, rotation):
    return np.linalg.norm(np.where(V @ rotation >= 0, 1, -1) - V @ rotation)


def test_every_iteration_lowers_the_quantization_error(digits):
    X = digits.X - digits.X.mean(axis=0)
    V = X @ principal_map(X, 16, np.random.RandomState(0))
    V /= V.std()
    rotations = [quantizing_rotation(V, n, np.random.RandomState(0)) for n in range(15)]
    errors = [quantization_error(V, rotation) for rotation in rotations]
    assert (np.diff(errors) <= 1e-9).all()
    assert errors[-1] < errors[0]
    for rotation in rotations:
        assert_allclose(rotation.T @ rotation, np.eye(16), atol=1e-12)


def test_the_rotation_stays_in_the_subspace_of_pca(digits):
    hasher = ITQHasher(nbits=16, random_state=0).fit(digits.X)
    components = PCA(16, svd_solver="full").fit(digits.X).components_
    assert_allclose(hasher.projection_.T @ hasher.projection_, np.eye(16), atol=1e-10)
    assert_allclose(components.T @ components @ hasher.projection_, hasher.projection_, atol=1e-10)
