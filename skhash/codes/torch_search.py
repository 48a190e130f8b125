"""Exact search and counts among codes on a device of torch, by matrix products.

With bits as signs, two codes of n bits at distance d have the inner product s = n - 2 d. Every term is 1 or -1, so that
the sum is exact in whatever order the device adds. The tensor cores of a GPU multiply 16-bit floats many times faster
than other instructions count the bits of words. There are products for one tile of queries and items at a time.

The k nearest items by (distance, index) are in k groups of consecutive items: those that come first by (least distance,
index of the group), since each has an item that comes before all items of the other groups. So one pass finds the
largest product of each group, and only the items of k groups are compared by themselves.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from skhash._validation import resolve_device
from skhash.codes.blocks import CodeBlocks
from skhash.codes.distances import Neighbors

TILE = {"cpu": 2**21, "cuda": 2**26}  # products at a time: a GPU is busy with many, a CPU keeps few in its cache
QUERIES = 1024  # of a tile
GROUP = 64  # items that are first compared by their largest product
MAX_HALF = 1024  # bits of codes whose products, and twice these, float16 holds exactly


def chosen_device(device: str | torch.device) -> torch.device | None:
    """Device for the parameter `device`; None for "auto" without a GPU, where compiled code is faster than torch."""
    resolved = resolve_device(device)
    return None if device == "auto" and resolved.type == "cpu" else resolved


class DeviceCodes:
    """Codes of items on a device, and their exact search."""

    is_exact, backend = True, "exact"

    def __init__(self, codes: CodeBlocks, device: torch.device) -> None:
        self.codes, self.device = codes, device
        self._places = None if codes.is_whole else codes.places()
        rows = torch.tensor(codes.blocks, device=device).transpose(1, 2).reshape(-1, codes.n_bytes)
        is_item = slice(codes.n_places) if self._places is None else torch.tensor(self._places, device=device)
        self._tiles = Tiles(rows[is_item])

    def nearest(self, queries: npt.NDArray[np.uint8], k: int) -> Neighbors:
        """The k nearest items of every packed query, by place."""
        keys, n_ties = np.empty((len(queries), k), np.int64), np.empty(len(queries), np.int64)
        size = max(1, min(QUERIES, TILE[self.device.type] // (GROUP * k)))
        for start in range(0, len(queries), size):
            part = slice(start, start + size)
            least, ties = self._tiles.nearest(queries[part], k)
            keys[part], n_ties[part] = least.cpu().numpy(), ties.cpu().numpy()
        distances, indices = np.divmod(keys, self.codes.n_items)
        return Neighbors(distances.astype(np.float64), self._to_places(indices), n_ties)

    def radius_search(
        self, queries: npt.NDArray[np.uint8], radius: float
    ) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
        """Distances and places of all items up to a radius from each packed query, ascending by place."""
        distances, places = [], []
        for start in range(0, len(queries), QUERIES):
            for near, indices in self._tiles.radius_search(queries[start : start + QUERIES], radius):
                distances.append(near.astype(np.float64))
                places.append(self._to_places(indices))
        return distances, places

    def _to_places(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return indices if self._places is None else self._places[indices]


class Tiles:
    """Packed codes of shape (n_items, n_bytes) on a device, and their products with queries, tile by tile."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows, self.device, self.width = rows.contiguous(), rows.device, 8 * rows.shape[1]
        is_half = self.device.type == "cuda" and self.width <= MAX_HALF
        dtype = torch.float16 if is_half else torch.float32
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
        self._signs = torch.tensor(2.0 * bits - 1, dtype=dtype, device=self.device)  # of the bits of each byte

    @classmethod
    def of(cls, packed: npt.NDArray[np.uint8], device: torch.device) -> "Tiles":
        """Codes from the memory of the host."""
        return cls(torch.tensor(packed, device=device))

    def nearest(self, queries: npt.NDArray[np.uint8], k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The k least keys ``distance * n_items + index`` of every query, ascending, and the ties of the last one."""
        n_queries, n = len(queries), len(self.rows)
        best = torch.empty((n_queries, 0), dtype=torch.int64, device=self.device)
        n_ties = torch.zeros(n_queries, dtype=torch.int64, device=self.device)
        last = torch.full(
            (n_queries,), -1, dtype=torch.int64, device=self.device
        )  # the k-th distance, once there is one
        for first, signs, of_items in self._tiles(queries):
            products = _products(signs, of_items)
            keys = torch.cat([best, self._least_keys(products, k, first)], dim=1)
            least = keys.topk(min(k, keys.shape[1]), largest=False).values
            if least.shape[1] == k:
                now = least[:, -1] // n
                # earlier items that are nearer than the k-th one was are all in `best`
                earlier = torch.where(now == last, n_ties, (best // n == now[:, None]).sum(dim=1))
                of_last = (self.width - 2 * now).to(products.dtype)
                n_ties, last = earlier + (products == of_last[:, None]).sum(dim=1), now
            best = least
        return best, n_ties

    def radius_search(
        self, queries: npt.NDArray[np.uint8], radius: float
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Distances and indices of all items up to a radius from each query, ascending by index."""
        least, parts = self.width - 2 * int(min(radius, self.width)), []
        for first, signs, of_items in self._tiles(queries):
            products = _products(signs, of_items)
            query, item = (products >= least).nonzero(as_tuple=True)
            near = (self.width - products[query, item]) / 2
            parts.append(torch.stack([query, near.to(torch.int64), item + first]).cpu().numpy())
        query, near, indices = np.concatenate(parts, axis=1)
        order = np.argsort(query, kind="stable")
        ends = np.searchsorted(query[order], np.arange(1, len(queries)))
        return list(zip(np.split(near[order], ends), np.split(indices[order], ends), strict=True))

    def count(
        self,
        queries: npt.NDArray[np.uint8],
        table: npt.NDArray[Any],
        query_group: npt.NDArray[Any],
        item_group: npt.NDArray[Any],
        n_levels: int,
    ) -> npt.NDArray[np.int64]:
        """Numbers of items by query, distance and level, of shape (n_queries, 8 * n_bytes + 1, n_levels).

        An item has the level ``table[query_group[q], item_group[i]]`` for a query.
        """
        n_distances = self.width + 1
        level_starts = torch.tensor(table.T.astype(np.int64) * n_distances, device=self.device)
        rows = torch.tensor(item_group, device=self.device)
        one = torch.ones((1, 1), dtype=torch.int64, device=self.device)
        counts = np.empty((len(queries), n_distances, n_levels), np.int64)
        for start in range(0, len(queries), QUERIES):
            part = slice(start, min(start + QUERIES, len(queries)))
            columns = torch.tensor(query_group[part], device=self.device)
            cells = torch.zeros((n_levels * n_distances, len(columns)), dtype=torch.int64, device=self.device)
            for first, signs, of_items in self._tiles(queries[part]):
                products = _products(of_items, signs)  # neighboring threads then add to counters of different queries
                chosen = ((self.width - products) / 2).to(torch.int64)
                chosen += level_starts[rows[first : first + len(of_items), None], columns]
                cells.scatter_add_(0, chosen, one.expand(chosen.shape))
            counts[part] = cells.view(n_levels, n_distances, -1).permute(2, 1, 0).cpu().numpy()
        return counts

    def _tiles(self, queries: npt.NDArray[np.uint8]) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """First item of each tile, the signs of the queries, and those of its items."""
        size = min(TILE[self.device.type] // max(len(queries), self.width), 2**30 // (self.width + 2))  # keys are int32
        size = max(1, size // GROUP) * GROUP
        signs = self._as_signs(torch.tensor(queries, device=self.device))
        for first in range(0, len(self.rows), size):
            yield first, signs, self._as_signs(self.rows[first : first + size])

    def _as_signs(self, rows: torch.Tensor) -> torch.Tensor:
        return self._signs[rows.to(torch.int32)].view(len(rows), self.width)

    def _least_keys(self, products: torch.Tensor, k: int, first: int) -> torch.Tensor:
        """Keys of the k nearest items of a tile that begins with the item `first`, in any order."""
        n_queries, n = products.shape
        n_groups = -(-n // GROUP)
        if 2 * k >= n_groups:
            items = torch.arange(n, device=self.device)[None]
        else:
            if n % GROUP:  # fill the last group with items that are farther than all others
                products = torch.nn.functional.pad(products, (0, -n % GROUP), value=-self.width - 2)
            largest = products.view(n_queries, n_groups, GROUP).amax(dim=2)
            keys = self._keys(largest, torch.arange(n_groups, device=self.device), n_groups)
            groups = (keys.topk(k, largest=False, sorted=False).values % n_groups).to(torch.int64)
            items = (groups[:, :, None] * GROUP + torch.arange(GROUP, device=self.device)).flatten(1)
            products = products.gather(1, items)
            n = n_groups * GROUP
        keys = self._keys(products, items, n).topk(min(k, products.shape[1]), largest=False, sorted=False).values
        return (keys // n).to(torch.int64) * len(self.rows) + keys % n + first

    def _keys(self, products: torch.Tensor, items: torch.Tensor, n: int) -> torch.Tensor:
        """Keys ``distance * n + item`` within a tile, int32, of which the least are found faster than of int64."""
        return ((self.width - products) / 2).to(torch.int32) * n + items.to(torch.int32)


def _products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Inner products of all pairs of rows."""
    with torch.autocast(a.device.type, enabled=False):  # that of a caller would round
        return a @ b.T
