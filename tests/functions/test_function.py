"""What all kinds of functions share: arrays and back, prefixes, copies, threads, and refused arrays of files."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import skhash
from skhash.functions import HashFunction, KernelFunction, LinearFunction
from skhash.registry import FUNCTIONS

X, y = load_digits(return_X_y=True)
X = X[:300] + 0.1 * np.random.RandomState(0).standard_normal((300, 64))
y = y[:300]
MAKERS = {
    "linear": lambda: skhash.ITQHasher(9, random_state=0),
    "columns": lambda: skhash.CGHashHasher(4, hash_function="linear", random_state=0),
    "kernel": lambda: skhash.KSHHasher(9, n_anchors=40, max_samples=100, random_state=0),
    "kernel columns": lambda: skhash.StructHashHasher(4, n_queries=20, n_anchors=20, random_state=0),
    "spectral": lambda: skhash.SpectralHasher(9),
    "spherical": lambda: skhash.SphericalHasher(9, random_state=0),
    "anchor graph": lambda: skhash.AGHHasher(9, n_anchors=20, random_state=0),
    "stumps": lambda: skhash.CGHashHasher(4, hash_function="stump", random_state=0),
}
each_kind = pytest.mark.parametrize("kind", MAKERS)


@cache
def fitted(kind):
    return MAKERS[kind]().fit(X, y)


@each_kind
def test_a_hasher_returns_what_its_function_does(kind):
    hasher = fitted(kind)
    function = hasher.function_
    assert isinstance(function, HashFunction)
    assert (function.nbits, function.shape) == (hasher.nbits, (64,))
    assert repr(function) == f"{type(function).__name__}(nbits={hasher.nbits}, shape=(64,))"
    assert_allclose(hasher.project(X), function.activations(X), rtol=1e-9, atol=1e-9)
    assert_array_equal(hasher.transform(X), function.activations(X) >= 0)
    assert_allclose(hasher.project_queries(X), function.queries(X), rtol=1e-9, atol=1e-9)


@each_kind
def test_arrays_and_back(kind):
    function = fitted(kind).function_
    arrays = function.arrays()
    assert all(type(array) is np.ndarray and array.dtype.kind in "fi" for array in arrays.values())
    again = type(function).from_arrays(arrays)
    assert_array_equal(again.activations(X), function.activations(X))
    assert FUNCTIONS[type(function).__name__] == f"{type(function).__module__}.{type(function).__name__}"


@each_kind
def test_the_first_bits(kind):
    function = fitted(kind).function_
    before = pickle.dumps(function)
    for nbits in range(1, function.nbits + 1):
        first = function.first(nbits)
        assert first.nbits == nbits
        assert_allclose(first.activations(X), function.activations(X)[:, :nbits], rtol=1e-12, atol=1e-12)
        type(first).from_arrays(first.arrays())
    assert pickle.dumps(function) == before


@each_kind
def test_a_copy_holds_no_torch_and_several_threads_may_use_a_function(kind):
    function = fitted(kind).function_
    content = pickle.dumps(function)
    assert b"torch" not in content
    expected = function.activations(X)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: pickle.loads(content).activations(X), range(8)):
            assert_array_equal(found, expected)


@each_kind
def test_a_sample_alone_and_in_a_batch(kind):
    """Up to rounding for both dtypes, and bit for bit for one and two threads."""
    hasher = fitted(kind)
    for dtype, tolerance in (np.float64, 1e-13), (np.float32, 4e-6):
        samples = X.astype(dtype)
        both = []
        for n in (1, 2):
            with threadpool_limits(n):
                both.append((hasher.project(samples), np.concatenate([hasher.project(x[None]) for x in samples[:20]])))
        (batch, alone), (batch_again, alone_again) = both
        assert_array_equal(batch, batch_again)
        assert_array_equal(alone, alone_again)
        largest = np.abs(batch[:20]).max(axis=1, keepdims=True)
        tolerance = 1e-10 if kind in ("kernel", "kernel columns", "spherical", "anchor graph") else tolerance
        assert (np.abs(alone - batch[:20]) <= max(tolerance, 1e-13) * largest).all()


@each_kind
def test_wrong_arrays_of_a_file_are_refused(kind):
    function = fitted(kind).function_
    arrays = function.arrays()
    for name in arrays.keys() - {"spread", "intercept"}:
        with pytest.raises(ValueError, match=rf"`function_\.{name}` is missing"):
            type(function).from_arrays({other: array for other, array in arrays.items() if other != name})
        with pytest.raises(ValueError, match=r"must have shape"):
            type(function).from_arrays(arrays | {name: arrays[name][None]})
        with pytest.raises(ValueError, match=rf"`function_\.{name}` must be an array of dtype kind"):
            type(function).from_arrays(arrays | {name: arrays[name].astype(complex)})
        if arrays[name].dtype.kind == "f":
            with pytest.raises(ValueError, match=rf"`function_\.{name}` must be finite"):
                type(function).from_arrays(arrays | {name: np.full_like(arrays[name], np.nan)})
        elif name != "modes":
            with pytest.raises(ValueError, match=rf"`function_\.{name}` must be"):
                type(function).from_arrays(arrays | {name: np.full_like(arrays[name], -1)})
    with pytest.raises(ValueError, match=r"`function_\.other` is not part of the function"):
        type(function).from_arrays(arrays | {"other": np.ones(2)})


def test_stumps_of_features_that_are_not_there_are_refused():
    function = fitted("stumps").function_
    with pytest.raises(ValueError, match="`features` must be 4 indices below 64"):
        replace(function, features=function.features + 64)


# --- linear


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 50, 3000])
def test_linear_maps_are_those_of_the_formula_in_each_library(dtype, n):
    rng = np.random.RandomState(0)
    samples, mean, projection = rng.standard_normal((n, 40)), rng.standard_normal(40), rng.standard_normal((40, 24))
    expected = (samples - mean) @ projection + np.arange(24)
    for order in "CF":
        weight = np.asarray(projection, dtype, order=order)
        function = LinearFunction(mean.astype(dtype), weight, np.arange(24, dtype=dtype))
        found = function.activations(samples.astype(dtype))
        in_torch = function.converted(torch.from_numpy).activations(torch.from_numpy(samples.astype(dtype)))
        assert found.dtype == dtype
        tolerance = 1e-4 if dtype == np.float32 else 1e-12
        assert_allclose(found, expected, atol=tolerance)
        assert_allclose(in_torch.numpy(), expected, atol=tolerance)


def test_the_mean_is_subtracted_before_the_product():
    """In float32, far from 0, the product of the mean would have more than ten times this error."""
    rng = np.random.RandomState(0)
    samples = rng.standard_normal((500, 64)) + 500
    mean, projection = samples.mean(axis=0), rng.standard_normal((64, 16))
    expected = (samples.astype(np.float32).astype(float) - mean.astype(np.float32)) @ projection.astype(np.float32)
    function = LinearFunction(mean.astype(np.float32), projection.astype(np.float32))
    error = np.abs(function.activations(samples.astype(np.float32)) - expected).max()
    folded = samples.astype(np.float32) @ function.projection - function.mean @ function.projection
    assert error < 2e-5 < np.abs(folded - expected).max() / 10


# --- kernel


def test_kernel_values_are_centered_before_the_map():
    rng = np.random.RandomState(0)
    anchors, mean = rng.standard_normal((7, 5)), rng.random_sample(7)
    projection, intercept = rng.standard_normal((7, 4)), rng.standard_normal(4)
    samples = rng.standard_normal((6, 5))
    values = np.exp(-0.3 * np.square(samples[:, None] - anchors).sum(axis=2))
    function = KernelFunction(anchors, 0.3, mean, projection, intercept)
    assert_allclose(function.activations(samples), (values - mean) @ projection + intercept, atol=1e-12)
