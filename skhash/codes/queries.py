"""Kinds of queries, each of which searches codes and counts them: one scan with two ends.

    Bits            number of bits that differ
    Sums            what each bit adds if it is 0 and if it is 1, of which two kinds are in use:
    Weighted        sum of the weights of these bits, quantized to integers once
    Real            -<q, s> for the signs s of a code, with q rounded to 30 bits; with factors of the items, the
                    estimate of the distance of the vectors that it gives
    SeveralVectors  sums over several queries of these kinds of the distances of the nearest members of groups

    nearest         the k nearest items of each query, with ties; or the nearest items of the k nearest groups of items
    within          all items up to a distance
    count           the numbers of items at each distance, by level: what a relevance histogram holds

All sums are of integers: equal distances are equal, and shards merge exactly. A search takes queries in groups and
items in shards, a count queries in chunks. `Queries.of` chooses the kind of queries by code. `benchmarks/search.py` and
`benchmarks/histogram.py` time what is chosen here by size.
"""

import copy
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from skhash._ids import numbered
from skhash._threads import free_threads, run_in_slices
from skhash.codes.bits import memory_chunks, quantize_weights
from skhash.codes.blocks import LANES, CodeBlocks, masks_of, read_only
from skhash.codes.codes import Codes
from skhash.codes.groups import GroupedCodes, bounds_of

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.integer[Any]]
Groups = npt.NDArray[np.int32]

FEW = 1000  # codes that numpy copies as fast as a compiled kernel
MIN_SAMPLED = 64  # neighbors from which a sample saves time
SAMPLE, SAMPLED_BLOCKS = 32, 16  # one block of so many is in a sample, and the least number of them
QUERY_GROUP = 128  # queries that share a reading of the database
MAX_CANDIDATES = 2**22  # of all queries of a group, which bounds the memory
MIN_SHARD = 2**23  # least bytes of codes per thread, once for each query: to start threads takes as long as half of it
FEW_BYTES = 2**23  # of codes that numpy compares in less time than the loading of compiled kernels takes
MANY = 100  # queries for which sorting the database pays off
LEVEL_BITS = 10  # bits of the level in the 64-bit key of an item; 53 are the distance
LONG = 64  # items per group, and as many as bits, for which planes are faster than a scan
SHORT_PAIRS = 2**25  # pairs of a query and an item from which tables of short codes are faster than planes
MERGED_PAIRS = 2**22  # the same where equal codes are merged, and each is read for four queries
PLANE_QUERIES = 32  # fewest queries of a thread that makes its own planes
SHORT_QUERIES = 1024  # fewest queries of a thread, which has its own tables
VECTORS = 256  # of a pass over the groups, which stay in the second-level cache

_SHARES = {"cosine": (1.0, 0.5), "inner": (1.0, 0.0), "euclidean": (2.0, 1.0)}  # of scores, of norms, in an estimate
_NO_FACTORS = read_only(np.empty((0, 2), np.float32))

#: whether this process has searched by Hamming distance: one that asks again loads the kernels, since numpy takes up to
#: 100 times as long for each search
_has_searched = False


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


class PairLevels(Protocol):
    """Levels of all pairs of queries and items, by groups of equal targets."""

    exclude_self: bool
    n_groups: int

    @property
    def database_group(self) -> Integers:
        """Group of each item."""
        ...

    def table(self, queries: slice) -> tuple[Integers, Integers, npt.NDArray[Any]]:
        """Level indices of a slice of queries (n_query_groups, n_groups), the row of each query, and the levels."""
        ...


class Count(Protocol):
    """Counts of queries in a database, for a slice of the queries at a time."""

    bytes_per_query: int  #: of memory, with the result

    def __call__(self, chunk: slice) -> tuple[Any, ...]:
        """Arrays of the relevance histogram of a slice of queries."""
        ...


class Queries(ABC):
    """Queries whose distances from codes are integers; `units` scales those of each query to real distances."""

    n_queries: int
    units: npt.NDArray[np.float64]  #: of shape (n_queries, 1)

    @staticmethod
    def of(codes: Codes, bit_weights: Any = None) -> "Queries":
        """Queries by their codes and `bit_weights_` of the hasher, if it has any: what alone chooses their kind."""
        return Bits(codes) if bit_weights is None else Weighted(codes, bit_weights)

    @abstractmethod
    def __getitem__(self, part: slice) -> "Queries":
        """Some of the queries."""

    @abstractmethod
    def scan(self, items: CodeBlocks, first: int, last: int, k: int, group_of: Groups | None = None) -> Neighbors:
        """Neighbors among the items of the blocks from `first` to `last`; their indices are places.

        If there are fewer items than k, the last distances are infinite. Those of groups are in no order.
        """

    @abstractmethod
    def to_items(self, items: CodeBlocks, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Distances from the items in each row of `places`, or in a single row for all queries."""

    @abstractmethod
    def count(self, database: Codes, pairs: PairLevels) -> Count:
        """Counts of the queries in a database."""

    def at(self, places: npt.NDArray[np.int64]) -> "Queries":
        """These queries for the items at some places alone."""
        return self

    def nearest(
        self,
        items: CodeBlocks,
        k: int,
        places: npt.NDArray[np.int64] | None = None,
        group_of: Groups | None = None,
    ) -> Neighbors:
        """The k nearest items of every query, of those at some places, with integer distances and ties.

        With `group_of`, the number of the group at each place, they are the nearest items of the k nearest groups,
        without ties. Of equal distances the group with the lowest number comes first.
        """
        if places is not None:
            queries, items, copied = self._among(items, places)
            if copied is not None and group_of is not None:
                group_of = read_only(group_of[copied])
            found = queries.nearest(items, k, None, group_of)
            return found if copied is None else found._replace(indices=copied[found.indices])
        n_blocks = len(items.masks)
        size = max(1, min(QUERY_GROUP, MAX_CANDIDATES // k))
        n_groups, n_shards = -(-self.n_queries // size), items.blocks.nbytes * self.n_queries // MIN_SHARD
        if n_groups > 1 or n_shards > 1:
            n_shards = max(1, min(free_threads() // n_groups, n_shards, n_blocks // (k // LANES + 1)))
        if n_groups == 1 and n_shards <= 1:
            found = self.scan(items, 0, n_blocks, k, group_of)
            return found if group_of is None else by_group([found], group_of, k)
        groups = [self[start : start + size] for start in range(0, self.n_queries, size)]
        bounds = np.linspace(0, n_blocks, n_shards + 1).astype(np.int64)
        tasks = [(group, shard) for group in groups for shard in pairwise(bounds)]
        found_by: dict[int, Neighbors] = {}

        def search(chosen: slice) -> None:
            for task in range(chosen.start, chosen.stop):
                group, (first, last) = tasks[task]
                found_by[task] = group.scan(items, first, last, k, group_of)

        run_in_slices(search, len(tasks))
        parts = [[found_by[first + shard] for shard in range(n_shards)] for first in range(0, len(tasks), n_shards)]
        merged = [
            _merge_with_ties(shards, k) if group_of is None else by_group(shards, group_of, k) for shards in parts
        ]
        return Neighbors(*(np.concatenate(arrays) for arrays in zip(*merged, strict=True)))

    def within(
        self, items: CodeBlocks, radius: float, places: npt.NDArray[np.int64] | None = None
    ) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
        """Distances and places of all items, of those at some places, up to a real distance, ascending by place."""
        if places is not None:
            queries, items, copied = self._among(items, places)
            found = queries.within(items, radius)
            return found if copied is None else (found[0], [copied[at] for at in found[1]])
        distances: list[Any] = [None] * self.n_queries
        of_items: list[Any] = [None] * self.n_queries

        def search(chosen: slice) -> None:
            for query in range(chosen.start, chosen.stop):
                distances[query], of_items[query] = self._within(query, items, radius)

        run_in_slices(search, self.n_queries)
        return distances, of_items

    def _within(
        self, query: int, items: CodeBlocks, radius: float
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Distances and places of all items up to a real distance from one query."""
        places, alone = items.places(), self[query : query + 1]
        chunks = [alone.to_items(items, places[None, chunk])[0] for chunk in memory_chunks(len(places), 64)]
        real = np.concatenate(chunks) * self.units[query]
        return real[real <= radius], places[real <= radius]

    def _among(
        self, items: CodeBlocks, places: npt.NDArray[np.int64]
    ) -> tuple["Queries", CodeBlocks, npt.NDArray[np.int64] | None]:
        """Queries and codes for the items at some places, and these places if the codes are copies of few.

        A scan skips blocks without a chosen item. To copy the codes takes as long as one query does where one item in
        64 is chosen, so that few blocks are skipped (benchmarks/search.py). The copy of more pays off for many queries.
        """
        if 8 * LANES * len(places) > items.n_places * max(8, self.n_queries):
            return self, items.among(places), None
        return self.at(places), _copied(items, places), places


class Bits(Queries):
    """Number of bits that differ from the codes of the queries."""

    def __init__(self, codes: Codes) -> None:
        self.codes, self.n_queries = codes, len(codes)

    @property
    def units(self) -> npt.NDArray[np.float64]:  # type: ignore[override]
        """See :class:`Queries`."""
        return np.ones((self.n_queries, 1))

    def __getitem__(self, part: slice) -> "Bits":
        return Bits(self.codes[part])

    def nearest(
        self,
        items: CodeBlocks,
        k: int,
        places: npt.NDArray[np.int64] | None = None,
        group_of: Groups | None = None,
    ) -> Neighbors:
        """See :class:`Queries`. A process that asks once, such as a command, does not wait for numba."""
        global _has_searched
        if not _has_searched:
            _has_searched = True
            is_small = "numba" not in sys.modules and self.n_queries * items.blocks.nbytes <= FEW_BYTES
            if is_small and places is None and group_of is None:
                return _nearest_by_numpy(self.codes, items, k)
        return super().nearest(items, k, places, group_of)

    def scan(self, items: CodeBlocks, first: int, last: int, k: int, group_of: Groups | None = None) -> Neighbors:
        """See :class:`Queries`."""
        from skhash.codes import hamming_kernels as kernels

        queries = read_only(self.codes.rows)
        n_queries, n_bytes = queries.shape
        width = kernels.lane_bits(n_bytes)
        if n_queries >= kernels.MIN_PLANE_QUERIES and n_bytes <= kernels.MAX_PLANE_BYTES:
            nearest = kernels.nearest_codes_by_planes(width, int(8 * n_bytes + 1).bit_length())
        else:
            nearest = kernels.nearest_codes(width)
        distances, places = np.empty((n_queries, k)), np.empty((n_queries, k), np.int64)
        n_ties = np.empty(n_queries, np.int64)
        nearest(queries, items.blocks, items.masks, group_of, first, last, k, distances, places, n_ties)
        return Neighbors(distances, places, n_ties)

    def _within(
        self, query: int, items: CodeBlocks, radius: float
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Distances and places of all items up to a radius from one query."""
        from skhash.codes import hamming_kernels as kernels

        code, bound, size = read_only(self.codes.rows[query]), int(min(radius, 8 * items.n_bytes)), 1024
        search = kernels.codes_within(kernels.lane_bits(items.n_bytes))
        while True:
            distances, places = np.empty(size), np.empty(size, np.int64)
            found = search(code, items.blocks, items.masks, bound, distances, places)
            if found <= size:
                return distances[:found], places[:found]
            size = found

    def to_items(self, items: CodeBlocks, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """See :class:`Queries`."""
        differing = items.rows(places) ^ self.codes.rows[:, None]
        distances: npt.NDArray[Any] = np.bitwise_count(differing).sum(axis=-1, dtype=np.int32)
        return distances

    def count(self, database: Codes, pairs: PairLevels) -> Count:
        """See :class:`Queries`; dense counts."""
        return _CountBits(self.codes, database, pairs)


class Sums(Queries):
    """Sum over the bits of a code of what a bit of 0 and a bit of 1 adds, both integers of shape (n_queries, nbits)."""

    def __init__(self, zeros: npt.NDArray[Any], ones: npt.NDArray[Any], units: npt.NDArray[np.float64]) -> None:
        self.zeros, self.ones, self.units, self.n_queries = zeros, ones, units, len(zeros)

    def __getitem__(self, part: slice) -> "Sums":
        return Sums(self.zeros[part], self.ones[part], self.units[part])

    def scan(self, items: CodeBlocks, first: int, last: int, k: int, group_of: Groups | None = None) -> Neighbors:
        """See :class:`Queries`."""
        none = np.empty(self.n_queries)
        return _nearest_by_tables(self.tables(), (_NO_FACTORS, 0.0, 0.0, none, none), items, first, last, k, group_of)

    def to_items(self, items: CodeBlocks, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """See :class:`Queries`."""
        from skhash.codes._table_kernels import table_distances

        distances, places = np.empty((self.n_queries, places.shape[1]), np.int64), read_only(places)
        for part in memory_chunks(self.n_queries, 256 * items.n_bytes):  # of tables
            of_part = places if len(places) == 1 else places[part]
            table_distances(self[part].tables(), items.blocks, of_part, distances[part])
        return distances

    def count(self, database: Codes, pairs: PairLevels) -> Count:
        """See :class:`Queries`; ragged counts."""
        return _CountSums(self, database, pairs)

    def tables(self) -> npt.NDArray[np.int64]:
        """What each value of each half byte of a code adds, of shape (n_queries, 2 * n_bytes, 16)."""
        from skhash.codes.bit_kernels import half_byte_tables

        tables: npt.NDArray[np.int64] = half_byte_tables(self.zeros, self.ones)
        return tables


class Weighted(Sums):
    """Sum of the weights of the bits that differ from the codes of the queries."""

    def __init__(self, codes: Codes, bit_weights: npt.ArrayLike) -> None:
        self.codes, self.n_queries = codes, len(codes)
        self.weights, self.unit = quantize_weights(bit_weights, codes.nbits)
        self.units = np.full((len(codes), 1), self.unit)

    def __getitem__(self, part: slice) -> "Weighted":
        some = copy.copy(self)
        some.codes, some.units = self.codes[part], self.units[part]
        some.n_queries = len(some.codes)
        return some

    def tables(self) -> npt.NDArray[np.int64]:
        """See :class:`Sums`; the terms are made for some queries at a time, since a count needs none."""
        from skhash.codes.bit_kernels import half_byte_tables

        bits = self.codes.bits().astype(np.int64)
        tables: npt.NDArray[np.int64] = half_byte_tables(self.weights * bits, self.weights * (1 - bits))
        return tables

    def count(self, database: Codes, pairs: PairLevels) -> Count:
        """See :class:`Queries`; ragged counts, of one tie per distance."""
        return _CountWeighted(self, database, pairs)


class Real(Sums):
    """Minus the inner product of real queries and the signs of a code, or the distance with these `estimates`."""

    def __init__(self, activations: npt.NDArray[np.floating], estimates: Estimates | None = None) -> None:
        values = np.asarray(activations, dtype=np.float64)
        largest = np.abs(values).sum(axis=1, keepdims=True)
        self.score_units = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - 30)  # sums stay below 2**31
        whole = np.rint(values / self.score_units).astype(np.int32)
        self.estimates = estimates
        super().__init__(whole, -whole, self.score_units if estimates is None else np.ones((len(values), 1)))

    def __getitem__(self, part: slice) -> "Real":
        some = copy.copy(self)
        some.zeros, some.ones, some.units = self.zeros[part], self.ones[part], self.units[part]
        some.score_units, some.n_queries = self.score_units[part], len(some.zeros)
        if self.estimates is not None:
            some.estimates = self.estimates._replace(constants=self.estimates.constants[part])
        return some

    def at(self, places: npt.NDArray[np.int64]) -> "Real":
        """See :class:`Queries`."""
        if self.estimates is None:
            return self
        factors, metric, constants = self.estimates
        queries = copy.copy(self)
        queries.estimates = Estimates(factors[places], metric, constants)
        return queries

    def scan(self, items: CodeBlocks, first: int, last: int, k: int, group_of: Groups | None = None) -> Neighbors:
        """See :class:`Queries`."""
        if self.estimates is None:
            return super().scan(items, first, last, k, group_of)
        factors, metric, constants = self.estimates
        estimates = read_only(factors), *_SHARES[metric], constants, self.score_units[:, 0].copy()
        return _nearest_by_tables(self.tables(), estimates, items, first, last, k, group_of)

    def to_items(self, items: CodeBlocks, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """See :class:`Queries`."""
        sums = super().to_items(items, places)
        if self.estimates is None:
            return sums
        factors, metric, constants = self.estimates
        slopes, offsets = terms_of_items(factors[places], metric)
        distances: npt.NDArray[Any] = constants[:, None] + offsets + slopes * (sums * self.score_units)
        return distances


class Shortlisted:
    """Real queries that put the first items by code in order; the others follow by code.

    They are only counted. A search returns the first items alone, see `neighbors/search.py`.
    """

    def __init__(self, by_code: Bits, real: Real, n_first: int) -> None:
        self.by_code, self.real, self.n_first = by_code, real, n_first

    def count(self, database: Codes, pairs: PairLevels) -> Count:
        """See :class:`Queries`; ragged counts."""
        return _CountShortlisted(self, database, pairs)


class SeveralVectors:
    """Queries of several vectors each, of any kind, and their distances from groups of items.

        d(Q, G) = sum over the vectors q of Q of  the least d(q, x) over the members x of G

    For one vector this is the distance of the nearest member. For several it is MaxSim, the similarity of late
    interaction, as a distance. A second stage orders the first groups, and leaves the others after them in the order of
    the first stage. It may be of queries that have no codes.
    """

    def __init__(
        self,
        vectors: Queries,
        bounds: npt.NDArray[np.int64],
        last: Any = None,
        n_first: int | None = None,
        own: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.vectors = vectors
        self.bounds = bounds  # the first vector of each query, and the number of all
        self.last, self.n_first = last, n_first  # the second stage, and how many groups it orders; None is all
        self.own = own  # the group of each query that its ranking leaves out; None is none
        self.n_queries = len(bounds) - 1

    @classmethod
    def of(cls, vectors: Queries, labels: npt.NDArray[Any] | None, last: Any = None, **given: Any) -> "SeveralVectors":
        """Queries in the order of the distinct labels of their vectors; without labels each vector is a query."""
        if labels is None:
            return cls(vectors, np.arange(vectors.n_queries + 1), last, **given)
        _, query = numbered(labels)
        order: Any = slice(None)
        if (query[1:] < query[:-1]).any():
            order = np.argsort(query, kind="stable")
        return cls(vectors[order], bounds_of(query), None if last is None else last[order], **given)

    def __getitem__(self, part: slice) -> "SeveralVectors":
        bounds = self.bounds[part.start : part.stop + 1]
        of_part = slice(bounds[0], bounds[-1])
        last = None if self.last is None else self.last[of_part]
        own = None if self.own is None else self.own[part]
        return SeveralVectors(self.vectors[of_part], bounds - bounds[0], last, self.n_first, own)

    def bytes_per_query(self, database: GroupedCodes) -> int:
        """Bytes of memory of a scan for one query, with what is made of it."""
        return (64 + 16 * int(np.diff(self.bounds).max())) * database.n_groups

    def to_groups(self, database: GroupedCodes) -> npt.NDArray[np.float64]:
        """Real distances from all groups, of shape (n_queries, n_groups): the scan."""
        found = _sums_to_groups(self.vectors, self.bounds, database).astype(np.float64, copy=False)
        if self.own is not None:
            found[np.arange(self.n_queries), self.own] = np.inf
        if self.last is None:
            return found
        n_first = database.n_groups if self.n_first is None else self.n_first
        distances = np.empty(found.shape)
        for query, by_first in enumerate(found):
            shortlist = np.sort(np.argsort(by_first, kind="stable")[:n_first])
            first, stop = self.bounds[query : query + 2]
            by_last = _sums_to_groups(self.last[first:stop], np.array([0, stop - first]), database.take(shortlist))
            # the others come after any distance of the second stage
            distances[query] = (2.0 + by_first - by_first.min()) * np.abs(by_last).max().clip(1)
            distances[query, shortlist] = by_last
        return distances

    def nearest(self, database: GroupedCodes, k: int) -> Neighbors:
        """The k nearest groups of every query, with ties; their indices are numbers of groups."""
        shape = self.n_queries, k
        found = Neighbors(np.empty(shape), np.empty(shape, np.int64), np.empty(self.n_queries, np.int64))
        for chunk in memory_chunks(self.n_queries, self.bytes_per_query(database)):
            for query, distances in enumerate(self[chunk].to_groups(database), chunk.start):
                last = np.partition(distances, k - 1)[k - 1]
                near = np.flatnonzero(distances <= last)
                order = np.argsort(distances[near], kind="stable")[:k]
                found.distances[query], found.indices[query] = distances[near[order]], near[order]
                found.n_ties[query] = np.count_nonzero(distances[near] == last)
        return found

    def within(
        self, database: GroupedCodes, radius: float
    ) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
        """Distances and numbers of all groups up to a real distance, ascending by number."""
        distances, groups = [], []
        for chunk in memory_chunks(self.n_queries, self.bytes_per_query(database)):
            for row in self[chunk].to_groups(database):
                groups.append(np.flatnonzero(row <= radius))
                distances.append(row[groups[-1]])
        return distances, groups

    def count(self, database: GroupedCodes, pairs: PairLevels, n_distances: int | None = None) -> Count:
        """Counts of the queries, dense ones of so many distances if they are of bits and of one vector, or ragged."""
        return _CountGroups(self, database, pairs, n_distances)


# --- searches


def terms_of_items(
    factors: npt.NDArray[np.floating], metric: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Slopes and offsets of estimated distances, from factors of shape (..., 2)."""
    norms, along = np.moveaxis(factors.astype(np.float64), -1, 0)
    slopes = np.divide(norms**2, along, out=np.zeros(norms.shape), where=along > 0)
    of_score, of_norm = _SHARES[metric]
    return of_score * slopes, of_norm * norms**2


def _copied(items: CodeBlocks, places: npt.NDArray[np.int64]) -> CodeBlocks:
    """Codes of the items at some places, without holes."""
    if len(places) < FEW:
        return CodeBlocks.from_rows(items.rows(places), items.nbits)
    from skhash.codes.hamming_kernels import copy_codes

    masks = masks_of(len(places))
    blocks = np.zeros((len(masks), *items.blocks.shape[1:]), np.uint8)
    copy_codes(items.blocks, read_only(places), blocks)
    return CodeBlocks(blocks, masks, items.nbits, len(places), len(places))


def without_self(
    found: Neighbors, is_self: npt.NDArray[np.bool_], were_searched: npt.NDArray[np.bool_] | None = None
) -> Neighbors:
    """Neighbors of items, with each item, which `is_self` marks, removed from its own list, or the last one of a list.

    `were_searched` tells which of these items are among those that were searched; None is all.
    """
    n, k = found.indices.shape
    is_self[:, -1] |= ~is_self.any(axis=1)  # after many equal items the item itself is not in its list
    n_ties = found.n_ties - (found.distances[:, -1] == 0)
    if were_searched is not None:
        before, last = found.distances[:, :-1], found.distances[:, -1]
        listed = (before == before[:, -1:]).sum(axis=1)
        n_ties = np.where(were_searched, n_ties, np.where(before[:, -1] == last, found.n_ties, listed))
    return Neighbors(found.distances[~is_self].reshape(n, k - 1), found.indices[~is_self].reshape(n, k - 1), n_ties)


def _nearest_by_tables(
    tables: npt.NDArray[np.int64],
    estimates: tuple[Any, ...],
    items: CodeBlocks,
    first: int,
    last: int,
    k: int,
    group_of: Groups | None,
) -> Neighbors:
    """Nearest items of all queries. A search for many begins with bounds that the nearest items of a sample give."""
    bounds = np.full(len(tables), np.inf)
    if k >= MIN_SAMPLED and last - first >= SAMPLED_BLOCKS * SAMPLE:
        mean = k / SAMPLE  # of the number of the k nearest items that are in a sample
        n_nearest = math.ceil(mean + 3 * mean**0.5 + 3)
        sampled = _scan(tables, estimates, items, range(first, last, SAMPLE), n_nearest, bounds, group_of)
        bounds = np.nextafter(sampled.distances[:, -1], np.inf)  # with the items at this distance
    found = _scan(tables, estimates, items, range(first, last), k, bounds, group_of)
    if len(short := np.flatnonzero((found.distances[:, -1] == np.inf) & (bounds < np.inf))):
        shares, of_queries = estimates[:3], estimates[3:]
        again = *shares, *(values[short] for values in of_queries)
        without = _scan(tables[short], again, items, range(first, last), k, np.full(len(short), np.inf), group_of)
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
    group_of: Groups | None,
) -> Neighbors:
    """Nearest items of some blocks, below the bounds of the queries, as `_table_kernels` describes the arrays."""
    from skhash.codes._table_kernels import SPARE, nearest_by_tables

    n_queries, size = len(tables), 2 * k + SPARE
    states, scanned = np.zeros((n_queries, 2), np.int64), (blocks.start, blocks.stop, blocks.step)
    distances, places = np.empty((n_queries, size)), np.empty((n_queries, size), np.int64)
    found = bounds.copy(), distances, places, states
    nearest_by_tables(tables, estimates, items.blocks, items.masks, group_of, *scanned, k, *found)
    order = np.argsort(distances[:, :k], axis=1, kind="stable")  # equal distances keep their order
    rows = np.arange(n_queries)[:, None]
    return Neighbors(distances[rows, order], places[rows, order], states[:, 1])


def _nearest_by_numpy(queries: Codes, items: CodeBlocks, k: int) -> Neighbors:
    """Nearest items by Hamming distance, without compiled kernels."""
    places, differing = items.places(), items.words() ^ queries.words()[:, None]
    distances = np.bitwise_count(differing).sum(axis=-1, dtype=np.float64)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    nearest = np.take_along_axis(distances, order, axis=1)
    return Neighbors(nearest, places[order], (distances == nearest[:, -1:]).sum(axis=1))


def by_group(parts: list[Neighbors], group_of: Groups, k: int) -> Neighbors:
    """The nearest items of the k nearest groups of all that are found, of equal distances the lowest group first."""
    distances = np.concatenate([part.distances for part in parts], axis=1).astype(np.float64)
    places = np.concatenate([part.indices for part in parts], axis=1)
    rows = np.arange(len(distances))[:, None]
    groups = group_of[np.minimum(places, len(group_of) - 1)]
    order = np.lexsort((places, distances, groups), axis=1)
    distances, places, groups = distances[rows, order], places[rows, order], groups[rows, order]
    distances[:, 1:][groups[:, 1:] == groups[:, :-1]] = np.inf
    order = np.lexsort((groups, distances), axis=1)[:, :k]
    return Neighbors(distances[rows, order], places[rows, order], np.zeros(len(rows), np.int64))


def _merge_with_ties(shards: list[Neighbors], k: int) -> Neighbors:
    """Nearest items of all shards, which ascend by place, with the number of items that tie with the last one."""
    if len(shards) == 1:
        return shards[0]
    every = np.concatenate([shard.distances for shard in shards], axis=1)
    order = np.argsort(every, axis=1, kind="stable")[:, :k]  # of equal distances the first shard comes first
    distances = np.take_along_axis(every, order, axis=1)
    places = np.take_along_axis(np.concatenate([shard.indices for shard in shards], axis=1), order, axis=1)
    n_ties = np.zeros(len(distances), dtype=np.int64)
    for shard in shards:
        listed = (shard.distances == distances[:, -1:]).sum(axis=1)
        n_ties += np.where(shard.distances[:, -1] == distances[:, -1], shard.n_ties, listed)
    return Neighbors(distances, places, n_ties)


def _sums_to_groups(vectors: Any, bounds: npt.NDArray[np.int64], database: GroupedCodes) -> npt.NDArray[Any]:
    """Sums over the vectors of each query of the real distances of the nearest members."""
    if isinstance(vectors, Bits):
        return _sums_of_bits(vectors, bounds, database)
    n_vectors, starts = int(bounds[-1]), database.bounds[:-1]
    found: list[Any] = [None] * n_vectors

    def measure(part: slice) -> None:
        for vector in range(part.start, part.stop):  # one at a time, since it has a distance for each item
            distances = vectors[vector : vector + 1].to_items(database.items, database.places[None])[0]
            found[vector] = np.minimum.reduceat(distances[database.order], starts)

    run_in_slices(measure, n_vectors)
    nearest, units = np.array(found), np.broadcast_to(vectors.units, (n_vectors, 1))
    if (units == units[0]).all():
        return np.asarray(np.add.reduceat(nearest, bounds[:-1]) * units[0])  # of integers, if they are
    return np.asarray(np.add.reduceat(nearest * units, bounds[:-1]))


def _sums_of_bits(vectors: Bits, bounds: npt.NDArray[np.int64], database: GroupedCodes) -> npt.NDArray[np.int64]:
    """The same for bits, by compiled code."""
    from skhash.codes.hamming_kernels import lane_bits
    from skhash.codes.maxsim_kernels import sums_to_groups

    blocks, by_size, batches, first_blocks = database.batches
    n_queries, rows = len(bounds) - 1, vectors.codes.rows
    found = np.empty((n_queries, database.n_groups), np.int64)
    scan = sums_to_groups(lane_bits(rows.shape[1]))
    first = 0
    while first < n_queries:
        stop = max(first + 1, int(np.searchsorted(bounds, bounds[first] + VECTORS, side="right")) - 1)
        lanes = np.repeat(rows[bounds[first] : bounds[stop], :, None], LANES, axis=2)
        given = lanes, bounds[first : stop + 1] - bounds[first], blocks, by_size
        results, n_shards = found[first:stop], max(1, blocks.nbytes * len(lanes) // MIN_SHARD)

        def sum_up(part: slice, given: Any = given, results: Any = results) -> None:
            scan(*given, batches[part], first_blocks[part], results)

        run_in_slices(sum_up, len(batches), min_size=-(-len(batches) // n_shards))
        first = stop
    return found


# --- counts


class _CountBits:
    """Dense histograms of queries by Hamming distance."""

    def __init__(self, queries: Codes, database: Codes, pairs: PairLevels) -> None:
        from skhash.codes import count_kernels as kernels

        self.queries, self.database, self.nbits, self.pairs = queries.words(), database.words(), queries.nbits, pairs
        self.bytes_per_query = 24 * pairs.n_groups + 64 * (self.nbits + 1)
        n_queries, n_items = len(self.queries), len(self.database)
        group, n_groups, are_many = pairs.database_group, pairs.n_groups, n_queries >= MANY
        is_short = self.nbits <= kernels.SHORT_BITS
        fit_planes = self.nbits <= kernels.MAX_PLANE_BITS and n_items >= max(LONG, self.nbits) * n_groups
        # planes are so much faster than a scan that few items must be left
        share = 1 / 8 if fit_planes and not is_short else 1 / 2
        words, group, multiplicity = _merge_equal(self.database.T, group, share if are_many else 0)
        self.is_merged = len(multiplicity) < n_items
        n_pairs = n_queries * len(multiplicity)
        if self.is_merged and is_short:  # queries repeat as well, and are counted once
            n_pairs = round(n_pairs * _share_of_distinct(self.queries[:, 0].copy()))
        self.kernel: Callable[..., None]
        self.items: tuple[npt.NDArray[Any], ...]  # as the kernel takes them
        self.min_size: int  # of the queries of a thread
        if is_short and are_many and n_pairs >= (MERGED_PAIRS if self.is_merged else SHORT_PAIRS):
            # tables of both halves of a code, however many items there are
            bounds = bounds_of(group, n_groups)
            if not self.is_merged:
                places, words = bounds.copy(), np.empty(words.shape, dtype=np.uint64)
                kernels.sort_by_group(self.database, group, places, words)
            self.kernel, self.min_size = kernels.short_histogram, SHORT_QUERIES
            self.items = words, multiplicity, bounds
        elif fit_planes and are_many and not self.is_merged:
            # planes of the items of each target, 256 of which are compared with a query at once
            self.kernel, self.min_size = kernels.grouped_planes, PLANE_QUERIES
            self.items = kernels.blocks_by_group(self.database.view(np.uint8), group, n_groups, -(-self.nbits // 8))
        elif self.is_merged and len(words) == 1:
            # items one after the other, which are in the order of their targets, each for four queries
            self.kernel, self.min_size = kernels.grouped_words, 1
            self.items = words, multiplicity, bounds_of(group, n_groups)
        else:
            # one item after the other: for few queries, or few items of each target
            self.kernel, self.min_size = kernels.hamming_histogram, 1
            self.items = np.ascontiguousarray(words), multiplicity, group.astype(np.uint32)

    def __call__(self, chunk: slice) -> tuple[Any, ...]:
        """Counts and levels of a slice of queries."""
        table, query_group, levels = self.pairs.table(chunk)
        queries, places, repeats = self.queries[chunk], query_group, None
        if self.is_merged or self.min_size > 1:  # distinct queries, in the order of their groups: faster for tables
            first, repeats = _distinct_queries(queries, places)
            queries, places = queries[first], places[first]
        counts = np.zeros((len(places), self.nbits + 1, len(levels)), dtype=np.int64)

        def count(part: slice) -> None:
            self.kernel(queries[part], *self.items, table, places[part], counts[part])

        run_in_slices(count, len(places), min_size=self.min_size)
        counts = counts if repeats is None else counts[repeats]
        if self.pairs.exclude_self:
            own = table[query_group, self.pairs.database_group[chunk]]
            subtract_own(counts, self.queries[chunk] ^ self.database[chunk], own)
        return counts, levels


def subtract_own(counts: Integers, differing: Integers, level: Integers) -> None:
    """Remove each query, which differs from its own item in the bits of `differing`, from its counts."""
    distance = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
    counts[np.arange(len(level)), distance, level] -= 1


def _merge_equal(words: Words, group: Integers, largest_share: float) -> tuple[Words, Integers, Integers]:
    """Codes, groups and multiplicities, with items of equal code and target merged if at most this share is left."""
    n_items = words.shape[1]
    unmerged = words, group, np.ones(n_items, dtype=np.int64)
    sample = slice(None, None, -(-n_items // 16_384))  # a sample of the items
    if not largest_share or _share_of_distinct(_keys(words[:, sample], group[sample])[0]) > 0.97:
        return unmerged
    keys, code_bits = _keys(words, group)
    if code_bits is None:
        if _share_of_distinct(keys) > largest_share:
            return unmerged
        order = np.lexsort((*words, group))
        rows = np.vstack([words, group.astype(np.uint64)])[:, order]
    else:
        keys.sort()
        rows = keys[None]
    begins = np.flatnonzero(np.append(True, (rows[:, 1:] != rows[:, :-1]).any(axis=0)))
    if len(begins) > largest_share * n_items:
        return unmerged
    rows = rows[:, begins]
    if code_bits is not None:
        rows = np.vstack([rows & np.uint64(2**code_bits - 1), rows >> np.uint64(code_bits)])
    return np.ascontiguousarray(rows[:-1]), rows[-1].astype(np.int64), np.diff(begins, append=n_items)


def _distinct_queries(words: Words, group: Integers) -> tuple[Integers, Integers]:
    """Indices of the queries with distinct code and target, and for each query the index of its equal among them."""
    keys, code_bits = _keys(words.T, group)
    everything = np.arange(len(group))
    if code_bits is None:
        return everything, everything
    _, first, repeats = np.unique(keys, return_index=True, return_inverse=True)
    return first, repeats


def _keys(words: Words, group: Integers) -> tuple[npt.NDArray[np.unsignedinteger[Any]], int | None]:
    """Integer of each code and group, ascending with both, and its bits of the code; hashes and None for long codes."""
    code_bits, group_bits = int(words[0].max()).bit_length(), int(group.max()).bit_length()
    if len(words) == 1 and code_bits + group_bits < 64:
        dtype: Any = np.uint32 if code_bits + group_bits <= 32 else np.uint64  # small ones are sorted in half the time
        return (group.astype(dtype) << dtype(code_bits)) | words[0].astype(dtype), code_bits
    key = group.astype(np.uint64)
    for row in words:
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + row
    return key, None


def _share_of_distinct(keys: npt.NDArray[Any]) -> float:
    """Share of distinct integers, which are sorted in place."""
    keys.sort()
    return (1 + int(np.count_nonzero(keys[1:] != keys[:-1]))) / len(keys)


class _CountWeighted:
    """Ragged histograms of queries by weighted Hamming distance."""

    def __init__(self, queries: Weighted, database: Codes, pairs: PairLevels) -> None:
        from skhash.codes.bit_kernels import byte_tables

        self.pairs, self.bytes_per_query, weights = pairs, 64 * len(database), queries.weights[None]
        self.queries, self.database = queries.codes.words().view(np.uint8), database.words().view(np.uint8)
        self.table, self.unit = byte_tables(0 * weights, weights)[0], queries.unit

    def __call__(self, chunk: slice) -> tuple[Any, ...]:
        """Histogram of a slice of queries; an item is one integer of distance and level, and these are sorted."""
        from skhash.codes import count_kernels

        table, query_group, levels = self.pairs.table(chunk)
        queries, n_items, is_without_self = self.queries[chunk], len(self.database), self.pairs.exclude_self
        if len(levels) > 1 << LEVEL_BITS:
            return self._count_levels(chunk)
        n_queries, shift = len(query_group), (len(levels) - 1).bit_length()
        own = np.arange(chunk.start, chunk.stop) if is_without_self else np.full(n_queries, -1)
        keys = np.empty((n_queries, n_items - is_without_self), dtype=np.int64)
        n_ties = np.empty(n_queries, dtype=np.int64)

        def rank(part: slice) -> None:
            of_items = self.database, self.table, own[part], self.pairs.database_group
            count_kernels.distance_keys(queries[part], *of_items, table, query_group[part], shift, keys[part])
            keys[part].sort(axis=1)
            count_kernels.count_ties(keys[part], shift, n_ties[part])

        run_in_slices(rank, n_queries)
        indptr = np.concatenate([[0], np.cumsum(n_ties)])
        small = n_items <= np.iinfo(np.int32).max
        counts = np.zeros((indptr[-1], len(levels)), dtype=np.int32 if small else np.int64)
        distances = np.empty(indptr[-1])

        def fill(part: slice) -> None:
            count_kernels.fill_ties(keys[part], shift, self.unit, indptr[part], counts, distances)

        run_in_slices(fill, n_queries)
        return counts, levels, distances, indptr

    def _count_levels(self, chunk: slice) -> tuple[Any, ...]:
        """Histogram of a slice of queries, with more levels than fit into the integers."""
        from skhash.codes.bit_kernels import byte_table_distances

        queries = self.queries[chunk]
        distances = np.empty((len(queries), len(self.database)), dtype=np.int64)
        given = read_only(self.database), self.table
        run_in_slices(
            lambda part: byte_table_distances(read_only(queries[part]), *given, distances[part]), len(queries)
        )
        return count_distances(distances * self.unit, chunk, self.pairs)


class _CountSums:
    """Ragged histograms of sums."""

    def __init__(self, queries: Sums, database: Codes, pairs: PairLevels) -> None:
        self.queries, self.database, self.pairs = queries, database, pairs
        self.bytes_per_query, self.everything = 64 * len(database), np.arange(len(database))[None]

    def __call__(self, chunk: slice) -> tuple[Any, ...]:
        """Counts, levels, distances and `indptr` of a slice of queries."""
        distances = np.empty((chunk.stop - chunk.start, len(self.database)))

        def measure(part: slice) -> None:
            distances[part] = self._distances(slice(chunk.start + part.start, chunk.start + part.stop))

        run_in_slices(measure, len(distances))
        return count_distances(distances, chunk, self.pairs)

    def _distances(self, chosen: slice) -> npt.NDArray[Any]:
        """Distances of some queries from all items."""
        queries = self.queries[chosen]
        return np.asarray(queries.to_items(self.database.blocks(), self.everything) * queries.units)


class _CountShortlisted(_CountSums):
    """Ragged histograms of real queries that order the first items by code."""

    def __init__(self, queries: Shortlisted, database: Codes, pairs: PairLevels) -> None:
        super().__init__(queries.real, database, pairs)
        self.by_code = queries.by_code
        self.n_first = queries.n_first + pairs.exclude_self  # since a query finds itself

    def _distances(self, chosen: slice) -> npt.NDArray[Any]:
        """Distances of some queries from the first items, and larger numbers in the order of the others."""
        if self.n_first >= len(self.database):
            return super()._distances(chosen)
        by_code, blocks = self.by_code[chosen], self.database.blocks()
        nearest = by_code.scan(blocks, 0, len(blocks.masks), self.n_first)
        own = np.arange(chosen.start, chosen.stop)
        shortlist = (
            without_self(nearest, nearest.indices == own[:, None]) if self.pairs.exclude_self else nearest
        ).indices
        first = self.queries[chosen].to_items(blocks, shortlist)
        differing = self.database.words() ^ by_code.codes.words()[:, None]
        rest = 2.0 + np.bitwise_count(differing).sum(axis=-1)  # after any distance of a real query
        distances = rest * np.abs(first).max(axis=1, keepdims=True).clip(1)
        np.put_along_axis(distances, shortlist, first.astype(float), axis=1)
        return np.asarray(distances)


class _CountGroups:
    """Histograms of queries by distances from groups: dense ones of bits, if each query is one vector, or ragged."""

    def __init__(
        self, queries: SeveralVectors, database: GroupedCodes, pairs: PairLevels, n_distances: int | None
    ) -> None:
        self.queries, self.database, self.pairs = queries, database, pairs
        self.n_distances = n_distances  # of a dense histogram
        self.bytes_per_query = queries.bytes_per_query(database)

    def __call__(self, chunk: slice) -> tuple[Any, ...]:
        """Arrays of the relevance histogram of a slice of queries."""
        distances = self.queries[chunk].to_groups(self.database)
        counts, levels, of_ties, indptr = count_distances(distances, chunk, self.pairs)
        if self.n_distances is None:
            return counts, levels, of_ties, indptr
        dense = np.zeros((len(distances), self.n_distances, len(levels)), np.int64)
        dense[np.repeat(np.arange(len(distances)), np.diff(indptr)), of_ties.astype(np.int64)] = counts
        return dense, levels


def count_distances(distances: npt.NDArray[Any], queries: slice, pairs: PairLevels) -> tuple[Any, ...]:
    """Counts, levels, distances and `indptr` of a slice of queries, by distances of shape (n_queries, n_items)."""
    table, query_group, levels = pairs.table(queries)
    if pairs.exclude_self:
        distances = distances.copy()
        distances[np.arange(len(distances)), np.arange(queries.start, queries.stop)] = np.inf
    level_index = table[query_group][:, pairs.database_group]
    order = np.argsort(distances, axis=1)
    distances = np.take_along_axis(distances, order, axis=1)
    level_index = np.take_along_axis(level_index, order, axis=1)
    kept = np.isfinite(distances)
    begins = kept.copy()
    begins[:, 1:] &= distances[:, 1:] != distances[:, :-1]
    tie = np.cumsum(begins.ravel())[kept.ravel()] - 1
    n_ties, n_levels = int(begins.sum()), len(levels)
    cell = tie * n_levels + level_index[kept]
    counts = np.bincount(cell, minlength=n_ties * n_levels).reshape(n_ties, n_levels)
    indptr = np.concatenate([[0], np.cumsum(begins.sum(axis=1))])
    return counts, levels, distances[begins], indptr
