"""Slices of samples: of one size from any blocks, read ahead, and packed codes of them."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skhash import LSHHasher
from skhash._encoding import (
    array_source,
    binarize_and_pack,
    is_sliced,
    iterator_source,
)

X = np.random.default_rng(0).normal(size=(100, 6))


@pytest.mark.parametrize("sizes", [[100], [1] * 100, [0, 7, 0, 93], [30, 30, 40], [99, 1]])
@pytest.mark.parametrize("size", [1, 30, 100, 101])
def test_blocks_of_any_size_become_slices_of_one_size(sizes, size):
    def blocks():
        buffer, start = np.empty((100, 6)), 0
        for n in sizes:  # in the same memory each time
            buffer[:n] = X[start : start + n]
            yield buffer[:n]
            start += n

    slices = [part.copy() for part in iterator_source(blocks()).slices(size)]
    for found, expected in zip(slices, array_source(X).slices(size), strict=True):
        assert_array_equal(found, expected)


def test_slices_stay_when_the_next_is_read():
    slices = list(iterator_source(iter([X, X + 1])).slices(50))
    assert_array_equal(np.concatenate(slices), np.concatenate([X, X + 1]))


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "must yield at least one sample"),
        ([X[:0]], "must yield at least one sample"),
        ([X[:0], X[:0]], "must yield at least one sample"),
        ([X[0]], r"must yield blocks of samples, .* Got float64 of shape \(6,\) instead"),
        ([[["a", "b"]]], "must yield blocks of samples, .* Got <U1"),
        (
            [X, X[:, :5]],
            r"one number of features. Got samples that are float64 of shape \(6,\) and float64 of shape \(5,\)",
        ),
        ([X, X.astype(np.float32)], r"of one dtype .* and float32 of shape \(6,\) instead"),
    ],
)
def test_blocks_that_do_not_fit_are_named(blocks, message):
    with pytest.raises(ValueError, match=message):
        list(iterator_source(iter(blocks)).slices(10))


def test_what_is_read_slice_by_slice(tmp_path):
    class Dataset:  # as those of h5py
        shape, dtype = X.shape, X.dtype

        def __getitem__(self, where):
            return X[where]

        def __array__(self):
            raise MemoryError

    assert is_sliced(Dataset())
    assert_array_equal(np.concatenate(list(array_source(Dataset()).slices(30))), X)
    assert is_sliced(X)
    assert not any(map(is_sliced, (X.tolist(), X[0], X.astype(object), X.astype(str), X + 0j, sparse.csr_array(X))))
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert array_source(Dataset()).waits
    assert not array_source(mapped).waits
    assert not array_source(X[5:]).waits
    assert not array_source(np.array(mapped)).waits


def test_the_next_block_is_read_in_another_thread_meanwhile():
    begun = [threading.Event() for _ in range(4)]
    hasher = LSHHasher(4, random_state=0).fit(X)

    def blocks():
        for event in begun[:3]:
            event.set()
            assert threading.current_thread() is not threading.main_thread()
            yield X

    def wait(n_done, _):
        assert n_done == 300 or begun[n_done // 100].wait(60)

    assert_array_equal(hasher.encode(blocks(), batch_size=100, progress=wait), np.tile(hasher.encode(X), (3, 1)))


def test_an_error_of_a_reader_is_raised_here():
    def blocks():
        yield X
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        LSHHasher(4, random_state=0).fit(X).encode(blocks(), batch_size=10)


@pytest.mark.parametrize("nbits", [1, 7, 8, 9, 16, 24, 65])
def test_bits_are_packed_as_those_of_each_sample(nbits):
    activations = np.random.default_rng(nbits).choice([-1.0, -0.0, 0.0, 5e-324, -5e-324, 2.0], (40, nbits))
    for part in (activations, activations[:1], activations[:0]):
        assert_array_equal(binarize_and_pack(part), np.packbits(part >= 0, axis=1), strict=True)


@pytest.mark.parametrize("n", [1, 767, 768, 769, 1535, 1536, 4096])
def test_activations_are_the_product_of_centered_samples(n):
    X = np.random.default_rng(0).standard_normal((n + 20, 20)) + 1e6
    hasher = LSHHasher(16, random_state=0).fit(X)
    expected = (X[:n].astype(np.longdouble) - hasher.mean_) @ hasher.projection_
    np.testing.assert_allclose(hasher._project(X[:n]), expected.astype(float), rtol=0, atol=1e-12)
