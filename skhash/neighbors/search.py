"""The stages of a search, and distances of original vectors."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.codes.bits import memory_chunks
from skhash.codes.blocks import CodeBlocks
from skhash.codes.codes import Codes
from skhash.codes.queries import Bits, Estimates, Neighbors, Queries, Real, Weighted, without_self
from skhash.neighbors.merging import smallest


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
        if k > self.n_items - self.excludes_self:  # a filter of few items
            return replace(self, chosen=[self.chosen] * self.n_queries)._nearest_of_each(k)
        if not self.is_shortlisted:
            return self._ranked(self._of_bits() if self.activations is None else self._real(), k)
        n_others = self.n_items - self.excludes_self
        n_candidates = n_others if self.candidates is None else min(self.candidates, n_others)
        if n_candidates < k:
            raise ValueError(f"`candidates` must be at least n_neighbors={k}. Got {self.candidates} instead.")
        by_code = self.activations is None or self.metric is None
        first = self._of_bits() if by_code else self._real()
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
            distances, places = self._of_bits().within(self.items, radius, self.chosen)
        else:
            distances, places = self._of_bits().within(self.items, radius)
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

    def _of_bits(self) -> Queries:
        codes: Any = self.codes
        return Bits(codes) if self.bit_weights is None else Weighted(codes, self.bit_weights)

    def _real(self) -> Queries:
        return Real(np.asarray(self.activations), self.estimates)

    def _ranked(self, queries: Queries, k: int) -> Neighbors:
        """The k nearest items of a stage that ranks all of them, in real distances."""
        n = k + self.excludes_self
        if self.by_code is not None and isinstance(queries, Bits):
            found: Neighbors = self.by_code.nearest(self._rows, n)
        else:
            found = queries.nearest(self.items, n, self.chosen)
        if self.own_places is not None:
            searched = None if self.chosen is None else np.isin(self.own_places, self.chosen)
            found = without_self(found, self.own_places, searched)
        if isinstance(queries, Bits):
            return found
        return Neighbors(found.distances * queries.units, found.indices, found.n_ties)

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
    real = Real(activations, estimates)
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
