"""Baselines that do not learn to hash: signs, fewer or shorter numbers, RaBitQ, and FAISS's PQ, OPQ and LSH.

Each baseline is built for a number of bits per item, factors included. It compares by the Euclidean distance, or by the
inner product of the centered items with the query, which is not centered. This differs from the inner product of the
items by a constant per query, and ranks the items alike. Signs and FAISS's LSH have `encode` and `project_queries`, and
are searched as hashers are. The others learn by `fit`, store items by `add`, and find the k nearest of these by
`search`, in any order. Names, parameters and meanings are in :data:`skhash.registry.BASELINES`.
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from skhash._libraries import library
from skhash._validation import evenly_spaced
from skhash.codes import binarize, pack
from skhash.hashers.shallow._linear import orthonormal_map, principal_map
from skhash.registry import BASELINES

Floats = npt.NDArray[np.float32]
Found = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]

N_TRAINING = 10_240  # items that principal components and codebooks learn from at most
N_CENTROIDS = 256  # of each part of PQ
FACTOR_BITS = 64  # of RaBitQ and of EmbeddingHasher: two numbers per item


class SignMap:
    """Codes from the signs of the first features or principal components, of which a random rotation is optional."""

    def __init__(
        self,
        nbits: int,
        random_state: int,
        center: bool = True,
        rotate: bool = False,
        axes: str = "features",
        metric: str = "euclidean",
    ) -> None:
        self.nbits, self.random_state, self.metric = nbits, random_state, metric
        self.center, self.rotate, self.axes = center, rotate, axes

    def fit(self, items: Floats) -> Self:
        """Learn the mean and the map."""
        self.mean_ = items.mean(axis=0) if self.center else np.float32(0)
        self.map_ = None
        if self.rotate:
            rng = np.random.RandomState(self.random_state)
            self.map_ = _rotation(items, self.nbits, rng, self.axes)
        elif self.axes == "components":
            self.map_ = _components(items, self.nbits)
        return self

    def project_queries(self, X: Floats) -> Floats:
        """Real queries of shape (n_queries, nbits)."""
        return self._mapped(X if self.metric == "inner" else X - self.mean_)

    def encode(self, X: Floats) -> npt.NDArray[np.uint8]:
        """Packed codes of shape (n, ceil(nbits / 8))."""
        return pack(binarize(self._mapped(X - self.mean_)))

    def _mapped(self, X: Floats) -> Floats:
        return X[:, : self.nbits] if self.map_ is None else X @ self.map_


class Truncation:
    """The first features or principal components, as shorter numbers; "uint8" divides each range in 255 steps."""

    def __init__(
        self, nbits: int, random_state: int, dtype: str, axes: str = "features", metric: str = "euclidean"
    ) -> None:
        self.dtype, self.axes, self.metric = np.dtype(dtype), axes, metric
        self.n_stored = nbits // (8 * self.dtype.itemsize)

    def fit(self, items: Floats) -> Self:
        """Learn the components, and the range of each number."""
        self.mean_ = items.mean(axis=0)
        self.map_ = None if self.axes == "features" else _components(items, self.n_stored)
        values = self._values(items)
        self.low_, self.step_ = values.min(axis=0), np.ptp(values, axis=0) / 255
        self.step_[self.step_ == 0] = 1
        return self

    def add(self, items: Floats) -> None:
        """Store the items, rounded to the dtype."""
        values = self._values(items)
        if self.dtype == np.uint8:
            codes = np.rint((values - self.low_) / self.step_).clip(0, 255)
            self.stored_ = codes * self.step_ + self.low_
        else:
            self.stored_ = values.astype(self.dtype).astype(np.float32)

    def search(self, queries: Floats, k: int) -> Found:
        """Distances and indices of the k nearest items, both of shape (n_queries, k), in any order."""
        if self.metric == "inner":
            values = queries[:, : self.n_stored] if self.map_ is None else queries @ self.map_
            return _smallest(-(values @ self.stored_.T), k)
        values = self._values(queries)
        return _smallest(np.square(self.stored_).sum(axis=1) - 2 * (values @ self.stored_.T), k)

    def _values(self, X: Floats) -> Floats:
        return X[:, : self.n_stored] if self.map_ is None else (X - self.mean_) @ self.map_


class RaBitQ:
    """Signs of rotated differences to the mean, and two factors, as FAISS's IndexRaBitQ with ``qb=0`` has them."""

    def __init__(self, nbits: int, random_state: int, metric: str = "euclidean") -> None:
        self.n_signs, self.random_state, self.metric = nbits - FACTOR_BITS, random_state, metric

    def fit(self, items: Floats) -> Self:
        """Learn the mean and the map."""
        self.mean_ = items.mean(axis=0)
        self.map_ = _rotation(items, self.n_signs, np.random.RandomState(self.random_state), "components")
        return self

    def add(self, items: Floats) -> None:
        """Store signs and factors."""
        rotated = (items - self.mean_) @ self.map_
        self.signs_ = np.where(rotated >= 0, np.float32(1), np.float32(-1))
        self.square_ = np.square(rotated).sum(axis=1)
        total = np.abs(rotated).sum(axis=1)
        self.scale_ = np.divide(self.square_, total, out=np.zeros_like(total), where=total > 0)

    def search(self, queries: Floats, k: int) -> Found:
        """Distances and indices of the k nearest items, both of shape (n_queries, k), in any order."""
        if self.metric == "inner":
            return _smallest(-self.scale_ * (queries @ self.map_ @ self.signs_.T), k)
        rotated = (queries - self.mean_) @ self.map_
        return _smallest(self.square_ - 2 * self.scale_ * (rotated @ self.signs_.T), k)


class FaissPQ:
    """FAISS's product quantization of padded features, or of at most 8 dimensions per part by a learned map (OPQ)."""

    def __init__(self, nbits: int, random_state: int, rotate: bool = False, metric: str = "euclidean") -> None:
        self.n_parts, self.random_state, self.rotate, self.metric = nbits // 8, random_state, rotate, metric

    def fit(self, items: Floats) -> Self:
        """Learn the rotation and the codebooks."""
        faiss = import_faiss()
        self.mean_ = items.mean(axis=0)
        per_part = -(-items.shape[1] // self.n_parts)
        self.n_dimensions = self.n_parts * (min(8, per_part) if self.rotate else per_part)
        metric = faiss.METRIC_INNER_PRODUCT if self.metric == "inner" else faiss.METRIC_L2
        self.index_ = index = faiss.IndexPQ(self.n_dimensions, self.n_parts, 8, metric)
        clusters = index.pq.cp
        clusters.seed, clusters.min_points_per_centroid = 1 + self.random_state, 1  # no warning about few items
        if self.rotate:
            rotation = faiss.OPQMatrix(items.shape[1], self.n_parts, self.n_dimensions)
            rotation.niter, rotation.max_train_points = 10, N_TRAINING
            rotation.pq = faiss.ProductQuantizer(self.n_dimensions, self.n_parts, 8)
            rotation.pq.cp.min_points_per_centroid = 1
            self.rotation_ = rotation
            rotation.train(subtract_mean(_spread(items), self.mean_))
        index.train(self._values(_spread(items)))
        return self

    def add(self, items: Floats) -> None:
        """Store codes."""
        self.index_.reset()
        self.index_.add(self._values(items))

    def search(self, queries: Floats, k: int) -> Found:
        """Distances and indices of the k nearest items, both of shape (n_queries, k), in any order."""
        if self.metric == "inner":
            scores, items = self.index_.search(self._mapped(queries), k)
            return -scores, items
        found: Found = self.index_.search(self._values(queries), k)
        return found

    def _values(self, X: Floats) -> Floats:
        return self._mapped(subtract_mean(X, self.mean_))

    def _mapped(self, X: Floats) -> Floats:
        if self.rotate:
            rotated: Floats = self.rotation_.apply(X)
            return rotated
        return np.pad(X, ((0, 0), (0, self.n_dimensions - X.shape[1])))


class FaissLSH:
    """FAISS's LSH: signs of a random rotation, each compared with its median over the items."""

    def __init__(self, nbits: int, random_state: int, metric: str = "euclidean") -> None:
        self.nbits, self.random_state, self.metric = nbits, random_state, metric

    def fit(self, items: Floats) -> Self:
        """Learn the medians."""
        self.mean_ = items.mean(axis=0)
        self.index_ = import_faiss().IndexLSH(items.shape[1], self.nbits, True, True)
        self.index_.rrot.init(self.random_state)
        self.index_.train(subtract_mean(items, self.mean_))
        return self

    def project_queries(self, X: Floats) -> Floats:
        """Real queries of shape (n_queries, nbits)."""
        queries: Floats = self.index_.rrot.apply(X) if self.metric == "inner" else self._activations(X)
        return queries

    def encode(self, X: Floats) -> npt.NDArray[np.uint8]:
        """Packed codes of shape (n, ceil(nbits / 8))."""
        return pack(binarize(self._activations(X)))

    def _activations(self, X: Floats) -> Floats:
        medians = import_faiss().vector_to_array(self.index_.thresholds)
        activations: Floats = self.index_.rrot.apply(subtract_mean(X, self.mean_)) - medians
        return activations


def make_baseline(name: str, nbits: int, seed: int, **parameters: Any) -> Any:
    """Baseline of a name, not fitted."""
    variant = BASELINES[name]
    return globals()[variant.method.class_name](nbits, seed, **variant.parameters, **parameters)


def settings_of(name: str) -> list[dict[str, Any]]:
    """Settings of a baseline, the best of which is chosen by the recall of held-out items."""
    has_axes = name in ("centered-sign", "rotated-sign", "float32", "float16", "int8")
    return [{"axes": axes} for axes in ("features", "components")] if has_axes else [{}]


def why_not(name: str, nbits: int, n_features: int, n_items: int) -> str | None:
    """Reason why a method of the task "neighbors" cannot store an item in `nbits` bits; None if it can."""
    if name not in BASELINES:
        return None if nbits > FACTOR_BITS else f"{nbits // 8} bytes leave no bits beside its 8 bytes of factors"
    if nbits % 8:
        return "its size is a whole number of bytes"
    baseline = make_baseline(name, nbits, 0)
    if isinstance(baseline, FaissPQ | FaissLSH) and faiss_version() is None:
        return "needs faiss-cpu"
    if isinstance(baseline, FaissLSH):
        return None  # it draws more directions than features
    unit, size = "bits", nbits
    if isinstance(baseline, Truncation):
        unit, size = f"{baseline.dtype} numbers", baseline.n_stored
    elif isinstance(baseline, RaBitQ):
        unit, size = "signs beside its 8 bytes of factors", baseline.n_signs
    elif isinstance(baseline, FaissPQ):
        unit, size = "parts", baseline.n_parts
        if n_items < N_CENTROIDS:
            return f"it learns from at least {N_CENTROIDS} items, and there are {n_items}"
    if size < 1:
        return f"{nbits // 8} bytes leave no {unit}"
    return None if size <= n_features else f"{nbits // 8} bytes hold {size} {unit}, more than the {n_features} features"


def faiss_version() -> str | None:
    """Version of FAISS; None if it is not installed."""
    try:
        return str(import_faiss().__version__)
    except ImportError:
        return None


def import_faiss() -> Any:
    """Module of FAISS, or an error with the command that installs it."""
    return library("faiss", "faiss-cpu", "pq, opq and faiss-lsh")


def subtract_mean(X: Floats, mean: Floats) -> Floats:
    """Differences to the mean, contiguous and float32, as FAISS needs them."""
    return np.ascontiguousarray(X - mean, dtype=np.float32)


def _spread(items: Floats) -> Floats:
    return items[evenly_spaced(len(items), N_TRAINING)]


def _components(items: Floats, n: int) -> Floats:
    """Map of centered items to their first principal components."""
    centered = _spread(items).astype(np.float64)
    return principal_map(centered - centered.mean(axis=0), n, np.random.RandomState(0)).astype(np.float32)


def _rotation(items: Floats, n: int, rng: np.random.RandomState, axes: str) -> Floats:
    """Map to n randomly rotated features or principal components."""
    if axes == "features" or n == items.shape[1]:
        return orthonormal_map(items.shape[1], n, rng).astype(np.float32)
    return _components(items, n) @ orthonormal_map(n, n, rng).astype(np.float32)


def _smallest(distances: Floats, k: int) -> Found:
    """The k smallest distances of each query, and their items."""
    items = np.argpartition(distances, k - 1, axis=1)[:, :k]
    return np.take_along_axis(distances, items, axis=1), items
