"""Stored codes, packed, with their number of bits: byte j of 64 items side by side, then byte j + 1 of the same items.

    rows    item 0: a0 a1 ...    item 1: b0 b1 ...    item 2: c0 c1 ...
    block   a0 b0 c0 ... (64 items)  a1 b1 c1 ...

One vector instruction then compares a byte of 32 or 64 items with that of a query, and their distances come out side by
side. A byte is also what an instruction looks up in tables of 16 values, so that real queries scan the same blocks.

Codes are a value: a change returns new ones, so that a search in another thread keeps those that it began with. Added
codes are written after the others into the same memory, which earlier ones do not read. A removed item leaves a hole.
"""

import os
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

LANES = 64  # items of a block: their bytes fill a line of the cache, and a mask of them a word
NO_ITEM = 2**62  # the place that a search returns where there are fewer items than it is asked for
_CLAIM = Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_CLAIM.acquire, after_in_parent=_CLAIM.release, after_in_child=_CLAIM.release)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Read-only view of an array, contiguous, so that numba compiles each kernel once."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


def words_of(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Packed codes as 64-bit words of shape (n, n_words), padded with zeros."""
    n, n_bytes = rows.shape
    padded = np.zeros((n, -(-n_bytes // 8) * 8), dtype=np.uint8)
    padded[:, :n_bytes].view(f"V{n_bytes}")[:] = np.ascontiguousarray(rows).view(f"V{n_bytes}")  # faster than bytes
    return padded.view(np.uint64)


class Room:
    """Memory for n items and for more after them. It belongs to the values that share it."""

    def __init__(self, array: npt.NDArray[Any], n_used: int) -> None:
        self.array, self.n_used = array, n_used

    def claim(self, start: int, stop: int, n_rows: int) -> bool:
        """Take rows from `start` to `stop` if they are free and the array has `n_rows`; tell whether it did."""
        with _CLAIM:
            if self.n_used != start or len(self.array) < n_rows:
                return False
            self.n_used = stop
            return True


class CodeBlocks:
    """Packed codes in blocks of 64 places. Place i is at i % 64 of block i // 64, and holds an item, or is a hole."""

    def __init__(
        self,
        blocks: npt.NDArray[np.uint8],
        masks: npt.NDArray[np.uint64],
        nbits: int,
        n_places: int,
        n_items: int,
        room: Room | None = None,
    ) -> None:
        self.blocks = read_only(blocks)  #: of shape (n_blocks, n_bytes, LANES)
        self.masks = read_only(masks)  #: of shape (n_blocks,): bit i is set where place i of the block holds an item
        self.nbits = nbits  #: of a code; those after them in the last byte are 0
        self.n_places, self.n_items = n_places, n_items  #: a place holds an item, or is a hole
        self._room = room

    @classmethod
    def from_rows(cls, rows: npt.NDArray[np.uint8], nbits: int) -> "CodeBlocks":
        """Packed codes of shape (n_items, n_bytes) in blocks."""
        n = len(rows)
        blocks = np.zeros((_n_blocks(n), rows.shape[1], LANES), np.uint8)
        _write(blocks, 0, rows)
        return cls(blocks, masks_of(n), nbits, n, n, Room(blocks, n))

    @property
    def n_bytes(self) -> int:
        """Number of bytes of a code."""
        return int(self.blocks.shape[1])

    @property
    def is_whole(self) -> bool:
        """Whether there are no holes, so that an item's place is its position among the items."""
        return self.n_items == self.n_places

    def places(self) -> npt.NDArray[np.int64]:
        """Places of the items, ascending."""
        if self.is_whole:
            return np.arange(self.n_items)
        return np.flatnonzero(np.unpackbits(self.masks.astype("<u8").view(np.uint8), bitorder="little"))

    def positions(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Positions among the items of those at some places."""
        if self.is_whole:
            return places
        starts = np.cumsum(np.bitwise_count(self.masks), dtype=np.int64) - np.bitwise_count(self.masks)
        block, bit = places // LANES, (places % LANES).astype(np.uint64)
        below = self.masks[block] & ((np.uint64(1) << bit) - np.uint64(1))
        positions: npt.NDArray[np.int64] = starts[block] + np.bitwise_count(below)
        return positions

    def holds(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether there are items at some places."""
        return (self.masks[places // LANES] >> (places % LANES).astype(np.uint64) & np.uint64(1)).astype(bool)

    def rows(self, places: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.uint8]:
        """Packed codes at some places, of the shape of `places` and (n_bytes,); None is all items."""
        if places is None and not self.is_whole:
            places = self.places()
        if places is not None:
            found: npt.NDArray[np.uint8] = self.blocks[places // LANES, :, places % LANES]
            return found
        return self.blocks.transpose(0, 2, 1).reshape(-1, self.n_bytes)[: self.n_places]

    def words(self) -> npt.NDArray[np.uint64]:
        """Codes of all items as words, of shape (n_items, ceil(n_bytes / 8))."""
        return words_of(self.rows())

    def with_more(self, packed: npt.NDArray[np.uint8]) -> "CodeBlocks":
        """Codes with others appended."""
        n, n_places = self.n_places, self.n_places + len(packed)
        n_blocks, room = _n_blocks(n_places), self._room
        if room is None or not room.claim(n, n_places, n_blocks):
            array = np.zeros((n_blocks + n_blocks // 8, *self.blocks.shape[1:]), np.uint8)
            array[: len(self.blocks)] = self.blocks
            room = Room(array, n_places)
        _write(room.array, n, packed)
        first, masks = n // LANES, np.zeros(n_blocks, np.uint64)  # of the first block that changes
        masks[first:] = masks_of(n_places - LANES * first)
        if n % LANES:
            masks[first] &= ~np.uint64((1 << n % LANES) - 1)
        masks[: len(self.masks)] |= self.masks
        return CodeBlocks(room.array[:n_blocks], masks, self.nbits, n_places, self.n_items + len(packed), room)

    def without(self, places: npt.NDArray[np.int64]) -> "CodeBlocks":
        """Codes with holes at some places of items, each given once."""
        masks = self.masks.copy()
        np.bitwise_and.at(masks, places // LANES, ~(np.uint64(1) << (places % LANES).astype(np.uint64)))
        return CodeBlocks(self.blocks, masks, self.nbits, self.n_places, self.n_items - len(places), self._room)

    def among(self, places: npt.NDArray[np.int64]) -> "CodeBlocks":
        """Codes with holes at all places but some places of items, each given once."""
        is_chosen = np.zeros((len(self.masks), LANES), bool)
        is_chosen.reshape(-1)[places] = True
        masks = np.packbits(is_chosen, bitorder="little").view("<u8").astype(np.uint64)
        return CodeBlocks(self.blocks, masks, self.nbits, self.n_places, len(places), self._room)

    def __reduce__(self) -> Any:
        return CodeBlocks, (self.blocks, self.masks, self.nbits, self.n_places, self.n_items)


def masks_of(n_items: int) -> npt.NDArray[np.uint64]:
    """Masks of blocks without holes."""
    masks = np.full(_n_blocks(n_items), ~np.uint64(0))
    if n_left := n_items % LANES:
        masks[-1] = (1 << n_left) - 1
    return masks


def _n_blocks(n: int) -> int:
    return -(-n // LANES)


def _write(blocks: npt.NDArray[np.uint8], first: int, packed: npt.NDArray[np.uint8]) -> None:
    """Write codes into the places from `first` on."""
    head = min(-first % LANES, len(packed))
    places = first + np.arange(head)
    blocks[places // LANES, :, places % LANES] = packed[:head]
    n_whole, start = (len(packed) - head) // LANES, _n_blocks(first)
    whole = packed[head : head + n_whole * LANES].reshape(n_whole, LANES, packed.shape[1])
    blocks[start : start + n_whole] = whole.transpose(0, 2, 1)
    if len(rest := packed[head + n_whole * LANES :]):
        blocks[start + n_whole, :, : len(rest)] = rest.T
