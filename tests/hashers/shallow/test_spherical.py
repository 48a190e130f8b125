"""Spherical hashing against the definitions of balance, overlap and forces."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import euclidean_distances

from skhash import SphericalHasher
from skhash.hashers.shallow.spherical import _balancing_radii, _overlap_excess, _spread_pivots


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
def test_radii_hold_half_of_the_samples(n):
    distances = np.random.default_rng(n).random((n, 4))
    radii = _balancing_radii(distances)
    assert_array_equal((distances <= radii).sum(axis=0), n // 2)
    if n % 2 == 0:
        assert_allclose(radii, np.median(distances, axis=0))


def test_pivots_move_by_the_forces_between_pairs(digits):
    X = digits.X - digits.X.mean(axis=0)
    pivots = X[:5] / 4
    distances = euclidean_distances(X, pivots)
    inside = distances <= np.median(distances, axis=0)
    quarter = len(X) / 4
    moved = pivots.copy()
    for i, j in product(range(5), repeat=2):
        overlap = (inside[:, i] & inside[:, j]).sum()
        assert _overlap_excess(X, pivots)[i, j] == pytest.approx((overlap - quarter) / quarter)
        moved[i] += (overlap - quarter) / quarter * (pivots[i] - pivots[j]) / 2 / 5
    assert_allclose(_spread_pivots(X, pivots, 1e-9, 1e-9, 2)[0], moved)


def test_pivots_that_do_not_converge_are_the_best_ones():
    X = np.random.default_rng(0).standard_normal((200, 1))

    def miss(n):
        pivots, n_iter = _spread_pivots(X, X[:8] / 9, 0.1, 0.15, n)
        assert n_iter == n
        excess = _overlap_excess(X, pivots)[np.triu_indices(8, k=1)]
        return max(np.abs(excess).mean() / 0.1, excess.std() / 0.15)

    misses = [miss(n) for n in range(1, 20)]
    assert (np.diff(misses) <= 0).all()
    assert misses[-1] > 1


def test_pivots_do_not_move_away_without_end():
    X = np.repeat([[0.0, 1.0], [2.0, 1.0], [0.0, 0.0]], [7, 2, 1], axis=0)
    hasher = SphericalHasher(nbits=9, max_iter=10**6, random_state=0).fit(X)
    assert np.abs(hasher.pivots_).max() < 1e8
    assert len(np.unique(hasher.transform(X), axis=0)) == 3
