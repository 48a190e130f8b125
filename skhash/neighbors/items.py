"""What an index stores of its items, as one value: codes, identifiers, factors and vectors, by place.

A change returns a new value, so that a search in another thread keeps the items that it began with. Added items come
after the others, in the same memory where there is room. A removed item leaves a hole at its place; when a quarter of
the places are holes, the others move together. The position of an item is its number among the items.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._compat import cached_property
from skhash._ids import numbered
from skhash.codes.blocks import LANES, CodeBlocks, Room
from skhash.codes.groups import GroupedCodes, order_of

MAX_HOLES = 1 / 4  # of the places


class ItemVectors:
    """Original vectors of the items: in parts, of which the first is the array given to ``fit``, not copied.

    A change returns a new object, so that a search in another thread keeps the vectors that it began with.
    """

    def __init__(
        self, parts: Sequence[npt.NDArray[Any]], rows: npt.NDArray[np.int64] | None = None, are_known: bool = True
    ) -> None:
        self.parts = parts  # of shape (n_part, n_dimensions)
        self.rows = rows  # of the items among those of all parts, ascending; None is all
        self.are_known = are_known  # whether they are those of the items; a search that reads others checks and sets it
        self.n_dimensions = int(parts[0].shape[1])

    def at(self, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Vectors at ascending places."""
        rows = places if self.rows is None else self.rows[places]
        if len(self.parts) == 1:
            return self.parts[0][rows]
        found = np.empty((len(rows), self.n_dimensions), np.result_type(*self.parts))
        start = 0
        for part in self.parts:
            first, last = np.searchsorted(rows, (start, start + len(part)))
            found[first:last] = part[rows[first:last] - start]
            start += len(part)
        return found

    def whole(self) -> npt.NDArray[Any]:
        """All vectors in one array, which is the given one if nothing has changed."""
        if self.rows is None and len(self.parts) == 1:
            return self.parts[0]
        return self.at(np.arange(self._n_rows() if self.rows is None else len(self.rows)))

    def with_more(self, vectors: npt.NDArray[Any]) -> "ItemVectors":
        """Vectors with a copy of `vectors` appended. Short parts are joined, so that there are few of them."""
        parts = [*self.parts, np.array(vectors)]
        while len(parts) > 2 and len(parts[-2]) < 2 * len(parts[-1]):
            parts[-2:] = [np.concatenate(parts[-2:])]
        n = self._n_rows()
        rows = None if self.rows is None else np.concatenate([self.rows, n + np.arange(len(vectors))])
        return ItemVectors(parts, rows, self.are_known)

    def kept(self, places: npt.NDArray[np.int64]) -> "ItemVectors":
        """Vectors at some places; they are copied once less than half of the rows are in use."""
        rows = places if self.rows is None else self.rows[places]
        vectors = ItemVectors(self.parts, rows, self.are_known)
        return vectors if 2 * len(places) >= self._n_rows() else ItemVectors([vectors.whole()], None, self.are_known)

    def _n_rows(self) -> int:
        return sum(len(part) for part in self.parts)

    def __getstate__(self) -> dict[str, Any]:
        return vars(ItemVectors([self.whole()], None, self.are_known))  # without the vectors of removed items


class Rows:
    """Array by place, with room for more."""

    def __init__(self, values: npt.NDArray[Any], room: Room | None = None) -> None:
        self.values, self._room = values, room

    def with_more(self, values: npt.NDArray[Any]) -> "Rows":
        """Array with others appended."""
        n, n_rows, room = len(self.values), len(self.values) + len(values), self._room
        if room is None or not room.claim(n, n_rows, n_rows):
            array = np.empty((n_rows + n_rows // 8, *self.values.shape[1:]), self.values.dtype)
            array[:n] = self.values
            room = Room(array, n_rows)
        room.array[n:n_rows] = values
        return Rows(room.array[:n_rows], room)

    def __reduce__(self) -> Any:
        return Rows, (self.values,)


def _ascend(ids: npt.NDArray[Any]) -> bool:
    """Whether identifiers are numbers in ascending order."""
    return ids.dtype != object and bool((ids[1:] >= ids[:-1]).all())


class Ids(Rows):
    """Identifiers by place: int64, or text."""

    @cached_property
    def ascend(self) -> bool:
        """Whether they are numbers in ascending order: then one is found without looking at all others."""
        return _ascend(self.values)

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Places of numbers by identifier, and of equal ones by place: all of these but the last are holes."""
        return np.argsort(self.values, kind="stable")

    @cached_property
    def place_of(self) -> dict[str, int]:
        """Place of each text. Of equal texts it is the last place, since the others are holes."""
        return dict(zip(self.values.tolist(), range(len(self.values)), strict=True))

    def with_more(self, values: npt.NDArray[Any]) -> "Ids":
        """Identifiers with others appended."""
        more = super().with_more(values)
        ids = Ids(more.values, more._room)
        ids.ascend = self.ascend and _ascend(ids.values[max(0, len(self.values) - 1) :])
        return ids

    def __reduce__(self) -> Any:
        return Ids, (self.values,)


@dataclass(frozen=True)
class Groups:
    """Groups of the items: labels in their order, of which some may have lost all items, and their number by place."""

    labels: npt.NDArray[Any]  # of shape (n_labels,), int64 or text, all different
    numbers: Rows  # of shape (n_places,), int32

    def with_more(self, groups: npt.NDArray[Any]) -> "Groups":
        """Groups with those of other items appended; equal labels are one group."""
        added, numbers = numbered(groups)
        at = np.searchsorted(self.labels, added)
        is_new = self.labels[np.minimum(at, len(self.labels) - 1)] != added
        labels, before = np.insert(self.labels, at[is_new], added[is_new]), self.numbers
        if len(labels) > len(self.labels) and at[is_new][0] < len(self.labels):  # some numbers move
            moved = np.arange(len(self.labels)) + np.searchsorted(at[is_new], np.arange(len(self.labels)), "right")
            before = Rows(moved.astype(np.int32)[self.numbers.values])
        places = np.searchsorted(labels, added).astype(np.int32)
        return Groups(labels, before.with_more(places[numbers]))

    def kept(self, places: npt.NDArray[np.int64]) -> "Groups":
        """Groups of the items at some places, without those that have none."""
        numbers = self.numbers.values[places]
        has_items = np.bincount(numbers, minlength=len(self.labels)) > 0
        return Groups(self.labels[has_items], Rows((np.cumsum(has_items, dtype=np.int32) - 1)[numbers]))

    def find(self, labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Number of each label, -1 for others."""
        numbers = np.searchsorted(self.labels, labels)
        is_there = self.labels[np.minimum(numbers, len(self.labels) - 1)] == labels
        return np.where(is_there, numbers, -1)

    def places(self, numbers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Ascending places of the groups with some numbers, each given once."""
        order, bounds = self._by_group
        n_places = np.diff(bounds)[numbers]
        starts = bounds[numbers] - (np.cumsum(n_places) - n_places)
        return np.sort(order[np.repeat(starts, n_places) + np.arange(n_places.sum())])

    @cached_property
    def _by_group(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Places in the order of the groups, and the bounds of the groups among them."""
        return order_of(self.numbers.values, len(self.labels))


@dataclass(frozen=True)
class Items:
    """Codes, identifiers, factors, vectors and groups of items, by place."""

    codes: CodeBlocks
    ids: Ids
    factors: Rows | None  # of shape (n_places, 2), float32
    vectors: ItemVectors | None
    least_id: int = 0  # larger than the numbers of all removed items, which a reference elsewhere may still name
    groups: Groups | None = None

    @classmethod
    def of(
        cls,
        codes: CodeBlocks,
        ids: npt.NDArray[Any],
        factors: Any = None,
        vectors: Any = None,
        least_id: int = 0,
        groups: Any = None,
    ) -> "Items":
        """Items from arrays; groups are a label of each item, or the labels in order and the number of each item."""
        of_vectors = None if vectors is None else ItemVectors([vectors])
        of_groups = None
        if groups is not None:
            labels, numbers = groups if isinstance(groups, tuple) else numbered(groups)
            of_groups = Groups(labels, Rows(numbers))
        return cls(codes, Ids(ids), None if factors is None else Rows(factors), of_vectors, least_id, of_groups)

    def with_vectors(self, vectors: Any, are_known: bool) -> "Items":
        """The same items with original vectors of all of them."""
        return replace(self, vectors=ItemVectors([vectors], None, are_known))

    def with_ids(self, ids: npt.NDArray[Any]) -> "Items":
        """The same items, without holes, with other identifiers."""
        return replace(self, ids=Ids(ids))

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """Places of the items, ascending."""
        return self.codes.places()

    @cached_property
    def by_group(self) -> GroupedCodes:
        """The codes in the order of their groups, for queries of several vectors."""
        return self.some_by_group(self.places)

    def some_by_group(self, places: npt.NDArray[np.int64]) -> GroupedCodes:
        """The same of the items at some places; without groups each item is its own."""
        return GroupedCodes(self.codes, places if self.groups is None else self.groups.numbers.values[places], places)

    def of_items(self, rows: Rows) -> npt.NDArray[Any]:
        """Values of the items, without those of holes."""
        return rows.values if self.codes.is_whole else rows.values[self.places]

    @cached_property
    def has_items(self) -> npt.NDArray[np.bool_]:
        """Whether each group has items; a group can lose all of them."""
        assert self.groups is not None
        numbers = self.of_items(self.groups.numbers)
        return np.bincount(numbers, minlength=len(self.groups.labels)) > 0

    @property
    def n_found(self) -> int:
        """Number of what a search can find: of groups that have items, or of items without groups."""
        if self.groups is None:
            return self.codes.n_items
        return len(self.groups.labels) if self.codes.is_whole else int(self.has_items.sum())

    def next_id(self) -> int:
        """Number after the identifiers of all items that are there, and of those that were."""
        if not self.ids.ascend:
            return max(self.least_id, int(self.of_items(self.ids).max()) + 1)
        block = len(self.codes.masks) - 1
        while not self.codes.masks[block]:
            block -= 1
        last = LANES * block + int(self.codes.masks[block]).bit_length() - 1
        return max(self.least_id, int(self.ids.values[last]) + 1)

    def find(self, ids: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Whether each identifier, of the kind of the items', is that of an item, and the places of these items."""
        values = self.ids.values
        if values.dtype == object:
            places = np.fromiter((self.ids.place_of.get(text, -1) for text in ids), np.int64, len(ids))
        else:
            places = (ids - values[0]).clip(0, len(values) - 1)  # of the numbers that `fit` gives
            if ((values[places] == ids) & self.codes.holds(places)).all():
                return np.ones(len(ids), bool), places
            order = None if self.ids.ascend else self.ids.order
            places = np.searchsorted(values, ids, side="right", sorter=order) - 1  # after holes with the same one
            places = places if order is None else np.where(places < 0, -1, order[places])
        found = places >= 0
        found[found] = (values[places[found]] == ids[found]) & self.codes.holds(places[found])
        return found, places[found]

    def with_more(
        self,
        packed: npt.NDArray[np.uint8],
        ids: npt.NDArray[Any],
        factors: Any,
        vectors: Any,
        groups: npt.NDArray[Any] | None,
    ) -> "Items":
        """Items with others appended."""
        return Items(
            self.codes.with_more(packed),
            self.ids.with_more(ids),
            None if self.factors is None else self.factors.with_more(factors),
            None if self.vectors is None else self.vectors.with_more(vectors),
            self.least_id,
            None if self.groups is None or groups is None else self.groups.with_more(groups),
        )

    def without(self, places: npt.NDArray[np.int64]) -> "Items":
        """Items without those at some ascending places."""
        least_id, values = self.least_id, self.ids.values
        if values.dtype != object and len(places):
            largest = values[places[-1]] if self.ids.ascend else values[places].max()
            least_id = max(least_id, int(largest) + 1)
        codes = self.codes.without(places)
        items = Items(codes, self.ids, self.factors, self.vectors, least_id, self.groups)  # faster than replace
        is_sparse = items.codes.n_places - items.codes.n_items > MAX_HOLES * items.codes.n_places
        return items.packed() if is_sparse else items

    def packed(self) -> "Items":
        """Items without holes between them."""
        if self.codes.is_whole:
            return self
        codes = CodeBlocks.from_rows(self.codes.rows(), self.codes.nbits)
        factors = None if self.factors is None else Rows(self.of_items(self.factors))
        vectors = None if self.vectors is None else self.vectors.kept(self.places)
        groups = None if self.groups is None else self.groups.kept(self.places)
        return Items(codes, Ids(self.of_items(self.ids)), factors, vectors, self.least_id, groups)

    def __reduce__(self) -> Any:
        packed = self.packed()
        return Items, (packed.codes, packed.ids, packed.factors, packed.vectors, packed.least_id, packed.groups)
