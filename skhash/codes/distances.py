"""Nearest codes of queries, and the distances between them, which are sums over the bits of a code.

Plain Hamming distances count the bits that differ. Weighted ones add up the weights of these bits, quantized to
integers once. A real query q has the distance -<q, s> from the signs s of a code, with q rounded to 30 bits. All sums
are of integers: equal distances are equal, and shards merge exactly. Factors of the items turn these sums into
estimates of the distance of the vectors themselves.
"""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from skhash.codes.bits import quantize_weights
from skhash.codes.blocks import CodeBlocks, masks_of, read_only

FEW = 1000  # codes that numpy copies as fast as a compiled kernel
MIN_SAMPLED = 64  # neighbors from which a sample saves time (benchmarks/search.py)
SAMPLE, SAMPLED_BLOCKS = 32, 16  # one block of so many is in a sample, and the least number of them

_SHARES = {"cosine": (1.0, 0.5), "inner": (1.0, 0.0), "euclidean": (2.0, 1.0)}  # of scores, of norms, in an estimate
_NO_FACTORS = read_only(np.empty((0, 2), np.float32))


class Neighbors(NamedTuple):
    """Nearest items of queries, of shape (n_queries, k); of equal distances the lowest index comes first."""

    distances: npt.NDArray[Any]
    indices: npt.NDArray[np.int64]
    n_ties: npt.NDArray[np.int64]  #: number of database items at the distance of the last neighbor, (n_queries,)


class Estimates(NamedTuple):
    """Terms of estimated distances: ``constant(q) + offset(x) - slope(x) * score(q, x)``, see `terms_of_items`."""

    factors: npt.NDArray[np.float32]  #: norm, and inner product with the code, of the items, of shape (n_items, 2)
    metric: str
    constants: npt.NDArray[np.float64]  #: of shape (n_queries,)

    def at(self, places: npt.NDArray[np.int64]) -> "Estimates":
        """Terms of the items at some places."""
        return self._replace(factors=self.factors[places])


class Distance(Protocol):
    """A distance between queries and codes as integers; `units` scales those of each query to real distances."""

    n_queries: int

    @property
    def units(self) -> npt.NDArray[np.float64]:
        """Of shape (n_queries, 1)."""
        ...

    def nearest(self, part: slice, items: CodeBlocks, first: int, last: int, k: int) -> Neighbors:
        """Neighbors of some queries among the items of the blocks from `first` to `last`; their indices are places."""
        ...

    def to_items(self, part: slice, items: CodeBlocks, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Distances of some queries from the items in each row of `places`, or in a single row for all of them."""
        ...


class HammingDistance:
    """Number of bits that differ, for packed queries of shape (n_queries, n_bytes)."""

    def __init__(self, queries: npt.NDArray[np.uint8]) -> None:
        self.queries, self.n_queries = queries, len(queries)

    @property
    def units(self) -> npt.NDArray[np.float64]:
        """See :class:`Distance`."""
        return np.ones((self.n_queries, 1))

    def nearest(self, part: slice, items: CodeBlocks, first: int, last: int, k: int) -> Neighbors:
        """See :class:`Distance`. If there are fewer items than k, the last distances are infinite."""
        from skhash.codes import hamming_kernels as kernels

        queries = read_only(self.queries[part])
        n_queries, n_bytes = queries.shape
        width = kernels.lane_bits(n_bytes)
        if n_queries >= kernels.MIN_PLANE_QUERIES and n_bytes <= kernels.MAX_PLANE_BYTES:
            nearest = kernels.nearest_codes_by_planes(width, int(8 * n_bytes + 1).bit_length())
        else:
            nearest = kernels.nearest_codes(width)
        distances, places = np.empty((n_queries, k)), np.empty((n_queries, k), np.int64)
        n_ties = np.empty(n_queries, np.int64)
        nearest(queries, items.blocks, items.masks, first, last, k, distances, places, n_ties)
        return Neighbors(distances, places, n_ties)

    def radius_search(
        self, query: int, items: CodeBlocks, radius: float
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Distances and places of all items up to a radius from one query."""
        from skhash.codes import hamming_kernels as kernels

        code, bound, size = read_only(self.queries[query]), int(min(radius, 8 * items.n_bytes)), 1024
        search = kernels.codes_within(kernels.lane_bits(items.n_bytes))
        while True:
            distances, places = np.empty(size), np.empty(size, np.int64)
            found = search(code, items.blocks, items.masks, bound, distances, places)
            if found <= size:
                return distances[:found], places[:found]
            size = found

    def to_items(self, part: slice, items: CodeBlocks, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """See :class:`Distance`."""
        differing = items.rows(places) ^ self.queries[part][:, None]
        distances: npt.NDArray[Any] = np.bitwise_count(differing).sum(axis=-1, dtype=np.int32)
        return distances


class TableDistance:
    """Sum over the bits of a code of what a bit of 0 and a bit of 1 adds, both integers of shape (n_queries, nbits)."""

    def __init__(self, zeros: npt.NDArray[Any], ones: npt.NDArray[Any], units: npt.NDArray[np.float64]) -> None:
        self.zeros, self.ones, self.units, self.n_queries = zeros, ones, units, len(zeros)

    def nearest(self, part: slice, items: CodeBlocks, first: int, last: int, k: int) -> Neighbors:
        """See :class:`Distance`."""
        tables = self.tables(part)
        none = np.empty(len(tables))
        return _nearest_by_tables(tables, (_NO_FACTORS, 0.0, 0.0, none, none), items, first, last, k)

    def to_items(self, part: slice, items: CodeBlocks, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """See :class:`Distance`."""
        from skhash.codes._table_kernels import table_distances

        tables = self.tables(part)
        distances = np.empty((len(tables), places.shape[1]), np.int64)
        table_distances(tables, items.blocks, read_only(places), distances)
        return distances

    def tables(self, part: slice) -> npt.NDArray[np.int64]:
        """What each value of each half byte of a code adds, of shape (n, 2 * n_bytes, 16)."""
        from skhash.codes.bit_kernels import half_byte_tables

        tables: npt.NDArray[np.int64] = half_byte_tables(self.zeros[part], self.ones[part])
        return tables


class EstimatedDistance:
    """Distances of vectors, estimated from the scores of real queries; `scores` holds minus the scores."""

    def __init__(self, scores: TableDistance, estimates: Estimates) -> None:
        self.scores, self.estimates, self.n_queries = scores, estimates, scores.n_queries
        self.units = np.ones((scores.n_queries, 1))

    def nearest(self, part: slice, items: CodeBlocks, first: int, last: int, k: int) -> Neighbors:
        """See :class:`Distance`."""
        factors, metric, constants = self.estimates
        estimates = read_only(factors), *_SHARES[metric], constants[part], self.scores.units[part, 0].copy()
        return _nearest_by_tables(self.scores.tables(part), estimates, items, first, last, k)

    def to_items(self, part: slice, items: CodeBlocks, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """See :class:`Distance`."""
        factors, metric, constants = self.estimates
        slopes, offsets = terms_of_items(factors[places], metric)
        sums = self.scores.to_items(part, items, places) * self.scores.units[part]
        distances: npt.NDArray[Any] = constants[part, None] + offsets + slopes * sums
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


def terms_of_items(
    factors: npt.NDArray[np.floating], metric: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Slopes and offsets of estimated distances, from factors of shape (..., 2)."""
    norms, along = np.moveaxis(factors.astype(np.float64), -1, 0)
    slopes = np.divide(norms**2, along, out=np.zeros(norms.shape), where=along > 0)
    of_score, of_norm = _SHARES[metric]
    return of_score * slopes, of_norm * norms**2


def copied_codes(items: CodeBlocks, places: npt.NDArray[np.int64]) -> CodeBlocks:
    """Codes of the items at some places, without holes."""
    if len(places) < FEW:
        return CodeBlocks.from_rows(items.rows(places), items.nbits)
    from skhash.codes.hamming_kernels import copy_codes

    masks = masks_of(len(places))
    blocks = np.zeros((len(masks), *items.blocks.shape[1:]), np.uint8)
    copy_codes(items.blocks, read_only(places), blocks)
    return CodeBlocks(blocks, masks, items.nbits, len(places), len(places))


def without_self(
    found: Neighbors, own_places: npt.NDArray[np.int64], were_searched: npt.NDArray[np.bool_] | None = None
) -> Neighbors:
    """Neighbors of items at some places, with each item removed from its own list, or the last one of a list.

    `were_searched` tells which of these items are among those that were searched; None is all.
    """
    n, k = found.indices.shape
    is_self = found.indices == own_places[:, None]
    is_self[:, -1] |= ~is_self.any(axis=1)  # after many equal items the item itself is not in its list
    n_ties = found.n_ties - (found.distances[:, -1] == 0)
    if were_searched is not None:
        before, last = found.distances[:, :-1], found.distances[:, -1]
        listed = (before == before[:, -1:]).sum(axis=1)
        n_ties = np.where(were_searched, n_ties, np.where(before[:, -1] == last, found.n_ties, listed))
    return Neighbors(found.distances[~is_self].reshape(n, k - 1), found.indices[~is_self].reshape(n, k - 1), n_ties)


def _nearest_by_tables(
    tables: npt.NDArray[np.int64], estimates: tuple[Any, ...], items: CodeBlocks, first: int, last: int, k: int
) -> Neighbors:
    """Nearest items of all queries. A search for many begins with bounds that the nearest items of a sample give."""
    bounds = np.full(len(tables), np.inf)
    if k >= MIN_SAMPLED and last - first >= SAMPLED_BLOCKS * SAMPLE:
        mean = k / SAMPLE  # of the number of the k nearest items that are in a sample
        n_nearest = math.ceil(mean + 3 * mean**0.5 + 3)
        sampled = _scan(tables, estimates, items, range(first, last, SAMPLE), n_nearest, bounds)
        bounds = np.nextafter(sampled.distances[:, -1], np.inf)  # with the items at this distance
    found = _scan(tables, estimates, items, range(first, last), k, bounds)
    if len(short := np.flatnonzero((found.distances[:, -1] == np.inf) & (bounds < np.inf))):
        shares, of_queries = estimates[:3], estimates[3:]
        again = *shares, *(values[short] for values in of_queries)
        without = _scan(tables[short], again, items, range(first, last), k, np.full(len(short), np.inf))
        for values, right in zip(found, without, strict=True):
            values[short] = right
    return found


def _scan(
    tables: npt.NDArray[np.int64],
    estimates: tuple[Any, ...],
    items: CodeBlocks,
    blocks: range,
    k: int,
    bounds: npt.NDArray[np.float64],
) -> Neighbors:
    """Nearest items of some blocks, below the bounds of the queries, as `_table_kernels` describes the arrays."""
    from skhash.codes._table_kernels import SPARE, nearest_by_tables

    n_queries, size = len(tables), 2 * k + SPARE
    states, scanned = np.zeros((n_queries, 2), np.int64), (blocks.start, blocks.stop, blocks.step)
    distances, places = np.empty((n_queries, size)), np.empty((n_queries, size), np.int64)
    found = bounds.copy(), distances, places, states
    nearest_by_tables(tables, estimates, items.blocks, items.masks, *scanned, k, *found)
    order = np.argsort(distances[:, :k], axis=1, kind="stable")  # equal distances keep their order
    rows = np.arange(n_queries)[:, None]
    return Neighbors(distances[rows, order], places[rows, order], states[:, 1])
