"""Version, keys, limits, known classes and checksum of the file format."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash import affinity

FORMAT = 1
#: keys of the JSON
HEADER = frozenset({"format", "version", "class", "nbits", "bit_order", "params", "fitted"})
#: keys that the JSON of an index has, too
INDEX_HEADER = frozenset({"hasher", "frozen", "mapped"})
#: key that the JSON of a hasher has if a scaler is in front of it
SCALER = "scaler"
#: key of the JSON in the metadata, and of the checksum in the JSON; files of the first versions have none
TEXT, CHECKSUM = "skhash", "sha256"
#: bytes of the JSON, and columns of a sparse matrix
MAX_TEXT, MAX_COLUMNS = 2**26, 2**24
#: parameters that may hold code, which must be passed to `load`
GIVEN = ("affinity", "backbone")
#: a parameter that names a folder of the machine that wrote the file; a fit would write there
FOLDER = "checkpoint"
#: what set_output chose
OUTPUT = "_sklearn_output_config"
AFFINITIES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        affinity.ClassAffinity,
        affinity.SharedLabelsAffinity,
        affinity.DistanceAffinity,
        affinity.NeighborAffinity,
        affinity.PrecomputedAffinity,
    )
}
#: classes of `skhash.neighbors`, which is slow to import: a file of a hasher does without
INDEXES = ("HammingNeighbors", "HammingNeighborsTransformer")
#: bytes of codes and identifiers of an index that `load` always compares with their checksums
MAX_CHECKED = 2**24
SPARSE: dict[str, Any] = {"csr_matrix": sparse.csr_matrix, "csr_array": sparse.csr_array}


def checksum(header: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> str:
    """SHA-256 of the JSON without its checksum, and of all tensors: names, dtypes, shapes and values."""
    content = {name: value for name, value in header.items() if name != CHECKSUM}
    digest = hashlib.sha256(json.dumps(content).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name}\0{tensor.dtype.str}{tensor.shape}\0".encode())
        digest.update(np.ascontiguousarray(tensor).data)
    return digest.hexdigest()
