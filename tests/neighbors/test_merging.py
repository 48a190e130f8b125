"""Neighbors of shards: those of the whole, whatever the shards are, and whatever way they come."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skhash.metrics import RelevanceHistogram
from skhash.neighbors import merge_neighbors, neighbors_from_bytes, neighbors_to_bytes


def brute_force(distances, k):
    """Distances and indices of the k smallest, by distance and index."""
    lines = [sorted(zip(line.tolist(), range(len(line)), strict=True))[:k] for line in distances]
    pairs = np.array(lines).reshape(len(lines), -1, 2)
    return pairs[..., 0], pairs[..., 1]


@pytest.mark.parametrize("k", [1, 7, 25, 60])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_any_shards_give_the_neighbors_of_the_whole(k, dtype):
    rng = np.random.default_rng(0)
    distances = rng.integers(0, 5, (6, 40)).astype(dtype)  # many ties
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(40)
        cuts = np.sort(np.random.default_rng(seed).integers(0, 41, 4))
        shards = []
        for part in map(np.sort, np.split(order, cuts)):  # short and empty ones, too, and not in blocks
            found, places = brute_force(distances[:, part], k)
            shards.append((found.astype(dtype if len(part) else np.float64), part[places.astype(int)]))
        found = merge_neighbors(shards, k)
        for array, expected, kind in zip(found, brute_force(distances, k), (dtype, np.int64), strict=True):
            assert_array_equal(array, expected)
            assert array.dtype == kind
        by_bytes = [neighbors_from_bytes(neighbors_to_bytes(*shard)) for shard in shards]
        pairs = [merge_neighbors(by_bytes[start : start + 2], k) for start in range(0, len(by_bytes), 2)]
        for array, expected in zip(merge_neighbors(pairs[::-1], k), found, strict=True):  # a tree gives the same
            assert_array_equal(array, expected, strict=True)


def test_empty_shards_alone():
    empty = np.empty((3, 0)), np.empty((3, 0), np.int64)
    distances, indices = merge_neighbors([empty, empty], 4)
    assert (distances.shape, indices.shape, indices.dtype) == ((3, 0), (3, 0), np.int64)


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None])
def test_the_number_of_neighbors_is_checked(k):
    with pytest.raises(ValueError, match=r"`n_neighbors` must be an int >= 1\. Got "):
        merge_neighbors([([[0]], [[1]])], k)


@pytest.mark.parametrize("indices", [[[1.5]], [[True]], np.array([[2**64 - 1]], np.uint64)])
def test_what_is_not_an_index_is_refused(indices):
    for call in (lambda: merge_neighbors([([[0]], indices)], 1), lambda: neighbors_to_bytes([[0]], indices)):
        with pytest.raises(ValueError, match="`indices` must be ints of at most"):
            call()


def test_bytes_are_checked():
    with pytest.raises(ValueError, match=r"`distances` and `indices` must have one shape, \(n_queries, k\)"):
        neighbors_to_bytes([[0, 1]], [[0]])
    with pytest.raises(ValueError, match=r"must be bytes of a list of neighbors\. Got those of a RelevanceHistogram"):
        neighbors_from_bytes(RelevanceHistogram(np.ones((1, 3, 2)), np.array([0, 1])).to_bytes())
