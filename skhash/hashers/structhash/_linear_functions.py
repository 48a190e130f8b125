"""Linear hash functions, of the features or of Gaussian kernel values."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, qr, svd
from scipy.optimize import minimize
from sklearn.utils import gen_batches

from skhash._validation.schema import Array
from skhash.codes import binarize
from skhash.hashers.shallow._gaussian_kernel import PART_SIZE, gaussian_kernel, kernel_width
from skhash.hashers.shallow._kernel import draw_indices

#: bits of the training samples, and the parameters of the hash function that computes them
Candidates: TypeAlias = Iterator[tuple[npt.NDArray[np.uint8], dict[str, Any]]]
RETRY_FACTOR = 5  # factor of the number of starting points in the second round
N_COLUMNS = 64  # number of columns multiplied by the pair weights at a time, to save memory
LBFGS_ITERATIONS = 30  # more iterations fit the noise of the training pairs


class LinearFunctions:
    """Signs of linear maps of the centered features.

    `ridge` is the penalty on directions of low variance, in units of the mean variance, and `n_starts` the number of
    starting points of a search.
    """

    best_first = False
    #: what `combine` returns
    stored: ClassVar[dict[str, Array]] = {
        "mean": Array("n_features"),
        "directions": Array("n_features n_learned"),
        "intercepts": Array("n_learned"),
    }

    def __init__(self, X: npt.NDArray[np.floating], ridge: float, n_starts: int) -> None:
        shape = len(X), int(self._features(X[:1]).shape[1])
        features = np.empty(shape, order="F")
        for part in gen_batches(len(X), PART_SIZE):
            features[part] = self._features(X[part])
        self.mean = features.mean(axis=0)
        features -= self.mean
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
            self._Z[part] = (self._features(X[part]) - self.mean) @ self._basis
        self._Z32 = self._Z.astype(np.float32)  # for searches, which need no more digits
        self.n_starts = n_starts

    def _features(self, X: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Features of samples; the hash functions are linear in them."""
        return X.astype(np.float64, copy=False)

    def search(self, A: Any, rng: np.random.RandomState) -> Iterator[Candidates]:
        """Two rounds of bits (n_samples,) with a large gain for a sparse pair matrix A, with their parameters.

        The second round tries more starting points.
        """
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
            end = minimize(self._relaxed, start, (A, self._Z32), method="L-BFGS-B", jac=True, options=options).x
            for v in (start, end):
                yield binarize(self._Z @ v[:-1] + v[-1]), {"direction": self._basis @ v[:-1], "intercept": v[-1]}

    def _relaxed(
        self, v: npt.NDArray[np.float64], A: Any, Z: npt.NDArray[np.floating] | None = None
    ) -> tuple[float, npt.NDArray[np.float64]]:
        """Value and gradient of tanh(Zv + c)' A tanh(Zv + c); without `Z` in double precision."""
        Z = self._Z if Z is None else Z
        s = np.tanh(Z @ v[:-1].astype(Z.dtype) + v[-1])
        As = A @ s
        slope = 2 * As * (1 - s * s)
        return s @ As, np.append(Z.T @ slope.astype(Z.dtype), slope.sum())

    def combine(self, parameters: list[dict[str, Any]]) -> dict[str, Any]:
        """Parameters of all learned functions, as arrays."""
        return {
            "mean": self.mean,
            "directions": np.stack([p["direction"] for p in parameters], axis=1),
            "intercepts": np.array([p["intercept"] for p in parameters]),
        }

    @staticmethod
    def truncate(functions: dict[str, Any], nbits: int) -> dict[str, Any]:
        """Combined parameters of the first `nbits` functions."""
        directions, intercepts = functions["directions"], functions["intercepts"]
        return functions | {"directions": directions[:, :nbits], "intercepts": intercepts[:nbits]}

    @staticmethod
    def activations(functions: dict[str, Any], X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Activations of shape (n_samples, nbits) by combined parameters."""
        return (X - functions["mean"]) @ functions["directions"] + functions["intercepts"]


class KernelFunctions(LinearFunctions):
    """Signs of linear maps of Gaussian kernel values at anchors that are drawn from the training samples.

    `gamma` None uses 2 over the mean squared distance to the anchors.
    """

    stored = LinearFunctions.stored | {
        "mean": Array("n_anchors"),
        "directions": Array("n_anchors n_learned"),
        "anchors": Array("n_anchors n_features"),
        "gamma": Array(""),
    }

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

    def combine(self, parameters: list[dict[str, Any]]) -> dict[str, Any]:
        """Parameters of all learned functions, as arrays."""
        return super().combine(parameters) | {"anchors": self.anchors, "gamma": self.gamma}

    @staticmethod
    def activations(functions: dict[str, Any], X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Activations of shape (n_samples, nbits) by combined parameters."""
        values = gaussian_kernel(X, functions["anchors"], functions["gamma"])
        return LinearFunctions.activations(functions, values)


def symmetrize(A: Any) -> Any:
    """Sparse array (A + A') / 2, which has the same s' A s."""
    return (A + A.T).tocsr() / 2
