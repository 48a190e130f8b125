"""Exact search of a database in groups of queries and, for few queries, in shards."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash._compat import openmp_n_threads
from skhash._threads import run_in_slices
from skhash.codes._bits import memory_chunks
from skhash.codes._search import Distance, Neighbors
from skhash.neighbors.merging import merge_neighbors

QUERY_GROUP = 64  # queries that share a reading of the database (benchmarks/search.py)
MAX_CANDIDATES = 2**22  # of all queries of a group, which bounds the memory
MIN_SHARD = 2**16  # least items per thread when there are few queries (benchmarks/search.py)


def nearest(distance: Distance, database: npt.NDArray[np.uint64], k: int) -> Neighbors:
    """The k nearest items of every query, among codes of shape (n_items, n_words), with integer distances and ties."""
    n_items = len(database)
    size = max(1, min(QUERY_GROUP, MAX_CANDIDATES // k))
    groups = list(gen_batches(distance.n_queries, size))
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
