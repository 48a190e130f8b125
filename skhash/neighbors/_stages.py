"""The stages of a search: Hamming distances, real queries, original vectors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
from skhash.neighbors._approximate import ApproximateIndex
from skhash.neighbors._checks import smallest
from skhash.neighbors._search import nearest, within


@dataclass(frozen=True)
class Stages:
    """Search for the nearest items of some queries, in stages."""

    items: npt.NDArray[np.uint64]  # codes of shape (n_items, n_words)
    item_vectors: Any  # ItemVectors or None
    codes: npt.NDArray[np.uint64]  # of the queries, of shape (n_queries, n_words)
    activations: npt.NDArray[np.floating] | None  # real queries of shape (n_queries, nbits)
    vectors: Any  # of the queries, of shape (n_queries, n_dimensions); None if the queries are the items
    bit_weights: npt.NDArray[np.float64] | None
    nbits: int
    candidates: int | None  # length of the shortlist; None for all items
    metric: str | None  # the distance of vectors, if the last stage re-ranks
    excludes_self: bool  # whether the queries are the items, each of which is not its own neighbor
    estimates: Estimates | None = None  # turn scores of real queries into distances
    approximate: ApproximateIndex | None = None  # in place of the exact search by Hamming distance

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
        return Neighbors(*smallest(self._last_distances(shortlist), shortlist, k), np.zeros(len(self.codes), np.int64))

    def within(
        self, radius: float, sort_results: bool
    ) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
        """All items within a Hamming distance, by position or by distance."""
        if self.approximate is not None:
            distances, positions = self.approximate.within(self.codes, radius)
        else:
            distances, positions = within(self._hamming(), self.items, radius)
        for query, (d, found) in enumerate(zip(distances, positions, strict=True)):
            kept = found != query if self.excludes_self else np.ones(len(found), dtype=bool)
            order = np.argsort(d[kept], kind="stable") if sort_results else slice(None)
            distances[query], positions[query] = d[kept][order], found[kept][order]
        return distances, positions

    def _hamming(self) -> Distance:
        if self.bit_weights is None:
            return HammingDistance(self.codes)
        packed = self.codes.view(np.uint8)[:, : -(-self.nbits // 8)]
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
        distances = np.empty(shortlist.shape)
        if self.metric is not None:
            for query, chosen in enumerate(shortlist):  # one query at a time, so that little of a memmap is in memory
                vector = self.item_vectors.at(np.array([query]))[0] if self.excludes_self else self.vectors[query]
                distances[query] = _vector_distances(vector, self.item_vectors.at(chosen), self.metric)
                if np.isnan(distances[query]).any():
                    position = chosen[np.isnan(distances[query])][0]
                    raise ValueError(
                        "Original vectors must be finite. Got NaN as the distance of the item at position "
                        f"{position} of the index from query {query} of X. Replace missing values by numbers."
                    )
            return distances
        real = self._real()
        for part in memory_chunks(len(shortlist), 32 * self.nbits):
            distances[part] = real.to_items(part, self.items, shortlist[part])
        return distances * real.units


def _vector_distances(query: Any, items: Any, metric: str) -> npt.NDArray[np.float64]:
    """Distances of one vector from several, in float64."""
    q, x = np.asarray(query, dtype=np.float64), np.asarray(items, dtype=np.float64)
    if metric == "inner":
        return np.asarray(-(x @ q))
    if metric == "euclidean":
        return np.asarray(np.sqrt(np.square(x - q).sum(axis=1)))
    lengths = np.sqrt(np.square(x).sum(axis=1)) * np.sqrt(np.square(q).sum())
    cosines = np.divide(x @ q, lengths, out=np.zeros(len(x)), where=lengths != 0)
    return np.asarray(1 - cosines.clip(-1, 1))  # rounding can exceed 1, and scikit-learn refuses negative distances
