"""Early stopping of hashers that learn to keep neighbors: held-out queries decide which epoch is kept."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import gen_batches

from skhash._encoding import ENCODE_BATCH_SIZE
from skhash.hashers.deep._early_stopping import BestEpoch
from skhash.hashers.deep._query_encoder import QueryEncoder
from skhash.hashers.deep._query_scores import ItemTerms, QueryScores

N_NEIGHBORS = 10
N_MAX_QUERIES = 500


class HeldOutQueries(BestEpoch):
    """Recall of the nearest neighbors of held-out samples, which are real queries against all other samples.

    Held-out samples stay items, but training takes no query from them. `items` holds the terms of all items if training
    does not change them.
    """

    def __init__(
        self,
        X: Any,
        targets: Any,
        indices: npt.NDArray[np.int64],
        scores: QueryScores,
        n_iter_no_change: int,
        every: int = 1,
    ) -> None:
        super().__init__(X, targets, len(indices), n_iter_no_change)
        self.indices, self.scores, self.every = indices, scores, every
        self.items: ItemTerms | None = None
        self._neighbors: torch.Tensor | None = None

    def improves(self, encoder: Any, entry: dict[str, Any]) -> bool:
        """Add the recall to the entry of an epoch that is measured; return whether it is the best so far."""
        return entry["epoch"] % self.every == 0 and super().improves(encoder, entry)

    @torch.no_grad()
    def measure(self, encoder: QueryEncoder) -> float:
        """Share of the nearest neighbors that are among the nearest codes, mean over the held-out queries."""
        if len(self.indices) == 0:
            return 0.0
        if self._neighbors is None:
            self._neighbors = self._nearest(self._similarities(encoder))
        vectors, offsets = self.scores.items(encoder, self.train) if self.items is None else self.items
        queries = self.scores.queries(encoder, encoder.read(self.train, self.indices)).cpu()
        found = self._nearest(queries @ vectors.T - offsets)
        return float((found[:, :, None] == self._neighbors[:, None]).any(2).double().mean())

    def _similarities(self, encoder: QueryEncoder) -> torch.Tensor:
        queries = encoder.read(self.train, self.indices)
        parts = [
            encoder.similarities(queries, encoder.read(self.train, batch), self.scores.metric)
            for batch in gen_batches(len(self.train), ENCODE_BATCH_SIZE)
        ]
        return torch.cat(parts, 1).cpu()

    def _nearest(self, scores: torch.Tensor) -> torch.Tensor:
        """Indices of the nearest items of each held-out sample, without itself."""
        scores[torch.arange(len(scores)), torch.from_numpy(self.indices)] = -math.inf
        return scores.topk(min(N_NEIGHBORS, scores.shape[1] - 1), 1).indices


def choose_queries(n: int, fraction: float, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Indices of the samples to hold out, in ascending order; none of fewer than 4 samples."""
    n_queries = min(round(n * fraction), N_MAX_QUERIES)
    return np.sort(rng.permutation(n)[: n_queries if n >= 4 else 0]).astype(np.int64)
