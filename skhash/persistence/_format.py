"""Version, keys and known classes of the file format."""

from typing import Any

from scipy import sparse

from skhash import affinity

FORMAT = 1
#: keys of the JSON
HEADER = frozenset({"format", "version", "class", "nbits", "bit_order", "params", "fitted"})
#: parameters that may hold code, which must be passed to `load`
GIVEN = ("affinity", "backbone")
AFFINITIES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        affinity.ClassAffinity,
        affinity.SharedLabelsAffinity,
        affinity.DistanceAffinity,
        affinity.PrecomputedAffinity,
    )
}
SPARSE: dict[str, Any] = {"csr_matrix": sparse.csr_matrix, "csr_array": sparse.csr_array}
