"""All pairs of near codes, in blocks of bounded size.

The bits are dealt into m parts. Two codes that differ in at most t bits agree in at least m - t of them. So the codes
are sorted once for each choice of m - t parts, the key, and only codes with equal keys are compared. The first key that
finds a pair returns it. A sample of the codes tells how many parts cost the least, and whether comparing all pairs
costs less. With weights t counts only heavy bits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from math import comb, inf
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import gen_batches

from skhash._threads import run_in_slices
from skhash.codes.bits import quantize_weights
from skhash.codes.blocks import read_only

MAX_PAIRS = 2**20  # of a block of pairs, which bounds the memory
GROUP = 64  # tasks that share a block of pairs
TASK = 2**15  # sorted codes that are compared at a time
CHUNK = 2**18  # codes that are sorted into parts of the key space at a time
PART = 2**11  # codes of such a part, which stay in the cache
MAX_PART_BITS = 12  # more parts than that, and writing to them misses the tables of pages
SAMPLE = 2**13  # codes that estimate the cost
MAX_TRIED = 8  # keys that estimate the cost of all, of each number of parts
SORTING, COMPARING, IN_BLOCKS = 3e-8, 3e-9, 4e-10  # seconds per code and key, and per pair (benchmarks/duplicates.py)
WORTH_SAMPLING = 0.05  # seconds

Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]  # positions i < j, distances
Words = npt.NDArray[np.uint64]


def near_pairs(
    codes: Words,
    radius: float,
    nbits: int,
    bit_weights: npt.NDArray[np.float64] | None = None,
    show: Callable[[float], object] = lambda done: None,
) -> Iterator[Pairs]:
    """All pairs of codes, of shape (n_items, n_words), up to a real distance, in blocks of at most MAX_PAIRS.

    `show` takes the part of the work that is done, from 0 to 1.
    """
    distance = _Distance.of(radius, nbits, codes.shape[1], bit_weights)
    codes = read_only(codes & distance.mask)
    parts = distance.cheapest_parts(codes)
    for begin, end, tasks in _in_blocks(codes, distance) if parts is None else _in_runs(codes, distance, *parts):
        for group in gen_batches(len(tasks), GROUP):
            show(begin + (end - begin) * group.start / len(tasks))
            yield from _found(tasks[group])
    show(1.0)


def near_rows(
    n: int, blocks: Iterator[Pairs], by_distance: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distances and positions of the partners of each of n items, item after item, and where those of each one begin.

    They are in the order of their positions, or by distance and then by position.
    """
    none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    left, right, distances = map(np.concatenate, zip(none, *blocks, strict=True))
    rows, columns = np.concatenate([left, right]), np.concatenate([right, left])
    graph = sparse.coo_array((np.tile(distances, 2), (rows, columns)), shape=(n, n)).tocsr()
    graph.sort_indices()
    order: Any = slice(None)
    if by_distance:
        order = np.lexsort((graph.data, np.repeat(np.arange(n), np.diff(graph.indptr))))
    return graph.data[order], graph.indices[order].astype(np.int64), graph.indptr.astype(np.int64)


@dataclass(frozen=True)
class _Distance:
    """What is near: pairs that differ in at most `n_bits` bits of weight, with a real distance up to `radius`."""

    n_bits: int
    radius: float
    weights: npt.NDArray[np.int64]  # of the bits of words, the lowest first; 0 after the last bit of a code
    unit: float
    table: npt.NDArray[np.int64]  # of bytes, see `pair_kernels`

    @classmethod
    def of(cls, radius: float, nbits: int, n_words: int, bit_weights: npt.NDArray[np.float64] | None) -> "_Distance":
        """A distance of codes of `nbits` bits."""
        whole, unit = (np.ones(nbits, np.int64), 1.0) if bit_weights is None else quantize_weights(bit_weights, nbits)
        padded = np.zeros((8 * n_words, 8), np.int64)
        padded.reshape(-1)[:nbits] = whole
        values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
        table = np.zeros((0, 256), np.int64) if bit_weights is None else np.ascontiguousarray(padded @ values.T)
        ascending = np.sort(whole[whole > 0])
        n_bits = int(np.count_nonzero(np.cumsum(ascending) * unit <= radius))
        return cls(n_bits, float(radius), padded[:, ::-1].reshape(-1), unit, table)

    @property
    def terms(self) -> tuple[Any, ...]:
        """The same for a kernel."""
        return self.n_bits, self.table, self.unit, self.radius

    @property
    def mask(self) -> Words:
        """The bits that have a weight."""
        mask: Words = _masks(self.weights[None] > 0)[0]
        return mask

    def heaviest(self, t: int) -> npt.NDArray[np.int64]:
        """The most bits, the heaviest, of which a near pair differs in at most t."""
        order = np.argsort(-self.weights, kind="stable")[: np.count_nonzero(self.weights)]
        sums = np.concatenate([[0], np.cumsum(self.weights[order])])
        n_beyond = np.count_nonzero((sums[t + 1 :] - sums[: -t - 1]) * self.unit > self.radius)
        return order[: n_beyond + t if n_beyond else 0]

    def cheapest_parts(self, codes: Words) -> tuple[Words, int] | None:
        """Parts of the bits, and in how many of them a near pair can differ; None if comparing all pairs costs less."""
        n, n_words = codes.shape
        n_pairs = n * (n - 1) / 2
        least, best = n_pairs * n_words * IN_BLOCKS, None
        if least < WORTH_SAMPLING:
            return None
        rng = np.random.default_rng(0)
        sample = codes[rng.choice(n, min(n, SAMPLE), replace=False, shuffle=False)]
        for t in _spread(self.n_bits):
            bits, previous = _evenest_first(self.heaviest(t), sample), inf
            for m in range(t + 1, len(bits) + 1):
                parts, cost = _dealt(bits, m, n_words), comb(m, t) * n * SORTING
                if cost < min(least, previous):
                    cost += n_pairs * _share_in_runs(sample, parts, t) * COMPARING
                if cost >= previous:
                    break
                previous = cost
                if cost < least:
                    least, best = cost, (parts, t)
        return best


# --- parts and keys


def _keys(m: int, t: int) -> Iterator[npt.NDArray[np.bool_]]:
    """All choices of m - t of m parts."""
    for chosen in combinations(range(m), m - t):
        yield np.isin(np.arange(m), chosen)


def _mask(parts: Words, key: npt.NDArray[np.bool_]) -> Words:
    """The bits of the parts of a key."""
    mask: Words = np.bitwise_or.reduce(parts[key], axis=0)
    return mask


def hash_factors(n_words: int) -> Words:
    """Odd numbers that make a hash of the words of a code."""
    return np.random.default_rng(0).integers(0, 2**64, n_words, np.uint64) | np.uint64(1)


def _spread(last: int) -> list[int]:
    """A few whole numbers from 0 to the last one, more of the small ones."""
    numbers: list[int] = np.unique(np.rint(np.geomspace(1, last + 1, 2 * MAX_TRIED) - 1).astype(int)).tolist()
    return numbers


def _evenest_first(bits: npt.NDArray[np.int64], sample: Words) -> npt.NDArray[np.int64]:
    """Bits in the order of how evenly a sample has them set."""
    if not len(bits):
        return bits
    of_sample = np.unpackbits(sample[:1024].view(np.uint8), axis=1, bitorder="little")
    return bits[np.argsort(np.abs(of_sample.mean(axis=0)[bits] - 0.5), kind="stable")]


def _dealt(bits: npt.NDArray[np.int64], m: int, n_words: int) -> Words:
    """Masks of m parts, to which bits are dealt in turn, of shape (m, n_words)."""
    of_parts = np.zeros((m, 64 * n_words), bool)
    of_parts[np.arange(len(bits)) % m, bits] = True
    return _masks(of_parts)


def _masks(bits: npt.NDArray[np.bool_]) -> Words:
    """Rows of bits, the lowest first, as rows of words."""
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


def _share_in_runs(sample: Words, parts: Words, t: int) -> float:
    """Share of the pairs of a sample that agree in a key, summed over all keys, from a few of them."""
    n_keys, shares = comb(len(parts), t), []
    for key in islice(_keys(len(parts), t), 0, None, -(-n_keys // MAX_TRIED)):
        hashes = ((sample & _mask(parts, key)) * hash_factors(sample.shape[1])).sum(axis=1)
        counts = np.unique(hashes, return_counts=True)[1]
        shares.append((counts * (counts - 1)).sum() / (len(sample) * (len(sample) - 1)))
    return n_keys * float(np.mean(shares))


# --- searches


class _Task:
    """Codes that a kernel compares with later ones, and where it continues."""

    def __init__(self, first: int, last: int, compare: Callable[..., int]) -> None:
        self.last, self.compare = last, compare
        self.state = np.array([first, 0])

    def pairs(self, room: int) -> Pairs:
        """The next pairs, at most `room`."""
        left, right, distances = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
        n = self.compare(self.last, self.state, left, right, distances)
        return left[:n], right[:n], distances[:n]

    @property
    def is_done(self) -> bool:
        """Whether there are no more pairs."""
        return bool(self.state[0] == self.last)


_Search = tuple[float, float, Sequence[_Task]]  # the part of all work that is done before and after some tasks


def _in_blocks(codes: Words, distance: _Distance) -> Iterator[_Search]:
    """Compare each block of codes with itself and all later ones."""
    from skhash.codes.pair_kernels import BLOCK, near_in_blocks

    n = len(codes)
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        tasks = [
            _Task(first, last, partial(near_in_blocks, codes, second, *distance.terms))
            for second in range(first, n, BLOCK)
        ]
        yield 1 - (1 - first / n) ** 2, 1 - (1 - last / n) ** 2, tasks


def _in_runs(codes: Words, distance: _Distance, parts: Words, t: int) -> Iterator[_Search]:
    """Sort the codes by each key, and compare those whose keys are equal."""
    from skhash.codes.pair_kernels import near_in_runs

    n, m = len(codes), len(parts)
    n_keys = comb(m, t)
    in_parts, in_runs = ((np.empty_like(codes), np.empty(n, np.int64)) for _ in range(2))
    ends = np.empty(n, np.int64)
    for number, key in enumerate(_keys(m, t)):
        _sort(codes, _mask(parts, key), in_parts, in_runs, ends)
        compare = partial(near_in_runs, *in_runs, ends, parts, key, *distance.terms)
        tasks = [_Task(part.start, part.stop, compare) for part in gen_batches(n, TASK)]
        yield number / n_keys, (number + 1) / n_keys, tasks


def _sort(
    codes: Words,
    mask: Words,
    in_parts: tuple[Words, npt.NDArray[np.int64]],
    in_runs: tuple[Words, npt.NDArray[np.int64]],
    ends: npt.NDArray[np.int64],
) -> None:
    """Sort codes and their positions by the bits of a mask: first into parts of the space of hashes, then into runs."""
    from skhash.codes.pair_kernels import count_parts, fill_parts, sort_parts

    n = len(codes)
    factors, n_bits = hash_factors(codes.shape[1]), min(MAX_PART_BITS, max(1, (n // PART).bit_length()))
    chunks = list(gen_batches(n, CHUNK))
    counts = np.zeros((len(chunks), 2**n_bits), np.int64)
    terms = mask, factors, np.uint64(64 - n_bits)

    def for_chunks(kernel: Callable[..., None], of_chunks: npt.NDArray[np.int64], *arrays: npt.NDArray[Any]) -> None:
        def run(chosen: slice) -> None:
            for number in range(chosen.start, chosen.stop):
                kernel(codes, chunks[number].start, chunks[number].stop, *terms, of_chunks[number], *arrays)

        run_in_slices(run, len(chunks))

    for_chunks(count_parts, counts)
    places = np.cumsum(counts.T).reshape(-1, len(chunks)).T - counts  # by part, then by chunk
    starts = np.append(places[0], n)
    for_chunks(fill_parts, np.ascontiguousarray(places), *in_parts)
    run_in_slices(
        lambda part: sort_parts(*in_parts, starts, part.start, part.stop, mask, factors, n_bits, *in_runs, ends),
        len(starts) - 1,
    )


def _found(tasks: Sequence[_Task]) -> Iterator[Pairs]:
    """Blocks of the pairs that tasks find; a task without room for more of them continues in the next block."""
    while tasks:
        room = MAX_PAIRS // len(tasks)
        found: list[Any] = [None] * len(tasks)

        def search(chosen: slice, tasks: Sequence[_Task] = tasks, room: int = room, found: list[Any] = found) -> None:
            for number in range(chosen.start, chosen.stop):
                found[number] = tasks[number].pairs(room)

        run_in_slices(search, len(tasks))
        left, right, distances = map(np.concatenate, zip(*found, strict=True))
        if len(left):
            yield left, right, distances
        tasks = [task for task in tasks if not task.is_done]
