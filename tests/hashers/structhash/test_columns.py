"""StructHash: the families of hash functions, and the search for the best column."""

import pickle
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from _oracles import gain_of, pair_weights
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from skhash.codes import binarize, signs
from skhash.hashers.structhash._columns import (
    RETRY_FACTOR,
    ClassifierColumns,
    KernelColumns,
    LinearColumns,
    StumpColumns,
    coordinate_descent,
    find_column,
    relaxed,
    round_to_quantiles,
    symmetrize,
)

X, A = np.random.RandomState(0).standard_normal((40, 5)), pair_weights()
FAMILIES = {
    "linear": lambda rng: LinearColumns(X, 0.1, 3),
    "kernel": lambda rng: KernelColumns(X, 0.1, 3, 15, None, rng),
    "stump": lambda rng: StumpColumns(X),
    "classifier": lambda rng: ClassifierColumns(X, LogisticRegression(C=0.01), 3),
}
each_family = pytest.mark.parametrize("make", FAMILIES.values(), ids=list(FAMILIES))


def all_candidates(columns, A, rng):
    return list(chain.from_iterable(columns.search(A, rng)))


@each_family
def test_activations_have_the_bits_of_the_candidates(make):
    for seed in range(2):
        rng = np.random.RandomState(seed)
        columns = make(rng)
        candidates = all_candidates(columns, pair_weights(seed=seed), rng)
        function = columns.function([parameters for _, parameters in candidates], len(candidates) + 1)
        bits = np.stack([bits for bits, _ in candidates], axis=1)
        assert_array_equal(binarize(function.activations(X)), np.column_stack([bits, np.ones(len(X))]))
        assert_array_equal(binarize(function.first(2).activations(X)), bits[:, :2])


@each_family
def test_the_same_seed_gives_the_same_candidates(make):
    first, again = (all_candidates(make(rng), A, rng) for rng in map(np.random.RandomState, (1, 1)))
    assert len(first) == len(again) > 0
    for (bits, parameters), (bits_again, parameters_again) in zip(first, again, strict=True):
        assert_array_equal(bits, bits_again)
        assert pickle.dumps(parameters) == pickle.dumps(parameters_again)


@each_family
def test_more_rounds_find_no_smaller_gain(make):
    rng = np.random.RandomState(0)
    first, *others = (list(candidates) for candidates in make(rng).search(A, rng))
    few, many = (max(gain_of(A, bits) for bits, _ in some) for some in (first, chain(first, *others)))
    assert many >= few


def family_of(*candidates):
    """A family with these candidates."""
    pairs = [(np.array(bits, dtype=np.uint8), {"number": i}) for i, bits in enumerate(candidates)]
    return SimpleNamespace(search=lambda A, rng: iter([pairs]), best_first=False)


def test_known_and_constant_bits_are_not_new():
    A = pair_weights(4, density=0.9)
    known, complement, zeros, ones, new = [0, 1, 1, 0], [1, 0, 0, 1], [0] * 4, [1] * 4, [0, 0, 0, 1]
    known_signs = 2.0 * np.array([known]).T - 1
    column = find_column(family_of(known, complement, zeros, ones, new), A, known_signs, None, -np.inf)
    assert_array_equal(column.bits, new)
    assert column.parameters == {"number": 4}
    assert column.gain == pytest.approx(gain_of(A, new))
    assert find_column(family_of(known, complement, zeros, ones), A, known_signs, None, -np.inf) is None


def test_the_new_bit_with_the_largest_gain_is_found():
    A = pair_weights(6, 1, density=0.9)
    candidates = np.random.RandomState(0).randint(0, 2, (8, 6))
    column = find_column(family_of(*candidates), A, np.zeros((6, 0)), None)
    assert column.gain == pytest.approx(max(gain_of(A, bits) for bits in candidates))
    assert column.gain == pytest.approx(gain_of(A, column.bits))


def test_the_best_new_stump_is_found():
    stumps = np.array([x >= value for x in X.T for value in np.unique(x)[1:]])
    gains = [gain_of(A, h) for h in stumps]
    second, best = np.argsort(gains)[-2:]
    column = find_column(StumpColumns(X), A, 2.0 * stumps[[best]].T - 1, np.random.RandomState(0))
    assert column.gain == pytest.approx(gains[second])
    assert_array_equal(column.bits, stumps[second])


def test_the_next_round_comes_only_if_no_gain_is_large_enough():
    rounds = []

    def search(A, rng):
        for i in range(2):
            rounds.append(i)
            yield [(np.array([0, 1], dtype=np.uint8), {})]

    A = sparse.csr_array([[0.0, 1.5], [0.0, 0.0]])
    columns = SimpleNamespace(search=search, best_first=False)
    assert find_column(columns, A, np.zeros((2, 0)), None, 1.0).gain == 1.5
    assert rounds == [0]
    assert find_column(columns, A, np.zeros((2, 0)), None, 2.0) is None
    assert rounds == [0, 0, 1]


# --- linear and kernel functions


def gaussian(n=40, n_features=5):
    return np.random.RandomState(0).standard_normal((n, n_features))


def test_kernel_functions_reproduce_their_bits_on_samples_without_full_rank():
    for seed in range(10):
        rng = np.random.RandomState(seed)
        X = rng.randint(0, 2, (30, 2)).astype(float)  # four distinct samples, ten anchors
        columns = KernelColumns(X, 0.1, 2, 10, None, rng)
        for bits, parameters in next(columns.search(pair_weights(30, seed), rng)):
            assert_array_equal(binarize(columns.function([parameters], 1).activations(X))[:, 0], bits)


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_the_search_gains_more_than_random_functions(kind):
    X, A, rng = gaussian(n=200), pair_weights(200, density=0.05), np.random.RandomState(0)
    columns = LinearColumns(X, 0.1, 3) if kind == "linear" else KernelColumns(X, 0.1, 3, 15, None, rng)
    best = max(gain_of(A, bits) for bits, _ in next(columns.search(A, rng)))
    assert best > max(gain_of(A, X @ direction >= 0) for direction in rng.standard_normal((200, 5)))


def test_the_second_round_tries_other_starting_points():
    columns = LinearColumns(gaussian(), 0.1, 2)
    first, second = (list(candidates) for candidates in columns.search(pair_weights(), np.random.RandomState(0)))
    assert (len(first), len(second)) == (2 * 2, 2 * 2 * (RETRY_FACTOR - 1))  # of each start, and of the end
    starts = [tuple(bits) for bits, _ in (first + second)[::2]]
    assert len(set(starts)) == len(starts)


def test_the_gradient_of_the_relaxed_objective():
    Z, A = gaussian(), symmetrize(pair_weights())
    for seed in range(3):
        v = np.random.RandomState(seed).standard_normal(6)
        value, gradient = relaxed(v, A, Z)
        error = check_grad(lambda v: relaxed(v, A, Z)[0], lambda v: relaxed(v, A, Z)[1], v, epsilon=1e-6)
        assert error < 1e-4 * np.linalg.norm(gradient)
        single, its_gradient = relaxed(v, A, Z.astype(np.float32))
        assert single == pytest.approx(value, rel=1e-5)
        assert np.linalg.norm(its_gradient - gradient) < 1e-5 * np.linalg.norm(gradient)
        s = signs(binarize(Z @ v[:-1] + v[-1]))
        assert relaxed(1e9 * v, A, Z)[0] == pytest.approx(s @ (A @ s))  # in the limit


def test_linear_functions_do_not_depend_on_the_mean_of_the_features():
    X, A = gaussian(), pair_weights()
    here, there = (next(LinearColumns(X + mean, 0.1, 3).search(A, np.random.RandomState(0))) for mean in (0, 100))
    for (a, _), (b, _) in zip(here, there, strict=True):
        assert min(np.mean(a != b), np.mean(a == b)) < 0.1  # rounding may change an eigenvector, and L-BFGS


# --- stumps


def features(seed):
    """Features with many ties, with none, of adjacent floats, constant, of huge and of tiny values."""
    rng = np.random.RandomState(seed)
    adjacent = 1 + np.finfo(float).eps * rng.randint(0, 4, 30)
    huge, tiny = rng.choice([-1e300, 0, 1e300], 30), rng.choice([0, 5e-324, 1e-323], 30)
    return np.column_stack([rng.randint(0, 4, 30), rng.standard_normal(30), adjacent, np.full(30, 7.0), huge, tiny])


@pytest.mark.parametrize("some", [slice(None), [0], [1], [2], [3, 4], [5]])
def test_the_first_candidate_is_the_best_stump(some):
    n_tried = 0
    for seed in range(10):
        X, A = features(seed)[:, some], pair_weights(30, seed)
        best = max(gain_of(A, x >= value) for x in X.T for value in np.unique(x)[1:])
        if best > 0:
            columns = StumpColumns(X)
            bits, parameters = next(next(columns.search(A)))
            assert gain_of(A, bits) == pytest.approx(best, abs=1e-12)
            assert_array_equal(binarize(columns.function([parameters], 1).activations(X))[:, 0], bits)
            n_tried += 1
    assert n_tried > 3


def test_a_threshold_is_halfway_between_two_values():
    X = np.array([[0.0], [1.0], [3.0]])
    A = sparse.csr_array(np.diag([1.0], 2) + np.diag([-1.0, 1.0], 1))
    _, parameters = next(next(StumpColumns(X).search(A)))
    assert parameters == {"features": 0, "thresholds": 2.0}


# --- classifiers


def objective(A, bits):
    s = 2.0 * np.asarray(bits) - 1
    return s @ (A @ s)


def test_no_flip_improves_the_end_of_the_descent():
    for seed in range(20):
        rng = np.random.RandomState(seed)
        A = symmetrize(pair_weights(12, seed, density=0.5))
        A += sparse.diags_array(rng.standard_normal(12))
        start = rng.randint(0, 2, 12).astype(np.uint8)
        end = coordinate_descent(A.tocsr(), start.copy())
        assert end.dtype == np.uint8
        assert objective(A, end) <= objective(A, start) + 1e-12
        for i in range(12):
            flipped = end.copy()
            flipped[i] ^= 1
            assert objective(A, flipped) >= objective(A, end) - 1e-9


def test_the_descent_reaches_the_minimum_from_some_start():
    A = symmetrize(pair_weights(6, 3, density=0.8)).tocsr()
    starts = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(np.uint8)
    best = min(objective(A, bits) for bits in starts)
    assert min(objective(A, coordinate_descent(A, start)) for start in starts) == pytest.approx(best)


def test_the_descent_stays_if_nothing_can_be_gained():
    start = np.array([0, 1, 1], dtype=np.uint8)
    assert_array_equal(coordinate_descent(sparse.csr_array((3, 3)), start), start)


def test_trees_fitted_to_rounded_samples_decide_the_same_on_the_samples_themselves():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((600, 4)), rng.integers(0, 9, 600), rng.exponential(size=600).round(2)])
    rounded = round_to_quantiles(X, 255)
    assert [len(np.unique(column)) for column in rounded[:, :4].T] == [255] * 4
    few = [len(np.unique(column)) <= 255 for column in X.T]
    assert few == [False, False, False, False, True, True]
    assert_array_equal(rounded[:, few], X[:, few])
    trees = HistGradientBoostingClassifier(max_iter=5).fit(rounded, X[:, 0] * X[:, 1] > X[:, 4] - 4)
    assert_array_equal(trees.decision_function(X), trees.decision_function(rounded))


def test_features_are_rounded_to_the_nearest_kept_value():
    X = np.random.default_rng(0).standard_normal((200, 3))
    rounded = round_to_quantiles(X, 10)
    for column, out in zip(X.T, rounded.T, strict=True):
        kept = np.sort(column)[np.linspace(0, 199, 10).round().astype(int)]
        assert_array_equal(out, kept[np.abs(column[:, None] - kept).argmin(axis=1)])
