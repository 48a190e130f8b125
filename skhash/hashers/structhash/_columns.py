r"""Columns of the master problem: bits, and the families of hash functions that they come from.

A new bit h should maximize sum_ij A_ij |h(x_i) - h(x_j)|; with s = 2h - 1 it minimizes
s' A s. There are four families of hash functions:

* linear: the smallest eigenvectors of (Z' A Z, Z' Z + ridge) start L-BFGS on the smooth
  tanh(Zv + c)' A tanh(Zv + c), whose signs are the bits;
* kernel: the same on Gaussian kernel values of anchors (Kulis, Grauman 2009);
* stump: an exhaustive search over all features and thresholds;
* trees, or any classifier: first, bits that minimize s' A s are found by coordinate descent
  from the smallest eigenvectors of A. Then they are fitted, as in the authors' later
  FastHash.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, qr, svd
from scipy.optimize import minimize
from scipy.sparse.linalg import eigsh
from sklearn.base import clone
from sklearn.utils import gen_batches
from sklearn.utils.validation import has_fit_parameter

from skhash._threads import run_in_slices
from skhash._validation import Array
from skhash.codes import binarize, signs
from skhash.functions import ArrayFunction, HashFunction, KernelFunction, LinearFunction
from skhash.functions.kernel import gaussian_kernel
from skhash.hashers.shallow.gaussian_kernel import PART_SIZE, draw_indices, kernel_width

#: bits of the training samples, and the parameters of the hash function that computes them
Candidates: TypeAlias = Iterator[tuple[npt.NDArray[np.uint8], dict[str, Any]]]
RETRY_FACTOR = 5  # factor of the number of starting points in the second round
N_COLUMNS = 64  # number of columns multiplied by the pair weights at a time, to save memory
LBFGS_ITERATIONS = 30  # more iterations fit the noise of the training pairs


@dataclass(frozen=True)
class Column:
    """A bit of all training samples, with its gain sum_ij A_ij |h(x_i) - h(x_j)| and the parameters of h."""

    gain: float
    bits: npt.NDArray[np.uint8]
    parameters: dict[str, Any]


def find_column(
    columns: "Columns",
    A: Any,
    known: npt.NDArray[np.float64],
    rng: np.random.RandomState,
    min_gain: float = 0.0,
) -> Column | None:
    """The column with the largest gain that is not in `known`, as -1 and 1, or None if no gain is above `min_gain`."""
    best: Column | None = None
    total = A.sum()
    for candidates in columns.search(A, rng):
        for bits, parameters in candidates:
            s = signs(bits)
            is_known = (np.abs(s @ known) == len(s)).any() or abs(s.sum()) == len(s)
            gain = float(total - s @ (A @ s)) / 2
            if not is_known and (best is None or gain > best.gain):
                best = Column(gain, bits, parameters)
                if columns.best_first:
                    break
        if best is not None and best.gain > min_gain:
            return best
    return None


class Columns:
    """Base class of the families, which implement `search` and `function`."""

    best_first = False  # whether the candidates come by descending gain

    def search(self, A: Any, rng: np.random.RandomState) -> Iterator[Candidates]:
        """Rounds of bits (n_samples,) with a large gain for a sparse pair matrix A, with their parameters."""
        raise NotImplementedError

    def function(self, parameters: list[dict[str, Any]], nbits: int) -> HashFunction:
        """Function of the learned bits, and of constant ones up to `nbits`."""
        raise NotImplementedError


def _stacked(parameters: list[dict[str, Any]], name: str) -> npt.NDArray[Any]:
    """A parameter of all learned bits; they are its last axis."""
    return np.stack([p[name] for p in parameters], axis=-1)


class LinearColumns(Columns):
    """Signs of linear maps of the centered features."""

    def __init__(self, X: npt.NDArray[np.floating], ridge: float, n_starts: int) -> None:
        shape = len(X), int(self._features(X[:1]).shape[1])
        features = np.empty(shape, order="F")
        for part in gen_batches(len(X), PART_SIZE):
            features[part] = self._features(X[part])
        mean = features.mean(axis=0)
        features -= mean
        if shape[0] >= 2 * shape[1]:  # the triangular factor has the same singular values and right vectors
            features = qr(features, mode="raw", overwrite_a=True, check_finite=False)[1]
        _, values, vectors = svd(features, full_matrices=False)
        del features
        # directions without variance are rounding errors, which must not become bits
        rank = max(1, int(np.count_nonzero(values > values[0] * max(shape) * np.finfo(np.float64).eps)))
        values, vectors = values[:rank], vectors[:rank]
        variances = values**2 / len(X)
        penalty = max(ridge * variances.sum() / shape[1], 1e-12 * variances[0], 1e-300)
        # in these coordinates the penalized variance of every direction is 1
        self._basis = vectors.T / np.sqrt(variances + penalty)
        self._Z = np.empty((len(X), rank))
        for part in gen_batches(len(X), PART_SIZE):
            self._Z[part] = (self._features(X[part]) - mean) @ self._basis
        self._Z32 = self._Z.astype(np.float32)  # for searches, which need no more digits
        self.n_starts, self.mean = n_starts, mean

    def _features(self, X: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Features of samples; the hash functions are linear in them."""
        return X.astype(np.float64, copy=False)

    def search(self, A: Any, rng: np.random.RandomState) -> Iterator[Candidates]:
        """Two rounds of bits (n_samples,) with a large gain for a sparse pair matrix A, with their parameters."""
        columns = gen_batches(self._Z.shape[1], N_COLUMNS)
        A32 = A.astype(np.float32)  # not symmetrized, which would give up to twice as many pairs
        spectral = np.hstack([self._Z32.T @ (A32 @ self._Z32[:, some]) for some in columns]).astype(np.float64)
        A = symmetrize(A)
        n_spectral = min(self.n_starts, len(spectral))
        first = eigh((spectral + spectral.T) / 2, subset_by_index=[0, n_spectral - 1])[1].T
        yield self._descend(A, [*first, *rng.standard_normal((self.n_starts - n_spectral, len(spectral)))])
        yield self._descend(A, rng.standard_normal(((RETRY_FACTOR - 1) * self.n_starts, len(spectral))))

    def _descend(self, A: Any, starts: Iterable[npt.NDArray[np.float64]]) -> Candidates:
        """Bits at the starting points, and at the local minima of the relaxed objective below them."""
        for start in starts:
            spread = (self._Z @ start).std()
            if not spread > 0:
                continue
            start = np.append(start / spread, 0.0)
            options = {"maxiter": LBFGS_ITERATIONS}
            end = minimize(relaxed, start, (A, self._Z32), method="L-BFGS-B", jac=True, options=options).x
            for v in (start, end):
                yield binarize(self._Z @ v[:-1] + v[-1]), {"directions": self._basis @ v[:-1], "intercepts": v[-1]}

    def function(self, parameters: list[dict[str, Any]], nbits: int) -> HashFunction:
        """Linear function of the learned bits, see :meth:`Columns.function`."""
        return LinearFunction(self.mean, *self._map(parameters, nbits))

    def _map(self, parameters: list[dict[str, Any]], nbits: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Directions and intercepts; a constant bit has the activation 1."""
        n_constant = nbits - len(parameters)
        directions = np.pad(_stacked(parameters, "directions"), ((0, 0), (0, n_constant)))
        return np.asfortranarray(directions), np.append(_stacked(parameters, "intercepts"), np.ones(n_constant))


class KernelColumns(LinearColumns):
    """Signs of linear maps of Gaussian kernel values at anchors that are drawn from the training samples."""

    def __init__(
        self,
        X: npt.NDArray[np.floating],
        ridge: float,
        n_starts: int,
        n_anchors: int,
        gamma: float | None,
        rng: np.random.RandomState,
    ) -> None:
        self.anchors = X[draw_indices(len(X), n_anchors, rng)].astype(np.float64, copy=False)
        self.gamma = kernel_width(X, self.anchors) if gamma is None else float(gamma)
        super().__init__(X, ridge, n_starts)

    def _features(self, X: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        return gaussian_kernel(X.astype(np.float64, copy=False), self.anchors, self.gamma)

    def function(self, parameters: list[dict[str, Any]], nbits: int) -> HashFunction:
        """Kernel function of the learned bits, see :meth:`Columns.function`."""
        return KernelFunction(self.anchors, self.gamma, self.mean, *self._map(parameters, nbits))


@dataclass(frozen=True, eq=False, repr=False)
class StumpFunction(ArrayFunction):
    """Differences of single features and thresholds; a bit that is not learned has the activation 1."""

    features: Annotated[npt.NDArray[Any], Array("n_learned", "i", minimum=0)]
    thresholds: Annotated[npt.NDArray[Any], Array("n_learned")]
    n_features: Annotated[int, Array("", "i", minimum=1)]
    n_bits: Annotated[int, Array("", "i", minimum=1)]

    def __post_init__(self) -> None:
        if len(self.features) > self.n_bits or self.features.max(initial=0) >= self.n_features:
            raise ValueError(f"`features` must be {self.n_bits} indices below {self.n_features}. Got {self.features}.")

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return self.n_bits

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (self.n_features,)

    def activations(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Activations of samples, see :meth:`~skhash.functions.HashFunction.activations`."""
        return _with_constant_bits(X[:, self.features] - self.thresholds, self.nbits)

    def first(self, nbits: int) -> "StumpFunction":
        """Function of the first bits, see :meth:`~skhash.functions.HashFunction.first`."""
        return StumpFunction(self.features[:nbits].copy(), self.thresholds[:nbits].copy(), self.n_features, nbits)


def _with_constant_bits(learned: npt.NDArray[Any], nbits: int) -> npt.NDArray[Any]:
    """Activations of learned bits, and 1 for the others."""
    return np.hstack([learned, np.ones((len(learned), nbits - learned.shape[1]))])


class StumpColumns(Columns):
    """Thresholds of single features, found by exhaustive search."""

    best_first = True

    def __init__(self, X: npt.NDArray[np.float64]) -> None:
        self._X = X
        self._ranks = np.stack([np.unique(x, return_inverse=True)[1] for x in X.T]).astype(np.int32)

    def search(self, A: Any, rng: np.random.RandomState | None = None) -> Iterator[Candidates]:
        """The one round of a search, see :meth:`Columns.search`; `rng` is not used."""
        yield self._all_stumps(A)

    def _all_stumps(self, A: Any) -> Candidates:
        """Bits of all stumps by descending gain, with their parameters."""
        from skhash.hashers.structhash._kernels import stump_gains

        pairs = A.tocoo()
        rows, columns = pairs.coords
        gains = np.empty((len(self._ranks), len(self._X)))
        run_in_slices(lambda part: stump_gains(rows, columns, pairs.data, self._ranks[part], gains[part]), len(gains))
        is_threshold = np.arange(len(self._X)) < self._ranks.max(axis=1)[:, None]  # a larger value exists
        features, ranks = np.nonzero(is_threshold)
        for i in np.argsort(-gains[is_threshold], kind="stable"):
            feature, rank = features[i], ranks[i]
            values = np.unique(self._X[:, feature])
            # halfway between two values, but above the lower one, which the mean of adjacent floats may equal
            threshold = max(values[rank] / 2 + values[rank + 1] / 2, np.nextafter(values[rank], np.inf))
            yield binarize(self._X[:, feature] - threshold), {"features": feature, "thresholds": threshold}

    def function(self, parameters: list[dict[str, Any]], nbits: int) -> HashFunction:
        """Function of the learned stumps, see :meth:`Columns.function`."""
        features, thresholds = (_stacked(parameters, name) for name in ("features", "thresholds"))
        return StumpFunction(features, thresholds, self._X.shape[1], nbits)


@dataclass(frozen=True, eq=False, repr=False)
class ClassifierFunction(HashFunction):
    """Decision functions of fitted classifiers; a bit that is not learned has the activation 1."""

    classifiers: list[Any]
    n_features: int
    n_bits: int

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return self.n_bits

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (self.n_features,)

    def activations(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Activations of samples, see :meth:`~skhash.functions.HashFunction.activations`."""
        learned = np.stack([classifier.decision_function(X) for classifier in self.classifiers], axis=1)
        return _with_constant_bits(learned, self.nbits)

    def first(self, nbits: int) -> "ClassifierFunction":
        """Function of the first bits, see :meth:`~skhash.functions.HashFunction.first`."""
        return replace(self, classifiers=self.classifiers[:nbits], n_bits=nbits)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Raise TypeError, since classifiers are no arrays."""
        raise TypeError("`function_` must consist of arrays to be saved. Got classifiers, whose files would hold code.")

    @classmethod
    def from_arrays(cls, arrays: Any, **given: Any) -> "ClassifierFunction":
        """Raise TypeError, since classifiers are no arrays."""
        raise TypeError("`function_` must consist of arrays. Got classifiers, whose files would hold code.")


class ClassifierColumns(Columns):
    """Decision functions of a classifier, fitted per bit to samples with at most `max_values` values per feature."""

    def __init__(
        self, X: npt.NDArray[np.float64], classifier: Any, n_starts: int, max_values: int | None = None
    ) -> None:
        self._X, self.classifier, self.n_starts = X, classifier, n_starts
        self._X_fitted = X if max_values is None else round_to_quantiles(X, max_values)
        self._weighted = has_fit_parameter(classifier, "sample_weight")

    def search(self, A: Any, rng: np.random.RandomState) -> Iterator[Candidates]:
        """Rounds of a search, see :meth:`Columns.search`."""
        A, n_tried = symmetrize(A), 0
        for n_starts in (self.n_starts, RETRY_FACTOR * self.n_starts):
            n_vectors = min(n_starts, len(self._X) - 1)
            starts = eigsh(A, n_vectors, which="SA", v0=rng.standard_normal(len(self._X)))[1].T
            yield self._fitted(A, starts[n_tried:], rng)
            n_tried = n_vectors

    def _fitted(self, A: Any, starts: npt.NDArray[np.float64], rng: np.random.RandomState) -> Candidates:
        """Bits that classifiers predict, with these classifiers."""
        for start in starts:
            bits = coordinate_descent(A, binarize(start))
            if bits.min() == bits.max():
                continue
            importance = np.abs(A @ signs(bits))
            weighted = self._weighted and importance.any()
            options = {"sample_weight": importance / importance.mean()} if weighted else {}
            classifier = clone(self.classifier)
            for name in sorted(classifier.get_params()):
                if name == "random_state" or name.endswith("__random_state"):
                    classifier.set_params(**{name: rng.randint(np.iinfo(np.int32).max)})
            classifier.fit(self._X_fitted, bits, **options)
            yield binarize(classifier.decision_function(self._X)), {"classifiers": classifier}

    def function(self, parameters: list[dict[str, Any]], nbits: int) -> HashFunction:
        """Function of the fitted classifiers, see :meth:`Columns.function`."""
        return ClassifierFunction([p["classifiers"] for p in parameters], self._X.shape[1], nbits)


def relaxed(v: npt.NDArray[np.float64], A: Any, Z: npt.NDArray[np.floating]) -> tuple[float, npt.NDArray[np.float64]]:
    """Value and gradient of tanh(Zv + c)' A tanh(Zv + c), where c is the last entry of `v`, in the precision of `Z`."""
    s = np.tanh(Z @ v[:-1].astype(Z.dtype) + v[-1])
    As = A @ s
    slope = 2 * As * (1 - s * s)
    return s @ As, np.append(Z.T @ slope.astype(Z.dtype), slope.sum())


def symmetrize(A: Any) -> Any:
    """Sparse array (A + A') / 2, which has the same s' A s."""
    return (A + A.T).tocsr() / 2


def round_to_quantiles(X: npt.NDArray[np.float64], max_values: int) -> npt.NDArray[np.float64]:
    """Samples whose features are rounded to the nearest of `max_values` of their values, evenly spaced by rank."""
    ranks = np.linspace(0, len(X) - 1, max_values).round().astype(int)
    rounded = np.empty_like(X)
    for column, out in zip(X.T, rounded.T, strict=True):
        kept = np.unique(column)
        if len(kept) > max_values:
            kept = np.unique(np.sort(column)[ranks])
        out[:] = kept[np.searchsorted((kept[1:] + kept[:-1]) / 2, column)]
    return rounded


def coordinate_descent(A: Any, bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Local minimum of s' A s, s = 2 bits - 1, reached by flipping one bit at a time; A is symmetric and sparse."""
    s = signs(bits)
    diagonal = A.diagonal()
    slopes = A @ s - diagonal * s  # half the gradient, without each sample's own term
    tolerance = 1e-12 * np.abs(A.data).max(initial=0)
    while True:
        gains = s * slopes
        i = np.argmax(gains)
        if gains[i] <= tolerance:
            return binarize(s)
        s[i] = -s[i]
        row = slice(A.indptr[i], A.indptr[i + 1])
        slopes[A.indices[row]] += 2 * s[i] * A.data[row]
        slopes[i] -= 2 * s[i] * diagonal[i]
