"""Search of the codes by an approximate index of FAISS, or on a device; libraries are imported when they are needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skhash._libraries import library
from skhash._threads import is_forked, n_threads
from skhash._validation import check_option
from skhash.codes.blocks import CodeBlocks
from skhash.codes.codes import Codes
from skhash.codes.queries import Bits, Neighbors
from skhash.unwrap import find_hasher

Backend = Literal["exact", "faiss-hnsw", "faiss-ivf", "faiss-multihash"]
BACKENDS = ("exact", "faiss-hnsw", "faiss-ivf", "faiss-multihash")

HNSW_LINKS, HNSW_CANDIDATES = 32, 128  # links of each item in the graph, and candidates of a search
IVF_MIN_LIST = 39  # items per list, the smallest number with which FAISS trains without a warning
IVF_SHARE = 1 / 16  # of the lists that a search reads, at least 8
MAX_HASHES, MULTIHASH_FLIPS = 16, 2  # hash tables, and differing bits of each that a search tries


class ApproximateIndex:
    """Index of FAISS over the codes of items, built in one thread to be reproducible.

    A query for which it finds too few items is searched exactly.
    """

    is_exact, device = False, None

    def __init__(self, backend: str, codes: CodeBlocks) -> None:
        self.backend, self.codes, self._places = backend, codes, codes.places()
        self._faiss = library("faiss", "faiss-cpu", f"backend={backend!r}")
        packed = np.ascontiguousarray(codes.rows())
        with _threads(self._faiss, 1):
            self._index = self._empty_index(codes.nbits, len(packed))
            if not self._index.is_trained:
                self._index.train(packed)
            self._index.add(packed)

    def nearest(self, queries: npt.NDArray[np.uint8], k: int) -> Neighbors:
        """Approximate k nearest items, sorted as by an exact search; `n_ties` is 0, because it is not known."""
        with _threads(self._faiss, n_threads()):
            distances, indices = self._index.search(np.ascontiguousarray(queries), k)
        order = np.lexsort((indices, distances), axis=1)
        distances, indices = np.take_along_axis(distances, order, axis=1), np.take_along_axis(indices, order, axis=1)
        short = np.flatnonzero((indices < 0).any(axis=1))
        places = self._places[indices]
        if len(short):
            exact = Bits(Codes(queries[short], self.codes.nbits)).nearest(self.codes, k)
            distances[short], places[short] = exact.distances, exact.indices
        return Neighbors(distances, places, np.zeros(len(queries), dtype=np.int64))

    def radius_search(
        self, queries: npt.NDArray[np.uint8], radius: float
    ) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
        """Most of the items within a distance, in the order of the index."""
        if self.backend == "faiss-hnsw":
            raise ValueError(
                "`backend` must be 'exact', 'faiss-ivf' or 'faiss-multihash' for a search within a radius, which the "
                "HNSW index of FAISS does not support. Got 'faiss-hnsw' instead."
            )
        below = int(min(radius, 8 * self.codes.n_bytes)) + 1  # FAISS finds distances below a bound, not at it
        with _threads(self._faiss, n_threads()):
            limits, distances, indices = self._index.range_search(np.ascontiguousarray(queries), below)
        bounds = limits[1:-1].astype(np.int64)
        found = list(zip(np.split(distances, bounds), np.split(indices, bounds), strict=True))
        orders = [np.argsort(items) for _, items in found]
        return (
            [near[order].astype(np.float64) for (near, _), order in zip(found, orders, strict=True)],
            [self._places[items[order]] for (_, items), order in zip(found, orders, strict=True)],
        )

    def _empty_index(self, nbits: int, n_items: int) -> Any:
        faiss, width = self._faiss, 8 * self.codes.n_bytes
        if self.backend == "faiss-hnsw":
            index = faiss.IndexBinaryHNSW(width, HNSW_LINKS)
            index.hnsw.efSearch = HNSW_CANDIDATES
        elif self.backend == "faiss-ivf":
            n_lists = max(1, min(int(4 * n_items**0.5), n_items // IVF_MIN_LIST))
            self._quantizer = faiss.IndexBinaryFlat(width)  # a reference, because the index does not own it
            index = faiss.IndexBinaryIVF(self._quantizer, width, n_lists)
            index.cp.min_points_per_centroid = 1  # else FAISS prints a warning for fewer items than IVF_MIN_LIST
            index.nprobe = min(n_lists, max(8, int(n_lists * IVF_SHARE)))
        else:
            hash_bits = min(nbits, max(4, n_items.bit_length()))
            index = faiss.IndexBinaryMultiHash(width, min(MAX_HASHES, nbits // hash_bits), hash_bits)
            index.nflip = MULTIHASH_FLIPS
        return index


def build_code_search(backend: str, device: Any, codes: CodeBlocks, hasher: Any) -> Any:
    """Search by Hamming distance of a backend or on a device of torch; None for the exact one by compiled code."""
    if backend == "exact" and device is None:
        return None
    check_option("backend", backend, BACKENDS)
    if getattr(find_hasher(hasher), "bit_weights_", None) is not None:
        raise ValueError(
            f"`backend` must be 'exact' for weighted bits, which FAISS does not support. Got {backend!r}."
            if device is None
            else f"`device` must be None for weighted bits, which it does not support. Got '{device}' instead."
        )
    if device is None:
        return ApproximateIndex(backend, codes)
    from skhash.codes.torch_search import DeviceCodes

    return DeviceCodes(codes, device)


@contextmanager
def _threads(faiss: Any, n: int) -> Iterator[None]:
    """Context manager that lets FAISS use n threads, but one in a forked process, where OpenMP can hang."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1 if is_forked() else n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
