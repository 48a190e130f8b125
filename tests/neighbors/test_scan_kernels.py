"""The scan for many queries at once, against brute force in whole numbers."""

import numpy as np
import pytest

from skhash._distances import EstimatedDistance, Estimates, TableDistance, item_words
from skhash._scan_kernels import BLOCK, LANES
from skhash.codes import pack


def random_terms(kind, rng, shape):
    """What bits of 0 and of 1 add to the distance."""
    if kind == "weights":
        weights = np.sort(rng.integers(0, 2**40, shape[1]))
        queries = rng.integers(0, 2, shape)
        return weights * queries, weights * (1 - queries)
    largest = {"real": 2**20, "few": 1, "none": 0, "long tail": 2}[kind]
    values = rng.integers(-largest, largest + 1, shape).astype(np.int32)
    values[:, 0] *= 2**22 if kind == "long tail" else 1
    return values, -values


@pytest.mark.parametrize("kind", ["real", "weights", "few", "none", "long tail"])
@pytest.mark.parametrize(
    ("n_items", "nbits", "k", "n_queries"),
    [(2 * BLOCK + 3, 5, 7, 2), (900, 64, 100, LANES), (1500, 200, 1, 2 * LANES + 1), (400, 1100, 50, 3)],
)
def test_a_scan_equals_brute_force(kind, n_items, nbits, k, n_queries):
    rng = np.random.default_rng(nbits)
    bits = rng.integers(0, 2, (n_items, nbits), dtype=np.uint8)
    bits[rng.random(n_items) < 0.3] = bits[0]  # ties
    zeros, ones = random_terms(kind, rng, (n_queries, nbits))
    distances = zeros.astype(np.int64) @ (1 - bits.T.astype(np.int64)) + ones.astype(np.int64) @ bits.T
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    nearest = np.take_along_axis(distances, order, axis=1)
    search = TableDistance(zeros, ones, np.ones((n_queries, 1)))
    found = search.nearest(slice(0, n_queries), item_words(pack(bits)), 0, n_items, k)
    np.testing.assert_array_equal(found.distances, nearest)
    np.testing.assert_array_equal(found.indices, order)
    np.testing.assert_array_equal(found.n_ties, (distances == nearest[:, -1:]).sum(axis=1))


@pytest.mark.parametrize(("n_items", "nbits", "k", "n_queries"), [(1200, 100, 40, LANES + 1), (700, 64, 7, 2)])
@pytest.mark.parametrize("norm", [1.0, 1e9])
def test_a_scan_of_estimates_equals_brute_force(n_items, nbits, k, n_queries, norm):
    rng = np.random.default_rng(nbits)
    bits = rng.integers(0, 2, (n_items, nbits), dtype=np.uint8)
    values = rng.integers(-3, 4, (n_queries, nbits)).astype(np.int32)
    slopes, offsets = rng.integers(0, 3, n_items) * 0.25, rng.integers(0, 4, n_items) * norm
    constants, units = rng.normal(size=n_queries), np.full((n_queries, 1), 0.5)
    sums = values.astype(np.int64) @ (1 - 2 * bits.T.astype(np.int64))
    distances = constants[:, None] + offsets + slopes * (sums * units)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    search = EstimatedDistance(TableDistance(values, -values, units), Estimates(slopes, offsets, constants))
    found = search.nearest(slice(0, n_queries), item_words(pack(bits)), 0, n_items, k)
    nearest = np.take_along_axis(distances, order, axis=1)
    np.testing.assert_array_equal(found.distances, nearest)
    np.testing.assert_array_equal(found.indices, order)
    np.testing.assert_array_equal(found.n_ties, (distances == nearest[:, -1:]).sum(axis=1))
