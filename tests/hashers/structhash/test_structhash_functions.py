"""StructHash: hash functions that maximise a sum of pairs."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from skhash.codes import binarize
from skhash.hashers.structhash._functions import (
    MORE_STARTS,
    ClassifierFunctions,
    KernelFunctions,
    LinearFunctions,
    StumpFunctions,
    best_new_bit,
    descend,
    nearest_quantiles,
    symmetric,
)

logistic = LogisticRegression(C=0.01)


def pairs(n=40, seed=0, density=0.3):
    """A pair matrix, as sparse and as lopsided as those of the master."""
    rng = np.random.RandomState(seed)
    return sparse.csr_array(sparse.random(n, n, density, random_state=rng, data_rvs=rng.standard_normal))


def gain_of(A, bits):
    """The sum of A_ij |h_i - h_j|."""
    h = np.asarray(bits, dtype=float)
    return (A.toarray() * np.abs(h[:, None] - h)).sum()


def families(X, rng):
    return {
        "linear": LinearFunctions(X, 0.1, 3),
        "kernel": KernelFunctions(X, 0.1, 3, 15, None, rng),
        "stump": StumpFunctions(X),
        "classifier": ClassifierFunctions(X, logistic, 3),
    }


each_kind = pytest.mark.parametrize("kind", ["linear", "kernel", "stump", "classifier"])


def gaussian(n=40, n_features=5, seed=0):
    return np.random.RandomState(seed).standard_normal((n, n_features))


@each_kind
def test_functions_give_the_bits_that_were_proposed(kind):
    X = gaussian()
    for seed in range(5):
        rng = np.random.RandomState(seed)
        functions = families(X, rng)[kind]
        proposed = list(functions.propose(pairs(seed=seed), rng))
        activations = functions.activations(functions.collect([found for _, found in proposed]), X)
        assert_array_equal(binarize(activations), np.stack([bits for bits, _ in proposed], axis=1))


def test_functions_of_rows_without_full_rank_give_the_bits_that_were_proposed():
    for seed in range(30):
        rng = np.random.RandomState(seed)
        X = rng.randint(0, 2, (30, 2)).astype(float)  # four kinds of rows, ten anchors
        functions = KernelFunctions(X, 0.1, 2, 10, None, rng)
        for bits, found in functions.propose(pairs(30, seed), rng):
            assert_array_equal(binarize(functions.activations(functions.collect([found]), X))[:, 0], bits)


@each_kind
def test_the_generator_alone_decides(kind):
    X, A = gaussian(), pairs()
    first, again = (
        list(families(X, rng)[kind].propose(A, rng)) for rng in (np.random.RandomState(1), np.random.RandomState(1))
    )
    assert len(first) == len(again) > 0
    for (a, found), (b, found_again) in zip(first, again, strict=True):
        assert_array_equal(a, b)
        assert pickle.dumps(found) == pickle.dumps(found_again)


@each_kind
def test_more_starts_propose_no_fewer(kind):
    X, A = gaussian(), pairs()
    functions = families(X, np.random.RandomState(0))[kind]
    few, many = (
        max(gain_of(A, bits) for bits, _ in functions.propose(A, np.random.RandomState(0), more)) for more in (1, 5)
    )
    assert many >= few


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_the_search_beats_random_functions(kind):
    X, A = gaussian(n=200), pairs(200, density=0.05)
    rng = np.random.RandomState(0)
    functions = families(X, rng)[kind]
    best = max(gain_of(A, bits) for bits, _ in functions.propose(A, rng))
    by_chance = [gain_of(A, X @ direction >= 0) for direction in rng.standard_normal((200, 5))]
    assert best > max(by_chance)


def stump_data(seed):
    """Features with many ties, without any, of neighbouring floats, of one value, of huge and of tiny ones."""
    rng = np.random.RandomState(seed)
    near = 1 + np.finfo(float).eps * rng.randint(0, 4, 30)
    huge, tiny = rng.choice([-1e300, 0, 1e300], 30), rng.choice([0, 5e-324, 1e-323], 30)
    return np.column_stack([rng.randint(0, 4, 30), rng.standard_normal(30), near, np.full(30, 7.0), huge, tiny])


@pytest.mark.parametrize("only", [slice(None), [0], [1], [2], [3, 4], [5]])
def test_the_stump_is_the_best_of_all(only):
    n_tried = 0
    for seed in range(15):
        X, A = stump_data(seed)[:, only], pairs(30, seed)
        best = max(gain_of(A, x >= value) for x in X.T for value in np.unique(x)[1:])
        if best > 0:
            functions = StumpFunctions(X)
            bits, found = next(functions.propose(A, None))
            assert gain_of(A, bits) == pytest.approx(best, abs=1e-12)
            assert_array_equal(binarize(functions.activations(functions.collect([found]), X))[:, 0], bits)
            n_tried += 1
    assert n_tried > 5


def test_a_threshold_is_halfway_between_two_values():
    X = np.array([[0.0], [1.0], [3.0]])
    A = sparse.csr_array(np.diag([1.0], 2) + np.diag([-1.0, 1.0], 1))
    _, found = next(StumpFunctions(X).propose(A, None))
    assert found == {"feature": 0, "threshold": 2.0}


def test_the_best_new_stump_is_found():
    X, A = gaussian(), pairs()
    stumps = np.array([x >= value for x in X.T for value in np.unique(x)[1:]])
    gains = [gain_of(A, h) for h in stumps]
    order = np.argsort(gains)
    known = 2.0 * stumps[order[-1:]].T - 1
    gain, bits, _ = best_new_bit(StumpFunctions(X), A, known, np.random.RandomState(0))
    assert gain == pytest.approx(gains[order[-2]])
    assert_array_equal(bits, stumps[order[-2]])


def objective(A, bits):
    s = 2.0 * np.asarray(bits) - 1
    return s @ (A @ s)


def test_no_flip_improves_where_the_descent_ends():
    for seed in range(20):
        rng = np.random.RandomState(seed)
        A = symmetric(pairs(12, seed, density=0.5))
        A += sparse.diags_array(rng.standard_normal(12))
        start = rng.randint(0, 2, 12).astype(np.uint8)
        end = descend(A.tocsr(), start.copy())
        assert end.dtype == np.uint8
        assert objective(A, end) <= objective(A, start) + 1e-12
        for i in range(12):
            flipped = end.copy()
            flipped[i] ^= 1
            assert objective(A, flipped) >= objective(A, end) - 1e-9


def test_the_descent_ends_at_the_best_of_all_from_some_start():
    A = symmetric(pairs(6, 3, density=0.8)).tocsr()
    starts = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(np.uint8)
    best = min(objective(A, bits) for bits in starts)
    assert min(objective(A, descend(A, start)) for start in starts) == pytest.approx(best)


def test_the_descent_stays_where_nothing_is_to_gain():
    start = np.array([0, 1, 1], dtype=np.uint8)
    assert_array_equal(descend(sparse.csr_array((3, 3)), start), start)


def test_gradient_of_the_relaxed_objective():
    functions, A = LinearFunctions(gaussian(), 0.1, 2), symmetric(pairs())
    for seed in range(3):
        v = np.random.RandomState(seed).standard_normal(6)
        error = check_grad(
            lambda v: functions._relaxed(v, A)[0], lambda v: functions._relaxed(v, A)[1], v, epsilon=1e-6
        )
        assert error < 1e-4 * np.linalg.norm(functions._relaxed(v, A)[1])
        far = functions._relaxed(1e9 * v, A)[0]
        bits = binarize(functions._Z @ v[:-1] + v[-1])
        assert far == pytest.approx(objective(A, bits))


def test_linear_functions_do_not_depend_on_where_the_features_are():
    X, A = gaussian(), pairs()
    here, there = (LinearFunctions(rows, 0.1, 3).propose(A, np.random.RandomState(0)) for rows in (X, X + 100))
    for (a, _), (b, _) in zip(here, there, strict=True):
        assert min(np.mean(a != b), np.mean(a == b)) < 0.1  # rounding may turn an eigenvector, and L-BFGS


def proposing(*bits):
    candidates = [(np.array(b, dtype=np.uint8), {"number": i}) for i, b in enumerate(bits)]
    return SimpleNamespace(propose=lambda A, rng, more=1: iter(candidates), best_first=False)


def test_no_bit_is_taken_that_is_there_or_constant():
    A = pairs(4, density=0.9)
    there, complement, zeros, ones, new = [0, 1, 1, 0], [1, 0, 0, 1], [0] * 4, [1] * 4, [0, 0, 0, 1]
    known = 2.0 * np.array([there]).T - 1
    gain, bits, found = best_new_bit(proposing(there, complement, zeros, ones, new), A, known, None)
    assert_array_equal(bits, new)
    assert found == {"number": 4}
    assert gain == pytest.approx(gain_of(A, new))
    assert best_new_bit(proposing(there, complement, zeros, ones), A, known, None) == (-np.inf, None, None)


def test_the_best_of_the_new_bits_is_taken():
    A = pairs(6, 1, density=0.9)
    candidates = np.random.RandomState(0).randint(0, 2, (8, 6))
    gain, bits, _ = best_new_bit(proposing(*candidates), A, np.zeros((6, 0)), None)
    assert gain == pytest.approx(max(gain_of(A, bits) for bits in candidates))
    assert gain == pytest.approx(gain_of(A, bits))


def test_more_starts_are_tried_only_where_no_bit_is_enough():
    asked = []

    def propose(A, rng, more=1):
        asked.append(more)
        yield np.array([0, 1], dtype=np.uint8), {}

    A = sparse.csr_array([[0.0, 1.5], [0.0, 0.0]])
    for enough in (1.0, 2.0):
        best_new_bit(SimpleNamespace(propose=propose, best_first=False), A, np.zeros((2, 0)), None, enough)
    assert asked == [1, 1, MORE_STARTS]


def test_trees_fitted_to_nearest_quantiles_decide_alike_on_the_rows_themselves():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((600, 4)), rng.integers(0, 9, 600), rng.exponential(size=600).round(2)])
    rounded = nearest_quantiles(X, 255)
    assert [len(np.unique(column)) for column in rounded[:, :4].T] == [255] * 4
    few = [len(np.unique(column)) <= 255 for column in X.T]
    assert few == [False, False, False, False, True, True]
    assert_array_equal(rounded[:, few], X[:, few])
    trees = HistGradientBoostingClassifier(max_iter=5).fit(rounded, X[:, 0] * X[:, 1] > X[:, 4] - 4)
    assert_array_equal(trees.decision_function(X), trees.decision_function(rounded))


def test_rows_are_rounded_to_the_nearest_value_that_is_kept():
    X = np.random.default_rng(0).standard_normal((200, 3))
    rounded = nearest_quantiles(X, 10)
    for column, out in zip(X.T, rounded.T, strict=True):
        kept = np.sort(column)[np.linspace(0, 199, 10).round().astype(int)]
        assert_array_equal(out, kept[np.abs(column[:, None] - kept).argmin(axis=1)])
