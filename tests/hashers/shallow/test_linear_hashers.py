"""LSH, PCA and ITQ: what their papers promise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA

from skhash import ITQHasher, LSHHasher, PCAHasher
from skhash.hashers.shallow._linear import orthonormal_map, principal_map
from skhash.hashers.shallow.itq import quantizing_rotation


def angles(X):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    return np.arccos(np.clip(unit @ unit.T, -1, 1))


@pytest.mark.parametrize("Hasher", [LSHHasher, PCAHasher, ITQHasher])
def test_activations_are_one_linear_map(digits, Hasher):
    hasher = Hasher(nbits=24, random_state=0).fit(digits.X)
    assert_allclose(hasher.mean_, digits.X.mean(axis=0))
    assert_allclose(hasher.project(digits.X_query), (digits.X_query - hasher.mean_) @ hasher.projection_)


@pytest.mark.parametrize("Hasher", [LSHHasher, PCAHasher, ITQHasher])
@pytest.mark.parametrize("constant", [0, 1], ids=["no feature constant", "one feature constant"])
def test_rows_of_little_variety(Hasher, constant):
    X = np.repeat([[0.0, 1.0], [2.0, 1.0 + constant]], 5, axis=0)
    bits = Hasher(nbits=3, random_state=0).fit(X).transform(X)
    assert len(np.unique(bits, axis=0)) == 2  # equal rows, equal codes; the two kinds differ
    assert Hasher(nbits=3, random_state=0).fit(np.ones((4, 2))).transform(np.ones((1, 2))).shape == (1, 3)


def test_the_mean_of_a_million_float32_rows():
    X = np.full((1_000_000, 2), 0.1, dtype=np.float32)
    assert_allclose(LSHHasher(nbits=1, store_database=False, random_state=0).fit(X).mean_, 0.1, rtol=1e-6)


# --- LSH


def test_lsh_collides_with_the_probability_of_the_angle():
    nbits = 4000
    X = np.random.default_rng(0).normal(size=(40, 6))
    X -= X.mean(axis=0)
    bits = LSHHasher(nbits=nbits, random_state=0).fit(X).transform(X).astype(float)
    agreement = 1 - np.mean(bits[:, None] != bits[None], axis=2)
    expected = 1 - angles(X) / np.pi
    error = np.sqrt(expected * (1 - expected) / nbits)
    pairs = np.triu_indices(len(X), k=1)
    assert (np.abs(agreement - expected)[pairs] < 5 * error[pairs]).all()
    assert np.mean(np.abs(agreement - expected)[pairs] < error[pairs]) == pytest.approx(0.68, abs=0.15)


# --- PCA


@pytest.mark.parametrize("nbits", [1, 5, 24])
def test_pca_bits_are_the_signs_of_sklearn_up_to_flips(digits, nbits):
    bits = PCAHasher(nbits=nbits).fit(digits.X).transform(digits.X_query)
    signs = PCA(nbits, svd_solver="full").fit(digits.X).transform(digits.X_query) >= 0
    agreement = (bits == signs).mean(axis=0)
    assert_array_equal(np.maximum(agreement, 1 - agreement), 1)


def test_pca_expands_by_an_orthonormal_map(digits):
    X = digits.X[:, 20:30] - digits.X[:, 20:30].mean(axis=0)
    directions = principal_map(X, 32, np.random.RandomState(0))
    assert_allclose(directions @ directions.T, np.eye(10), atol=1e-12)  # all distances between rows are kept


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (1, 4), (4, 1)])
def test_orthonormal_maps(shape):
    Q = orthonormal_map(*shape, np.random.RandomState(0))
    assert Q.shape == shape
    small = Q.T @ Q if shape[0] >= shape[1] else Q @ Q.T
    assert_allclose(small, np.eye(min(shape)), atol=1e-12)


def test_orthonormal_maps_have_no_preferred_direction():
    rng = np.random.RandomState(0)
    first = np.array([orthonormal_map(3, 3, rng).ravel() for _ in range(2000)])
    assert_allclose(first.mean(axis=0), 0, atol=5 / np.sqrt(3 * 2000))


# --- ITQ


def quantization_error(V, rotation):
    return np.linalg.norm(np.where(V @ rotation >= 0, 1, -1) - V @ rotation)


def test_itq_lowers_the_quantization_error_at_every_turn(digits):
    X = digits.X - digits.X.mean(axis=0)
    V = X @ principal_map(X, 16, np.random.RandomState(0))
    V /= V.std()
    rotations = [quantizing_rotation(V, n, np.random.RandomState(0)) for n in range(30)]
    errors = [quantization_error(V, rotation) for rotation in rotations]
    assert (np.diff(errors) <= 1e-9).all()
    assert errors[-1] < errors[0]
    for rotation in rotations:
        assert_allclose(rotation.T @ rotation, np.eye(16), atol=1e-12)


def test_itq_beats_the_signs_of_pca(digits):
    itq, pca = (
        Hasher(nbits=16, random_state=0).fit(digits.X, digits.y).score(digits.X_query, digits.y_query)
        for Hasher in (ITQHasher, PCAHasher)
    )
    assert itq > pca + 0.1


def test_itq_keeps_the_subspace_of_pca(digits):
    hasher = ITQHasher(nbits=16, random_state=0).fit(digits.X)
    components = PCA(16, svd_solver="full").fit(digits.X).components_
    assert_allclose(hasher.projection_.T @ hasher.projection_, np.eye(16), atol=1e-10)
    assert_allclose(components.T @ components @ hasher.projection_, hasher.projection_, atol=1e-10)
