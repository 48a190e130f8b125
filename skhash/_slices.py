"""Samples slice by slice, in bounded memory: of arrays, files, datasets and iterators."""

import mmap
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._validation import as_array

#: samples that are projected at a time: it bounds the memory, and equal batches are rounded equally
ENCODE_BATCH_SIZE = 4096


@dataclass(frozen=True)
class Source:
    """Samples that are read slice by slice."""

    n: int | None  #: number of samples, if it is known
    slices: Callable[[int], Iterator[Any]]  #: slices of a given size; the last one may be smaller
    waits: bool = True  #: whether reading takes time, so that a thread reads ahead
    is_valid: bool = False  #: whether the samples are validated

    def read(self, size: int) -> Generator[Any, None, None]:
        """Slices of a given size, the next of which is read while one is used if that takes time."""
        yield from _read_ahead(self.slices(size)) if self.waits else self.slices(size)


def is_sliced(X: Any) -> bool:
    """Whether samples are numbers that can be read slice by slice: an array, a memmap, a dataset of h5py or zarr."""
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    is_lazy = hasattr(X, "__dask_graph__")  # its slices are not read, but computed
    is_array = isinstance(X, np.ndarray) or (hasattr(X, "__array__") and hasattr(X, "__getitem__") and not is_lazy)
    is_other = sparse.issparse(X) or np.ma.is_masked(X)  # a slice would lose the mask, which validation refuses
    return is_array and kind in tuple("biuf") and len(getattr(X, "shape", ())) > 1 and not is_other


def array_source(X: Any, is_valid: bool = False) -> Source:
    """Slices of samples that are indexed; each is converted when it is read."""
    plain = np.asarray(X) if isinstance(X, np.memmap) else X  # a memmap makes a memmap of each slice
    is_sparse, owner = sparse.issparse(X), plain
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base

    def slices(size: int) -> Iterator[Any]:
        for start in range(0, plain.shape[0], size):
            part = plain[start : start + size]
            yield part if is_sparse else np.asarray(part)

    is_memory = isinstance(owner, np.ndarray | bytes | bytearray | memoryview | mmap.mmap)
    waits = not (is_sparse or is_memory or is_valid)
    return Source(int(X.shape[0]), slices, waits, is_valid)


def iterator_source(blocks: Iterable[Any], validate: Callable[[Any], Any] | None = None) -> Source:
    """Slices of one size from blocks of any sizes, which are copied, since an iterator may reuse its memory."""

    def slices(size: int) -> Iterator[npt.NDArray[Any]]:
        part, n, kind = np.empty(0), 0, None
        for given in blocks:
            block = _checked_block(given)
            if not len(block):
                continue
            if validate is not None:  # slices have lost the names of features
                block = validate(given)
            kind = kind or (block.dtype, block.shape[1:])
            if (block.dtype, block.shape[1:]) != kind:
                raise ValueError(
                    "`X` must yield blocks of one dtype and of one number of features. Got samples that are "
                    f"{kind[0]} of shape {kind[1]} and {block.dtype} of shape {block.shape[1:]} instead."
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


def _read_ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Items; a thread reads the next one while an item is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="skhash-reader") as pool:
        future = pool.submit(next, items, None)
        while (item := future.result()) is not None:
            future = pool.submit(next, items, None)
            yield item


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
