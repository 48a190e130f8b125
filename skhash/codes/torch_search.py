"""Exact search and counts among codes on a device of torch, by matrix products.

With bits as signs, two codes of n bits at distance d have the inner product s = n - 2 d. Every term is 1 or -1, so that
the sum is exact in whatever order the device adds. The tensor cores of a GPU multiply 16-bit floats many times faster
than other instructions count the bits of words. There are products for one tile of queries and items at a time.

The k nearest items by (distance, index) are in k groups of consecutive items: those that come first by (least distance,
index of the group), since each has an item that comes before all items of the other groups. So one pass finds the
largest product of each group, and only the items of k groups are compared by themselves. The columns of a product are
the first items of all groups, then the second ones, and so on: a GPU finds a maximum over rows five times faster than
one over neighbors.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from skhash._validation import resolve_device
from skhash.codes.blocks import CodeBlocks
from skhash.codes.codes import Codes
from skhash.codes.queries import Neighbors, PairLevels, subtract_own

TILE = {"cpu": 2**21, "cuda": 2**28}  # products at a time: a GPU is busy with many, a CPU keeps few in its cache
COUNTED = {"cpu": 2**21, "cuda": 2**26}  # products at a time that are counted, as 64-bit integers
QUERIES = 1024  # of a tile
NEIGHBORS = 2**24  # of the queries of a tile
MIN_GROUP, MAX_GROUP = 8, 256  # items that are first compared by their largest product
MAX_HALF = 1024  # bits of codes whose products, and twice these, float16 holds exactly
MAX_HALF_CELLS = 2048  # that float16 tells apart


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
        size = max(1, min(QUERIES, NEIGHBORS // k))
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


class DeviceCounts:
    """Dense histograms of queries by Hamming distance, counted on a device of torch."""

    def __init__(self, queries: Codes, database: Codes, device: Any, pairs: PairLevels) -> None:
        self.queries, self.database, self.nbits, self.pairs = queries.rows, database.rows, queries.nbits, pairs
        self.bytes_per_query = 24 * pairs.n_groups + 64 * (self.nbits + 1)
        self.tiles = Tiles.of(database.rows, device)

    def __call__(self, chunk: slice) -> tuple[Any, ...]:
        """Counts and levels of a slice of queries."""
        table, query_group, levels = self.pairs.table(chunk)
        groups = query_group, self.pairs.database_group
        counts = self.tiles.count(self.queries[chunk], table, *groups, len(levels))[:, : self.nbits + 1]
        if self.pairs.exclude_self:
            own = table[query_group, self.pairs.database_group[chunk]]
            subtract_own(counts, self.queries[chunk] ^ self.database[chunk], own)
        return counts, levels


class Tiles:
    """Packed codes of shape (n_items, n_bytes) on a device, and their products with queries, tile by tile."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows, self.device, self.width = rows.contiguous(), rows.device, 8 * rows.shape[1]
        is_half = self.device.type == "cuda" and self.width <= MAX_HALF
        self._dtype = torch.float16 if is_half else torch.float32
        self._bits = torch.tensor(2 ** np.arange(7, -1, -1), dtype=torch.uint8, device=self.device)

    @classmethod
    def of(cls, packed: npt.NDArray[np.uint8], device: torch.device) -> "Tiles":
        """Codes from the memory of the host."""
        return cls(torch.tensor(packed, device=device))

    def nearest(self, queries: npt.NDArray[np.uint8], k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The k least keys ``distance * n_items + index`` of every query, ascending, and the ties of the last one."""
        n_queries, n = len(queries), len(self.rows)
        best = torch.empty((n_queries, 0), dtype=torch.int64, device=self.device)
        n_ties = torch.zeros(n_queries, dtype=torch.int64, device=self.device)
        last = torch.full_like(n_ties, -1)  # the k-th distance, once there is one
        for first, products in self._grouped_tiles(queries, k):
            largest = products.amax(dim=1)
            keys = torch.cat([best, self._least_keys(products, largest, k, first)], dim=1)
            least = keys.topk(min(k, keys.shape[1]), largest=False).values
            if least.shape[1] == k:
                now = least[:, -1] // n
                # earlier items that are nearer than the k-th one was are all in `best`
                earlier = torch.where(now == last, n_ties, (best // n == now[:, None]).sum(dim=1))
                of_last = (self.width - 2 * now).to(products.dtype)
                n_ties, last = earlier + _count_equal(products, largest, of_last), now
            best = least
        return best, n_ties

    def radius_search(
        self, queries: npt.NDArray[np.uint8], radius: float
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Distances and indices of all items up to a radius from each query, ascending by index."""
        least, parts = self.width - 2 * int(min(radius, self.width)), []
        for first, signs, of_items in self._tiles(queries, TILE):
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
        is_half = self._dtype == torch.float16 and n_levels * n_distances <= MAX_HALF_CELLS
        dtype = torch.float16 if is_half else torch.float32 if n_levels * n_distances <= 2**24 else torch.float64
        # a distance is width / 2 minus half a product
        starts = torch.tensor(table.T * n_distances + self.width / 2, dtype=dtype, device=self.device)
        rows = torch.tensor(item_group, device=self.device)
        one = torch.ones((1, 1), dtype=torch.int64, device=self.device)
        counts = np.empty((len(queries), n_distances, n_levels), np.int64)
        for start in range(0, len(queries), QUERIES):
            part = slice(start, min(start + QUERIES, len(queries)))
            of_queries = starts[:, torch.tensor(query_group[part], device=self.device)]
            cells = torch.zeros((n_levels * n_distances, of_queries.shape[1]), dtype=torch.int64, device=self.device)
            for first, signs, of_items in self._tiles(queries[part], COUNTED):
                chosen = of_queries[rows[first : first + len(of_items)]]
                with torch.autocast(self.device.type, enabled=False):  # that of a caller would round
                    chosen.addmm_(of_items.to(dtype), signs.to(dtype).T, alpha=-0.5)
                # neighboring threads add to counters of different queries
                cells.scatter_add_(0, chosen.to(torch.int64), one.expand(chosen.shape))
            counts[part] = cells.view(n_levels, n_distances, -1).permute(2, 1, 0).cpu().numpy()
        return counts

    def _tiles(
        self, queries: npt.NDArray[np.uint8], n_products: dict[str, int]
    ) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """First item of each tile, the signs of the queries, and those of its items."""
        size = max(1, n_products[self.device.type] // max(len(queries), self.width))
        signs = self._as_signs(torch.tensor(queries, device=self.device))
        for first in range(0, len(self.rows), size):
            yield first, signs, self._as_signs(self.rows[first : first + size])

    def _grouped_tiles(self, queries: npt.NDArray[np.uint8], k: int) -> Iterator[tuple[int, torch.Tensor]]:
        """First item of each tile, and products of shape (n_queries, group_size, n_groups) with its items."""
        size = min(TILE[self.device.type] // max(len(queries), self.width), 2**30 // (self.width + 2))  # keys are int32
        # the fewest groups and items to choose from, if the size is the root of n_items / k
        group = 2 ** round(math.log2(min(size, len(self.rows)) / k + 1) / 2)
        group = min(max(group, MIN_GROUP), MAX_GROUP)
        size = max(1, size // group) * group
        signs = self._as_signs(torch.tensor(queries, device=self.device))
        for first in range(0, len(self.rows), size):
            rows = self.rows[first : first + size]
            n_missing = -len(rows) % group
            if n_missing:
                rows = torch.cat([rows, rows.new_zeros((n_missing, rows.shape[1]))])
            rows = rows.view(-1, group, rows.shape[1]).transpose(0, 1).reshape(rows.shape)
            products = _products(signs, self._as_signs(rows)).view(len(signs), group, -1)
            products[:, group - n_missing :, -1].fill_(-self.width - 2)  # farther than all items
            yield first, products

    def _as_signs(self, rows: torch.Tensor) -> torch.Tensor:
        is_set = (rows[:, :, None] & self._bits) != 0
        return is_set.to(self._dtype).mul_(2).sub_(1).view(len(rows), self.width)

    def _least_keys(self, products: torch.Tensor, largest: torch.Tensor, k: int, first: int) -> torch.Tensor:
        """Keys of the k nearest items of a tile that begins with the item `first`, in any order."""
        n_groups, group = products.shape[2], products.shape[1]
        groups = torch.arange(n_groups, dtype=torch.int32, device=self.device)[None]
        if k < n_groups:
            keys = self._keys(largest, groups, n_groups)
            groups = keys.topk(k, largest=False, sorted=False).values % n_groups
            products = products.gather(2, groups[:, None].to(torch.int64).expand(-1, group, -1))
        items = groups[:, None] * group + torch.arange(group, dtype=torch.int32, device=self.device)[:, None]
        n = n_groups * group
        keys = self._keys(products, items, n).flatten(1)
        keys = keys.topk(min(k, keys.shape[1]), largest=False, sorted=False).values
        return (keys // n).to(torch.int64) * len(self.rows) + keys % n + first

    def _keys(self, products: torch.Tensor, items: torch.Tensor, n: int) -> torch.Tensor:
        """Keys ``distance * n + item`` within a tile, int32, of which the least are found faster than of int64."""
        return ((self.width - products) / 2).to(torch.int32) * n + items


def _products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Inner products of all pairs of rows."""
    with torch.autocast(a.device.type, enabled=False):  # that of a caller would round
        return a @ b.T


def _count_equal(products: torch.Tensor, largest: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Number of products of each query that equal its value, which only groups with as large a product can have."""
    query, group = (largest >= values[:, None]).nonzero(as_tuple=True)
    n_equal = (products[query, :, group] == values[query, None]).sum(dim=1)
    return torch.zeros(len(values), dtype=torch.int64, device=values.device).index_add_(0, query, n_equal)
