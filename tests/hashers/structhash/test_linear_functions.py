"""StructHash: linear and kernel hash functions."""

import numpy as np
import pytest
from _oracles import gain_of, pair_weights
from numpy.testing import assert_array_equal
from scipy.optimize import check_grad

from skhash.codes import binarize, signs
from skhash.hashers.structhash._linear_functions import RETRY_FACTOR, KernelFunctions, LinearFunctions, symmetrize


def gaussian(n=40, n_features=5):
    return np.random.RandomState(0).standard_normal((n, n_features))


def test_kernel_functions_reproduce_their_bits_on_samples_without_full_rank():
    for seed in range(10):
        rng = np.random.RandomState(seed)
        X = rng.randint(0, 2, (30, 2)).astype(float)  # four distinct samples, ten anchors
        functions = KernelFunctions(X, 0.1, 2, 10, None, rng)
        for bits, parameters in next(functions.search(pair_weights(30, seed), rng)):
            assert_array_equal(binarize(functions.activations(functions.combine([parameters]), X))[:, 0], bits)


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_the_search_gains_more_than_random_functions(kind):
    X, A, rng = gaussian(n=200), pair_weights(200, density=0.05), np.random.RandomState(0)
    functions = LinearFunctions(X, 0.1, 3) if kind == "linear" else KernelFunctions(X, 0.1, 3, 15, None, rng)
    best = max(gain_of(A, bits) for bits, _ in next(functions.search(A, rng)))
    assert best > max(gain_of(A, X @ direction >= 0) for direction in rng.standard_normal((200, 5)))


def test_the_second_round_tries_other_starting_points():
    functions = LinearFunctions(gaussian(), 0.1, 2)
    first, second = (list(candidates) for candidates in functions.search(pair_weights(), np.random.RandomState(0)))
    assert (len(first), len(second)) == (2 * 2, 2 * 2 * (RETRY_FACTOR - 1))  # of each start, and of the end
    starts = [tuple(bits) for bits, _ in (first + second)[::2]]
    assert len(set(starts)) == len(starts)


def test_the_gradient_of_the_relaxed_objective():
    functions, A = LinearFunctions(gaussian(), 0.1, 2), symmetrize(pair_weights())
    for seed in range(3):
        v = np.random.RandomState(seed).standard_normal(6)
        error = check_grad(
            lambda v: functions._relaxed(v, A)[0], lambda v: functions._relaxed(v, A)[1], v, epsilon=1e-6
        )
        assert error < 1e-4 * np.linalg.norm(functions._relaxed(v, A)[1])
        (value, gradient), (single, its_gradient) = functions._relaxed(v, A), functions._relaxed(v, A, functions._Z32)
        assert single == pytest.approx(value, rel=1e-5)
        assert np.linalg.norm(its_gradient - gradient) < 1e-5 * np.linalg.norm(gradient)
        s = signs(binarize(functions._Z @ v[:-1] + v[-1]))
        assert functions._relaxed(1e9 * v, A)[0] == pytest.approx(s @ (A @ s))  # in the limit


def test_linear_functions_do_not_depend_on_the_mean_of_the_features():
    X, A = gaussian(), pair_weights()
    here, there = (next(LinearFunctions(X + mean, 0.1, 3).search(A, np.random.RandomState(0))) for mean in (0, 100))
    for (a, _), (b, _) in zip(here, there, strict=True):
        assert min(np.mean(a != b), np.mean(a == b)) < 0.1  # rounding may change an eigenvector, and L-BFGS
