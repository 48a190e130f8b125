"""Exact searches by each kind of distance, against brute force."""

import numpy as np
import pytest

from skhash.codes import pack
from skhash.codes._blocks import LANES, CodeBlocks
from skhash.codes._hamming_kernels import MIN_PLANE_QUERIES
from skhash.codes._kernels import LANES as QUERIES
from skhash.codes._kernels import SCAN_BLOCK
from skhash.codes._search import EstimatedDistance, Estimates, HammingDistance, TableDistance
from skhash.neighbors._search import nearest, within


def random_codes(rng, shape):
    return rng.integers(0, 256, shape, dtype=np.uint8)


def few_ones(rng, shape):
    """Codes of 5 bits, padded to bytes."""
    codes = np.zeros(shape, np.uint8)
    codes[:, 0] = rng.integers(0, 2**5, shape[0])
    return codes


def repeated(rng, shape):
    """Copies of three codes, which tie in large numbers."""
    return random_codes(rng, (3, shape[1]))[rng.integers(0, 3, shape[0])]


def extremes(rng, shape):
    """Codes of zeros alone and of ones alone, at the largest distance."""
    return np.where(rng.integers(0, 2, (shape[0], 1)) == 1, np.uint8(255), np.uint8(0)) * np.ones(shape, np.uint8)


def brute_force(distances, k):
    """Distances, indices and ties of the nearest items, by a stable sort of all distances."""
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(distances, order, axis=1)
    return found, order, (distances == found[:, -1:]).sum(axis=1)


def assert_equal(found, expected):
    for ours, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, other)


@pytest.mark.parametrize("draw", [random_codes, few_ones, repeated, extremes])
@pytest.mark.parametrize(
    ("n_bytes", "k"), [(1, 1), (4, 3), (8, 40), (16, 300), (31, 5), (32, 5), (40, 7), (72, 20), (8192, 2)]
)
@pytest.mark.parametrize("n_queries", [1, 5, MIN_PLANE_QUERIES, 40])
def test_the_nearest_codes_are_those_of_brute_force(draw, n_bytes, k, n_queries):
    rng = np.random.default_rng(n_bytes + k)
    n_items = 7000 if n_bytes < 100 else 200
    codes, queries = draw(rng, (n_items, n_bytes)), draw(rng, (n_queries, n_bytes))
    items, n_blocks = CodeBlocks.from_rows(codes), -(-n_items // LANES)
    for first, last in ((0, n_blocks), (1, n_blocks - 1), (2, 3 + k // LANES)):
        found = HammingDistance(queries).nearest(slice(0, n_queries), items, first, last, k)
        start, part = LANES * first, codes[LANES * first : LANES * last]
        distances = np.bitwise_count(queries[:, None] ^ part).sum(axis=2, dtype=np.int32)
        expected = brute_force(distances, k)
        assert_equal(found, (expected[0], start + expected[1], expected[2]))


@pytest.mark.parametrize("n_queries", [1, 16, 65])
def test_groups_of_queries_find_the_same(n_queries):
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, (4096, 16)), random_codes(rng, (n_queries, 16))
    distances = np.bitwise_count(queries[:, None] ^ codes).sum(axis=2, dtype=np.int32)
    assert_equal(nearest(HammingDistance(queries), CodeBlocks.from_rows(codes), 20), brute_force(distances, 20))


@pytest.mark.parametrize("n_queries", [1, 20])
def test_holes_are_no_items(n_queries):
    rng = np.random.default_rng(1)
    codes, queries = random_codes(rng, (2000, 3)), random_codes(rng, (n_queries, 3))
    is_hole = rng.random(2000) < np.repeat(rng.random(20), 100)
    is_hole[300:700] = True  # also whole blocks
    items = CodeBlocks.from_rows(codes).without(np.flatnonzero(is_hole))
    distances = np.bitwise_count(queries[:, None] ^ codes).sum(axis=2, dtype=np.int32)
    expected = brute_force(np.where(is_hole, 100, distances), 30)
    assert_equal(nearest(HammingDistance(queries), items, 30), expected)
    found, places = within(HammingDistance(queries), items, 5)
    for query in range(n_queries):
        np.testing.assert_array_equal(places[query], np.flatnonzero((distances[query] <= 5) & ~is_hole))
        np.testing.assert_array_equal(found[query], distances[query][places[query]])
    everything = nearest(HammingDistance(queries), items, items.n_items + 3)  # more than there are
    assert np.isinf(everything.distances[:, -3:]).all()
    np.testing.assert_array_equal(
        np.sort(everything.indices[:, :-3]), np.tile(np.flatnonzero(~is_hole), (n_queries, 1))
    )


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
        (900, 64, 100, QUERIES),
        (1500, 200, 1, 2 * QUERIES + 1),
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
    found = search.nearest(slice(0, n_queries), CodeBlocks.from_rows(pack(bits)), 0, -(-n_items // LANES), k)
    for ours, expected in zip(found, brute_force(distances, k), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize(
    ("n_items", "nbits", "k", "n_queries"),
    [(1200, 100, 40, QUERIES + 1), (700, 64, 7, 2), (700, 64, 7, 1), (900, 330, 12, 3)],
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
    found = search.nearest(slice(0, n_queries), CodeBlocks.from_rows(pack(bits)), 0, -(-n_items // LANES), k)
    for ours, expected in zip(found, brute_force(distances, k), strict=True):
        np.testing.assert_array_equal(ours, expected)
