"""Recall of the nearest vectors among the first items of a search by codes, for each query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash.affinity import NeighborAffinity, PrecomputedAffinity
from skhash.codes._bits import memory_chunks
from skhash.metrics import RetrievalScorer, neighbor_recall


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Queries and items, as samples for the hashers and as vectors, whose nearest ones are the true neighbors."""

    queries: Any
    query_vectors: npt.NDArray[Any]  # of shape (n_queries, n_features)
    items: Any
    item_vectors: npt.NDArray[Any]  # of shape (n_items, n_features)
    item_indices: npt.NDArray[np.int64]  # of the items among the samples


class HeldOutRecall:
    """Recall of hashers on held-out queries, whose k nearest vectors are found once for all hashers."""

    def __init__(self, held_out: HeldOut, k: int, metric: Any) -> None:
        self.held_out, self.k = held_out, k
        self._truth = _nearest(held_out.query_vectors, held_out.item_vectors, NeighborAffinity(k, metric=metric))

    def __call__(
        self, hasher: Any, candidates: Sequence[int], query: Literal["code", "real"]
    ) -> npt.NDArray[np.float64]:
        """Recall of each query, of shape (n_candidates, n_queries), in expectation over the order of ties."""
        data, n_items = self.held_out, len(self.held_out.item_vectors)
        database = data.items, data.item_vectors
        scorer = RetrievalScorer(f"neighbor_recall_at_{self.k}", database=database, query=query)
        ranking = replace(
            scorer.ranking(hasher, data.queries, data.query_vectors),
            query_y=np.arange(n_items, n_items + len(data.query_vectors)),
            database_y=np.arange(n_items),
            affinity=self._truth,
        )
        parts = [
            [neighbor_recall(H, self.k, candidates=n, average=False) for n in candidates]
            for H in (histogram.by_ranks() for histogram in ranking.histograms())
        ]
        return np.concatenate(parts, axis=1)


def _nearest(queries: npt.NDArray[Any], items: npt.NDArray[Any], affinity: NeighborAffinity) -> PrecomputedAffinity:
    """Affinity of indices, in which the items come first and then the queries."""
    n = len(items) + len(queries)
    blocks = [sparse.csr_matrix(affinity(queries[part], items)) for part in memory_chunks(len(queries), len(items))]
    levels = sparse.vstack([sparse.csr_matrix((len(items), len(items)), dtype=np.uint8), *blocks], format="csr")
    levels.resize(n, n)
    return PrecomputedAffinity(levels)
