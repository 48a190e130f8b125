"""Distances between queries and codes that are sums over the bits of a code.

Plain Hamming distances count the bits that differ. Weighted ones add up the weights of these bits, on the integer grid
of :func:`skhash.codes.quantize_weights`. A real query q has the distance -<q, s> from the signs s of a code, with q
rounded to 30 bits. All sums are of integers: equal distances are equal, and shards merge exactly. Factors of the items
turn these sums into estimates of the distance of the vectors themselves.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from skhash._views import read_only
from skhash.codes import as_words, quantize_weights


class Neighbors(NamedTuple):
    """Nearest items of queries, of shape (n_queries, k); of equal distances the lowest index comes first."""

    distances: npt.NDArray[Any]
    indices: npt.NDArray[np.int64]
    n_ties: npt.NDArray[np.int64]  #: number of database items at the distance of the last neighbor, (n_queries,)


def item_words(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Packed codes as 64-bit words of shape (n, n_words), padded with zeros."""
    return np.ascontiguousarray(as_words(packed).T)


class Estimates(NamedTuple):
    """Terms of estimated distances: ``constant(q) + offset(x) - slope(x) * score(q, x)``."""

    slopes: npt.NDArray[np.float64]  #: of shape (n_items,)
    offsets: npt.NDArray[np.float64]  #: of shape (n_items,)
    constants: npt.NDArray[np.float64]  #: of shape (n_queries,)


class Distance(Protocol):
    """A distance between queries and codes as integers; `units` scales those of each query to real distances."""

    n_queries: int
    units: npt.NDArray[np.float64]

    def nearest(self, part: slice, database: npt.NDArray[np.uint64], first: int, last: int, k: int) -> Neighbors:
        """Neighbors of some queries among the items from `first` to `last`."""
        ...

    def to_items(
        self, part: slice, database: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64]
    ) -> npt.NDArray[Any]:
        """Distances of some queries to the items in each row of `indices`, or in a single row for all of them."""
        ...


class HammingDistance:
    """Number of bits that differ, for queries of shape (n_queries, n_words)."""

    def __init__(self, queries: npt.NDArray[np.uint64]) -> None:
        self.queries, self.n_queries = queries, len(queries)
        self.units = np.ones((len(queries), 1))

    def nearest(self, part: slice, database: npt.NDArray[np.uint64], first: int, last: int, k: int) -> Neighbors:
        """See :class:`Distance`."""
        queries = self.queries[part]
        found = _empty_neighbors(len(queries), k, np.int32)
        if len(queries) >= 16 and last - first >= 4096 and queries.shape[1] <= 8:  # benchmarks/search.py
            from skhash._plane_kernels import nearest_codes_by_planes as search
        else:
            from skhash._hamming_kernels import nearest_codes as search
        search(read_only(queries), read_only(database), first, last, *found)
        return found

    def to_items(
        self, part: slice, database: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64]
    ) -> npt.NDArray[Any]:
        """See :class:`Distance`."""
        differing = database[indices] ^ self.queries[part][:, None]
        distances: npt.NDArray[Any] = np.bitwise_count(differing).sum(axis=-1, dtype=np.int32)
        return distances


class TableDistance:
    """Sum of one integer per bit of a code, by tables over its bytes.

    `zeros` and `ones`, of shape (n_queries, nbits), are what a bit of 0 and of 1 adds; `units` is of shape (n_queries,
    1).
    """

    def __init__(self, zeros: npt.NDArray[Any], ones: npt.NDArray[Any], units: npt.NDArray[np.float64]) -> None:
        self.zeros, self.ones, self.units, self.n_queries = zeros, ones, units, len(zeros)

    def nearest(self, part: slice, database: npt.NDArray[np.uint64], first: int, last: int, k: int) -> Neighbors:
        """See :class:`Distance`."""
        zeros, ones = self.zeros[part], self.ones[part]
        if len(zeros) > 1 and k <= (last - first) // 8:  # else most of a scan is empty, or most items are candidates
            from skhash._scan_kernels import nearest_by_scan

            found = _empty_neighbors(len(zeros), k, zeros.dtype)
            nearest_by_scan(zeros, ones, read_only(database), first, last, *found)
            return _sorted(found)
        from skhash._kernels import nearest_by_tables

        tables = self._tables(part)
        found = _empty_neighbors(len(tables), k, tables.dtype)
        nearest_by_tables(tables, read_only(database).view(np.uint8), first, last, *found)
        return _sorted(found)

    def to_items(
        self, part: slice, database: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64]
    ) -> npt.NDArray[Any]:
        """See :class:`Distance`."""
        from skhash._kernels import table_distances

        tables = self._tables(part)
        distances = np.empty((len(tables), indices.shape[1]), dtype=tables.dtype)
        table_distances(tables, read_only(database).view(np.uint8), read_only(indices), distances)
        return distances

    def _tables(self, part: slice) -> npt.NDArray[Any]:
        """What each value of each byte of a code adds, of shape (n, n_bytes, 256)."""
        from skhash._kernels import byte_table

        # the pattern 255 - v has the bits of 0 of the pattern v
        tables: npt.NDArray[Any] = byte_table(self.ones[part]) + byte_table(self.zeros[part])[..., ::-1]
        return tables


class EstimatedDistance:
    """Distances of vectors, estimated from the scores of real queries; `scores` holds minus the scores."""

    def __init__(self, scores: TableDistance, estimates: Estimates) -> None:
        self.scores, self.estimates, self.n_queries = scores, estimates, scores.n_queries
        self.units = np.ones((scores.n_queries, 1))

    def nearest(self, part: slice, database: npt.NDArray[np.uint64], first: int, last: int, k: int) -> Neighbors:
        """See :class:`Distance`."""
        slopes, offsets, constants = self.estimates
        units = self.scores.units[part, 0]
        terms = slopes, offsets, constants[part]
        found = _empty_neighbors(len(units), k, np.float64)
        if len(units) > 1 and k <= (last - first) // 8:  # as for scores
            from skhash._scan_kernels import estimates_by_scan

            zeros, ones = self.scores.zeros[part], self.scores.ones[part]
            estimates_by_scan(zeros, ones, units, *terms, read_only(database), first, last, *found)
            return _sorted(found)
        from skhash._kernels import nearest_by_estimates

        tables = self.scores._tables(part)
        nearest_by_estimates(tables, units, *terms, read_only(database).view(np.uint8), first, last, *found)
        return _sorted(found)

    def to_items(
        self, part: slice, database: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64]
    ) -> npt.NDArray[Any]:
        """See :class:`Distance`."""
        slopes, offsets, constants = self.estimates
        sums = self.scores.to_items(part, database, indices) * self.scores.units[part]
        distances: npt.NDArray[Any] = constants[part, None] + offsets[indices] + slopes[indices] * sums
        return distances


def weighted_distance(bits: npt.NDArray[np.uint8], bit_weights: npt.ArrayLike) -> TableDistance:
    """Sum of the weights of the bits that differ, from the bits of the queries."""
    weights, unit = quantize_weights(bit_weights, bits.shape[1])
    return TableDistance(weights * bits, weights * (1 - bits.astype(np.int64)), np.full((len(bits), 1), unit))


def real_distance(activations: npt.NDArray[np.floating], estimates: Estimates | None = None) -> Distance:
    """Minus the inner product of real queries and the signs of a code, or the distance with these `estimates`."""
    values = np.asarray(activations, dtype=np.float64)
    largest = np.abs(values).sum(axis=1, keepdims=True)
    units = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - 30)  # sums stay below 2**31
    whole = np.rint(values / units).astype(np.int32)
    scores = TableDistance(whole, -whole, units)
    return scores if estimates is None else EstimatedDistance(scores, estimates)


def estimates_of(factors: npt.NDArray[np.floating], constants: npt.NDArray[np.float64], metric: str) -> Estimates:
    """Estimates for items whose factors, of shape (n_items, 2), are the norm and the inner product with the code.

    The inner product of the centered vectors is estimated as ``norm**2 / along * score``, and as 0 where `along` is 0.
    """
    norms, along = factors.astype(np.float64).T
    slopes = np.divide(norms**2, along, out=np.zeros(len(norms)), where=along > 0)
    of_score, of_norm = {"cosine": (1.0, 0.5), "inner": (1.0, 0.0), "euclidean": (2.0, 1.0)}[metric]
    return Estimates(of_score * slopes, of_norm * norms**2, constants)


def without_self(found: Neighbors, first: int = 0) -> Neighbors:
    """Neighbors of database items, starting with item `first`, with each item removed from its own list."""
    n, k = found.indices.shape
    is_self = found.indices == np.arange(first, first + n)[:, None]
    is_self[:, -1] |= ~is_self.any(axis=1)  # after many equal items the item itself is not in its list
    n_ties = found.n_ties - (found.distances[:, -1] == 0)
    return Neighbors(found.distances[~is_self].reshape(n, k - 1), found.indices[~is_self].reshape(n, k - 1), n_ties)


def _empty_neighbors(n_queries: int, k: int, dtype: npt.DTypeLike) -> Neighbors:
    shape = (n_queries, k)
    return Neighbors(np.empty(shape, dtype), np.empty(shape, np.int64), np.empty(n_queries, np.int64))


def _sorted(found: Neighbors) -> Neighbors:
    """Neighbors sorted by distance; equal distances keep their order."""
    order = np.argsort(found.distances, axis=1, kind="stable")
    distances, indices = (np.take_along_axis(values, order, axis=1) for values in found[:2])
    return Neighbors(distances, indices, found.n_ties)
