"""The command ``skhash encode``."""

import argparse
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from skhash._encoding import ENCODE_BATCH_SIZE, Converter, Source, into_file
from skhash._estimators import find_hasher, hasher_input, item_factors, packed_codes
from skhash.cli._progress import in_batches, progress
from skhash.cli._samples import Samples, errors_of, open_samples
from skhash.persistence import load
from skhash.persistence._format import read_header
from skhash.persistence._indexes import INDEXES
from skhash.persistence._writing import write_atomically


def run(options: argparse.Namespace) -> int:
    """Encode a file."""
    if not options.out.endswith(".npz"):
        raise ValueError(f"--out must be an .npz file. Got {options.out} instead.")
    samples = open_samples(options.data, options.column)
    model = load_hasher(options.model)
    hasher = find_hasher(model)

    def batches(size: int) -> Iterator[Any]:
        return (hasher_input(model, batch) for batch in samples.batches(size))

    with errors_of(options.data):
        hasher.encode(next(batches(1)))  # a wrong number of features is an error before any work
    nbits = int(hasher._n_features_out)
    n_bytes = -(-nbits // 8)
    function, width = _record_of(hasher, n_bytes, options.data)
    source, size = Source(samples.n, batches), ENCODE_BATCH_SIZE
    with progress(f"Encoding {options.data}", samples.n) as show:
        records = into_file(hasher, source, function, width, options.out, size, lambda n_done, _: show(n_done))
    with closing(records):
        content = records.records()
        arrays = {"codes": content[:, :n_bytes], "nbits": np.array(nbits)}
        if width > n_bytes:
            arrays["factors"] = np.ascontiguousarray(content[:, n_bytes:]).view(np.float32)
        _write(options.out, arrays)
        del content, arrays  # Windows does not remove a mapped file
        records.discard()
    print(f"{samples.n:,} codes of {nbits} bits: {options.out}")
    return 0


def _record_of(hasher: Any, n_bytes: int, name: str) -> tuple[Callable[[Any, bool], npt.NDArray[np.uint8]], int]:
    """Function of a slice that returns its codes, followed by their factors if there are any, and bytes of a record."""
    convert, has_factors = Converter(hasher), getattr(hasher, "factors", False)

    def record(samples: Any, is_only: bool) -> npt.NDArray[np.uint8]:
        with errors_of(name):
            codes = convert.codes(samples, is_only)
            if not has_factors:
                return codes
            return np.hstack([codes, np.ascontiguousarray(item_factors(hasher, samples)).view(np.uint8)])

    return record, n_bytes + 8 * has_factors


def _write(path: str, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write an .npz file whose bytes depend on the arrays alone."""
    with write_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def load_hasher(path: str) -> Any:
    """Hasher of a file, or its Pipeline of a scaler and a hasher; it must not be the file of an index."""
    kind = read_header(path).get("class")
    if kind in INDEXES:  # `load` may need vectors for an index
        raise ValueError(f"MODEL must be the file of a hasher. Got {path}, a {kind}: save its hasher_.")
    return load(path)


def encode_batches(hasher: Any, samples: Samples, name: str) -> Iterator[tuple[npt.NDArray[np.uint8], Any]]:
    """Packed codes of samples and their factors or None, in the batches of ``encode``, with progress on stderr."""
    for batch in in_batches(samples, f"Encoding {name}"):
        with errors_of(name):
            codes = packed_codes(hasher, batch)[0], item_factors(hasher, batch)
        yield codes
