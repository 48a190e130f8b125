"""One compiled kernel serves all arrays: those that cannot be written and those in another order, too."""

import joblib
import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from skhash import LSHHasher
from skhash.codes import _table_kernels, bit_kernels, hamming_distances, hamming_kernels, pack
from skhash.neighbors import HammingNeighbors


def n_compiled():
    """Number of compiled variants of each kernel that is cached."""
    few, many = hamming_kernels.nearest_codes(8), hamming_kernels.nearest_codes_by_planes(8, 7)
    kernels = vars(bit_kernels) | vars(_table_kernels) | {"few": few, "many": many}
    return {name: len(kernel.signatures) for name, kernel in kernels.items() if hasattr(kernel, "signatures")}


@pytest.mark.parametrize("query", ["code", "real"])
def test_codes_that_are_mapped_from_a_file_are_searched_by_the_kernels_that_are_compiled(query, tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 8))
    hasher = LSHHasher(70, random_state=0).fit(X)
    index = HammingNeighbors(FrozenEstimator(hasher), query=query, n_neighbors=3).fit(X)
    joblib.dump(index, tmp_path / "index")
    loaded = joblib.load(tmp_path / "index", mmap_mode="r")
    assert not loaded._items.codes.blocks.flags.writeable
    index.kneighbors(X[:1])  # the first search of a process needs no kernels
    found = [index.kneighbors(X[:n]) for n in (1, 20)]  # another kernel searches for many codes
    before = n_compiled()
    again = [loaded.kneighbors(X[:n]) for n in (1, 20)]
    if query == "code":
        loaded.kneighbors()
    assert n_compiled() == before
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one[1], other[1])


def test_codes_in_any_layout_are_compared_by_the_kernel_that_is_compiled():
    packed = pack(np.random.default_rng(0).integers(0, 2, (9, 20)))
    distances = hamming_distances(packed, packed, nbits=20)
    before = n_compiled()
    constant = packed.copy()
    constant.flags.writeable = False
    for codes in (constant, np.asfortranarray(packed), np.repeat(packed, 2, axis=0)[::2]):
        np.testing.assert_array_equal(hamming_distances(codes, codes, nbits=20), distances)
    assert n_compiled() == before
