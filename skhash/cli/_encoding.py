"""The command ``skhash encode``."""

import argparse
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from skhash._files import atomic_write
from skhash.cli._progress import in_batches
from skhash.cli._samples import Samples, open_samples
from skhash.metrics._estimators import item_factors
from skhash.persistence import load


def run(options: argparse.Namespace) -> int:
    """Encode a file."""
    if not options.out.endswith(".npz"):
        raise ValueError(f"--out must be an .npz file. Got {options.out} instead.")
    samples = open_samples(options.data, options.column)
    hasher = load_hasher(options.model)
    nbits = int(hasher._n_features_out)
    with atomic_write(options.out) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("codes.npy", "w", force_zip64=True) as member:
            header = {"descr": "|u1", "fortran_order": False, "shape": (samples.n, -(-nbits // 8))}
            npy.write_array_header_1_0(member, header)
            factors = []
            for codes, more in encode_batches(hasher, samples, options.data):
                member.write(codes.tobytes())
                factors.append(more)
        arrays = {"nbits": np.array(nbits)} | ({} if factors[0] is None else {"factors": np.concatenate(factors)})
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)
    print(f"{samples.n:,} codes of {nbits} bits: {options.out}")
    return 0


def load_hasher(path: str) -> Any:
    """Load a file of a hasher, not of an index."""
    hasher = load(path)
    if not hasattr(hasher, "encode"):
        raise ValueError(f"MODEL must be the file of a hasher. Got {path}, a {type(hasher).__name__}.")
    return hasher


def encode_batches(hasher: Any, samples: Samples, name: str) -> Iterator[tuple[npt.NDArray[np.uint8], Any]]:
    """Packed codes of samples and their factors or None, in the batches of ``encode``, with progress on stderr."""
    for batch in in_batches(samples, f"Encoding {name}"):
        yield hasher.encode(batch), item_factors(hasher, batch)
