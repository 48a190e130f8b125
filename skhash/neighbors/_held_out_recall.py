"""Recall of the nearest vectors among the first items of a search by codes, for each query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._chunks import memory_chunks
from skhash.affinity import NeighborAffinity, PrecomputedAffinity
from skhash.metrics import RetrievalScorer, neighbor_recall


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Queries and items, as hashers take them and as vectors.

    Parameters
    ----------
    queries, items : array-like of shape (n, n_features)
        Samples as the hashers take them.
    query_vectors, item_vectors : ndarray of shape (n, n_features)
        Their vectors; the nearest ones are the true neighbors.
    item_indices : int64 ndarray of shape (n_items,)
        Indices of the items among the samples.
    """

    queries: Any
    query_vectors: npt.NDArray[Any]
    items: Any
    item_vectors: npt.NDArray[Any]
    item_indices: npt.NDArray[np.int64]


class HeldOutRecall:
    """Recall of hashers on held-out queries. The nearest vectors are found once, for all hashers.

    Parameters
    ----------
    held_out : HeldOut
        Queries and items.
    k : int
        Number of nearest vectors of each query.
    metric : "euclidean", "cosine" or "inner"
        Which vectors are near.
    """

    def __init__(self, held_out: HeldOut, k: int, metric: Any) -> None:
        self.held_out, self.k = held_out, k
        self._truth = _nearest(held_out.query_vectors, held_out.item_vectors, NeighborAffinity(k, metric=metric))

    def __call__(
        self, hasher: Any, candidates: Sequence[int], query: Literal["code", "real"]
    ) -> npt.NDArray[np.float64]:
        """Recall of each query, shape (n_candidates, n_queries), in expectation over the order of ties.

        Parameters
        ----------
        hasher : estimator
            A fitted hasher, or a Pipeline that ends in one.
        candidates : sequence of int
            Numbers of items that the search returns first; the recall counts the nearest vectors among them.
        query : "code" or "real"
            What ranks the items: the codes of the queries, or their activations.
        """
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
    """Affinity of indices: those of the items come first, then those of the queries."""
    n = len(items) + len(queries)
    blocks = [sparse.csr_matrix(affinity(queries[part], items)) for part in memory_chunks(len(queries), len(items))]
    levels = sparse.vstack([sparse.csr_matrix((len(items), len(items)), dtype=np.uint8), *blocks], format="csr")
    levels.resize(n, n)
    return PrecomputedAffinity(levels)
