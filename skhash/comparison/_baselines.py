"""Baselines that do not learn to hash: signs, fewer or shorter numbers, ASH, and the codes of FAISS.

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
from sklearn.model_selection import ParameterGrid
from sklearn.utils import gen_batches

from skhash._compat import cached_property
from skhash._validation import evenly_spaced
from skhash.codes import binarize, pack
from skhash.hashers.shallow.linear import orthonormal_map, principal_map
from skhash.registry import BASELINES

Floats = npt.NDArray[np.float32]
Found = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]

N_TRAINING = 10_240  # items that principal components and codebooks learn from at most
N_CENTROIDS = 256  # of each part of PQ
FACTOR_BITS = 64  # of EmbeddingHasher: two numbers per item
ASH_BYTES = 5  # beside the code
N_CODEBOOKS = 16  # of residual quantization and LSQ, at most
N_ROTATIONS = 25  # of ASH
_N_ROWS = 1000  # of numbers that are rounded together
_QUERY_BITS = 8  # of RaBitQ, for each number of a query: as good as floats, and a hundred times as fast


@dataclass(eq=False)
class Baseline:
    """Items as their first features or principal components, with an optional random rotation."""

    nbits: int
    random_state: int
    metric: str = "euclidean"
    axes: str = "features"  # or "components"
    rotate: bool = False
    center: bool = True
    dtype: str = "float32"  # of stored numbers

    unit, bits_of_unit = "bits", 1

    @property
    def n_stored(self) -> int:
        """Number of units that an item is stored as."""
        return self.nbits // self.bits_of_unit

    def fit(self, items: Floats) -> Self:
        """Learn the mean and the map."""
        n = min(self.n_stored, items.shape[1])
        self.mean_ = items.mean(axis=0) if self.center else np.float32(0)
        self.map_ = _components(items, n) if self.axes == "components" else None
        if self.rotate:
            rng = np.random.RandomState(self.random_state)
            if self.map_ is None or n == items.shape[1]:
                self.map_ = orthonormal_map(items.shape[1], n, rng).astype(np.float32)
            else:
                self.map_ = self.map_ @ orthonormal_map(n, n, rng).astype(np.float32)
        return self

    def fills(self, n_features: int) -> bool:
        """Whether all features take more than half of the bytes, where there is room for more."""
        return False

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


@dataclass(eq=False)
class Truncation(Baseline):
    """Fewer numbers of a shorter dtype; "uint8" divides each range in 255 steps. Their search is that of floats."""

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

    def search(self, queries: Floats, k: int) -> Found:
        """Distances up to a constant per query, and indices of the k nearest items, in any order."""
        squares = np.float32(0) if self.metric == "inner" else self.squares_
        return _smallest(squares - 2 * (self._map_queries(queries) @ self.stored_.T), k)


@dataclass(eq=False)
class ASH(Baseline):
    """Directions of items as numbers of a few bits, behind learned orthonormal axes, and two more numbers (ASH).

    The direction of an item x is r = (x - mu) / |x - mu|. A number of its code c is one of +-1/2, +-3/2, and so on. The
    code is the one with the smallest angle to the direction, among the roundings of its multiples. The axes W are the
    first principal components behind a rotation that is learned with the codes in turn. The score

        <q, x> ~ <q, mu> + scale <W^T q, c> + offset,   scale = |x - mu| / |c|

    takes 5 bytes beside the code: both numbers in float16, and a byte for the number of mu, of which there is one here.
    """

    bits: int = 1

    def __post_init__(self) -> None:
        self.unit, self.axes = f"numbers of {self.bits} bits", "components"

    @property
    def n_stored(self) -> int:
        """Number of axes that fit."""
        return max(self.nbits - ASH_BYTES * 8, 0) // self.bits

    def fills(self, n_features: int) -> bool:
        """Whether all features take more than half of the bytes, where there is room for more."""
        return 2 * (n_features * self.bits + ASH_BYTES * 8) > self.nbits

    def fit(self, items: Floats) -> Self:
        """Learn the mean and the axes."""
        super().fit(items)
        sample = _spread(items) - self.mean_
        values = self._map(sample / _norms(sample))
        rotation: Any = orthonormal_map(values.shape[1], values.shape[1], np.random.RandomState(self.random_state))
        for _ in range(N_ROTATIONS):
            codes = nearest_numbers(values @ rotation.astype(np.float32), self.bits)
            left, _, right = np.linalg.svd((values.T @ (codes / _norms(codes))).astype(np.float64))
            rotation = left @ right
        self.map_ = self.map_ @ rotation.astype(np.float32)
        self.scale_ = np.sqrt(np.square(sample).sum(axis=1).mean()) or np.float32(1)
        return self

    def add(self, items: Floats) -> None:
        """Store codes, scales and offsets."""
        centered = items - self.mean_
        codes = nearest_numbers(self._map(centered / _norms(centered)), self.bits)
        scales = _as_float16(_norms(centered) / _norms(codes), self.scale_)
        self.stored_ = codes * scales
        if self.metric == "inner":  # queries are not centered
            mean: Any = self.mean_
            offsets = centered @ mean - self.stored_ @ self._map(mean[None])[0]
        else:
            offsets = -np.square(centered).sum(axis=1) / 2
        self.offsets_ = _as_float16(offsets, self.scale_**2)

    def search(self, queries: Floats, k: int) -> Found:
        """Distances up to a constant per query, and indices of the k nearest items, in any order."""
        return _smallest(-2 * (self._map_queries(queries) @ self.stored_.T + self.offsets_), k)


def nearest_numbers(values: Floats, bits: int) -> Floats:
    """Numbers +-1/2, +-3/2, ... of `bits` bits, near a multiple of each row, with the smallest angle to it.

    A multiple changes its nearest numbers where one of its values is whole. All these places are tried, in order.
    """
    codes, whole = np.empty_like(values), np.arange(1, 2 ** (bits - 1), dtype=np.float32)
    for part in gen_batches(len(values), _N_ROWS):
        sizes = np.abs(values[part])
        inverse = sizes[:, :, None] / whole  # the larger, the sooner is a multiple of the value whole
        order = np.argsort(-inverse.reshape(len(sizes), sizes.shape[1] * len(whole)), axis=1)
        axes, steps = np.divmod(order, max(len(whole), 1))
        products, squares = np.take_along_axis(sizes, axes, axis=1), 2.0 * (steps + 1)
        products = np.cumsum(np.hstack([sizes.sum(axis=1, keepdims=True) / 2, products]), axis=1)
        squares = np.cumsum(np.hstack([np.full((len(sizes), 1), sizes.shape[1] / 4), squares]), axis=1)
        best = np.argmax(products / np.sqrt(squares), axis=1)
        is_larger = np.empty(order.shape, bool)
        np.put_along_axis(is_larger, order, np.arange(order.shape[1]) < best[:, None], axis=1)
        codes[part] = is_larger.reshape(*sizes.shape, len(whole)).sum(axis=2) + np.float32(0.5)
    return np.where(values >= 0, codes, -codes)


def _norms(X: Floats) -> Any:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.where(norms > 0, norms, 1).astype(np.float32)


def _as_float16(values: Any, unit: Any) -> Floats:
    rounded: Floats = (values / unit).astype(np.float16).astype(np.float32) * np.float32(unit)
    return rounded


class _FaissIndex(Baseline):
    """Items in an index of FAISS that a map of the items feeds."""

    index_: Any

    def add(self, items: Floats) -> None:
        """Store codes."""
        self.index_.add(self._map_items(items))

    def search(self, queries: Floats, k: int) -> Found:
        """Distances and indices of the k nearest items, in any order."""
        distances, items = self.index_.search(self._map_queries(queries), k)
        return -distances if self.metric == "inner" else distances, items

    @property
    def _faiss_metric(self) -> Any:
        faiss = import_module("faiss")
        return faiss.METRIC_INNER_PRODUCT if self.metric == "inner" else faiss.METRIC_L2


@dataclass(eq=False)
class FaissCodes(_FaissIndex):
    """Randomly rotated items as numbers of a few bits, in the largest code of FAISS that fits into the given bits.

    TurboQuant expects vectors of norm 1 and stores no norms: all are divided by the root mean square of their norms.
    """

    axes: str = "components"
    rotate: bool = True
    code: str = "RaBitQ"  # of FAISS's `index_factory`, before the number of bits
    bits: int = 1

    def __post_init__(self) -> None:
        self.unit = f"numbers of {self.bits} bits"

    @cached_property
    def n_stored(self) -> int:
        """Largest number of dimensions whose code fits."""
        n = self.nbits // self.bits
        while n and self.code_size(n) > self.nbits // 8:
            n -= 1
        return n

    def code_size(self, n_dimensions: int) -> int:
        """Bytes of an item, factors included."""
        return int(self._make_index(n_dimensions).code_size)

    def fills(self, n_features: int) -> bool:
        """Whether all features take more than half of the bytes, where there is room for more."""
        return 2 * self.code_size(n_features) > self.nbits // 8

    def _make_index(self, n_dimensions: int) -> Any:
        index = import_module("faiss").index_factory(n_dimensions, f"{self.code}{self.bits}", self._faiss_metric)
        if self.code == "RaBitQ":
            index.qb = _QUERY_BITS
        return index

    def fit(self, items: Floats) -> Self:
        """Learn the mean, the map, and the scale."""
        self.scale_ = np.float32(1)
        sample = super().fit(items)._map_items(_spread(items))
        self.scale_ = np.sqrt(np.square(sample).sum(axis=1).mean()) or self.scale_
        self.index_ = self._make_index(sample.shape[1])
        self.index_.train(sample / self.scale_)
        return self

    def _map(self, X: Floats) -> Floats:
        mapped: Floats = super()._map(X) / self.scale_
        return mapped


class FaissPQ(_FaissIndex):
    """FAISS's product quantization of padded features, or of at most 8 dimensions per part by a learned map (OPQ)."""

    unit, bits_of_unit = "parts", 8

    def fit(self, items: Floats) -> Self:
        """Learn the rotation and the codebooks."""
        faiss, n_features = import_module("faiss"), items.shape[1]
        self.mean_ = items.mean(axis=0)
        per_part = -(-n_features // self.n_stored)
        self.n_dimensions_ = self.n_stored * (min(8, per_part) if self.rotate else per_part)
        self.index_ = faiss.IndexPQ(self.n_dimensions_, self.n_stored, 8, self._faiss_metric)
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

    def _map(self, X: Floats) -> Floats:
        if self.rotate:
            rotated: Floats = self.rotation_.apply(X)
            return rotated
        return np.pad(X, ((0, 0), (0, self.n_dimensions_ - X.shape[1])))


@dataclass(eq=False)
class FaissAdditive(_FaissIndex):
    """FAISS's sums of a vector from each of some codebooks: residual quantization, or local search (LSQ).

    By Euclidean distance, the last byte tells the norm of the sum.
    """

    quantizer: str = "ResidualQuantizer"

    unit, bits_of_unit = "codebooks", 8

    @property
    def n_stored(self) -> int:
        """Number of codebooks."""
        return self.nbits // 8 - (self.metric != "inner")

    def fit(self, items: Floats) -> Self:
        """Learn the codebooks."""
        faiss = import_module("faiss")
        self.mean_ = items.mean(axis=0)
        kinds = faiss.AdditiveQuantizer
        kind = kinds.ST_LUT_nonorm if self.metric == "inner" else kinds.ST_norm_qint8
        index_class = getattr(faiss, f"Index{self.quantizer}")
        self.index_ = index_class(items.shape[1], self.n_stored, 8, self._faiss_metric, kind)
        if self.quantizer == "ResidualQuantizer":
            clusters = self.index_.rq.cp
            clusters.seed, clusters.min_points_per_centroid = 1 + self.random_state, 1  # no warning about few items
        else:
            self.index_.lsq.random_seed += self.random_state
        self.index_.train(_spread(items) - self.mean_)
        return self

    def _map(self, X: Floats) -> Floats:
        return X


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
    if isinstance(baseline, _FaissIndex | FaissLSH) and faiss_version() is None:
        return "needs faiss-cpu"
    if isinstance(baseline, FaissAdditive) and baseline.n_stored > N_CODEBOOKS:
        return f"at most {N_CODEBOOKS} codebooks are learned, because the time grows with the square of their number"
    # codebooks of whole vectors are no larger than the items
    n_least = N_CENTROIDS * (baseline.n_stored if isinstance(baseline, FaissAdditive) else 1)
    if isinstance(baseline, FaissPQ | FaissAdditive) and n_items < n_least:
        return f"it learns from at least {n_least:,} items, and there are {n_items:,}"
    if isinstance(baseline, FaissLSH):  # it draws more directions than features
        return None
    return settings_of(name, nbits, n_features)[1]


def settings_of(name: str, nbits: int, n_features: int) -> tuple[list[dict[str, Any]], str | None]:
    """Settings of a baseline that store an item in `nbits` bits; the reason if there are none."""
    found, reason = [], None
    for setting in ParameterGrid(dict(BASELINES[name].method.search_space)):
        baseline = make_baseline(name, nbits, 0, **setting)
        n, unit = baseline.n_stored, baseline.unit
        if n < 1:
            reason = f"{nbits // 8} bytes leave no {unit}"
        elif n > n_features and not baseline.fills(n_features):
            reason = f"{nbits // 8} bytes hold {n} {unit}, more than the {n_features} features"
        else:
            found.append(setting)
    return found, None if found else reason


def faiss_version() -> str | None:
    """Version of FAISS; None if it is not installed."""
    try:
        return str(import_module("faiss").__version__)
    except ImportError:
        return None


def _smallest(distances: Floats, k: int) -> Found:
    """The k smallest distances of each query, and their items, in any order."""
    items = np.argpartition(distances, k - 1, axis=1)[:, :k]
    return np.take_along_axis(distances, items, axis=1), items


def _spread(items: Floats) -> Floats:
    return items[evenly_spaced(len(items), N_TRAINING)]


def _components(items: Floats, n: int) -> Floats:
    """Map of centered items to their first principal components."""
    centered = _spread(items).astype(np.float64)
    return principal_map(centered - centered.mean(axis=0), n, np.random.RandomState(0)).astype(np.float32)
