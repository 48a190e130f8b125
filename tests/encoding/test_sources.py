"""Slices of samples: of one size from any blocks, read ahead, with a checksum that each value changes."""

import mmap
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skhash._encoding import _sources, binarize_and_pack
from skhash._encoding._sources import array_source, checksum, is_sliced, iterator_source, read_ahead, with_last

X = np.random.default_rng(0).normal(size=(100, 6))
TELLS = hasattr(mmap, "MADV_WILLNEED")  # not on Windows


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
            r"one number of features. Got blocks of float64 of shape \(n, 6\) and float64 of shape \(n, 5\)",
        ),
        ([X, X.astype(np.float32)], r"of one dtype .* and float32 of shape \(n, 6\) instead"),
    ],
)
def test_blocks_that_do_not_fit_are_named(blocks, message):
    with pytest.raises(ValueError, match=message):
        list(iterator_source(iter(blocks)).slices(10))


def test_the_last_one_is_known():
    assert list(with_last(iter("abc"))) == [("a", False), ("b", False), ("c", True)]
    assert list(with_last(iter("a"))) == [("a", True)]
    assert list(with_last(iter(""))) == []


def test_the_next_item_is_read_in_another_thread_meanwhile():
    begun = [threading.Event() for _ in range(4)]

    def items():
        for number, event in enumerate(begun[:3]):
            event.set()
            yield number, threading.current_thread()

    for number, thread in read_ahead(items()):
        assert thread is not threading.current_thread()
        assert number == 2 or begun[number + 1].wait(60)


@pytest.mark.parametrize("n_items", [0, 1, 5])
def test_one_item_is_read_ahead(n_items):
    begun = []

    def items():
        for number in range(n_items):
            begun.append(number)
            yield number

    found = []
    for number in read_ahead(items()):
        found.append(number)
        assert number + 1 <= len(begun) <= number + 2
    assert found == begun == list(range(n_items))


def test_an_error_of_a_reader_is_raised_here():
    def items():
        yield 1
        raise OSError("gone")

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="gone"):
        next(ahead)


def digest(samples):
    return checksum(samples)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(3, 5), (3000, 33), (100, 3, 8, 8)])
def test_each_value_and_the_order_change_the_checksum(dtype, shape):
    samples = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    found = {digest(samples), digest(samples[:-1]), digest(samples.reshape(shape[0], 1, -1))}
    negative = ~samples if samples.dtype.kind == "b" else -samples
    found |= {digest(samples[::-1]), digest(samples.astype(np.int8)), digest(negative)}
    for axis in (0, -1):
        found.add(digest(np.roll(samples, 1, axis)))
    for place in (0, samples.size // 2, samples.size - 1):
        changed = samples.copy()
        changed.reshape(-1)[place] = not changed.reshape(-1)[place]
        found.add(digest(changed))
    assert len(found) == 11
    assert digest(np.asfortranarray(samples)) == digest(samples)


def test_a_sparse_slice_has_a_checksum():
    samples = sparse.random(50, 20, 0.2, format="csr", random_state=0)
    assert checksum(samples) == checksum(samples.copy()) != checksum(2 * samples)


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
    assert array_source(mapped[:, 1:]).waits
    assert array_source(mapped).waits == array_source(np.asarray(mapped)[5:]).waits == (not TELLS)
    assert not array_source(X[5:]).waits
    assert not array_source(np.array(mapped)).waits


@pytest.mark.skipif(not TELLS, reason="a thread reads ahead where the system cannot be told to")
@pytest.mark.parametrize("offset", [0, 64, mmap.PAGESIZE, 3 * mmap.PAGESIZE + 8])
@pytest.mark.parametrize("ahead", [1, 3, 64])
def test_the_system_is_told_what_is_read_next(offset, ahead, monkeypatch):
    class Told(mmap.mmap):
        def madvise(self, advice, first, n_bytes):
            assert advice == mmap.MADV_WILLNEED
            assert first % mmap.PAGESIZE == 0
            told[first : first + n_bytes] = True
            super().madvise(advice, first, n_bytes)

    n, size, width = 1000, 32, 128
    mapped = Told(-1, offset + n * width)
    told = np.zeros(len(mapped), dtype=bool)
    samples = np.ndarray((n, width // 8), buffer=mapped, offset=offset)
    samples[:] = np.random.default_rng(0).normal(size=samples.shape)
    monkeypatch.setattr(_sources, "AHEAD_BYTES", ahead * size * width)
    for index, part in enumerate(array_source(samples).slices(size)):
        stop = offset + (index + 1) * size * width
        assert_array_equal(part, samples[index * size : (index + 1) * size])
        assert told[stop : stop + size * width].all()
    assert not told[: offset // mmap.PAGESIZE * mmap.PAGESIZE].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf, 1.1e30, -1.1e30])
def test_the_checksum_finds_values_out_of_range(dtype, bad):
    samples = np.array([[0.0, -0.0, 1e30, -1e30], [1e-45, -1.0, 3.0, 1e29]], dtype=dtype)
    assert checksum(samples)[1]
    for place in range(samples.size):
        changed = samples.copy()
        changed.reshape(-1)[place] = bad
        assert not checksum(changed)[1]


def test_only_floats_are_known_to_be_in_range():
    for samples in (np.ones((2, 8), int), np.ones((2, 8), np.float16), sparse.csr_array(np.eye(8)), np.ones((2, 0))):
        assert not checksum(samples)[1]


@pytest.mark.parametrize("nbits", [1, 7, 8, 9, 16, 24, 65])
def test_bits_are_packed_as_those_of_each_sample(nbits):
    activations = np.random.default_rng(nbits).choice([-1.0, -0.0, 0.0, 5e-324, -5e-324, 2.0], (40, nbits))
    for part in (activations, activations[:1], activations[:0]):
        assert_array_equal(binarize_and_pack(part), np.packbits(part >= 0, axis=1), strict=True)
