"""Stored codes: byte j of 64 items side by side, then byte j + 1 of the same items.

    rows    item 0: a0 a1 ...    item 1: b0 b1 ...    item 2: c0 c1 ...
    block   a0 b0 c0 ... (64 items)  a1 b1 c1 ...

One vector instruction then compares a byte of 32 or 64 items with that of a query, and their distances come out side by
side. A byte is also what an instruction looks up in tables of 16 values, so that real queries scan the same blocks.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LANES = 64  # items of a block: their bytes fill a line of the cache, and a mask of them a word


@dataclass(frozen=True)
class CodeBlocks:
    """Packed codes in blocks of 64 items. Item i is at place i % 64 of block i // 64."""

    blocks: npt.NDArray[np.uint8]  #: of shape (n_blocks, n_bytes, LANES)
    masks: npt.NDArray[np.uint64]  #: of shape (n_blocks,): bit i is set where place i of the block holds an item
    n_items: int

    @classmethod
    def from_rows(cls, packed: npt.NDArray[np.uint8]) -> "CodeBlocks":
        """Blocks of packed codes of shape (n_items, n_bytes)."""
        n_items, n_bytes = packed.shape
        n_whole = n_items // LANES
        blocks = np.zeros((-(-n_items // LANES), n_bytes, LANES), np.uint8)
        blocks[:n_whole] = packed[: n_whole * LANES].reshape(n_whole, LANES, n_bytes).transpose(0, 2, 1)
        masks = np.full(len(blocks), ~np.uint64(0))
        if n_left := n_items - n_whole * LANES:
            blocks[-1, :, :n_left] = packed[n_whole * LANES :].T
            masks[-1] = (1 << n_left) - 1
        return cls(blocks, masks, n_items)

    @property
    def n_bytes(self) -> int:
        """Number of bytes of a code."""
        return self.blocks.shape[1]

    def rows(self, positions: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.uint8]:
        """Packed codes of the items at some positions, of the shape of `positions` and (n_bytes,); None is all."""
        if positions is not None:
            return self.blocks[positions // LANES, :, positions % LANES]
        rows = self.blocks.transpose(0, 2, 1).reshape(-1, self.n_bytes)
        return rows[: self.n_items]
