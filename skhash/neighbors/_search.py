"""Exact search by distances that are sums over the bits of a code.

Plain Hamming distances count the bits that differ. Weighted ones add up the weights of these bits, on the integer grid
of :func:`skhash.codes.quantize_weights`. A real query q has the distance -<q, s> from the signs s of a code, with q
rounded to 30 bits. All sums are of integers: equal distances are equal, and shards merge exactly.
"""

from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash._compat import openmp_n_threads
from skhash._threads import run_in_slices
from skhash.codes import as_words, quantize_weights
from skhash.metrics._arrays import memory_chunks
from skhash.neighbors.merging import Neighbors, merge_with_ties

QUERY_GROUP = 32  # queries for which each block of the database is read once
MAX_CANDIDATES = 2**22  # of all queries of a group, which bounds the memory
MIN_SHARD = 2**16  # items that are worth a thread of their own when there are few queries
_PATTERNS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)


def item_words(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Packed codes as 64-bit words, padded, the words of an item side by side, shape (n, n_words)."""
    return np.ascontiguousarray(as_words(packed).T)


class Distance(Protocol):
    """A distance between queries and codes, in integers; `units` turn those of each query into real ones."""

    n_queries: int
    units: npt.NDArray[np.float64]

    def nearest(self, part: slice, database: npt.NDArray[np.uint64], first: int, last: int, k: int) -> Neighbors:
        """Neighbors of some queries among the items from `first` to `last`."""
        ...

    def to_items(
        self, part: slice, database: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64]
    ) -> npt.NDArray[Any]:
        """Distances of some queries from items of their own, of the shape of `indices`."""
        ...


class HammingDistance:
    """Number of bits that differ.

    Parameters
    ----------
    queries : uint64 ndarray of shape (n_queries, n_words)
        Codes of the queries.
    """

    def __init__(self, queries: npt.NDArray[np.uint64]) -> None:
        self.queries, self.n_queries = queries, len(queries)
        self.units = np.ones((len(queries), 1))

    def nearest(self, part: slice, database: npt.NDArray[np.uint64], first: int, last: int, k: int) -> Neighbors:
        """See :class:`Distance`."""
        from skhash._kernels import nearest_codes

        queries = self.queries[part]
        found = _empty_neighbors(len(queries), k, np.int32)
        nearest_codes(queries, database, first, last, *found)
        return found

    def to_items(
        self, part: slice, database: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64]
    ) -> npt.NDArray[Any]:
        """See :class:`Distance`."""
        differing = database[indices] ^ self.queries[part][:, None]
        distances: npt.NDArray[Any] = np.bitwise_count(differing).sum(axis=-1, dtype=np.int32)
        return distances


class TableDistance:
    """A sum of integers, one for each bit of a code, by tables over its bytes.

    Parameters
    ----------
    zeros, ones : int32 or int64 ndarray of shape (n_queries, nbits)
        What a bit of 0 and a bit of 1 add to the distance from each query.
    units : float64 ndarray of shape (n_queries, 1)
        Turns the sums into distances.
    """

    def __init__(self, zeros: npt.NDArray[Any], ones: npt.NDArray[Any], units: npt.NDArray[np.float64]) -> None:
        self.zeros, self.ones, self.units, self.n_queries = zeros, ones, units, len(zeros)

    def nearest(self, part: slice, database: npt.NDArray[np.uint64], first: int, last: int, k: int) -> Neighbors:
        """See :class:`Distance`."""
        from skhash._kernels import nearest_by_tables

        tables = self._tables(part)
        found = _empty_neighbors(len(tables), k, tables.dtype)
        nearest_by_tables(tables, database.view(np.uint8), first, last, *found)
        return found

    def to_items(
        self, part: slice, database: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64]
    ) -> npt.NDArray[Any]:
        """See :class:`Distance`."""
        from skhash._kernels import table_distances

        tables = self._tables(part)
        distances = np.empty(indices.shape, dtype=tables.dtype)
        table_distances(tables, database.view(np.uint8), indices, distances)
        return distances

    def _tables(self, part: slice) -> npt.NDArray[Any]:
        """What each value of each byte of a code adds, shape (n, n_bytes, 256)."""
        zeros, ones = self.zeros[part], self.ones[part]
        padding = ((0, 0), (0, -zeros.shape[1] % 8))
        by_byte = [np.pad(values, padding).reshape(len(values), -1, 8) for values in (zeros, ones - zeros)]
        steps = by_byte[1] @ _PATTERNS.T.astype(zeros.dtype)
        return np.ascontiguousarray(by_byte[0].sum(axis=2, keepdims=True, dtype=zeros.dtype) + steps)


def weighted_distance(bits: npt.NDArray[np.uint8], bit_weights: npt.ArrayLike) -> TableDistance:
    """Sum of the weights of the bits that differ, from the bits of the queries."""
    weights, unit = quantize_weights(bit_weights, bits.shape[1])
    return TableDistance(weights * bits, weights * (1 - bits.astype(np.int64)), np.full((len(bits), 1), unit))


def real_distance(activations: npt.NDArray[np.floating]) -> TableDistance:
    """Minus the inner product of real queries and the signs of a code."""
    values = np.asarray(activations, dtype=np.float64)
    largest = np.abs(values).sum(axis=1, keepdims=True)
    units = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - 30)  # sums stay below 2**31
    whole = np.rint(values / units).astype(np.int32)
    return TableDistance(whole, -whole, units)


def nearest(distance: Distance, database: npt.NDArray[np.uint64], k: int) -> Neighbors:
    """The k nearest items of every query.

    Parameters
    ----------
    distance : Distance
        Queries and their distance.
    database : uint64 ndarray of shape (n_items, n_words)
        Codes, padded to whole words. A memmap is read in blocks.
    k : int
        Number of neighbors, at most n_items.

    Returns
    -------
    Neighbors
        Integer distances, indices and ties.
    """
    n_items = len(database)
    size = max(1, min(QUERY_GROUP, MAX_CANDIDATES // k))
    groups = list(gen_batches(distance.n_queries, size))
    n_shards = max(1, min(openmp_n_threads() // len(groups), n_items // max(k, MIN_SHARD)))
    bounds = np.linspace(0, n_items, n_shards + 1).astype(np.int64)
    tasks = [(group, shard) for group in groups for shard in pairwise(bounds)]
    found: list[Neighbors] = [_empty_neighbors(0, k, np.int32)] * len(tasks)

    def search(chosen: slice) -> None:
        for task in range(chosen.start, chosen.stop):
            group, (first, last) = tasks[task]
            found[task] = distance.nearest(group, database, first, last, k)

    run_in_slices(search, len(tasks))
    merged = [merge_with_ties(found[first : first + n_shards], k) for first in range(0, len(tasks), n_shards)]
    return Neighbors(*(np.concatenate(parts) for parts in zip(*merged, strict=True)))


def within(
    distance: Distance, database: npt.NDArray[np.uint64], radius: float
) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
    """All items up to a real distance from each query, ascending by index.

    Parameters
    ----------
    distance : Distance
        Queries and their distance.
    database : uint64 ndarray of shape (n_items, n_words)
        Codes.
    radius : float
        Largest distance.

    Returns
    -------
    distances : list of n_queries float64 arrays
        Distances.
    indices : list of n_queries int64 arrays
        Items.
    """
    distances, indices = [], []
    everything = np.arange(len(database))[None]
    for query in range(distance.n_queries):
        part = slice(query, query + 1)
        chunks = [distance.to_items(part, database, everything[:, c])[0] for c in memory_chunks(len(database), 64)]
        real = np.concatenate(chunks) * distance.units[query]
        indices.append(np.flatnonzero(real <= radius))
        distances.append(real[indices[-1]])
    return distances, indices


def _empty_neighbors(n_queries: int, k: int, dtype: npt.DTypeLike) -> Neighbors:
    shape = (n_queries, k)
    return Neighbors(np.empty(shape, dtype), np.empty(shape, np.int64), np.empty(n_queries, np.int64))
