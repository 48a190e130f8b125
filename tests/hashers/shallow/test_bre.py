"""BRE: its steps against brute force in exact arithmetic."""

import functools
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.estimator_checks import parametrize_with_checks

from skhash import BREHasher, LSHHasher
from skhash.affinity import DistanceAffinity, PrecomputedAffinity, Relevance
from skhash.codes import binarize
from skhash.hashers.shallow._bre_kernels import cut_cost, descend_weights
from skhash.hashers.shallow.bre import _reconstruct, affinity_pairs, distance_pairs, distinct_pairs

QUICK = {"max_iter": 3, "n_anchors": 50, "random_state": 0}


def adjacency(pairs, costs, n):
    """Arguments of the kernels: each pair with both of its samples."""
    samples, partners = np.concatenate(pairs), np.concatenate(pairs[::-1])
    order = np.argsort(samples, kind="stable")
    return np.searchsorted(samples[order], np.arange(n + 1)), partners[order], np.tile(costs, 2)[order]


def cost_of(pairs, costs, bits):
    return sum(cost for i, j, cost in zip(*pairs, costs, strict=True) if bits[i] != bits[j])


def configurations(activations, values):
    """Bits of every interval between thresholds, as one weight moves from -inf to inf, exactly."""
    activations, values = ([Fraction(v) for v in side] for side in (activations, values))
    flips = sorted({-a / v for a, v in zip(activations, values, strict=True) if v})
    if not flips:
        return [np.array([a >= 0 for a in activations])]
    steps = [flips[0] - 1, *((a + b) / 2 for a, b in pairwise(flips)), flips[-1] + 1]
    return [np.array([a + step * v >= 0 for a, v in zip(activations, values, strict=True)]) for step in steps]


def some_pairs(rng, n, n_pairs):
    return distinct_pairs(rng.integers(0, n, n_pairs), rng.integers(0, n, n_pairs), np.zeros(n_pairs))[0]


# --- one weight


@pytest.mark.parametrize("kind", ["integers", "reals"])
def test_a_weight_is_the_best_of_all_intervals(kind):
    n_changed = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, n_features = rng.integers(2, 9), 3
        # integers: thresholds that tie, from both sides, values and activations that are 0
        columns = rng.integers(-2, 3, (n_features, n)) if kind == "integers" else rng.standard_normal((n_features, n))
        columns = columns.astype(float)
        weights = rng.integers(-2, 3, n_features).astype(float)
        pairs = some_pairs(rng, n, 12)
        costs = rng.integers(-3, 4, pairs.shape[1]).astype(float)
        activations, feature = weights @ columns, rng.integers(n_features)
        bits = binarize(activations)
        before = cost_of(pairs, costs, bits)
        best = min(cost_of(pairs, costs, trial) for trial in configurations(activations, columns[feature]))
        others = np.delete(weights, feature)
        graph = adjacency(pairs, costs, n)
        assert cut_cost(*graph, bits) == before
        changed = descend_weights(columns, np.array([feature]), *graph, weights, activations, bits)
        assert cost_of(pairs, costs, bits) == min(best, before)
        assert changed == (best < before)
        assert_array_equal(np.delete(weights, feature), others)
        assert_array_equal(bits, binarize(activations))
        assert_allclose(activations, weights @ columns, atol=1e-12)
        n_changed += changed
    assert n_changed > 60


def test_a_weight_without_influence_does_not_change():
    columns, weights = np.zeros((1, 4)), np.ones(1)
    activations, bits = np.zeros(4), np.ones(4, np.uint8)
    graph = adjacency(np.array([[0, 1], [2, 3]]), -np.ones(2), 4)
    assert descend_weights(columns, np.array([0]), *graph, weights, activations, bits) == 0
    assert_array_equal(weights, [1.0])


def test_samples_that_differ_by_rounding_are_not_separated():
    near = np.nextafter(1.0, 2.0)
    columns, weights = np.array([[1.0, near, -1.0]]), np.zeros(1)
    activations, bits = np.array([1.0, 1.0, 1.0]), np.ones(3, np.uint8)
    graph = adjacency(np.array([[0], [1]]), -np.ones(1), 3)
    assert descend_weights(columns, np.array([0]), *graph, weights, activations, bits) == 0


# --- the minimization


def problem(seed, n=14, n_features=4, nbits=3):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, n_features))
    pairs = some_pairs(rng, n, 60)
    distances = rng.integers(0, 2, pairs.shape[1]) if seed % 2 else rng.random(pairs.shape[1])
    return features, pairs, distances.astype(float), rng.standard_normal((n_features, nbits))


def objective(bits, pairs, distances):
    hamming = np.array([np.mean(bits[i] != bits[j]) for i, j in pairs.T])
    return np.sum((distances - hamming) ** 2)


@pytest.mark.parametrize("seed", range(4))
def test_the_objective_is_that_of_the_codes_and_never_increases(seed):
    features, pairs, distances, start = problem(seed)
    weights, objectives = _reconstruct(features, pairs, distances, start, 6, 2, np.random.RandomState(0))
    assert objectives[0] == pytest.approx(objective(features @ start >= 0, pairs, distances))
    assert (np.diff(objectives) <= 1e-12).all()
    assert objectives[-1] < objectives[0]
    for n_iter in range(1, len(objectives)):  # updated values equal recomputed ones
        weights, shorter = _reconstruct(features, pairs, distances, start, n_iter, 2, np.random.RandomState(0))
        assert shorter == objectives[: n_iter + 1]
        assert shorter[-1] == pytest.approx(objective(features @ weights >= 0, pairs, distances), abs=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_no_single_weight_improves_the_final_objective(seed):
    features, pairs, distances, start = problem(seed)
    weights, objectives = _reconstruct(features, pairs, distances, start, 100, 4, np.random.RandomState(0))
    assert len(objectives) < 101
    bits = features @ weights >= 0
    for p in range(weights.shape[1]):
        for values in features.T:
            for trial in configurations(features @ weights[:, p], values):
                changed = bits.copy()
                changed[:, p] = trial
                assert objective(changed, pairs, distances) >= objectives[-1] - 1e-9


def test_random_state_chooses_the_updated_weights():
    features, pairs, distances, start = problem(0)
    first, again, other = (
        _reconstruct(features, pairs, distances, start, 2, 1, np.random.RandomState(seed))[0] for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert (first != other).any()
    assert_array_equal((first != start).sum(axis=0) <= 2, True)


# --- the hasher


@parametrize_with_checks([BREHasher(reconstruct="distances", **QUICK)])
def test_without_labels_every_check_of_sklearn_passes(estimator, check):
    check(estimator)


def test_distances_rank_digits_better_than_lsh(digits):
    by_distances, lsh = (
        hasher.fit(digits.X, digits.y).score(digits.X_query, digits.y_query)
        for hasher in (
            BREHasher(nbits=16, reconstruct="distances", max_iter=5, random_state=0),
            LSHHasher(nbits=16, random_state=0),
        )
    )
    assert by_distances > lsh + 0.1


def test_distances_need_no_targets(digits):
    X, y = digits.X[:200], digits.y[:200]
    with_y, without = (BREHasher(nbits=6, reconstruct="distances", **QUICK).fit(X, targets) for targets in (y, None))
    assert_array_equal(with_y.encode(X), without.encode(X))
    assert without.affinity_ is None
    with pytest.raises(ValueError, match="requires y to be passed"):
        BREHasher(nbits=6).fit(X)


def test_distances_near_and_far_are_reconstructed(digits):
    hasher = BREHasher(nbits=24, reconstruct="distances", max_iter=5, n_anchors=200, random_state=0).fit(digits.X)
    pairs, distances = distance_pairs(
        digits.X, 5, 5, 1.0, np.random.RandomState(1)
    )  # not the pairs that were learned from
    bits = hasher.transform(digits.X)
    hamming = np.mean(bits[pairs[0]] != bits[pairs[1]], axis=1)
    assert np.corrcoef(distances, hamming)[0, 1] > 0.6


def test_history_holds_the_objectives(digits):
    hasher = BREHasher(nbits=8, **QUICK).fit(digits.X, digits.y)
    assert [entry["round"] for entry in hasher.history_] == [0, 1, 2, 3]
    objectives = [entry["objective"] for entry in hasher.history_]
    assert (np.diff(objectives) <= 0).all()
    rng = np.random.RandomState(0)
    for n in (50, 500):  # anchors, labeled samples
        rng.choice(500, n, replace=False)
    pairs, distances = affinity_pairs(Relevance.of(digits.y), 5, 5, rng)
    counted = objective(hasher.transform(digits.X), pairs, distances)
    assert objectives[-1] < 0.8 * objectives[0]
    assert counted == pytest.approx(objectives[-1])


@pytest.fixture(scope="module")
def few_codes(digits):
    """Codes of 200 digits with some options, computed once."""
    X, y = digits.X[:200], digits.y[:200]
    return functools.cache(lambda **options: BREHasher(nbits=6, **QUICK | options).fit(X, y).encode(X))


@pytest.mark.parametrize(
    "options",
    [
        {"reconstruct": "distances"},
        {"max_samples": 150},
        {"n_relevant": 1},
        {"n_irrelevant": 1},
        {"n_anchors": 20},
        {"gamma": 1e-4},
        {"max_iter": 1},
        {"n_updates": 1},
    ],
    ids=str,
)
def test_every_option_changes_the_codes(few_codes, options):
    assert (few_codes(**options) != few_codes()).any()


def test_the_share_of_far_samples_changes_the_codes(few_codes):
    assert (few_codes(reconstruct="distances", far_fraction=0.02) != few_codes(reconstruct="distances")).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reconstruct": "labels"}, "'reconstruct' parameter of BREHasher must be .* Got 'labels' instead"),
        ({"far_fraction": 0.0}, "'far_fraction' parameter of BREHasher must be .* Got 0.0 instead"),
        ({"max_samples": 1}, "'max_samples' parameter of BREHasher must be .* Got 1 instead"),
        ({"n_updates": 0}, "'n_updates' parameter of BREHasher must be .* Got 0 instead"),
    ],
    ids=str,
)
def test_invalid_options_are_an_error(digits, options, message):
    with pytest.raises(ValueError, match=message):
        BREHasher(**options).fit(digits.X, digits.y)


def test_equivalent_affinities_give_the_same_codes(digits):
    X, y = digits.X[:200], digits.y[:200]
    codes = BREHasher(nbits=6, **QUICK).fit(X, y).transform(X)
    one_hot = np.eye(10, dtype=int)[y]
    given = PrecomputedAffinity(y[:, None] == y)
    for affinity, targets in [
        ("auto", one_hot),
        ("auto", sparse.csr_array(one_hot)),
        (given, np.arange(200)),
        (lambda a, b: 3.5 * (a[:, None] == b), y),
    ]:
        assert_array_equal(BREHasher(nbits=6, affinity=affinity, **QUICK).fit(X, targets).transform(X), codes)
    with pytest.warns(UserWarning, match="training queries lack"):
        near = BREHasher(nbits=6, affinity=DistanceAffinity((2,), (1,)), **QUICK).fit(X)
    assert near.transform(X).shape == (200, 6)


@pytest.mark.filterwarnings("ignore:.* training queries lack")
@pytest.mark.filterwarnings("ignore:.* queries have no relevant item")
def test_several_labels_per_sample(digits):
    def labels(y):
        return np.column_stack([y % 3 == 0, y < 4, y > 6, y == 5]).astype(int)

    supervised, lsh = (
        hasher.fit(digits.X, labels(digits.y)).score(digits.X_query, labels(digits.y_query))
        for hasher in (BREHasher(nbits=16, max_iter=5, random_state=0), LSHHasher(nbits=16, random_state=0))
    )
    assert supervised > lsh + 0.1


# --- training pairs


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
    pairs, distances = affinity_pairs(Relevance.of(y), 3, 4, np.random.RandomState(0))
    assert_array_equal(distances, y[pairs[0]] != y[pairs[1]])
    for i, label in enumerate(y):
        partners = y[pairs[::-1][pairs == i]]
        assert np.sum(partners == label) >= min(3, np.sum(y == label) - 1)
        assert np.sum(partners != label) >= 4


@pytest.mark.filterwarnings("ignore:.* training queries lack")
def test_a_sample_without_relevant_partners_is_still_a_partner():
    y = np.array([0, 0, 0, 1])  # the last sample draws no partners
    pairs, distances = affinity_pairs(Relevance.of(y), 2, 2, np.random.RandomState(0))
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
