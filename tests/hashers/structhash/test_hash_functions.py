"""StructHash: what all families of hash functions have in common, and the search for the best column."""

import pickle
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from _oracles import gain_of, pair_weights
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skhash.codes import binarize
from skhash.hashers.structhash._classifier_functions import ClassifierFunctions
from skhash.hashers.structhash._hash_functions import find_column
from skhash.hashers.structhash._linear_functions import KernelFunctions, LinearFunctions
from skhash.hashers.structhash._stump_functions import StumpFunctions

X, A = np.random.RandomState(0).standard_normal((40, 5)), pair_weights()
FAMILIES = {
    "linear": lambda rng: LinearFunctions(X, 0.1, 3),
    "kernel": lambda rng: KernelFunctions(X, 0.1, 3, 15, None, rng),
    "stump": lambda rng: StumpFunctions(X),
    "classifier": lambda rng: ClassifierFunctions(X, LogisticRegression(C=0.01), 3),
}
each_family = pytest.mark.parametrize("make", FAMILIES.values(), ids=list(FAMILIES))


def all_candidates(functions, A, rng):
    return list(chain.from_iterable(functions.search(A, rng)))


@each_family
def test_activations_have_the_bits_of_the_candidates(make):
    for seed in range(2):
        rng = np.random.RandomState(seed)
        functions = make(rng)
        candidates = all_candidates(functions, pair_weights(seed=seed), rng)
        combined = functions.combine([parameters for _, parameters in candidates])
        bits = np.stack([bits for bits, _ in candidates], axis=1)
        assert_array_equal(binarize(functions.activations(combined, X)), bits)
        assert_array_equal(binarize(functions.activations(functions.truncate(combined, 2), X)), bits[:, :2])


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
    column = find_column(StumpFunctions(X), A, 2.0 * stumps[[best]].T - 1, np.random.RandomState(0))
    assert column.gain == pytest.approx(gains[second])
    assert_array_equal(column.bits, stumps[second])


def test_the_next_round_comes_only_if_no_gain_is_large_enough():
    rounds = []

    def search(A, rng):
        for i in range(2):
            rounds.append(i)
            yield [(np.array([0, 1], dtype=np.uint8), {})]

    A = sparse.csr_array([[0.0, 1.5], [0.0, 0.0]])
    functions = SimpleNamespace(search=search, best_first=False)
    assert find_column(functions, A, np.zeros((2, 0)), None, 1.0).gain == 1.5
    assert rounds == [0]
    assert find_column(functions, A, np.zeros((2, 0)), None, 2.0) is None
    assert rounds == [0, 0, 1]
