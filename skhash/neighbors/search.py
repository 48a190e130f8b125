"""The stages of a search, and distances of original vectors."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.codes.blocks import CodeBlocks, read_only
from skhash.codes.queries import Bits, Neighbors, Queries, by_group, without_self
from skhash.neighbors.items import Groups, ItemVectors
from skhash.neighbors.merging import smallest


class VectorQueries:
    """Queries by original vectors, which are compared with those of a shortlist alone."""

    units = 1.0

    def __init__(
        self, vectors: Any, item_vectors: ItemVectors, metric: str, own_places: npt.NDArray[np.int64] | None
    ) -> None:
        self.vectors = vectors  # of shape (n_queries, n_dimensions); None if the queries are the items at own_places
        self.item_vectors, self.metric, self.own_places = item_vectors, metric, own_places
        self.numbers = np.arange(len(vectors if own_places is None else own_places))  # of the queries, for messages

    def __getitem__(self, part: Any) -> "VectorQueries":
        some = copy.copy(self)
        some.numbers = self.numbers[part]
        some.vectors = None if self.vectors is None else self.vectors[part]
        some.own_places = None if self.own_places is None else self.own_places[part]
        return some

    def to_items(self, items: CodeBlocks, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Distances from the items in each row of `places`."""
        distances = np.empty(places.shape)
        for query, chosen in enumerate(places):  # one query at a time, so that little of a memmap is in memory
            own = self.own_places
            vector = self.vectors[query] if own is None else self.item_vectors.at(own[query : query + 1])[0]
            distances[query] = vector_distances(vector, self.item_vectors.at(chosen), self.metric)
            if np.isnan(distances[query]).any():
                position = items.positions(chosen[np.isnan(distances[query])])[0]
                raise ValueError(
                    "Original vectors must be finite. Got NaN as the distance of the item at position "
                    f"{position} of the index from query {self.numbers[query]} of X. "
                    "Replace missing values by numbers."
                )
        return distances


@dataclass  # not frozen, which takes longer than a search among few items
class SearchPlan:
    """Stages of a search for the nearest items of some queries, and what they need.

    The first stage ranks all items. If there is another one, it orders the first `candidates` of them.
    """

    items: CodeBlocks
    first: Queries
    last: Queries | VectorQueries | None = None
    candidates: int | None = None  # length of the shortlist of the last stage; None for all items
    own_places: npt.NDArray[np.int64] | None = None  # of queries that are the items; none is its own neighbor
    by_code: Any = None  # ApproximateIndex or DeviceCodes in place of the compiled search by Hamming distance, or None
    chosen: Any = None  # ascending places of the items to search among, or a list of those of each query; None is all
    groups: Groups | None = None  # of the items; then groups are found, each by its nearest item
    n_groups: int = 0  # of those that have items

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.first.n_queries

    @property
    def excludes_self(self) -> bool:
        """Whether the queries are the items, each of which is not its own neighbor."""
        return self.own_places is not None

    @property
    def group_of(self) -> npt.NDArray[np.int32]:
        """Number of the group at each place."""
        assert self.groups is not None
        return read_only(self.groups.numbers.values)

    @property
    def n_items(self) -> int:
        """Number of items, or of groups, to search among; that of all if it differs between queries."""
        if self.chosen is None or isinstance(self.chosen, list):
            return self.items.n_items if self.groups is None else self.n_groups
        if self.groups is None:
            return len(self.chosen)
        return int(np.count_nonzero(np.bincount(self.group_of[self.chosen])))

    def nearest(self, k: int) -> Neighbors:
        """The k nearest items by the last stage, in real distances; `n_ties` is 0 for a shortlist.

        A query that has fewer items to search among has distances of infinity and places of -1 at the end.
        """
        if isinstance(self.chosen, list):
            return self._nearest_of_each(k)
        if self.chosen is not None and k > self.n_items - self.excludes_self:  # a filter of few items
            return replace(self, chosen=[self.chosen] * self.n_queries)._nearest_of_each(k)
        if self.last is None:
            return self._ranked(k)
        n_others = self.n_items - self.excludes_self
        n_candidates = n_others if self.candidates is None else min(self.candidates, n_others)
        if n_candidates < k:
            raise ValueError(f"`candidates` must be at least n_neighbors={k}. Got {self.candidates} instead.")
        if self.groups is not None:
            return self._nearest_of_groups(k, None if n_candidates == n_others else n_candidates)
        shortlist = np.sort(self._ranked(n_candidates).indices, axis=1)
        distances = self.last.to_items(self.items, shortlist) * self.last.units
        return Neighbors(*smallest(distances, shortlist, k), np.zeros(self.n_queries, np.int64))

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
        else:
            distances, places = self.first.within(self.items, radius, self.chosen)
        for query, (d, found) in enumerate(zip(distances, places, strict=True)):
            if self.own_places is not None:
                is_other = ~self._is_own(found, self.own_places[query])
                d, found = d[is_other], found[is_other]
            if self.groups is not None:
                by_number = np.lexsort((found, d, self.group_of[found]))
                nearest = by_number[np.diff(self.group_of[found[by_number]], prepend=-1) > 0]
                d, found = d[nearest], found[nearest]
            order = np.argsort(d, kind="stable") if sort_results else slice(None)
            distances[query], places[query] = d[order], found[order]
        return distances, places

    def n_ties_of_groups(self, distances: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Number of groups at the distance of the last one that each query has found; 0 if it has found none."""
        n_ties = np.zeros(self.n_queries, np.int64)
        for query, found in enumerate(distances):
            if len(found := found[found < np.inf]):
                (near,), _ = self._alone(query).radius_search(found[-1], False)
                n_ties[query] = (near == found[-1]).sum()
        return n_ties

    @property
    def _rows(self) -> npt.NDArray[np.uint8]:
        """Packed codes of the queries, for a search of another library."""
        codes: Any = self.first
        rows: npt.NDArray[np.uint8] = codes.codes.rows
        return rows

    def _is_own(self, places: npt.NDArray[np.int64], own_place: Any) -> npt.NDArray[np.bool_]:
        """Whether the items at some places are the one at another place, or of its group."""
        if self.groups is None:
            return np.asarray(places == own_place)
        return np.asarray(self.group_of[places] == self.group_of[own_place])

    def _alone(self, query: int) -> "SearchPlan":
        """The search for one query among its own items, without itself."""
        part, chosen = slice(query, query + 1), self.chosen[query] if isinstance(self.chosen, list) else self.chosen
        if self.own_places is not None:
            chosen = self.items.places() if chosen is None else chosen
            chosen = chosen[~self._is_own(chosen, self.own_places[query])]
        last = None if self.last is None else self.last[part]
        return replace(self, first=self.first[part], last=last, own_places=None, chosen=chosen)

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

    def _nearest_of_groups(self, k: int, n_candidates: int | None) -> Neighbors:
        """The nearest items of the k nearest groups by the last stage, which ranks all items of the candidates."""
        of_first = None if n_candidates is None else self.group_of[self._ranked(n_candidates).indices]
        items = self.items if self.chosen is None else self.items.among(self.chosen)
        found = []
        for query in range(self.n_queries):  # they have different numbers of items
            if self.groups is None or of_first is None:
                places = items.places()
                places = places if self.own_places is None else places[~self._is_own(places, self.own_places[query])]
            else:
                places = self.groups.places(of_first[query])
                places = places[items.holds(places)]
            last: Any = self.last[query : query + 1]  # type: ignore[index]
            distances = last.to_items(self.items, places[None]) * last.units
            found.append(by_group([Neighbors(distances, places[None], np.zeros(1, np.int64))], self.group_of, k))
        return Neighbors(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

    def _by_code(self, k: int) -> Neighbors:
        """The k nearest items by the search of another library, or of groups: by more items until k groups are sure."""
        if self.groups is None:
            found: Neighbors = self.by_code.nearest(self._rows, k)
            return found
        n = 0
        while True:
            n = min(4 * (n or k), self.items.n_items)
            found = self.by_code.nearest(self._rows, n)
            groups = by_group([found], self.group_of, k)
            last = groups.distances[:, -1]
            is_sure = last < (found.distances[:, -1] if self.by_code.is_exact else np.inf)
            if n == self.items.n_items or is_sure.all():
                return groups

    def _ranked(self, k: int) -> Neighbors:
        """The k nearest items by the first stage, in real distances."""
        n, are_bits = k + self.excludes_self, isinstance(self.first, Bits)
        if self.by_code is not None and are_bits:
            found = self._by_code(n)
        else:
            found = self.first.nearest(self.items, n, self.chosen, None if self.groups is None else self.group_of)
        if self.own_places is not None:
            searched = None if self.chosen is None else np.isin(self.own_places, self.chosen)
            found = without_self(found, self._is_own(found.indices, self.own_places[:, None]), searched)
        return found if are_bits else found._replace(distances=found.distances * self.first.units)


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
