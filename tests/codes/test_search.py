"""Exact searches by each kind of distance, against brute force."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features

from skhash.codes import Codes
from skhash.codes.blocks import LANES
from skhash.codes.hamming_kernels import MIN_PLANE_QUERIES
from skhash.codes.queries import (
    SAMPLE,
    SAMPLED_BLOCKS,
    Bits,
    Estimates,
    Real,
    Sums,
)


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
    items, n_blocks = Codes(codes, 8 * codes.shape[1]).blocks(), -(-n_items // LANES)
    from_all = np.bitwise_count(queries[:, None] ^ codes).sum(axis=2, dtype=np.int32)
    for first, last in ((0, n_blocks), (1, n_blocks - 1), (2, 3 + k // LANES)):
        found = Bits(Codes(queries, 8 * n_bytes)).scan(items, first, last, k)
        start = LANES * first
        expected = brute_force(from_all[:, start : LANES * last], k)
        assert_equal(found, (expected[0], start + expected[1], expected[2]))


@pytest.mark.parametrize("n_queries", [1, 16, 65])
def test_groups_of_queries_find_the_same(n_queries):
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, (4096, 16)), random_codes(rng, (n_queries, 16))
    distances = np.bitwise_count(queries[:, None] ^ codes).sum(axis=2, dtype=np.int32)
    assert_equal(
        Bits(Codes(queries, 8 * codes.shape[1])).nearest(Codes(codes, 8 * codes.shape[1]).blocks(), 20),
        brute_force(distances, 20),
    )


@pytest.mark.parametrize("n_queries", [1, 20])
def test_holes_are_no_items(n_queries):
    rng = np.random.default_rng(1)
    codes, queries = random_codes(rng, (2000, 3)), random_codes(rng, (n_queries, 3))
    is_hole = rng.random(2000) < np.repeat(rng.random(20), 100)
    is_hole[300:700] = True  # also whole blocks
    items = Codes(codes, 8 * codes.shape[1]).blocks().without(np.flatnonzero(is_hole))
    asked = Bits(Codes(queries, 8 * codes.shape[1]))
    distances = np.bitwise_count(queries[:, None] ^ codes).sum(axis=2, dtype=np.int32)
    expected = brute_force(np.where(is_hole, 100, distances), 30)
    assert_equal(asked.nearest(items, 30), expected)
    found, places = asked.within(items, 5)
    for query in range(n_queries):
        np.testing.assert_array_equal(places[query], np.flatnonzero((distances[query] <= 5) & ~is_hole))
        np.testing.assert_array_equal(found[query], distances[query][places[query]])
    everything = asked.nearest(items, items.n_items + 3)  # more than there are
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


def with_holes(rng, bits, share):
    """Blocks of codes, a share of whose places are holes, also whole blocks; and whether each place holds an item."""
    is_hole = (rng.random(len(bits)) < share) | np.repeat(rng.random(-(-len(bits) // LANES)) < share / 2, LANES)[
        : len(bits)
    ]
    return Codes.of(bits).blocks().without(np.flatnonzero(is_hole)), ~is_hole


def check_tables(search, distances, items, is_item, k, n_shards=1):
    """Compare the neighbors in shards, and the distances of single items, with the distances of all pairs."""
    for first, last in pairwise(np.linspace(0, len(items.masks), n_shards + 1).astype(int)):
        places = np.flatnonzero(is_item[: last * LANES])
        places = places[places >= first * LANES]
        found = search.scan(items, first, last, k)
        n = min(k, len(places))
        assert np.isinf(found.distances[:, n:]).all()
        if n:
            expected, order, n_ties = brute_force(distances[:, places], n)
            chosen = search.to_items(items, found.indices[:, :n])
            assert_equal((found.distances[:, :n], found.indices[:, :n], chosen), (expected, places[order], expected))
        if n == k:
            np.testing.assert_array_equal(found.n_ties, n_ties)


def all_sums(zeros, ones, bits):
    return zeros.astype(np.int64) @ (1 - bits.T.astype(np.int64)) + ones.astype(np.int64) @ bits.T


@pytest.mark.parametrize("kind", ["real", "weights", "few", "none", "long tail"])
@pytest.mark.parametrize(
    ("n_items", "nbits", "k", "n_queries"),
    [
        (1027, 5, 7, 2),
        (900, 64, 100, 16),
        (1500, 200, 1, 33),
        (400, 1100, 50, 3),
        (3000, 70, 900, 3),
        (3000, 70, 20, 1),
        (2000, 500, 20, 2),
        (700, 1100, 9, 1),
        (300, 2200, 4, 2),  # as many bytes as the rounded sums of full tables overflow
        (34_000, 40, 300, 3),  # as many items and neighbors as a search begins with a sample
    ],
)
def test_sums_over_bits_equal_brute_force(kind, n_items, nbits, k, n_queries):
    rng = np.random.default_rng(nbits)
    bits = rng.integers(0, 2, (n_items, nbits), dtype=np.uint8)
    bits[rng.random(n_items) < 0.3] = bits[0]  # ties
    zeros, ones = random_terms(kind, rng, (n_queries, nbits))
    search = Sums(zeros, ones, np.ones((n_queries, 1)))
    for share in (0.0, 0.4):
        items, is_item = with_holes(rng, bits, share)
        check_tables(search, all_sums(zeros, ones, bits), items, is_item, k, 1 + (share > 0))


@pytest.mark.parametrize("kind", ["real", "weights", "few"])
@pytest.mark.parametrize("are_near", [True, False])
def test_samples_of_the_nearest_or_of_the_farthest_items_change_nothing(kind, are_near):
    rng = np.random.default_rng(0)
    n_items = SAMPLE * SAMPLED_BLOCKS * LANES
    zeros, ones = random_terms(kind, rng, (3, 40))
    bits = rng.integers(0, 2, (n_items, 40), dtype=np.uint8)
    first_query = all_sums(zeros, ones, bits)[0]
    is_sampled = np.arange(n_items) // LANES % SAMPLE == 0
    places = np.argsort(~is_sampled, kind="stable")
    bits[places] = bits[np.argsort(first_query if are_near else -first_query)]
    items, is_item = with_holes(rng, bits, 0.0)
    search = Sums(zeros, ones, np.ones((3, 1)))
    check_tables(search, all_sums(zeros, ones, bits), items, is_item, 300)


@pytest.mark.parametrize("nbits", [*range(1, 131), 256, 384, 512])
def test_sums_over_any_number_of_bits_equal_brute_force(nbits):
    rng = np.random.default_rng(nbits)
    n_items = int(rng.integers(1, 700))
    bits = rng.integers(0, 2, (n_items, nbits), dtype=np.uint8)
    if nbits % 5 == 0:
        bits[:] = bits[0]
    zeros, ones = random_terms(rng.choice(["real", "weights", "few", "long tail"]), rng, (3, nbits))
    if nbits % 3 == 0:  # a bit may add more when it is 0, also where both add
        zeros, ones = zeros.astype(np.int64) - 7, ones.astype(np.int64) * rng.integers(-2, 3, nbits)
    items, is_item = with_holes(rng, bits, 0.2)
    search = Sums(zeros, ones, np.ones((3, 1)))
    for k in (1, n_items // 9 + 1, n_items):
        check_tables(search, all_sums(zeros, ones, bits), items, is_item, k, 1 + nbits % 2)


@pytest.mark.parametrize("metric", ["cosine", "inner", "euclidean"])
@pytest.mark.parametrize(
    ("n_items", "nbits", "k", "n_queries"),
    [(1200, 100, 40, 17), (700, 64, 7, 2), (700, 64, 7, 1), (900, 330, 12, 3), (130, 9, 130, 2), (34_000, 30, 200, 3)],
)
@pytest.mark.parametrize("norm", [1.0, 1e9])
def test_estimates_equal_brute_force(metric, n_items, nbits, k, n_queries, norm):
    rng = np.random.default_rng(nbits)
    bits = rng.integers(0, 2, (n_items, nbits), dtype=np.uint8)
    values = rng.integers(-3, 4, (n_queries, nbits)).astype(np.int32)
    norms, along = rng.integers(0, 4, n_items), rng.integers(-1, 3, n_items) * 0.25
    factors = np.stack([norms * norm, along * norm], axis=1).astype(np.float32)
    constants, units = rng.normal(size=n_queries), np.full((n_queries, 1), 0.5)
    slopes = np.where(along > 0, factors[:, 0].astype(float) ** 2 / np.where(along > 0, factors[:, 1], 1), 0)
    slopes *= 2 if metric == "euclidean" else 1
    offsets = {"cosine": 0.5, "inner": 0, "euclidean": 1}[metric] * factors[:, 0].astype(float) ** 2
    distances = constants[:, None] + offsets + slopes * (all_sums(values, -values, bits) * units)
    search = Real(values * units, Estimates(factors, metric, constants))
    for share in (0.0, 0.4):
        items, is_item = with_holes(rng, bits, share)
        check_tables(search, distances, items, is_item, k, 1 + (share > 0))


MORE = [f for f in ("+ssse3", "+avx2") if f in get_host_cpu_features().flatten()]


@pytest.mark.parametrize("features", ["", *(pytest.param(f, marks=pytest.mark.slow) for f in MORE)])
def test_machines_with_fewer_instructions_find_the_same(features, tmp_path):
    env = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    chosen = "test_sums_over_bits_equal_brute_force or (test_estimates_equal_brute_force and 100-40)"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", chosen]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
