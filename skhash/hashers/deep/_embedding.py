"""The objective of EmbeddingHasher, and the recall of held-out queries. See the equations in embedding.py."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import gen_batches
from torch.nn.functional import linear

from skhash._validation import evenly_spaced
from skhash.encoding import ENCODE_BATCH_SIZE
from skhash.engine import Objective
from skhash.engine.data import ArraySubset
from skhash.hashers.deep._early_stopping import BestEpoch
from skhash.hashers.deep._initial_maps import compute_activations
from skhash.hashers.deep._objectives import sign
from skhash.hashers.deep.query_encoder import ItemTerms, QueryEncoder, QueryScores, neighbor_loss

N_NEIGHBORS = 10


N_MAX_QUERIES = 500


N_MAX_ITEMS = 20_000


class HeldOutQueries(BestEpoch):
    """Recall of the nearest neighbors of held-out queries among samples, `others`, or some of these, `rows`.

    Held-out samples are items in training, but no queries. `given` queries replace as many of them. `items` holds the
    terms of `rows` if training does not change them.
    """

    def __init__(
        self,
        X: Any,
        indices: npt.NDArray[np.int64],
        scores: QueryScores,
        n_iter_no_change: int,
        every: int = 1,
        given: npt.NDArray[np.floating] | None = None,
    ) -> None:
        n_given = 0 if given is None else len(given)
        super().__init__(X, None, max(len(indices), n_given), n_iter_no_change)
        self.indices, self.given, self.scores, self.every = indices, given, scores, every
        self.own = indices[evenly_spaced(len(indices), self.n_queries - n_given)]
        self.others = np.setdiff1d(np.arange(len(X)), indices)
        self.rows = self.others[evenly_spaced(len(self.others), N_MAX_ITEMS)]
        self.items: ItemTerms | None = None
        self.itq: float | None = None  # recall of ITQ by Hamming distance
        self._neighbors: torch.Tensor | None = None

    def improves(self, encoder: Any, entry: dict[str, Any]) -> bool:
        """Add the recall to the entry of an epoch that is measured; return whether it is the best so far."""
        return entry["epoch"] % self.every == 0 and super().improves(encoder, entry)

    def measure(self, encoder: QueryEncoder) -> float:
        """Share of the nearest neighbors that are among the best items of the real queries, mean over the queries."""
        return self._recall_of_queries(encoder, self._terms(encoder))

    def recalls(self, encoder: QueryEncoder) -> tuple[float, float]:
        """Recall of the real queries, and that of their codes by Hamming distance; means with those of prefixes."""
        terms = self._terms(encoder)
        return self._recall_of_queries(encoder, terms), self._recall_of_codes(encoder, terms)

    def _terms(self, encoder: QueryEncoder) -> ItemTerms:
        return self.items or self.scores.items(encoder, ArraySubset(self.train, self.rows))

    @torch.no_grad()
    def _recall_of_queries(self, encoder: QueryEncoder, terms: ItemTerms) -> float:
        samples = self._read(encoder.eval())
        scores = (self.scores.queries(encoder, samples).cpu() @ terms.vectors.T).sub_(terms.offsets)
        others = encoder.prefix_scores(samples, terms.vectors.to(samples.device))
        return self._recall(encoder, [scores, *(values.cpu() for values in others)])

    @torch.no_grad()
    def _recall_of_codes(self, encoder: QueryEncoder, terms: ItemTerms) -> float:
        codes, others = sign(encoder(self._read(encoder.eval()))).cpu(), sign(terms.vectors)
        lengths = (codes.shape[1], *encoder.prefixes)
        return self._recall(encoder, [codes[:, :n] @ others[:, :n].T for n in lengths])

    def _recall(self, encoder: QueryEncoder, ranked: list[torch.Tensor]) -> float:
        """Mean recall of the scores of all lengths."""
        if self.n_queries == 0:
            return 0.0
        if self._neighbors is None:
            self._neighbors = self._nearest(self._similarities(encoder))
        found = [self._nearest(scores)[:, :, None] == self._neighbors[:, None] for scores in ranked]
        return sum(float(near.any(2).double().mean()) for near in found) / len(found)

    def _read(self, encoder: QueryEncoder) -> torch.Tensor:
        samples = encoder.read(self.train, self.own)
        return samples if self.given is None else torch.cat([samples, encoder.read(self.given, slice(None))])

    def _similarities(self, encoder: QueryEncoder) -> torch.Tensor:
        queries = self._read(encoder)
        parts = [
            encoder.similarities(queries, encoder.read(self.train, self.rows[batch]), self.scores.metric)
            for batch in gen_batches(len(self.rows), ENCODE_BATCH_SIZE)
        ]
        return torch.cat(parts, 1).cpu()

    def _nearest(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.topk(min(N_NEIGHBORS, scores.shape[1]), 1).indices


def choose_queries(n: int, fraction: float, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Indices of the samples to hold out, in ascending order; none of fewer than 4 samples."""
    n_queries = min(round(n * fraction), N_MAX_QUERIES)
    return np.sort(rng.permutation(n)[: n_queries if n >= 4 else 0]).astype(np.int64)


def local_batches(
    coordinates: npt.NDArray[np.floating], n_batches: int, rng: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Batches of samples that are near each other, whose sizes differ by at most one.

    A random tree splits the samples by coordinates of shape (n_samples, n_coordinates); its leaves are the batches.
    """
    n = len(coordinates)
    smaller, n_larger = divmod(n, n_batches)
    sizes = rng.permutation(np.repeat([smaller + 1, smaller], [n_larger, n_batches - n_larger]))
    parts, leaves = [(np.arange(n), sizes)], []
    while parts:
        part, sizes = parts.pop()
        if len(sizes) == 1:
            leaves.append(rng.permutation(part))
            continue
        part = part[np.argsort(coordinates[part, rng.integers(coordinates.shape[1])], kind="stable")]
        half = len(sizes) // 2
        cut = sizes[:half].sum()
        parts += [(part[:cut], sizes[:half]), (part[cut:], sizes[half:])]
    return [leaves[i] for i in rng.permutation(n_batches)]


_N_COORDINATES = 32  # of the tree that makes local batches


def are_local(n_batches: int) -> bool:
    """Whether batches should hold near items, because random ones have fewer than two of ten neighbors."""
    return n_batches > 5


class EmbeddingObjective(Objective):
    """Loss of a batch: a seventh of its items, none of them held out, are queries, which rank the others.

    Samples behind the first `n_items` are no items, but further queries.
    """

    def __init__(self, scores: QueryScores, temperature: float = 0.25, n_items: float = math.inf) -> None:
        self.scores, self.temperature, self.n_items = scores, temperature, n_items
        self.held_out = np.empty(0, np.int64)
        self.items: ItemTerms | None = None  # of all training samples, if training does not change them

    def batches(
        self, encoder: Any, X: Any, relevance: None, n_batches: int, rng: np.random.Generator
    ) -> list[npt.NDArray[np.int64]]:
        """Batches of an epoch, see :class:`skhash.engine.Objective`. Many samples have local batches."""
        if not are_local(n_batches):
            return super().batches(encoder, X, relevance, n_batches, rng)
        pairs = compute_activations(encoder, X[rng.integers(len(X), size=2 * _N_COORDINATES)], encoder.features)
        directions = torch.from_numpy(pairs[::2] - pairs[1::2]).to(encoder.mean.device)
        coordinates = compute_activations(encoder, X, lambda batch: linear(encoder.features(batch), directions))
        return local_batches(coordinates, n_batches, rng)

    def forward(self, encoder: Any, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        is_query = indices >= self.n_items
        n_given = int(np.count_nonzero(is_query))
        n_chosen = -(-(len(X) - n_given) // 7)
        is_query[np.flatnonzero(~is_query & ~np.isin(indices, self.held_out))[:n_chosen]] = True
        chosen = torch.from_numpy(is_query).to(X.device)
        queries, items = X[chosen], X[~chosen]
        similarities = encoder.similarities(queries, items, self.scores.metric)
        if self.items is None:
            vectors = sign(encoder(items))
            scores = encoder.query(queries) @ vectors.T
        else:
            vectors, offsets = (terms[indices[~is_query]].to(X.device) for terms in self.items)
            scores = self.scores.queries(encoder, queries) @ vectors.T - offsets
        ranked = [scores, *encoder.prefix_scores(queries, vectors)]
        loss: torch.Tensor = sum(neighbor_loss(similarities, values, self.temperature) for values in ranked)  # type: ignore[assignment]
        return loss / (len(ranked) * (n_chosen + n_given))
