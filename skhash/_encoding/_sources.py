"""Samples as successive slices: of arrays, of what is indexed like them, and of iterators of blocks."""

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._views import read_only

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Samples that are read slice by slice.

    Parameters
    ----------
    n : int or None
        Number of samples, if it is known.
    slices : callable
        Takes the size of a slice, and yields slices of this size and a last one that may be smaller.
    waits : bool
        Whether reading takes time, so that it pays to read ahead.
    """

    n: int | None
    slices: Callable[[int], Iterator[Any]]
    waits: bool = True


def is_sliced(X: Any) -> bool:
    """Whether samples are numbers that can be read slice by slice: an array, a memmap, a dataset of h5py or zarr."""
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    is_lazy = hasattr(X, "__dask_graph__")  # its slices are not read, but computed
    is_array = isinstance(X, np.ndarray) or (hasattr(X, "__array__") and hasattr(X, "__getitem__") and not is_lazy)
    return is_array and kind in tuple("biuf") and len(getattr(X, "shape", ())) > 1 and not sparse.issparse(X)


def array_source(X: Any) -> Source:
    """Slices of samples that are indexed, each converted when it is read."""

    def slices(size: int) -> Iterator[Any]:
        for start in range(0, X.shape[0], size):
            part = X[start : start + size]
            yield part if sparse.issparse(part) else np.asarray(part)

    return Source(int(X.shape[0]), slices, waits=not _is_in_memory(X))


def iterator_source(blocks: Iterable[Any]) -> Source:
    """Slices of one size from blocks of any sizes, which are copied: an iterator may use its memory again."""

    def slices(size: int) -> Iterator[npt.NDArray[Any]]:
        part, n, kind = np.empty(0), 0, None
        for block in map(_checked_block, blocks):
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
            raise ValueError("`X` must yield at least one block of samples. Got an iterator without any.")
        if n:
            yield part[:n]

    return Source(None, slices)


def with_last(items: Iterator[T]) -> Iterator[tuple[T, bool]]:
    """Items, and whether each is the last one."""
    for item in items:
        for following in items:
            yield item, False
            item = following
        yield item, True


def read_ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Items, of which the next one is read in a thread meanwhile."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="skhash-reader") as pool:
        future = pool.submit(next, items, end)
        while (item := future.result()) is not end:
            future = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def checksum(samples: Any) -> str:
    """Checksum of the type, shape and values of samples.

    It takes a tenth of the time of a cryptographic one: the words of each sample are mixed first. So each changed
    value changes it, and so do samples or features in another order.
    """
    from skhash._encoding._kernels import mix_words

    is_sparse = sparse.issparse(samples)
    parts = [samples.indptr, samples.indices, samples.data] if is_sparse else [np.asarray(samples)]
    digest = hashlib.sha256(repr(samples.shape).encode())
    for part in parts:
        digest.update(part.dtype.str.encode())
        content = np.ascontiguousarray(part)
        n_bytes = content[:1].nbytes
        if n_bytes and n_bytes % 8 == 0:
            words = content.reshape(-1).view(np.uint64).reshape(len(content), -1)
            content = np.empty(len(content), dtype=np.uint64)
            mix_words(read_only(words), content)
        digest.update(content.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:32]


def _checked_block(block: Any) -> npt.NDArray[Any]:
    values = np.asarray(block)
    if values.ndim < 2 or values.dtype.kind not in "biuf":
        raise ValueError(
            "`X` must yield blocks of samples, arrays of numbers of shape (n, n_features). Got "
            f"{values.dtype} of shape {values.shape} instead."
        )
    return values


def _is_in_memory(X: Any) -> bool:
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return False
        if X.base is None:
            return True
        X = X.base
    return isinstance(X, bytes | bytearray | memoryview) or sparse.issparse(X)


def _text(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{dtype} of shape (n, {', '.join(map(str, shape))})"
