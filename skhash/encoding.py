"""Rows of samples, slice by slice, in bounded memory: of arrays, datasets and iterators, into an array or a file."""

import mmap
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from skhash._files import check_writable
from skhash._validation import are_within, as_array, as_count_or_none, check_activations
from skhash.codes import threshold
from skhash.codes.codes import are_other
from skhash.persistence.encodings import RecordFile, fingerprint_beside, write_fingerprint

#: samples that are projected at a time: it bounds the memory, and equal batches are rounded equally
ENCODE_BATCH_SIZE = 4096

Rows = npt.NDArray[np.uint8]
Progress = Callable[[int, int | None], object]
Slices = Generator[Any, None, None]


# --- into an array or a file


def map_batches(
    hasher: Any, X: Any, function: Callable[[Any], npt.NDArray[Any]], method: str = "activations"
) -> npt.NDArray[Any]:
    """Concatenate a function of the outputs of a method of `function_` for validated samples over batches."""
    if X.shape[0] <= ENCODE_BATCH_SIZE and not hasher.function_.uses_threads(X.shape[0]):
        return function(check_activations(hasher._run(X, method), hasher))
    with hasher._environment():
        batches = (hasher._run(X[batch], method) for batch in gen_batches(X.shape[0], ENCODE_BATCH_SIZE))
        return np.concatenate([function(check_activations(activations, hasher)) for activations in batches])


def map_samples(
    hasher: Any, X: Any, function: Callable[[Any], npt.NDArray[Any]], method: str = "activations"
) -> npt.NDArray[Any]:
    """Concatenate a function of the outputs for samples over slices; one slice at a time is converted."""
    n_samples = X.shape[0] if getattr(X, "shape", ()) else 0  # a list is converted as a whole
    if n_samples <= ENCODE_BATCH_SIZE or not is_sliced(X):
        return map_batches(hasher, hasher._validate_samples(X), function, method)
    source, convert = array_source(X), Converter(hasher, method=method)
    with hasher._environment(), closing(_slices(source, ENCODE_BATCH_SIZE)) as slices:
        return np.concatenate([function(convert.activations(samples)) for samples in slices])


def encode_samples(
    hasher: Any,
    X: Any,
    out: str | os.PathLike[str] | Rows | None,
    batch_size: int | None,
    progress: Progress | None,
    overwrite: bool,
) -> Rows:
    """Packed codes of samples; see :meth:`BaseHasher.encode`."""
    batch_size = as_count_or_none(batch_size, "batch_size")
    if progress is not None and not callable(progress):
        raise TypeError(f"`progress` must be None or callable. Got {type(progress).__name__} instead.")
    if out is None and batch_size is None and progress is None and not isinstance(X, Iterator):
        return map_samples(hasher, X, binarize_and_pack)
    check_is_fitted(hasher)
    path = os.path.expanduser(out) if isinstance(out, str | os.PathLike) else None
    if path is not None and not path.endswith(".npy"):
        raise ValueError(f"`out` must be a path that ends with .npy, or an array. Got {out} instead.")
    mapped = X.filename if isinstance(X, np.memmap) else None
    if path is not None and mapped is not None and os.path.realpath(path) == os.path.realpath(mapped):
        raise ValueError(f"`out` must not be the file of X, which would be lost. Got {out}.")
    if path is not None and not overwrite:
        maker, fingerprint = fingerprint_beside(path), hasher.fingerprint_
        if are_other(maker, fingerprint):
            raise ValueError(
                f"`out` must not be a file with the codes of another hasher. Got {out} with those of one with the "
                f"fingerprint {maker}, and this hasher has {fingerprint}. Choose another file, or pass overwrite=True."
            )
    source, size = _open(hasher, X), int(batch_size or ENCODE_BATCH_SIZE)
    convert = Converter(hasher, source.is_valid)
    if path is None:
        return _into_array(hasher, source, convert, out, size, progress)
    width = -(-hasher._n_features_out // 8)
    show = None if progress is None else lambda n_done, n, _: progress(n_done, n)
    with closing(into_file(hasher, source, convert.codes, width, path, size, show)) as file:
        write_fingerprint(path, hasher.fingerprint_)  # before: a kill leaves an unfinished part, which goes on
        file.finish()
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def into_file(
    hasher: Any,
    source: "Source",
    function: Callable[[Any], Rows],
    width: int,
    path: Any,
    size: int,
    progress: Callable[[int, int | None, int], object] | None,
) -> RecordFile:
    """Records of all samples by a function of slices, in a file to be finished.

    `progress` also takes the number of records that an earlier run has written.
    """
    check_writable(path)
    file = None
    try:
        with hasher._environment(), closing(_slices(source, size)) as slices:
            for samples in slices:
                n = samples.shape[0]
                if file is None:
                    if not source.is_valid:
                        hasher._validate_samples(samples[:1])  # wrong samples leave nothing behind
                    about = f"{source.n} {samples.shape[1:]} {samples.dtype}"
                    identity = {"hasher": hasher.fingerprint_, "number-or-type-of-samples": about}
                    file = RecordFile(path, width, size, identity)
                    if progress is not None and file.n_finished:
                        progress(file.n_finished, source.n, file.n_finished)
                file.add(function(samples) if file.needs(n) else None, n)
                if progress is not None and file.n_records > file.n_finished:
                    progress(file.n_records, source.n, file.n_finished)
    except BaseException:
        if file is not None:
            file.close()
        raise
    assert file is not None  # a source without samples is an error
    return file


def _into_array(
    hasher: Any, source: "Source", convert: "Converter", out: Any, size: int, progress: Progress | None
) -> Rows:
    width, parts, n_done = -(-hasher._n_features_out // 8), [], 0
    if out is not None:
        _check_out(out, source.n, width)
    with hasher._environment(), closing(_slices(source, size)) as slices:
        for samples in slices:
            codes = convert.codes(samples)
            if out is None:
                parts.append(codes)
            elif n_done + len(codes) > len(out):
                raise ValueError(_wrong_length(len(out), f"more than {len(out):,}"))
            else:
                out[n_done : n_done + len(codes)] = codes
            n_done += len(codes)
            if progress is not None:
                progress(n_done, source.n)
    if out is None:
        return np.concatenate(parts)
    if n_done < len(out):
        raise ValueError(_wrong_length(len(out), f"{n_done:,}"))
    return out  # type: ignore[no-any-return]


def _check_out(out: Any, n: int | None, width: int) -> None:
    fits = isinstance(out, np.ndarray) and out.dtype == np.uint8 and out.ndim == 2 and out.shape[1] == width
    if not fits or (n is not None and len(out) != n) or not out.flags.writeable:
        given = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else f"a {type(out).__name__}"
        if fits and not out.flags.writeable:
            given += " that is read-only"
        raise ValueError(
            f"`out` must be None, a path that ends with .npy, or a uint8 array of shape ({n or 'n_samples'}, {width}). "
            f"Got {given} instead."
        )


def _wrong_length(n_out: int, given: str) -> str:
    return f"`out` must have one entry per sample. Got {n_out:,} entries for {given} samples."


# --- from samples to codes


class Converter:
    """Turns slices of samples, which may be validated, into activations and codes, and checks them."""

    def __init__(self, hasher: Any, is_valid: bool = False, method: str = "activations") -> None:
        self.hasher, self.is_valid, self.method = hasher, is_valid, method
        self._plain: Any = None  # type of slices that need no conversion

    def codes(self, samples: Any) -> Rows:
        """Packed codes of a slice."""
        return binarize_and_pack(self.activations(samples))

    def activations(self, samples: Any) -> npt.NDArray[Any]:
        """Activations of a slice, the same as those of `project` of all samples."""
        X = samples if self.is_valid else self._validated(samples)
        return check_activations(self.hasher._run(X, self.method), self.hasher)

    def _validated(self, samples: Any) -> Any:
        kind = (type(samples), getattr(samples, "dtype", None), samples.shape[1:])
        if kind == self._plain and are_within(samples):
            return samples
        X = self.hasher._validate_samples(samples)
        self._plain = kind if type(X) is type(samples) is np.ndarray and X.dtype == samples.dtype else None
        return X


def binarize_and_pack(activations: npt.NDArray[np.floating]) -> Rows:
    """Packed codes of checked activations."""
    bits = threshold(activations)
    if bits.shape[1] % 8 == 0:  # whole bytes: several times as fast as with axis=1
        return np.packbits(bits).reshape(len(bits), bits.shape[1] // 8)
    return np.packbits(bits, axis=1)


# --- samples as slices


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
    is_sparse, owner = sparse.issparse(X), plain
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base

    def slices(size: int) -> Iterator[Any]:
        for start in range(0, plain.shape[0], size):
            part = plain[start : start + size]
            yield part if is_sparse else np.asarray(part)

    is_memory = isinstance(owner, np.ndarray | bytes | bytearray | memoryview | mmap.mmap)
    return Source(int(X.shape[0]), slices, not (is_sparse or is_memory))


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


def _open(hasher: Any, X: Any) -> Source:
    if isinstance(X, Iterator):
        return iterator_source(X, hasher._validate_samples if hasattr(hasher, "feature_names_in_") else None)
    if is_sliced(X) and X.shape[0]:
        return array_source(X)
    X = hasher._validate_samples(X)
    # slices of a data frame have no names, which a second validation would miss; slices of a Dataset are not read yet
    return replace(array_source(X), is_valid=isinstance(X, np.ndarray) or sparse.issparse(X))


def _slices(source: Source, size: int) -> Slices:
    yield from _read_ahead(source.slices(size)) if source.waits else source.slices(size)


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
