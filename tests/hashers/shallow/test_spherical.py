"""Spherical hashing against the definitions of balance, overlap and forces."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skhash import SphericalHasher


@pytest.mark.parametrize("nbits", [2, 16, 48])
def test_spheres_are_balanced_and_overlap_by_a_quarter(digits, nbits):
    hasher = SphericalHasher(nbits=nbits, random_state=0).fit(digits.X)
    assert hasher.n_iter_ < hasher.max_iter
    bits = hasher.transform(digits.X).astype(int)
    n = len(bits)
    assert_array_equal(bits.sum(axis=0), n // 2)
    overlaps = (bits.T @ bits)[np.triu_indices(nbits, k=1)]
    assert np.abs(overlaps - n / 4).mean() <= 0.1 * n / 4
    assert overlaps.std() <= 0.15 * n / 4


def test_activations_are_radius_minus_distance(digits):
    hasher = SphericalHasher(nbits=8, random_state=0).fit(digits.X)
    distances = np.linalg.norm(digits.X[:, None] - hasher.mean_ - hasher.pivots_, axis=2)
    assert_allclose(hasher.radii_, np.median(distances, axis=0), rtol=1e-7)
    assert_allclose(hasher.project(digits.X), hasher.radii_ - distances, atol=1e-9)


def test_samples_on_a_sphere_are_inside_despite_rounding():
    X = np.repeat(np.random.default_rng(0).standard_normal((3, 4)), [7, 2, 1], axis=0)
    hasher = SphericalHasher(nbits=16, random_state=0).fit(X)
    assert (hasher.project(X[:1]) > 1e-9 * hasher.radii_.max()).all()


@pytest.mark.parametrize("n", [2, 3, 10, 11])
def test_spheres_hold_half_of_the_samples(n):
    X = np.random.default_rng(n).standard_normal((n, 4))
    bits = SphericalHasher(nbits=4, random_state=0).fit(X).transform(X)
    assert_array_equal(bits.sum(axis=0), n // 2)


def excess_of(hasher, X):
    """How much two spheres overlap beyond a quarter of the samples, relative to it."""
    inside = hasher.transform(X).astype(int)
    return inside.T @ inside / (len(X) / 4) - 1


def test_pivots_move_by_the_forces_between_pairs(digits):
    options = {"nbits": 5, "tol_mean": 1e-9, "tol_std": 1e-9, "random_state": 0}
    first, second = (SphericalHasher(max_iter=n, **options).fit(digits.X) for n in (1, 2))
    excess, moved = excess_of(first, digits.X), first.pivots_.copy()
    for i, j in product(range(5), repeat=2):
        moved[i] += excess[i, j] * (first.pivots_[i] - first.pivots_[j]) / 2 / 5
    assert_allclose(second.pivots_, moved)


def test_pivots_that_do_not_converge_are_the_best_ones():
    X = np.random.default_rng(0).standard_normal((200, 1))

    def miss(n):
        hasher = SphericalHasher(nbits=8, max_iter=n, random_state=0).fit(X)
        assert hasher.n_iter_ == n
        excess = excess_of(hasher, X)[np.triu_indices(8, k=1)]
        return max(np.abs(excess).mean() / 0.1, excess.std() / 0.15)

    misses = [miss(n) for n in range(1, 20)]
    assert (np.diff(misses) <= 0).all()
    assert misses[-1] > 1


def test_pivots_do_not_move_away_without_end():
    X = np.repeat([[0.0, 1.0], [2.0, 1.0], [0.0, 0.0]], [7, 2, 1], axis=0)
    hasher = SphericalHasher(nbits=9, max_iter=10**6, random_state=0).fit(X)
    assert np.abs(hasher.pivots_).max() < 1e8
    assert len(np.unique(hasher.transform(X), axis=0)) == 3
