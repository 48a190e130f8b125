"""Codes of items in the order of their groups, which a scan for queries of several vectors reads."""

import copy
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from skhash._compat import cached_property
from skhash._ids import numbered
from skhash.codes.blocks import LANES, CodeBlocks, read_only

Integers = npt.NDArray[np.integer[Any]]


class Batches(NamedTuple):
    """Codes of groups side by side, as `maxsim_kernels` describes them."""

    blocks: npt.NDArray[np.uint8]  #: of shape (n_blocks, n_bytes, LANES)
    by_size: Integers  #: the groups, the largest first
    batches: Integers  #: of shape (n_batches, 3): the first of these groups, number of groups, number of blocks
    first_blocks: Integers  #: of shape (n_batches,)


def bounds_of(group: Integers, n_groups: int = 0) -> npt.NDArray[np.int64]:
    """First item of each group, and the number of items, which are in the order of their groups."""
    return np.append(0, np.cumsum(np.bincount(group, minlength=n_groups), dtype=np.int64))


def order_of(group: Integers, n_groups: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions in the order of their groups, those of one group ascending, and the bounds of the groups among them."""
    from skhash.codes.maxsim_kernels import fill_members

    bounds, order = bounds_of(group, n_groups), np.empty(len(group), np.int64)
    fill_members(group, bounds[:-1].copy(), order)
    return order, bounds


class GroupedCodes:
    """Codes of items in the order of their groups, which is made once for all queries."""

    def __init__(
        self, items: CodeBlocks, labels: npt.NDArray[Any], places: npt.NDArray[np.int64] | None = None
    ) -> None:
        self.items = items
        self.places = items.places() if places is None else places  # of the items, ascending
        self.labels, group = numbered(labels)  #: of the groups, ascending: a group is its position among them
        #: positions among the places of the members of group g, ascending: from bounds[g] to bounds[g + 1]
        self.order, self.bounds = order_of(group, len(self.labels))

    @property
    def n_groups(self) -> int:
        """Number of groups, each of which has a member."""
        return len(self.bounds) - 1

    def first_members(self, groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Places of the first members of some groups."""
        first: npt.NDArray[np.int64] = self.places[self.order[self.bounds[groups]]]
        return first

    def take(self, groups: npt.NDArray[np.int64]) -> Self:
        """Some of the groups, for a stage that does not scan bits."""
        some = copy.copy(self)
        vars(some).pop("batches", None)
        some.bounds = np.append(0, np.cumsum(np.diff(self.bounds)[groups]))
        members = np.concatenate([self.order[self.bounds[g] : self.bounds[g + 1]] for g in groups])
        some.places, some.order = np.unique(self.places[members], return_inverse=True)
        return some

    @cached_property
    def batches(self) -> Batches:
        """A copy of the codes, for the scan of bits."""
        from skhash.codes import maxsim_kernels as kernels

        sizes = np.diff(self.bounds)
        by_size, batches = np.argsort(-sizes, kind="stable"), np.empty((self.n_groups, 3), np.int64)
        batches = batches[: kernels.fill_batches(sizes, by_size, batches)].copy()
        first_blocks = np.cumsum(batches[:, 2]) - batches[:, 2]
        blocks = np.empty((int(batches[:, 2].sum()), self.items.n_bytes, LANES), np.uint8)
        is_whole = self.items.is_whole and len(self.places) == self.items.n_items
        rows = np.ascontiguousarray(self.items.rows(None if is_whole else self.places))
        kernels.copy_members(rows, self.order, self.bounds, by_size, batches, first_blocks, blocks)
        return Batches(read_only(blocks), by_size, batches, first_blocks)
