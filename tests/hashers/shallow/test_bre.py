"""BRE: its single steps against brute force in exact arithmetic, its pairs against their definitions."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.estimator_checks import parametrize_with_checks

from skhash import BREHasher, ITQHasher, LSHHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity
from skhash.codes import binarize
from skhash.hashers.shallow._kernels import cut_cost, descend_weights
from skhash.hashers.shallow.bre import affinity_pairs, distance_pairs, distinct_pairs, reconstruct

QUICK = {"n_iter": 3, "n_anchors": 50, "random_state": 0}


def adjacency(pairs, costs, n):
    """What the kernels take: each pair with both of its rows."""
    rows, partners = np.concatenate(pairs), np.concatenate(pairs[::-1])
    by_row = np.argsort(rows, kind="stable")
    return np.searchsorted(rows[by_row], np.arange(n + 1)), partners[by_row], np.tile(costs, 2)[by_row]


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
def test_a_weight_is_the_best_of_all_thresholds(kind):
    n_changed = 0
    for seed in range(300):
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
    assert n_changed > 100


def test_a_weight_of_no_influence_is_left_alone():
    columns, weights = np.zeros((1, 4)), np.ones(1)
    activations, bits = np.zeros(4), np.ones(4, np.uint8)
    graph = adjacency(np.array([[0, 1], [2, 3]]), -np.ones(2), 4)
    assert descend_weights(columns, np.array([0]), *graph, weights, activations, bits) == 0
    assert_array_equal(weights, [1.0])


def test_rows_that_rounding_alone_tells_apart_stay_together():
    near = np.nextafter(1.0, 2.0)
    columns, weights = np.array([[1.0, near, -1.0]]), np.zeros(1)
    activations, bits = np.array([1.0, 1.0, 1.0]), np.ones(3, np.uint8)
    graph = adjacency(np.array([[0], [1]]), -np.ones(1), 3)
    assert descend_weights(columns, np.array([0]), *graph, weights, activations, bits) == 0


# --- the minimisation


def problem(seed, n=14, n_features=4, nbits=3):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, n_features))
    pairs = some_pairs(rng, n, 60)
    distances = rng.integers(0, 2, pairs.shape[1]) if seed % 2 else rng.random(pairs.shape[1])
    return features, pairs, distances.astype(float), rng.standard_normal((n_features, nbits))


def objective(bits, pairs, distances):
    hamming = np.array([np.mean(bits[i] != bits[j]) for i, j in pairs.T])
    return np.sum((distances - hamming) ** 2)


@pytest.mark.parametrize("seed", range(6))
def test_the_objective_is_that_of_the_codes_and_never_rises(seed):
    features, pairs, distances, start = problem(seed)
    weights, objectives = reconstruct(features, pairs, distances, start, 6, 2, np.random.RandomState(0))
    assert objectives[0] == pytest.approx(objective(features @ start >= 0, pairs, distances))
    assert (np.diff(objectives) <= 1e-12).all()
    assert objectives[-1] < objectives[0]
    for n_iter in range(1, len(objectives)):  # what is kept up to date is what is counted anew
        weights, shorter = reconstruct(features, pairs, distances, start, n_iter, 2, np.random.RandomState(0))
        assert shorter == objectives[: n_iter + 1]
        assert shorter[-1] == pytest.approx(objective(features @ weights >= 0, pairs, distances), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_in_the_end_no_single_weight_improves_the_objective(seed):
    features, pairs, distances, start = problem(seed)
    weights, objectives = reconstruct(features, pairs, distances, start, 100, 4, np.random.RandomState(0))
    assert len(objectives) < 101
    bits = features @ weights >= 0
    for p in range(weights.shape[1]):
        for values in features.T:
            for trial in configurations(features @ weights[:, p], values):
                changed = bits.copy()
                changed[:, p] = trial
                assert objective(changed, pairs, distances) >= objectives[-1] - 1e-9


def test_the_generator_decides_which_weights_are_updated():
    features, pairs, distances, start = problem(0)
    first, again, other = (
        reconstruct(features, pairs, distances, start, 2, 1, np.random.RandomState(seed))[0] for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert (first != other).any()
    assert_array_equal((first != start).sum(axis=0) <= 2, True)


# --- pairs


def test_pairs_are_distinct():
    rng = np.random.default_rng(0)
    rows, partners, distances = rng.integers(0, 6, 50), rng.integers(0, 6, 50), rng.random(50)
    pairs, kept = distinct_pairs(rows, partners, distances)
    first = {}
    for i, j, d in zip(rows, partners, distances, strict=True):
        if i != j:
            first.setdefault((min(i, j), max(i, j)), d)
    assert dict(zip(map(tuple, pairs.T.tolist()), kept, strict=True)) == first


def test_pairs_of_an_affinity():
    y = np.repeat([0, 1, 2], [2, 8, 10])
    pairs, distances = affinity_pairs(ClassAffinity(), y, 3, 4, np.random.RandomState(0))
    assert_array_equal(distances, y[pairs[0]] != y[pairs[1]])
    for row, label in enumerate(y):
        partners = y[pairs[::-1][pairs == row]]
        assert np.sum(partners == label) >= min(3, np.sum(y == label) - 1)
        assert np.sum(partners != label) >= 4


@pytest.mark.filterwarnings("ignore:.* training queries lack")
def test_rows_without_a_partner_of_a_kind():
    y = np.array([0, 0, 0, 1])  # the last row starts no pair, but is in some
    pairs, distances = affinity_pairs(ClassAffinity(), y, 2, 2, np.random.RandomState(0))
    assert_array_equal(pairs.T[distances == 1], [[0, 3], [1, 3], [2, 3]])
    assert_array_equal(pairs.T[distances == 0], [[0, 1], [0, 2], [1, 2]])


@pytest.mark.parametrize("far", [0.1, 1.0])
def test_pairs_of_distances(far):
    X = np.random.default_rng(0).standard_normal((60, 5)) + 3
    X[0] = X.mean(axis=0)
    pairs, distances = distance_pairs(X, 2, 3, far, np.random.RandomState(0))
    units = X - X.mean(axis=0)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    halves = euclidean_distances(units) ** 2 / 2
    ranks = np.argsort(np.argsort(halves + np.diag(np.full(60, -1.0))))  # 0 for the row itself
    nearness = np.minimum(ranks, ranks.T)[*pairs]
    farness = np.maximum(ranks, ranks.T)[*pairs]
    near = distances == 0
    assert_allclose(distances[~near], halves[*pairs][~near], atol=1e-9)
    assert (nearness[near] <= 3).all()
    assert (farness[~near] > 59 - np.ceil(59 * far)).all()
    counts = np.bincount(pairs.ravel(), minlength=60)
    assert (counts >= (5 if far < 1 else 3)).all()
    assert nearness[~near].min() < 10 or far < 1


def test_distances_of_rows_at_the_mean():
    pairs, distances = distance_pairs(np.ones((5, 2)), 1, 1, 1.0, np.random.RandomState(0))
    assert np.isfinite(distances).all()
    assert (pairs[0] < pairs[1]).all()


# --- the hasher


@parametrize_with_checks([BREHasher(reconstruct="distances", **QUICK)])
def test_without_labels_it_passes_every_check_of_sklearn(estimator, check):
    check(estimator)


def test_labels_are_worth_more_than_none(digits):
    supervised, by_distances, itq, lsh = (
        hasher.fit(digits.X, digits.y).score(digits.X_query, digits.y_query)
        for hasher in (
            BREHasher(nbits=16, random_state=0),
            BREHasher(nbits=16, reconstruct="distances", random_state=0),
            ITQHasher(nbits=16, random_state=0),
            LSHHasher(nbits=16, random_state=0),
        )
    )
    assert supervised > itq + 0.1
    assert by_distances > lsh + 0.1


def test_distances_need_no_targets(digits):
    with_y = BREHasher(nbits=8, reconstruct="distances", **QUICK).fit(digits.X, digits.y)
    without = BREHasher(nbits=8, reconstruct="distances", **QUICK).fit(digits.X)
    assert_array_equal(with_y.encode(digits.X), without.encode(digits.X))
    assert without.affinity_ is None
    with pytest.raises(ValueError, match="requires y to be passed"):
        BREHasher(nbits=8).fit(digits.X)


def test_distances_near_and_far_are_reconstructed(digits):
    hasher = BREHasher(nbits=32, reconstruct="distances", random_state=0).fit(digits.X)
    pairs, distances = distance_pairs(digits.X, 5, 5, 1.0, np.random.RandomState(1))  # others than were learned from
    bits = hasher.transform(digits.X)
    hamming = np.mean(bits[pairs[0]] != bits[pairs[1]], axis=1)
    assert np.corrcoef(distances, hamming)[0, 1] > 0.6


def test_history(digits):
    hasher = BREHasher(nbits=8, **QUICK).fit(digits.X, digits.y)
    assert [entry["round"] for entry in hasher.history_] == [0, 1, 2, 3]
    objectives = [entry["objective"] for entry in hasher.history_]
    assert (np.diff(objectives) <= 0).all()
    rng = np.random.RandomState(0)
    for n in (50, 500):  # anchors, labelled rows
        rng.choice(500, n, replace=False)
    pairs, distances = affinity_pairs(ClassAffinity(), digits.y, 5, 5, rng)
    counted = objective(hasher.transform(digits.X), pairs, distances)
    assert objectives[-1] < 0.8 * objectives[0]
    assert counted == pytest.approx(objectives[-1])


@pytest.mark.parametrize(
    "options",
    [
        {"reconstruct": "distances"},
        {"reconstruct": "distances", "far": 0.02},
        {"n_labeled": 200},
        {"n_relevant": 1},
        {"n_irrelevant": 1},
        {"n_anchors": 20},
        {"gamma": 1e-4},
        {"n_iter": 1},
        {"n_updates": 1},
    ],
    ids=str,
)
def test_every_option_matters(digits, options):
    codes = [
        BREHasher(nbits=8, **QUICK | changed).fit(digits.X, digits.y).transform(digits.X)
        for changed in ({}, options, {name: value for name, value in options.items() if name != "far"})
    ]
    assert (codes[0] != codes[1]).any()
    assert (codes[1] != codes[2]).any() == ("far" in options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reconstruct": "labels"}, "'reconstruct' parameter of BREHasher must be .* Got 'labels' instead"),
        ({"far": 0.0}, "'far' parameter of BREHasher must be .* Got 0.0 instead"),
        ({"n_labeled": 1}, "'n_labeled' parameter of BREHasher must be .* Got 1 instead"),
        ({"n_updates": 0}, "'n_updates' parameter of BREHasher must be .* Got 0 instead"),
    ],
    ids=str,
)
def test_options_that_make_no_sense(digits, options, message):
    with pytest.raises(ValueError, match=message):
        BREHasher(**options).fit(digits.X, digits.y)


def test_any_affinity(digits):
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
def test_several_labels(digits):
    def labels(y):
        return np.column_stack([y % 3 == 0, y < 4, y > 6, y == 5]).astype(int)

    supervised, lsh = (
        hasher.fit(digits.X, labels(digits.y)).score(digits.X_query, labels(digits.y_query))
        for hasher in (BREHasher(nbits=16, random_state=0), LSHHasher(nbits=16, random_state=0))
    )
    assert supervised > lsh + 0.1


def test_rows_of_little_variety():
    y = np.repeat([0, 1], 5)
    X = np.repeat([[0.0, 1.0], [2.0, 1.0]], 5, axis=0)
    bits = BREHasher(nbits=5, random_state=0).fit(X, y).transform(X)
    assert len(np.unique(bits, axis=0)) == 2
    equal = BREHasher(nbits=5, random_state=0).fit(np.ones((10, 2)), y)
    assert_array_equal(np.ptp(equal.transform(np.ones((3, 2))), axis=0), 0)
