"""Baselines that do not learn to hash: signs, fewer or shorter numbers, RaBitQ, and FAISS's PQ, OPQ and LSH.

Each baseline is built for a number of bits per item, factors included. It compares by the Euclidean distance, or by the
inner product of the centered items with the query, which is not centered. This differs from the inner product of the
items by a constant per query, and ranks the items alike. Signs and FAISS's LSH have `encode` and `project_queries`, and
are searched as hashers are. The others learn by `fit`, store items by `add`, and find the k nearest of these by
`search`, in any order. Names, parameters and meanings are in :data:`skhash.registry.BASELINES`.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from skhash._validation import evenly_spaced
from skhash.codes import binarize, pack
from skhash.hashers.shallow._linear import orthonormal_map, principal_map
from skhash.registry import BASELINES

Floats = npt.NDArray[np.float32]
Found = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]

N_TRAINING = 10_240  # items that principal components and codebooks learn from at most
N_CENTROIDS = 256  # of each part of PQ
FACTOR_BITS = 64  # of RaBitQ and of EmbeddingHasher: two numbers per item


@dataclass(eq=False)
class Baseline:
    """Items behind a map to their first features or principal components, of which a random rotation is optional."""

    nbits: int
    random_state: int
    metric: str = "euclidean"
    axes: str = "features"  # or "components"
    rotate: bool = False
    center: bool = True
    dtype: str = "float32"  # of stored numbers

    unit, bits_of_unit, n_reserved = "bits", 1, 0

    @property
    def n_stored(self) -> int:
        """Number of units that an item is stored as."""
        return (self.nbits - self.n_reserved) // self.bits_of_unit

    def fit(self, items: Floats) -> Self:
        """Learn the mean and the map."""
        n = self.n_stored
        self.mean_ = items.mean(axis=0) if self.center else np.float32(0)
        self.map_ = _components(items, n) if self.axes == "components" else None
        if self.rotate:
            rng = np.random.RandomState(self.random_state)
            if self.map_ is None or n == items.shape[1]:
                self.map_ = orthonormal_map(items.shape[1], n, rng).astype(np.float32)
            else:
                self.map_ = self.map_ @ orthonormal_map(n, n, rng).astype(np.float32)
        return self

    def _map_items(self, X: Floats) -> Floats:
        return self._map(X - self.mean_)

    def _map_queries(self, X: Floats) -> Floats:
        return self._map(X if self.metric == "inner" else X - self.mean_)

    def _map(self, X: Floats) -> Floats:
        return X[:, : self.n_stored] if self.map_ is None else X @ self.map_


class SignMap(Baseline):
    """Codes from signs."""

    thresholds_: Any = np.float32(0)

    def project_queries(self, X: Floats) -> Floats:
        """Real queries of shape (n_queries, nbits)."""
        queries = self._map_queries(X)
        return queries if self.metric == "inner" else queries - self.thresholds_

    def encode(self, X: Floats) -> npt.NDArray[np.uint8]:
        """Packed codes of shape (n, ceil(nbits / 8))."""
        return pack(binarize(self._map_items(X) - self.thresholds_))


class FaissLSH(SignMap):
    """FAISS's LSH: signs of a random rotation, each compared with its median over the items."""

    def fit(self, items: Floats) -> Self:
        """Learn the medians."""
        faiss = import_module("faiss")
        self.mean_ = items.mean(axis=0)
        self.index_ = faiss.IndexLSH(items.shape[1], self.nbits, True, True)
        self.index_.rrot.init(self.random_state)
        self.index_.train(items - self.mean_)
        self.thresholds_ = faiss.vector_to_array(self.index_.thresholds)
        return self

    def _map(self, X: Floats) -> Floats:
        rotated: Floats = self.index_.rrot.apply(X)
        return rotated


class _Reconstruction(Baseline):
    """Items that are stored as `scale_` times `stored_`, and compared by these."""

    stored_: Floats
    squares_: Floats
    scale_: Any = np.float32(1)

    def search(self, queries: Floats, k: int) -> Found:
        """Distances, but for a constant of each query, and indices of the k nearest items, in any order."""
        squares = np.float32(0) if self.metric == "inner" else self.squares_
        distances = squares - 2 * self.scale_ * (self._map_queries(queries) @ self.stored_.T)
        items = np.argpartition(distances, k - 1, axis=1)[:, :k]
        return np.take_along_axis(distances, items, axis=1), items


@dataclass(eq=False)
class Truncation(_Reconstruction):
    """Fewer numbers of a shorter dtype; "uint8" divides each range in 255 steps."""

    def __post_init__(self) -> None:
        self.unit, self.bits_of_unit = f"{self.dtype} numbers", 8 * np.dtype(self.dtype).itemsize
        self.center = self.axes == "components"  # features are stored as they are

    def fit(self, items: Floats) -> Self:
        """Learn the components, and the range of each number."""
        values = super().fit(items)._map_items(items)
        self.low_, self.step_ = values.min(axis=0), np.ptp(values, axis=0) / 255
        self.step_[self.step_ == 0] = 1
        return self

    def add(self, items: Floats) -> None:
        """Store the items, rounded to the dtype."""
        values = self._map_items(items)
        if self.dtype == "uint8":
            codes = np.rint((values - self.low_) / self.step_).clip(0, 255)
            self.stored_ = codes * self.step_ + self.low_
        else:
            self.stored_ = values.astype(self.dtype).astype(np.float32)
        self.squares_ = np.square(self.stored_).sum(axis=1)


@dataclass(eq=False)
class RaBitQ(_Reconstruction):
    """Signs of rotated differences to the mean, and two factors, as FAISS's IndexRaBitQ with ``qb=0`` has them."""

    axes: str = "components"
    rotate: bool = True

    unit, n_reserved = "signs beside its 8 bytes of factors", FACTOR_BITS

    def add(self, items: Floats) -> None:
        """Store signs and factors."""
        rotated = self._map_items(items)
        self.stored_ = np.where(rotated >= 0, np.float32(1), np.float32(-1))
        self.squares_, totals = np.square(rotated).sum(axis=1), np.abs(rotated).sum(axis=1)
        self.scale_ = np.divide(self.squares_, totals, out=np.zeros_like(totals), where=totals > 0)


class FaissPQ(Baseline):
    """FAISS's product quantization of padded features, or of at most 8 dimensions per part by a learned map (OPQ)."""

    unit, bits_of_unit = "parts", 8

    def fit(self, items: Floats) -> Self:
        """Learn the rotation and the codebooks."""
        faiss, n_features = import_module("faiss"), items.shape[1]
        self.mean_ = items.mean(axis=0)
        per_part = -(-n_features // self.n_stored)
        self.n_dimensions_ = self.n_stored * (min(8, per_part) if self.rotate else per_part)
        metric = faiss.METRIC_INNER_PRODUCT if self.metric == "inner" else faiss.METRIC_L2
        self.index_ = faiss.IndexPQ(self.n_dimensions_, self.n_stored, 8, metric)
        clusters = self.index_.pq.cp
        clusters.seed, clusters.min_points_per_centroid = 1 + self.random_state, 1  # no warning about few items
        sample = _spread(items) - self.mean_
        if self.rotate:
            self.rotation_ = faiss.OPQMatrix(n_features, self.n_stored, self.n_dimensions_)
            self.rotation_.niter, self.rotation_.max_train_points = 10, N_TRAINING
            self.rotation_.pq = faiss.ProductQuantizer(self.n_dimensions_, self.n_stored, 8)
            self.rotation_.pq.cp.min_points_per_centroid = 1
            self.rotation_.train(sample)
        self.index_.train(self._map(sample))
        return self

    def add(self, items: Floats) -> None:
        """Store codes."""
        self.index_.add(self._map_items(items))

    def search(self, queries: Floats, k: int) -> Found:
        """Distances and indices of the k nearest items, in any order."""
        distances, items = self.index_.search(self._map_queries(queries), k)
        return -distances if self.metric == "inner" else distances, items

    def _map(self, X: Floats) -> Floats:
        if self.rotate:
            rotated: Floats = self.rotation_.apply(X)
            return rotated
        return np.pad(X, ((0, 0), (0, self.n_dimensions_ - X.shape[1])))


def make_baseline(name: str, nbits: int, seed: int, **parameters: Any) -> Any:
    """Baseline of a name, not fitted."""
    variant = BASELINES[name]
    return globals()[variant.method.class_name](nbits, seed, **variant.parameters, **parameters)


def why_not(name: str, nbits: int, n_features: int, n_items: int) -> str | None:
    """Reason why a method of the task "neighbors" cannot store an item in `nbits` bits; None if it can."""
    n_bytes = nbits // 8
    if name not in BASELINES:
        return None if nbits > FACTOR_BITS else f"{n_bytes} bytes leave no bits beside its 8 bytes of factors"
    if nbits % 8:
        return "its size is a whole number of bytes"
    baseline = make_baseline(name, nbits, 0)
    n, unit, is_lsh = baseline.n_stored, baseline.unit, isinstance(baseline, FaissLSH)
    if isinstance(baseline, FaissPQ | FaissLSH) and faiss_version() is None:
        return "needs faiss-cpu"
    if isinstance(baseline, FaissPQ) and n_items < N_CENTROIDS:
        return f"it learns from at least {N_CENTROIDS} items, and there are {n_items}"
    if n < 1:
        return f"{n_bytes} bytes leave no {unit}"
    if is_lsh or n <= n_features:  # FAISS's LSH draws more directions than features
        return None
    return f"{n_bytes} bytes hold {n} {unit}, more than the {n_features} features"


def faiss_version() -> str | None:
    """Version of FAISS; None if it is not installed."""
    try:
        return str(import_module("faiss").__version__)
    except ImportError:
        return None


def _spread(items: Floats) -> Floats:
    return items[evenly_spaced(len(items), N_TRAINING)]


def _components(items: Floats, n: int) -> Floats:
    """Map of centered items to their first principal components."""
    centered = _spread(items).astype(np.float64)
    return principal_map(centered - centered.mean(axis=0), n, np.random.RandomState(0)).astype(np.float32)
