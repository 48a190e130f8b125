"""All pairs of near codes, in blocks of bounded size."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash._threads import run_in_slices
from skhash.codes._bits import quantize_weights, read_only

MAX_PAIRS = 2**20  # of a block of pairs, which bounds the memory
PAIRS_GROUP = 64  # pairs of blocks of codes that are compared before what they find is returned

Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]  # positions i < j, distances


def near_pairs(
    codes: npt.NDArray[np.uint64], radius: float, nbits: int, bit_weights: npt.NDArray[np.float64] | None = None
) -> Iterator[Pairs]:
    """All pairs of codes, of shape (n_items, n_words), up to a real distance, in blocks of at most MAX_PAIRS."""
    from skhash.codes._kernels import BLOCK

    near: _NearCodes | _NearWeighted = _NearCodes(codes, radius)
    if bit_weights is not None:
        near = _NearWeighted(codes, radius, nbits, bit_weights)
    for first in range(0, len(codes), BLOCK):
        starts = range(first, len(codes), BLOCK)
        for group in gen_batches(len(starts), PAIRS_GROUP):
            seconds = starts[group]
            found: list[Pairs | None] = [None] * len(seconds)

            def search(
                chosen: slice, first: int = first, seconds: range = seconds, found: list[Pairs | None] = found
            ) -> None:
                for number in range(chosen.start, chosen.stop):
                    found[number] = near(first, seconds[number], MAX_PAIRS // PAIRS_GROUP)

            run_in_slices(search, len(seconds))
            few = [pairs for pairs in found if pairs is not None and len(pairs[0])]
            if few:
                left, right, distances = map(np.concatenate, zip(*few, strict=True))
                yield left, right, distances
            for second, pairs in zip(seconds, found, strict=True):
                if pairs is None and (many := near(first, second, BLOCK**2)) is not None:
                    yield many


class _NearCodes:
    """Pairs of two blocks of codes up to a Hamming distance; None if there are more than `most`."""

    def __init__(self, codes: npt.NDArray[np.uint64], radius: float) -> None:
        self.codes = read_only(codes)
        self.radius = int(min(radius, 64 * codes.shape[1]))

    def __call__(self, first: int, second: int, most: int) -> Pairs | None:
        from skhash.codes._pair_kernels import near_codes

        left, right, distances = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
        n = near_codes(self.codes, first, second, self.radius, left, right, distances)
        return None if n > most else (left[:n].copy(), right[:n].copy(), distances[:n].copy())


class _NearWeighted:
    """The same by weighted distances, whose unit is that of the weights."""

    def __init__(
        self, codes: npt.NDArray[np.uint64], radius: float, nbits: int, bit_weights: npt.NDArray[np.float64]
    ) -> None:
        from skhash.codes._kernels import byte_tables

        weights, self.unit = quantize_weights(bit_weights, nbits)
        self.table = byte_tables(0 * weights[None], weights[None])[0]
        self.packed = read_only(codes.view(np.uint8)[:, : -(-nbits // 8)])
        self.radius = radius

    def __call__(self, first: int, second: int, most: int) -> Pairs | None:
        from skhash.codes._kernels import BLOCK, byte_table_distances

        a, b = self.packed[first : first + BLOCK], self.packed[second : second + BLOCK]
        whole = np.empty((len(a), len(b)), np.int64)
        byte_table_distances(a, b, self.table, whole)
        distances = whole * self.unit
        is_near = np.triu(distances <= self.radius, first - second + 1)  # those of a later code
        left, right = (rows.astype(np.int64) for rows in np.nonzero(is_near))
        return None if len(left) > most else (first + left, second + right, np.asarray(distances[is_near]))
