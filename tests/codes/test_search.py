"""Exact searches by each kind of distance, against brute force."""

import numpy as np
import pytest

from skhash.codes import pack
from skhash.codes._bits import item_words
from skhash.codes._kernels import LANES, SCAN_BLOCK
from skhash.codes._search import EstimatedDistance, Estimates, HammingDistance, TableDistance
from skhash.neighbors._search import nearest


def random_codes(rng, shape):
    return rng.integers(0, 2**64, shape, dtype=np.uint64)


def few_ones(rng, shape):
    """Codes of 5 bits, padded to words."""
    codes = np.zeros(shape, np.uint64)
    codes[:, 0] = rng.integers(0, 2**5, shape[0])
    return codes


def repeated(rng, shape):
    """Copies of three codes, which tie in large numbers."""
    return random_codes(rng, (3, shape[1]))[rng.integers(0, 3, shape[0])]


def extremes(rng, shape):
    """Codes of zeros alone and of ones alone, at the largest distance."""
    return np.where(rng.integers(0, 2, (shape[0], 1)) == 1, ~np.uint64(0), np.uint64(0)) * np.ones(shape, np.uint64)


def brute_force(distances, k):
    """Distances, indices and ties of the nearest items, by a stable sort of all distances."""
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(distances, order, axis=1)
    return found, order, (distances == found[:, -1:]).sum(axis=1)


@pytest.mark.parametrize("draw", [random_codes, few_ones, repeated, extremes])
@pytest.mark.parametrize(("n_words", "k"), [(1, 1), (1, 40), (2, 300), (5, 7), (9, 20)])
def test_the_nearest_codes_are_those_of_brute_force(draw, n_words, k):
    rng = np.random.default_rng(n_words + k)
    codes, queries = draw(rng, (7000, n_words)), draw(rng, (5, n_words))
    for first, last in ((0, 7000), (17, 17 + 1024 + 4096), (3, 6999), (5, 5 + max(k, 900))):
        found = HammingDistance(queries).nearest(slice(0, 5), codes, first, last, k)
        distances = np.bitwise_count(queries[:, None] ^ codes[None, first:last]).sum(axis=2, dtype=np.int32)
        expected = brute_force(distances, k)
        for ours, other in zip(found, (expected[0], first + expected[1], expected[2]), strict=True):
            np.testing.assert_array_equal(ours, other)


@pytest.mark.parametrize("n_queries", [1, 16, 65])
def test_groups_of_queries_find_the_same(n_queries):
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, (4096, 2)), random_codes(rng, (n_queries, 2))
    distances = np.bitwise_count(queries[:, None] ^ codes).sum(axis=2, dtype=np.int32)
    for ours, expected in zip(nearest(HammingDistance(queries), codes, 20), brute_force(distances, 20), strict=True):
        np.testing.assert_array_equal(ours, expected)


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
    [
        (2 * SCAN_BLOCK + 3, 5, 7, 2),
        (900, 64, 100, LANES),
        (1500, 200, 1, 2 * LANES + 1),
        (400, 1100, 50, 3),
        (3000, 70, 900, 3),
        (3000, 70, 20, 1),
        (2000, 500, 20, 2),
        (700, 1100, 9, 1),
    ],
)
def test_sums_over_bits_equal_brute_force(kind, n_items, nbits, k, n_queries):
    rng = np.random.default_rng(nbits)
    bits = rng.integers(0, 2, (n_items, nbits), dtype=np.uint8)
    bits[rng.random(n_items) < 0.3] = bits[0]  # ties
    zeros, ones = random_terms(kind, rng, (n_queries, nbits))
    distances = zeros.astype(np.int64) @ (1 - bits.T.astype(np.int64)) + ones.astype(np.int64) @ bits.T
    search = TableDistance(zeros, ones, np.ones((n_queries, 1)))
    found = search.nearest(slice(0, n_queries), item_words(pack(bits)), 0, n_items, k)
    for ours, expected in zip(found, brute_force(distances, k), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize(
    ("n_items", "nbits", "k", "n_queries"),
    [(1200, 100, 40, LANES + 1), (700, 64, 7, 2), (700, 64, 7, 1), (900, 330, 12, 3)],
)
@pytest.mark.parametrize("norm", [1.0, 1e9])
def test_estimates_equal_brute_force(n_items, nbits, k, n_queries, norm):
    rng = np.random.default_rng(nbits)
    bits = rng.integers(0, 2, (n_items, nbits), dtype=np.uint8)
    values = rng.integers(-3, 4, (n_queries, nbits)).astype(np.int32)
    slopes, offsets = rng.integers(0, 3, n_items) * 0.25, rng.integers(0, 4, n_items) * norm
    constants, units = rng.normal(size=n_queries), np.full((n_queries, 1), 0.5)
    sums = values.astype(np.int64) @ (1 - 2 * bits.T.astype(np.int64))
    distances = constants[:, None] + offsets + slopes * (sums * units)
    search = EstimatedDistance(TableDistance(values, -values, units), Estimates(slopes, offsets, constants))
    found = search.nearest(slice(0, n_queries), item_words(pack(bits)), 0, n_items, k)
    for ours, expected in zip(found, brute_force(distances, k), strict=True):
        np.testing.assert_array_equal(ours, expected)
