"""Exact search among codes: for queries, in groups and shards; and the stages of a search."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._compat import openmp_n_threads
from skhash._threads import run_in_slices
from skhash.codes import unpack
from skhash.codes._bits import memory_chunks
from skhash.codes._search import (
    Distance,
    Estimates,
    HammingDistance,
    Neighbors,
    real_distance,
    weighted_distance,
    without_self,
)
from skhash.neighbors.merging import merge_neighbors, smallest

QUERY_GROUP = 64  # queries that share a reading of the database (benchmarks/search.py)
MAX_CANDIDATES = 2**22  # of all queries of a group, which bounds the memory
MIN_SHARD = 2**16  # least items per thread when there are few queries (benchmarks/search.py)
FEW_WORDS = 2**20  # words that numpy compares in less time than the loading of compiled kernels takes

_has_searched = False  # this process, by Hamming distance


def nearest(distance: Distance, database: npt.NDArray[np.uint64], k: int) -> Neighbors:
    """The k nearest items of every query, among codes of shape (n_items, n_words), with integer distances and ties."""
    global _has_searched
    if isinstance(distance, HammingDistance):
        is_first, _has_searched = not _has_searched, True
        if is_first and distance.n_queries * database.size <= FEW_WORDS:
            return _nearest_by_numpy(distance, database, k)
    n_items = len(database)
    size = max(1, min(QUERY_GROUP, MAX_CANDIDATES // k))
    groups = [slice(start, min(start + size, distance.n_queries)) for start in range(0, distance.n_queries, size)]
    n_shards = max(1, min(openmp_n_threads() // len(groups), n_items // max(k, MIN_SHARD)))
    bounds = np.linspace(0, n_items, n_shards + 1).astype(np.int64)
    tasks = [(group, shard) for group in groups for shard in pairwise(bounds)]
    found: dict[int, Neighbors] = {}

    def search(chosen: slice) -> None:
        for task in range(chosen.start, chosen.stop):
            group, (first, last) = tasks[task]
            found[task] = distance.nearest(group, database, first, last, k)

    run_in_slices(search, len(tasks))
    parts = [[found[first + shard] for shard in range(n_shards)] for first in range(0, len(tasks), n_shards)]
    merged = [_merge_with_ties(shards, k) for shards in parts]
    return Neighbors(*(np.concatenate(arrays) for arrays in zip(*merged, strict=True)))


def _nearest_by_numpy(distance: HammingDistance, database: npt.NDArray[np.uint64], k: int) -> Neighbors:
    """The same without compiled kernels: a process that asks once, such as a command, does not wait for numba."""
    distances = distance.to_items(slice(0, distance.n_queries), database, np.arange(len(database))[None])
    indices = np.argsort(distances, axis=1, kind="stable")[:, :k]
    nearest = np.take_along_axis(distances, indices, axis=1)
    return Neighbors(nearest, indices, (distances == nearest[:, -1:]).sum(axis=1))


def within(
    distance: Distance, database: npt.NDArray[np.uint64], radius: float
) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
    """Distances and indices of all items up to a real distance from each query, ascending by index."""
    distances, indices = [], []
    everything = np.arange(len(database))[None]
    for query in range(distance.n_queries):
        part = slice(query, query + 1)
        chunks = [distance.to_items(part, database, everything[:, c])[0] for c in memory_chunks(len(database), 64)]
        real = np.concatenate(chunks) * distance.units[query]
        indices.append(np.flatnonzero(real <= radius))
        distances.append(real[indices[-1]])
    return distances, indices


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


@dataclass(frozen=True)
class Stages:
    """Search for the nearest items of some queries, in stages."""

    items: npt.NDArray[np.uint64]  # codes of shape (n_items, n_words)
    item_vectors: Any  # ItemVectors or None
    codes: npt.NDArray[np.uint64] | None  # of the queries, of shape (n_queries, n_words); None if no stage needs them
    activations: npt.NDArray[np.floating] | None  # real queries of shape (n_queries, nbits)
    vectors: Any  # of the queries, of shape (n_queries, n_dimensions); None if the queries are the items
    bit_weights: npt.NDArray[np.float64] | None
    nbits: int
    candidates: int | None  # length of the shortlist; None for all items
    metric: str | None  # the distance of vectors, if the last stage re-ranks
    excludes_self: bool  # whether the queries are the items, each of which is not its own neighbor
    estimates: Estimates | None = None  # turn scores of real queries into distances
    approximate: Any = None  # ApproximateIndex in place of the exact search by Hamming distance, or None

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self._codes if self.activations is None else self.activations)

    @property
    def _codes(self) -> npt.NDArray[np.uint64]:
        """Codes of the queries for a stage that needs them."""
        return np.asarray(self.codes)

    @property
    def is_shortlisted(self) -> bool:
        """Whether the last stage ranks a shortlist and not all items."""
        return self.metric is not None or (self.activations is not None and self.candidates is not None)

    def nearest(self, k: int) -> Neighbors:
        """The k nearest items by the last stage, in real distances; `n_ties` is 0 for a shortlist."""
        if not self.is_shortlisted:
            return self._ranked(self._hamming() if self.activations is None else self._real(), k)
        n_others = len(self.items) - self.excludes_self
        n_candidates = n_others if self.candidates is None else min(self.candidates, n_others)
        if n_candidates < k:
            raise ValueError(f"`candidates` must be at least n_neighbors={k}. Got {self.candidates} instead.")
        by_code = self.activations is None or self.metric is None
        first = self._hamming() if by_code else self._real()
        shortlist = np.sort(self._ranked(first, n_candidates).indices, axis=1)
        return Neighbors(*smallest(self._last_distances(shortlist), shortlist, k), np.zeros(self.n_queries, np.int64))

    def within(
        self, radius: float, sort_results: bool
    ) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
        """All items within a Hamming distance, by position or by distance."""
        if self.approximate is not None:
            distances, positions = self.approximate.within(self._codes, radius)
        else:
            distances, positions = within(self._hamming(), self.items, radius)
        for query, (d, found) in enumerate(zip(distances, positions, strict=True)):
            kept = found != query if self.excludes_self else np.ones(len(found), dtype=bool)
            order = np.argsort(d[kept], kind="stable") if sort_results else slice(None)
            distances[query], positions[query] = d[kept][order], found[kept][order]
        return distances, positions

    def _hamming(self) -> Distance:
        if self.bit_weights is None:
            return HammingDistance(self._codes)
        packed = self._codes.view(np.uint8)[:, : -(-self.nbits // 8)]
        return weighted_distance(unpack(packed, self.nbits), self.bit_weights)

    def _real(self) -> Distance:
        return real_distance(np.asarray(self.activations), self.estimates)

    def _ranked(self, distance: Distance, k: int) -> Neighbors:
        """The k nearest items of a stage that ranks all of them, in real distances."""
        if self.approximate is not None and isinstance(distance, HammingDistance):
            found = self.approximate.nearest(distance.queries, k + self.excludes_self)
        else:
            found = nearest(distance, self.items, k + self.excludes_self)
        if self.excludes_self:
            found = without_self(found)
        return Neighbors(found.distances * distance.units, found.indices, found.n_ties)

    def _last_distances(self, shortlist: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Distances of the last stage, of the shape of `shortlist`."""
        if self.metric is None:
            return real_distances(np.asarray(self.activations), self.estimates, self.items, shortlist)
        distances = np.empty(shortlist.shape)
        for query, chosen in enumerate(shortlist):  # one query at a time, so that little of a memmap is in memory
            vector = self.item_vectors.at(np.array([query]))[0] if self.excludes_self else self.vectors[query]
            distances[query] = vector_distances(vector, self.item_vectors.at(chosen), self.metric)
            if np.isnan(distances[query]).any():
                position = chosen[np.isnan(distances[query])][0]
                raise ValueError(
                    "Original vectors must be finite. Got NaN as the distance of the item at position "
                    f"{position} of the index from query {query} of X. Replace missing values by numbers."
                )
        return distances


def real_distances(
    activations: npt.NDArray[np.floating],
    estimates: Estimates | None,
    items: npt.NDArray[np.uint64],
    shortlist: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    """Distances of real queries from the items at the positions in `shortlist`, of its shape (n_queries, n)."""
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
        return np.asarray(np.sqrt(np.square(x - q).sum(axis=1)))
    lengths = np.sqrt(np.vecdot(x, x)) * np.sqrt(np.vecdot(q, q))
    cosines = np.divide(np.vecdot(x, q), lengths, out=np.zeros(len(x)), where=lengths != 0)
    return np.asarray(1 - cosines.clip(-1, 1))  # rounding can exceed 1, and scikit-learn refuses negative distances
