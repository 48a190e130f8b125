"""Codes for the tests of stores, and what each store must give for them."""

import numpy as np
from numpy.testing import assert_array_equal

from skhash.codes import hamming_distances, pack
from skhash.neighbors import HammingNeighbors

LENGTHS = (8, 12, 48, 64, 100)
K = 20


class Items:
    """Codes of some length with shuffled identifiers, and queries; the first query is an item."""

    def __init__(self, nbits, n=400, n_queries=7):
        rng = np.random.default_rng(nbits)
        self.nbits = nbits
        self.bits = rng.integers(0, 2, (n, nbits), dtype=np.uint8)
        self.packed = pack(self.bits)
        self.ids = rng.permutation(10 * n)[:n]
        self.query_bits = np.vstack([self.bits[:1], rng.integers(0, 2, (n_queries - 1, nbits), dtype=np.uint8)])
        self.queries = pack(self.query_bits)

    def assert_same_neighbors(self, distances, ids):
        """K items for each query, all different, at the distances that are given, which are those of ours."""
        expected, _ = HammingNeighbors().fit(self.bits).kneighbors(self.query_bits, K)
        assert_array_equal(distances, expected)
        position = {item: i for i, item in enumerate(self.ids.tolist())}
        positions = np.array([[position[item] for item in line] for line in np.asarray(ids).tolist()])
        true = hamming_distances(self.query_bits, self.bits)
        assert_array_equal(np.take_along_axis(true, positions, axis=1), expected)
        assert all(len(set(line)) == K for line in positions.tolist())

    def assert_same_codes(self, stored, *, is_sorted=False):
        """What was read is what was written."""
        order = np.argsort(self.ids) if is_sorted else slice(None)
        assert stored.nbits == self.nbits
        assert_array_equal(stored.codes, self.packed[order])
        assert_array_equal(stored.ids, self.ids[order])
        assert (stored.codes.dtype, stored.ids.dtype) == (np.uint8, np.int64)
