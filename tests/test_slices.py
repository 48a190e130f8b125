"""Slices of samples: of one size from any blocks, and read ahead."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skhash import LSHHasher
from skhash.functions import LinearFunction

X = np.random.default_rng(0).normal(size=(100, 6))


@pytest.fixture(scope="module")
def hasher():
    return LSHHasher(12, random_state=0).fit(X)


@pytest.mark.parametrize("sizes", [[100], [1] * 100, [0, 7, 0, 93], [30, 30, 40], [99, 1]])
@pytest.mark.parametrize("size", [1, 30, 100, 101])
def test_blocks_of_any_size_become_slices_of_one_size(sizes, size, hasher):
    def blocks():
        buffer, start = np.empty((100, 6)), 0
        for n in sizes:  # in the same memory each time
            buffer[:n] = X[start : start + n]
            yield buffer[:n]
            start += n

    ends = []
    codes = hasher.encode(blocks(), batch_size=size, progress=lambda n_done, _: ends.append(n_done))
    assert_array_equal(codes, hasher.encode(X))
    assert ends == [*range(size, 100, size), 100]


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([X[0]], r"must yield blocks of samples, .* Got float64 of shape \(6,\) instead"),
        ([[["a", "b"]]], "must yield blocks of samples, .* Got <U1"),
        (
            [X, X[:, :5]],
            r"one number of features. Got samples that are float64 of shape \(6,\) and float64 of shape \(5,\)",
        ),
        ([X, X.astype(np.float32)], r"of one dtype .* and float32 of shape \(6,\) instead"),
    ],
)
def test_blocks_that_do_not_fit_are_named(blocks, message, hasher):
    with pytest.raises(ValueError, match=message):
        hasher.encode(iter(blocks), batch_size=10)


class Lazy:
    """A dataset of a file, as those of h5py, that notes which threads read it."""

    shape, dtype = X.shape, X.dtype

    def __init__(self):
        self.threads = []

    def __getitem__(self, where):
        self.threads.append(threading.current_thread())
        return X[where]

    def __array__(self):
        raise MemoryError


def test_a_dataset_of_a_file_is_read_slice_by_slice_in_another_thread(hasher):
    lazy = Lazy()
    assert_array_equal(hasher.encode(lazy, batch_size=30), hasher.encode(X))
    assert len(lazy.threads) >= 4
    assert threading.main_thread() not in lazy.threads


def test_memory_is_read_in_this_thread(hasher, tmp_path):
    np.save(tmp_path / "x.npy", X)
    names = []
    for samples in (X, X[5:], np.load(tmp_path / "x.npy", mmap_mode="r")):
        hasher.encode(samples, batch_size=30, progress=lambda *_: names.extend(map(str, threading.enumerate())))
    assert len(names) >= 12
    assert not any("skhash-reader" in name for name in names)


def test_the_next_block_is_read_in_another_thread_meanwhile(hasher):
    begun = [threading.Event() for _ in range(4)]

    def blocks():
        for event in begun[:3]:
            event.set()
            assert threading.current_thread() is not threading.main_thread()
            yield X

    def wait(n_done, _):
        assert n_done == 300 or begun[n_done // 100].wait(60)

    assert_array_equal(hasher.encode(blocks(), batch_size=100, progress=wait), np.tile(hasher.encode(X), (3, 1)))


def test_an_error_of_a_reader_is_raised_here(hasher):
    def blocks():
        yield X
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        hasher.encode(blocks(), batch_size=10)


@pytest.mark.parametrize("nbits", [1, 7, 8, 9, 16, 24, 65])
def test_bits_are_packed_as_those_of_each_sample(nbits):
    X = np.random.default_rng(nbits).choice([-1.0, -0.0, 0.0, 5e-324, -5e-324, 2.0], (40, nbits))
    hasher = LSHHasher(nbits, random_state=0).fit(X)
    hasher.function_ = LinearFunction(np.zeros(nbits), np.eye(nbits))  # the samples are their activations
    for part in (X, X[:1]):
        assert_array_equal(hasher.project(part), part)
        assert_array_equal(hasher.encode(part), np.packbits(part >= 0, axis=1), strict=True)


@pytest.mark.parametrize("n", [1, 767, 768, 769, 1535, 1536, 4096])
def test_activations_are_the_product_of_centered_samples(n):
    X = np.random.default_rng(0).standard_normal((n + 20, 20)) + 1e6
    hasher = LSHHasher(16, random_state=0).fit(X)
    expected = (X[:n].astype(np.longdouble) - hasher.mean_) @ hasher.projection_
    np.testing.assert_allclose(hasher.project(X[:n]), expected.astype(float), rtol=0, atol=1e-12)
