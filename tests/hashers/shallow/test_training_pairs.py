"""BRE's training pairs against their definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import euclidean_distances

from skhash.affinity import ClassAffinity
from skhash.hashers.shallow._training_pairs import affinity_pairs, distance_pairs, distinct_pairs


def test_pairs_are_distinct():
    rng = np.random.default_rng(0)
    samples, partners, distances = rng.integers(0, 6, 50), rng.integers(0, 6, 50), rng.random(50)
    pairs, kept = distinct_pairs(samples, partners, distances)
    first = {}
    for i, j, d in zip(samples, partners, distances, strict=True):
        if i != j:
            first.setdefault((min(i, j), max(i, j)), d)
    assert dict(zip(map(tuple, pairs.T.tolist()), kept, strict=True)) == first


def test_pairs_of_an_affinity_have_the_relevance_of_their_labels():
    y = np.repeat([0, 1, 2], [2, 8, 10])
    pairs, distances = affinity_pairs(ClassAffinity(), y, 3, 4, np.random.RandomState(0))
    assert_array_equal(distances, y[pairs[0]] != y[pairs[1]])
    for i, label in enumerate(y):
        partners = y[pairs[::-1][pairs == i]]
        assert np.sum(partners == label) >= min(3, np.sum(y == label) - 1)
        assert np.sum(partners != label) >= 4


@pytest.mark.filterwarnings("ignore:.* training queries lack")
def test_a_sample_without_relevant_partners_is_still_a_partner():
    y = np.array([0, 0, 0, 1])  # the last sample draws no partners
    pairs, distances = affinity_pairs(ClassAffinity(), y, 2, 2, np.random.RandomState(0))
    assert_array_equal(pairs.T[distances == 1], [[0, 3], [1, 3], [2, 3]])
    assert_array_equal(pairs.T[distances == 0], [[0, 1], [0, 2], [1, 2]])


@pytest.mark.parametrize("far", [0.1, 1.0])
def test_pairs_of_distances_are_near_or_far(far):
    X = np.random.default_rng(0).standard_normal((60, 5)) + 3
    X[0] = X.mean(axis=0)
    pairs, distances = distance_pairs(X, 2, 3, far, np.random.RandomState(0))
    units = X - X.mean(axis=0)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    halves = euclidean_distances(units) ** 2 / 2
    ranks = np.argsort(np.argsort(halves + np.diag(np.full(60, -1.0))))  # 0 for the sample itself
    nearness = np.minimum(ranks, ranks.T)[*pairs]
    farness = np.maximum(ranks, ranks.T)[*pairs]
    near = distances == 0
    assert_allclose(distances[~near], halves[*pairs][~near], atol=1e-9)
    assert (nearness[near] <= 3).all()
    assert (farness[~near] > 59 - np.ceil(59 * far)).all()
    counts = np.bincount(pairs.ravel(), minlength=60)
    assert (counts >= (5 if far < 1 else 3)).all()
    assert nearness[~near].min() < 10 or far < 1


def test_samples_at_the_mean_have_finite_distances():
    pairs, distances = distance_pairs(np.ones((5, 2)), 1, 1, 1.0, np.random.RandomState(0))
    assert np.isfinite(distances).all()
    assert (pairs[0] < pairs[1]).all()
