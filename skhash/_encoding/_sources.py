"""Samples as successive slices: of arrays, of what is indexed like them, and of iterators of blocks."""

import hashlib
import mmap
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._encoding._packing import range_terms
from skhash._validation.numeric import as_array
from skhash._validation.values import MAX_VALUE
from skhash.codes._bits import read_only

T = TypeVar("T")
N_MIXED = 64  # words that all samples of a slice are mixed into: few, since a cryptographic checksum is slow
#: bytes of a mapped file that the system is told to read ahead at a time
AHEAD_BYTES = 8 << 20


@dataclass(frozen=True)
class Source:
    """Samples that are read slice by slice."""

    n: int | None  #: number of samples, if it is known
    slices: Callable[[int], Iterator[Any]]  #: slices of a given size; the last one may be smaller
    waits: bool = True  #: whether reading takes time, so that a thread reads ahead
    is_valid: bool = False  #: whether the samples are validated


def is_sliced(X: Any) -> bool:
    """Whether samples are numbers that can be read slice by slice: an array, a memmap, a dataset of h5py or zarr."""
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    is_lazy = hasattr(X, "__dask_graph__")  # its slices are not read, but computed
    is_array = isinstance(X, np.ndarray) or (hasattr(X, "__array__") and hasattr(X, "__getitem__") and not is_lazy)
    is_other = sparse.issparse(X) or np.ma.is_masked(X)  # a slice would lose the mask, which validation refuses
    return is_array and kind in tuple("biuf") and len(getattr(X, "shape", ())) > 1 and not is_other


def array_source(X: Any) -> Source:
    """Slices of samples that are indexed; each is converted when it is read."""
    plain = np.asarray(X) if isinstance(X, np.memmap) else X  # a memmap makes a memmap of each slice
    is_sparse, owner = sparse.issparse(X), _owner(X)
    is_mapped = isinstance(owner, mmap.mmap) and plain.flags.c_contiguous and hasattr(mmap, "MADV_WILLNEED")

    def slices(size: int) -> Iterator[Any]:
        n_told = size  # the system is asked to read the samples up to this one, or they are read
        for start in range(0, plain.shape[0], size):
            if is_mapped and start + size >= n_told:
                n_ahead = max(size, AHEAD_BYTES * plain.shape[0] // plain.nbytes)
                _will_need(owner, plain[n_told : n_told + n_ahead])
                n_told += n_ahead
            part = plain[start : start + size]
            yield part if is_sparse else np.asarray(part)

    return Source(int(X.shape[0]), slices, not (is_mapped or is_sparse or _is_memory(owner)))


def iterator_source(blocks: Iterable[Any], validate: Callable[[Any], Any] | None = None) -> Source:
    """Slices of one size from blocks of any sizes, which are copied, since an iterator may reuse its memory.

    `validate` takes whole blocks, since slices of them have lost the names of their features.
    """

    def slices(size: int) -> Iterator[npt.NDArray[Any]]:
        part, n, kind = np.empty(0), 0, None
        for given in blocks:
            block = _checked_block(given)
            if not len(block):
                continue
            if validate is not None:
                block = validate(given)
            kind = kind or (block.dtype, block.shape[1:])
            if (block.dtype, block.shape[1:]) != kind:
                raise ValueError(
                    "`X` must yield blocks of one dtype and of one number of features. Got blocks of "
                    f"{' and '.join(_text(*each) for each in (kind, (block.dtype, block.shape[1:])))} instead."
                )
            start = 0
            while start < len(block):
                if n == 0:
                    part = np.empty((size, *kind[1]), kind[0])
                taken = block[start : start + size - n]
                part[n : n + len(taken)] = taken
                start, n = start + len(taken), n + len(taken)
                if n == size:
                    yield part
                    n = 0
        if kind is None:
            raise ValueError("`X` must yield at least one sample. Got an iterator without any.")
        if n:
            yield part[:n]

    return Source(None, slices, is_valid=validate is not None)


def with_last(items: Iterator[T]) -> Iterator[tuple[T, bool]]:
    """Items, and whether each is the last one."""
    for item in items:
        for following in items:
            yield item, False
            item = following
        yield item, True


def read_ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Items; a thread reads the next one while an item is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="skhash-reader") as pool:
        future = pool.submit(next, items, None)
        while (item := future.result()) is not None:
            future = pool.submit(next, items, None)
            yield item


def checksum(samples: Any) -> tuple[str, bool]:
    """Checksum of the type, shape and values of samples, and whether they are known to be finite floats in range.

    The words of each sample are mixed before SHA-256, so that one pass is enough (`benchmarks/encode.py`). A changed
    value changes the checksum, and so does another order of samples or features.
    """
    if sparse.issparse(samples):
        digest = hashlib.sha256(repr(samples.shape).encode())
        for part in (samples.indptr, samples.indices, samples.data):
            digest.update(part.dtype.str.encode())
            digest.update(_content(part)[0])
        return digest.hexdigest()[:32], False
    content, is_within = _content(np.asarray(samples))
    kind = f"{samples.shape!r}{samples.dtype.str}".encode()
    return hashlib.blake2b(kind + content, digest_size=16).hexdigest(), is_within


def _content(samples: npt.NDArray[Any]) -> tuple[bytes, bool]:
    """A mixture of all values, or all bytes, and whether all values are known to be finite floats in range."""
    content = read_only(samples)
    n_bytes = content[:1].nbytes
    if n_bytes == 0 or n_bytes % 8:
        return content.tobytes(), False
    from skhash._encoding import _kernels

    words = content.reshape(len(content), -1).view(np.uint64)
    mixed = np.zeros(N_MIXED, dtype=np.uint64)
    sign, mask, limit = _word_terms(content.dtype)
    found = _kernels.mix_words(words, mask, limit, mixed)
    return mixed.tobytes(), bool(sign and not found & sign)


@cache
def _word_terms(dtype: np.dtype[Any]) -> list[np.uint64]:
    """Sign, mask and limit of `range_terms` for all floats in 8 bytes; 0 for other types."""
    bits, *terms = range_terms(dtype, MAX_VALUE) or (np.dtype(np.uint64), 0, 0, 0)
    return [np.uint64(int(term) * (1 if bits.itemsize == 8 else 1 + (1 << 32))) for term in terms]


def _checked_block(block: Any) -> npt.NDArray[Any]:
    if sparse.issparse(block):
        raise ValueError(
            "`X` must yield dense blocks. Got a sparse one instead. Give the sparse matrix itself, or block.toarray()."
        )
    values = as_array(block, "X")
    if values.ndim < 2 or values.dtype.kind not in "biuf":
        raise ValueError(
            "`X` must yield blocks of samples, arrays of numbers of shape (n, n_features). Got "
            f"{values.dtype} of shape {values.shape} instead."
        )
    return values


def _owner(X: Any) -> Any:
    """What owns the memory of an array: the first array, a mapped file or another buffer."""
    while isinstance(X, np.ndarray) and X.base is not None:
        X = X.base
    return X


def mapped_file(X: Any) -> str | None:
    """File that an array is a map of, also as a view that is not a memmap itself; None for other samples."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap) and X.filename is not None:
            return os.fsdecode(X.filename)
        X = X.base
    return None


def _is_memory(owner: Any) -> bool:
    return isinstance(owner, np.ndarray | bytes | bytearray | memoryview)


def _will_need(mapped: mmap.mmap, part: npt.NDArray[Any]) -> None:
    """Ask the system to read a part of a mapped file into memory, without waiting for it.

    A thread that reads ahead would take time from the products, also where the file is in memory
    (`benchmarks/encode.py`).
    """
    if part.size:
        address = np.frombuffer(mapped, dtype=np.uint8).ctypes.data
        first = (part.ctypes.data - address) // mmap.PAGESIZE * mmap.PAGESIZE
        mapped.madvise(mmap.MADV_WILLNEED, first, part.ctypes.data - address + part.nbytes - first)


def _text(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{dtype} of shape (n, {', '.join(map(str, shape))})"
