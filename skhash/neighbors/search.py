"""Exact search among codes: for queries, in groups and shards; and the stages of a search."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._threads import free_threads, run_in_slices
from skhash.codes.bits import memory_chunks
from skhash.codes.blocks import LANES, CodeBlocks, words_of
from skhash.codes.codes import Codes
from skhash.codes.distances import (
    Distance,
    EstimatedDistance,
    Estimates,
    HammingDistance,
    Neighbors,
    copied_codes,
    real_distance,
    weighted_distance,
    without_self,
)
from skhash.neighbors.merging import merge_neighbors, smallest

QUERY_GROUP = 128  # queries that share a reading of the database (benchmarks/search.py)
MAX_CANDIDATES = 2**22  # of all queries of a group, which bounds the memory
MIN_SHARD = 2**23  # least bytes of codes per thread, once for each query: to start threads takes as long as half of it
FEW_BYTES = 2**23  # of codes that numpy compares in less time than the loading of compiled kernels takes

_has_searched = False  # this process, by Hamming distance


def nearest(distance: Distance, items: CodeBlocks, k: int) -> Neighbors:
    """The k nearest items of every query, by place, with integer distances and ties."""
    global _has_searched
    if not _has_searched and isinstance(distance, HammingDistance):
        _has_searched = True
        if "numba" not in sys.modules and distance.n_queries * items.blocks.nbytes <= FEW_BYTES:
            return _nearest_by_numpy(distance, items, k)
    n_blocks = len(items.masks)
    size = max(1, min(QUERY_GROUP, MAX_CANDIDATES // k))
    n_groups, n_shards = -(-distance.n_queries // size), items.blocks.nbytes * distance.n_queries // MIN_SHARD
    if n_groups > 1 or n_shards > 1:
        n_shards = max(1, min(free_threads() // n_groups, n_shards, n_blocks // (k // LANES + 1)))
    if n_groups == 1 and n_shards <= 1:
        return distance.nearest(slice(0, distance.n_queries), items, 0, n_blocks, k)
    groups = [slice(start, min(start + size, distance.n_queries)) for start in range(0, distance.n_queries, size)]
    bounds = np.linspace(0, n_blocks, n_shards + 1).astype(np.int64)
    tasks = [(group, shard) for group in groups for shard in pairwise(bounds)]
    found: dict[int, Neighbors] = {}

    def search(chosen: slice) -> None:
        for task in range(chosen.start, chosen.stop):
            group, (first, last) = tasks[task]
            found[task] = distance.nearest(group, items, first, last, k)

    run_in_slices(search, len(tasks))
    parts = [[found[first + shard] for shard in range(n_shards)] for first in range(0, len(tasks), n_shards)]
    merged = [_merge_with_ties(shards, k) for shards in parts]
    return Neighbors(*(np.concatenate(arrays) for arrays in zip(*merged, strict=True)))


def _nearest_by_numpy(distance: HammingDistance, items: CodeBlocks, k: int) -> Neighbors:
    """The same without compiled kernels: a process that asks once, such as a command, does not wait for numba."""
    places, differing = items.places(), items.words() ^ words_of(distance.queries)[:, None]
    distances = np.bitwise_count(differing).sum(axis=-1, dtype=np.float64)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    nearest = np.take_along_axis(distances, order, axis=1)
    return Neighbors(nearest, places[order], (distances == nearest[:, -1:]).sum(axis=1))


def radius_search(
    distance: Distance, items: CodeBlocks, radius: float
) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
    """Distances and places of all items up to a real distance from each query, ascending by place."""
    distances: list[Any] = [None] * distance.n_queries
    places: list[Any] = [None] * distance.n_queries

    def search(chosen: slice) -> None:
        for query in range(chosen.start, chosen.stop):
            if isinstance(distance, HammingDistance):
                distances[query], places[query] = distance.radius_search(query, items, radius)
            else:
                real, every = _all_distances(distance, query, items)
                distances[query], places[query] = real[real <= radius], every[real <= radius]

    run_in_slices(search, distance.n_queries)
    return distances, places


def _codes_among(
    distance: Distance, items: CodeBlocks, chosen: npt.NDArray[np.int64]
) -> tuple[Distance, CodeBlocks, npt.NDArray[np.int64] | None]:
    """A distance and codes to search among the items at some places, and these places if the codes are copies of few.

    A scan skips blocks without a chosen item. To copy the codes takes as long as one query does where one item in 64 is
    chosen, so that few blocks are skipped (benchmarks/search.py). The copy of more pays off for many queries.
    """
    if 8 * LANES * len(chosen) > items.n_places * max(8, distance.n_queries):
        return distance, items.among(chosen), None
    if isinstance(distance, EstimatedDistance):
        distance = EstimatedDistance(distance.scores, distance.estimates.at(chosen))
    return distance, copied_codes(items, chosen), chosen


def _all_distances(
    distance: Distance, query: int, items: CodeBlocks
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Real distances of one query from all items, and their places."""
    places, part = items.places(), slice(query, query + 1)
    chunks = [distance.to_items(part, items, places[None, chunk])[0] for chunk in memory_chunks(len(places), 64)]
    return np.concatenate(chunks) * distance.units[query], places


def _merge_with_ties(shards: Sequence[Neighbors], n_neighbors: int) -> Neighbors:
    """Nearest items of all shards, with the number of items that tie with the last one."""
    if len(shards) == 1:
        return shards[0]
    distances, indices = merge_neighbors([(shard.distances, shard.indices) for shard in shards], n_neighbors)
    n_ties = np.zeros(len(distances), dtype=np.int64)
    for shard in shards:
        listed = (shard.distances == distances[:, -1:]).sum(axis=1)
        n_ties += np.where(shard.distances[:, -1] == distances[:, -1], shard.n_ties, listed)
    return Neighbors(distances, indices, n_ties)


@dataclass  # not frozen, which takes longer than a search among few items
class SearchPlan:
    """Stages of a search for the nearest items of some queries, and what each of them needs."""

    items: CodeBlocks
    item_vectors: Any  # ItemVectors or None
    codes: Codes | None  # of the queries; None if no stage needs them
    activations: npt.NDArray[np.floating] | None  # real queries of shape (n_queries, nbits)
    vectors: Any  # of the queries, of shape (n_queries, n_dimensions); None if the queries are the items
    bit_weights: npt.NDArray[np.float64] | None
    candidates: int | None  # length of the shortlist; None for all items
    metric: str | None  # the distance of vectors, if the last stage re-ranks
    own_places: npt.NDArray[np.int64] | None  # of queries that are the items, each of which is not its own neighbor
    estimates: Estimates | None = None  # turn scores of real queries into distances
    by_code: Any = None  # ApproximateIndex or DeviceCodes in place of the compiled search by Hamming distance, or None
    chosen: Any = None  # ascending places of the items to search among, or a list of those of each query; None is all
    first_query: int = 0  # number of the first query, for messages

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self._rows if self.activations is None else self.activations)

    @property
    def _rows(self) -> npt.NDArray[np.uint8]:
        """Packed codes of the queries for a stage that needs them."""
        return self.codes.rows  # type: ignore[union-attr]

    @property
    def excludes_self(self) -> bool:
        """Whether the queries are the items, each of which is not its own neighbor."""
        return self.own_places is not None

    @property
    def n_items(self) -> int:
        """Number of items to search among; that of all if it differs between queries."""
        return self.items.n_items if self.chosen is None or isinstance(self.chosen, list) else len(self.chosen)

    @property
    def is_shortlisted(self) -> bool:
        """Whether the last stage ranks a shortlist and not all items."""
        return self.metric is not None or (self.activations is not None and self.candidates is not None)

    def nearest(self, k: int) -> Neighbors:
        """The k nearest items by the last stage, in real distances; `n_ties` is 0 for a shortlist.

        A query that has fewer items to search among has distances of infinity and places of -1 at the end.
        """
        if isinstance(self.chosen, list):
            return self._nearest_of_each(k)
        if not self.is_shortlisted:
            return self._ranked(self._hamming() if self.activations is None else self._real(), k)
        n_others = self.n_items - self.excludes_self
        n_candidates = n_others if self.candidates is None else min(self.candidates, n_others)
        if n_candidates < k:
            raise ValueError(f"`candidates` must be at least n_neighbors={k}. Got {self.candidates} instead.")
        by_code = self.activations is None or self.metric is None
        first = self._hamming() if by_code else self._real()
        shortlist = np.sort(self._ranked(first, n_candidates).indices, axis=1)
        return Neighbors(*smallest(self._last_distances(shortlist), shortlist, k), np.zeros(self.n_queries, np.int64))

    def radius_search(
        self, radius: float, sort_results: bool
    ) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
        """All items within a Hamming distance, by place or by distance."""
        if isinstance(self.chosen, list):
            found = [self._alone(query).radius_search(radius, sort_results) for query in range(self.n_queries)]
            return [near for (near,), _ in found], [at for _, (at,) in found]
        if self.by_code is not None:
            distances, places = self.by_code.radius_search(self._rows, radius)
        elif self.chosen is not None and not self.n_items:
            return [np.empty(0)] * self.n_queries, [np.empty(0, np.int64)] * self.n_queries
        elif self.chosen is not None:
            distance, items, copied = _codes_among(self._hamming(), self.items, self.chosen)
            distances, places = radius_search(distance, items, radius)
            places = places if copied is None else [copied[at] for at in places]
        else:
            distances, places = radius_search(self._hamming(), self.items, radius)
        for query, (d, found) in enumerate(zip(distances, places, strict=True)):
            if self.own_places is not None:
                d, found = d[found != self.own_places[query]], found[found != self.own_places[query]]
            order = np.argsort(d, kind="stable") if sort_results else slice(None)
            distances[query], places[query] = d[order], found[order]
        return distances, places

    def _alone(self, query: int) -> "SearchPlan":
        """The search for one query among its own items, without itself."""
        part, chosen, vectors = slice(query, query + 1), self.chosen[query], self.vectors
        if self.own_places is not None:
            chosen = chosen[chosen != self.own_places[query]]
            vectors = None if self.metric is None else self.item_vectors.at(self.own_places[part])
        elif vectors is not None:
            vectors = vectors[part]
        return replace(
            self,
            codes=None if self.codes is None else self.codes[part],
            activations=None if self.activations is None else self.activations[part],
            vectors=vectors,
            own_places=None,
            estimates=self.estimates and self.estimates._replace(constants=self.estimates.constants[part]),
            chosen=chosen,
            first_query=query,
        )

    def _nearest_of_each(self, k: int) -> Neighbors:
        """The nearest items of each query among its own."""
        shape = self.n_queries, k
        every = Neighbors(np.full(shape, np.inf), np.full(shape, -1), np.zeros(self.n_queries, np.int64))
        for query in range(self.n_queries):
            alone = self._alone(query)
            if n := min(k, alone.n_items):
                found = alone.nearest(n)
                every.distances[query, :n], every.indices[query, :n] = found.distances[0], found.indices[0]
                every.n_ties[query] = found.n_ties[0]
        return every

    def _hamming(self) -> Distance:
        if self.bit_weights is None:
            return HammingDistance(self._rows)
        return weighted_distance(self.codes.bits(), self.bit_weights)  # type: ignore[union-attr]

    def _real(self) -> Distance:
        return real_distance(np.asarray(self.activations), self.estimates)

    def _ranked(self, distance: Distance, k: int) -> Neighbors:
        """The k nearest items of a stage that ranks all of them, in real distances."""
        found: Neighbors
        if self.by_code is not None and isinstance(distance, HammingDistance):
            found = self.by_code.nearest(distance.queries, k + self.excludes_self)
        elif self.chosen is not None:
            part, items, copied = _codes_among(distance, self.items, self.chosen)
            found = nearest(part, items, k + self.excludes_self)
            found = found if copied is None else found._replace(indices=copied[found.indices])
        else:
            found = nearest(distance, self.items, k + self.excludes_self)
        if self.own_places is not None:
            searched = None if self.chosen is None else np.isin(self.own_places, self.chosen)
            found = without_self(found, self.own_places, searched)
        if isinstance(distance, HammingDistance):
            return found
        return Neighbors(found.distances * distance.units, found.indices, found.n_ties)

    def _last_distances(self, shortlist: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Distances of the last stage, of the shape of `shortlist`."""
        if self.metric is None:
            return real_distances(np.asarray(self.activations), self.estimates, self.items, shortlist)
        distances = np.empty(shortlist.shape)
        for query, chosen in enumerate(shortlist):  # one query at a time, so that little of a memmap is in memory
            own = self.own_places
            vector = self.vectors[query] if own is None else self.item_vectors.at(own[query : query + 1])[0]
            distances[query] = vector_distances(vector, self.item_vectors.at(chosen), self.metric)
            if np.isnan(distances[query]).any():
                position = self.items.positions(chosen[np.isnan(distances[query])])[0]
                raise ValueError(
                    "Original vectors must be finite. Got NaN as the distance of the item at position "
                    f"{position} of the index from query {self.first_query + query} of X. "
                    "Replace missing values by numbers."
                )
        return distances


def real_distances(
    activations: npt.NDArray[np.floating],
    estimates: Estimates | None,
    items: CodeBlocks,
    shortlist: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    """Distances of real queries from the items at the places in `shortlist`, of its shape (n_queries, n)."""
    real = real_distance(activations, estimates)
    distances = np.empty(shortlist.shape)
    for part in memory_chunks(len(shortlist), 32 * activations.shape[1]):
        distances[part] = real.to_items(part, items, shortlist[part])
    return distances * real.units


def vector_distances(query: Any, items: Any, metric: str) -> npt.NDArray[np.float64]:
    """Distances of one vector from several, in float64; equal vectors have equal distances, as in no matrix product."""
    q, x = np.asarray(query, dtype=np.float64), np.asarray(items, dtype=np.float64)
    if metric == "inner":
        return np.asarray(-np.vecdot(x, q))
    if metric == "euclidean":
        x = x - q
        return np.asarray(np.sqrt(np.vecdot(x, x)))
    lengths = np.sqrt(np.vecdot(x, x)) * np.sqrt(np.vecdot(q, q))
    cosines = np.divide(np.vecdot(x, q), lengths, out=np.zeros(len(x)), where=lengths != 0)
    return np.asarray(1 - cosines.clip(-1, 1))  # rounding can exceed 1, and scikit-learn refuses negative distances
