"""Codes of samples, slice by slice, in bounded memory: into an array, or into a file that resumes after a kill."""

import hashlib
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import joblib
import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from skhash._encoding._packing import Codes, binarize_and_pack, check_and_pack
from skhash._encoding._sources import (
    Source,
    array_source,
    checksum,
    is_sliced,
    iterator_source,
    mapped_file,
    read_ahead,
    with_last,
)
from skhash._files._resumable import ResumableRecords, check_writable
from skhash._validation.numeric import is_count
from skhash._validation.values import are_within, check_activations

#: samples that are projected at a time: it bounds the memory, and equal batches are rounded equally
ENCODE_BATCH_SIZE = 4096
#: samples whose activations identify a hasher
N_PROBED = 16
#: fitted attributes that codes do not depend on
_NOT_CODES = {"affinity_", "database_codes_", "database_y_", "history_"}

Progress = Callable[[int, int | None], object]
_Slices = Generator["Slice", None, None]


class Slice(NamedTuple):
    """Samples that are projected together, and what is known of them."""

    samples: Any
    is_only: bool  #: whether there are no other samples
    checksum: str = ""
    is_within: bool = False  #: whether all are known to be finite floats in range
    is_valid: bool = False  #: whether they are validated


def map_batches(hasher: Any, X: Any, function: Callable[[Any], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenate a function of the activations of validated samples over batches."""
    if (few := hasher._project_small(X)) is not None:
        return function(check_activations(few, hasher))
    with hasher._environment():
        batches = (hasher._project(X[batch]) for batch in gen_batches(X.shape[0], ENCODE_BATCH_SIZE))
        return np.concatenate([function(check_activations(activations, hasher)) for activations in batches])


def map_samples(hasher: Any, X: Any, function: Callable[[Any], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenate a function of the activations of samples over slices; one slice at a time is converted."""
    if not is_sliced(X) or X.shape[0] <= ENCODE_BATCH_SIZE:
        return map_batches(hasher, hasher._validate_samples(X), function)
    convert = Converter(hasher)
    with hasher._environment(), closing(_slices(array_source(X), ENCODE_BATCH_SIZE)) as slices:
        return np.concatenate([function(convert.activations(part)) for part in slices])


def encode_samples(
    hasher: Any,
    X: Any,
    out: str | os.PathLike[str] | Codes | None,
    batch_size: int | None,
    progress: Progress | None,
) -> Codes:
    """Packed codes of samples; see :meth:`BaseHasher.encode`."""
    if batch_size is not None and not is_count(batch_size):
        raise ValueError(f"`batch_size` must be None or an int >= 1. Got {batch_size!r} instead.")
    if progress is not None and not callable(progress):
        raise TypeError(f"`progress` must be None or callable. Got {type(progress).__name__} instead.")
    if out is None and batch_size is None and progress is None and not isinstance(X, Iterator):
        return map_samples(hasher, X, binarize_and_pack)
    check_is_fitted(hasher)
    path = out if isinstance(out, str | os.PathLike) else None
    if path is not None and not os.fspath(path).endswith(".npy"):
        raise ValueError(f"`out` must be a path that ends with .npy, or an array. Got {out} instead.")
    mapped = mapped_file(X)
    if path is not None and mapped is not None and os.path.realpath(path) == os.path.realpath(mapped):
        raise ValueError(f"`out` must be another file than that of X, which would be lost. Got {out}.")
    source, convert, size = _open(hasher, X), Converter(hasher), int(batch_size or ENCODE_BATCH_SIZE)
    if path is None:
        return _into_array(hasher, source, convert, out, size, progress)
    records = into_file(hasher, source, convert.codes, -(-hasher._n_features_out // 8), path, size, progress)
    with closing(records):
        records.finish()
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def encode_block(hasher: Any, X: Any) -> Codes:
    """Packed codes of a block of samples, with the rounding of slices also for few samples."""
    if not X.shape[0]:
        return np.empty((0, -(-hasher._n_features_out // 8)), dtype=np.uint8)
    convert, source = Converter(hasher), _open(hasher, X)
    with hasher._environment():
        return np.concatenate(
            [convert.codes(Slice(part, False, is_valid=source.is_valid)) for part in source.slices(ENCODE_BATCH_SIZE)]
        )


def into_file(
    hasher: Any,
    source: Source,
    function: Callable[[Slice], Codes],
    width: int,
    path: Any,
    size: int,
    progress: Progress | None,
) -> ResumableRecords:
    """Records of all samples, of `width` bytes each, in the partial file of a path; the caller renames it."""
    check_writable(path)
    records = None
    try:
        with hasher._environment(), closing(_slices(source, size, with_checksum=True)) as slices:
            for part in slices:
                if records is None:
                    records = ResumableRecords(path, width, _identity(hasher, source, part.samples, size))
                if not records.holds(part.samples.shape[0], part.checksum):
                    records.append(function(part), part.checksum)
                if progress is not None:
                    progress(records.n_records, source.n)
    except BaseException:
        if records is not None:
            records.close()
        raise
    assert records is not None  # a source without samples is an error
    return records


class Converter:
    """Turns slices of samples into activations and codes, and checks them."""

    def __init__(self, hasher: Any) -> None:
        self.hasher = hasher
        self._plain: Any = None  # type of slices that need no conversion

    def codes(self, part: Slice) -> Codes:
        """Packed codes of a slice."""
        return check_and_pack(self._projected(part), self.hasher)

    def activations(self, part: Slice) -> Any:
        """Activations of a slice, the same as those of `project` of all samples."""
        return check_activations(self._projected(part), self.hasher)

    def _projected(self, part: Slice) -> Any:
        X = self._validated(part)
        few = self.hasher._project_small(X) if part.is_only else None
        return self.hasher._project(X) if few is None else few

    def _validated(self, part: Slice) -> Any:
        samples = part.samples
        if part.is_valid:
            return samples
        kind = (type(samples), getattr(samples, "dtype", None), samples.shape[1:])
        if kind == self._plain and (part.is_within or are_within(samples)):
            return samples
        X = self.hasher._validate_samples(samples)
        self._plain = kind if type(X) is type(samples) is np.ndarray and X.dtype == samples.dtype else None
        return X


def _open(hasher: Any, X: Any) -> Source:
    if isinstance(X, Iterator):
        return iterator_source(X, hasher._validate_samples if hasattr(hasher, "feature_names_in_") else None)
    if is_sliced(X) and X.shape[0]:
        return array_source(X)
    X = hasher._validate_samples(X)
    # slices of a data frame have no names, which a second validation would miss; slices of a Dataset are not read yet
    return replace(array_source(X), is_valid=isinstance(X, np.ndarray) or sparse.issparse(X))


def _slices(source: Source, size: int, with_checksum: bool = False) -> _Slices:
    """Slices, with their checksums if these are needed."""
    _keep_memory()

    def read() -> _Slices:
        for index, (samples, is_last) in enumerate(with_last(source.slices(size))):
            if not with_checksum and source.waits:
                _touch(samples)
            seen = checksum(samples) if with_checksum else ("", False)
            yield Slice(samples, is_last and index == 0, *seen, source.is_valid)

    return read_ahead(read()) if source.waits else read()


def _touch(part: Any) -> None:
    """Bring the pages of a memmap into memory."""
    if isinstance(part, np.ndarray) and part.flags.c_contiguous:
        part.reshape(-1).view(np.uint8)[::4096].max(initial=0)


def _keep_memory() -> None:
    """Let glibc keep the memory of freed arrays of up to 12 MiB for the next slice (`benchmarks/encode.py`).

    Otherwise it returns arrays of 128 KiB or more to the system. Its limit rises when a larger array is freed.
    """
    np.empty(12 << 20, dtype=np.uint8)


def _into_array(
    hasher: Any, source: Source, convert: Converter, out: Any, size: int, progress: Progress | None
) -> Codes:
    width, parts, n_done = -(-hasher._n_features_out // 8), [], 0
    if out is not None:
        _check_out(out, source.n, width)
    with hasher._environment(), closing(_slices(source, size)) as slices:
        for part in slices:
            codes = convert.codes(part)
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
    shape = ("n_samples" if n is None else n, width)
    fits = isinstance(out, np.ndarray) and out.dtype == np.uint8 and out.ndim == 2 and out.shape[1] == width
    if not fits or (n is not None and len(out) != n) or not out.flags.writeable:
        given = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else f"a {type(out).__name__}"
        if fits and not out.flags.writeable:
            given += " that is read-only"
        raise ValueError(
            f"`out` must be None, a path that ends with .npy, or a uint8 array of shape ({shape[0]}, {shape[1]}). "
            f"Got {given} instead."
        )


def _wrong_length(n_out: int, given: str) -> str:
    return f"`out` must have one entry per sample. Got {n_out:,} entries for {given} samples."


def _identity(hasher: Any, source: Source, first: Any, size: int) -> dict[str, str]:
    """All that decides the records except the values of the samples, in words."""
    simple = bool | int | float | str | None
    values = {name: value for name, value in hasher._fitted_attributes().items() if name not in _NOT_CODES}
    values |= {name: value for name, value in hasher.get_params(deep=False).items() if isinstance(value, simple)}
    # one by one: the hash of all would tell whether two of them are one object
    state = joblib.hash({name: joblib.hash(value, coerce_mmap=True) for name, value in values.items()})
    probed = first[:N_PROBED] if source.is_valid else hasher._validate_samples(first[:N_PROBED])
    activations = hasher._project(probed)  # of this machine and these libraries
    probe = hashlib.sha256(np.ascontiguousarray(activations).data).hexdigest()[:8]
    n = "any number of" if source.n is None else f"{source.n:,}"
    shape = " x ".join(map(str, first.shape[1:]))
    return {
        "format": "4",
        "the hasher": f"{type(hasher).__name__} {state}",
        "the data": f"{n} samples of {shape} {first.dtype} values",
        "`batch_size`": str(size),
        "the digest of the activations of the first samples": probe,
    }
