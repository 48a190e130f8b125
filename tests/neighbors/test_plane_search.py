import numpy as np
import pytest

from skhash._distances import HammingDistance
from skhash._plane_kernels import nearest_codes_by_planes
from skhash.neighbors._search import nearest


def random_codes(rng, shape):
    return rng.integers(0, 2**64, shape, dtype=np.uint64)


def few_ones(rng, shape):
    """Codes of 5 bits, padded to words."""
    codes = np.zeros(shape, np.uint64)
    codes[:, 0] = rng.integers(0, 2**5, shape[0])
    return codes


def many_ones(rng, shape):
    """Codes with three ones for each zero, of which queries add the planes of their zeros."""
    return random_codes(rng, shape) | random_codes(rng, shape)


def repeated(rng, shape):
    """Copies of three codes, which tie in large numbers."""
    return random_codes(rng, (3, shape[1]))[rng.integers(0, 3, shape[0])]


def extremes(rng, shape):
    """Codes of zeros alone and of ones alone: the largest distance, and sums of no plane."""
    return np.where(rng.integers(0, 2, (shape[0], 1)) == 1, ~np.uint64(0), np.uint64(0)) * np.ones(shape, np.uint64)


def brute_force(queries, codes, first, last, k):
    """Distances, indices and ties of the nearest items, by a stable sort of all distances."""
    distances = np.bitwise_count(queries[:, None] ^ codes[None, first:last]).sum(axis=2, dtype=np.int32)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(distances, order, axis=1)
    return found, first + order, (distances == found[:, -1:]).sum(axis=1)


@pytest.mark.parametrize("draw", [random_codes, few_ones, many_ones, repeated, extremes])
@pytest.mark.parametrize(("n_words", "k"), [(1, 1), (1, 40), (2, 300), (5, 7)])
def test_planes_find_what_brute_force_finds(draw, n_words, k):
    rng = np.random.default_rng(n_words + k)
    codes, queries = draw(rng, (7000, n_words)), draw(rng, (5, n_words))
    codes.flags.writeable = queries.flags.writeable = False  # as those of a search: numba compiles for each kind
    for first, last in ((0, 7000), (17, 17 + 1024 + 4096), (3, 6999), (5, 5 + max(k, 900))):
        found = np.empty((5, k), np.int32), np.empty((5, k), np.int64), np.empty(5, np.int64)
        nearest_codes_by_planes(queries, codes, first, last, *found)
        for ours, expected in zip(found, brute_force(queries, codes, first, last, k), strict=True):
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("n_queries", [15, 16, 65])
@pytest.mark.parametrize("n_words", [1, 8, 9])
def test_all_kernels_find_the_same(n_queries, n_words):
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, (4096, n_words)), random_codes(rng, (n_queries, n_words))
    found = nearest(HammingDistance(queries), codes, 20)
    for ours, expected in zip(found, brute_force(queries, codes, 0, len(codes), 20), strict=True):
        np.testing.assert_array_equal(ours, expected)
