"""Classifiers as hash functions: good bits are found first, then a classifier is fitted to them."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import eigsh
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from skhash.codes import binarize, signs
from skhash.hashers.structhash._linear_functions import RETRY_FACTOR, Candidates, symmetrize


class ClassifierFunctions:
    """Decision functions of a classifier, fitted per bit to samples with at most `max_values` values per feature."""

    best_first = False
    stored: ClassVar[dict[str, Any]] = {}  # files hold no classifiers, because loading them would run code

    def __init__(
        self, X: npt.NDArray[np.float64], classifier: Any, n_starts: int, max_values: int | None = None
    ) -> None:
        self._X, self.classifier, self.n_starts = X, classifier, n_starts
        self._X_fitted = X if max_values is None else round_to_quantiles(X, max_values)
        self._weighted = has_fit_parameter(classifier, "sample_weight")

    def search(self, A: Any, rng: np.random.RandomState) -> Iterator[Candidates]:
        """Rounds of a search, see :meth:`LinearFunctions.search`."""
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
            yield binarize(classifier.decision_function(self._X)), {"classifier": classifier}

    def combine(self, parameters: list[dict[str, Any]]) -> dict[str, Any]:
        """List of all learned classifiers."""
        return {"classifiers": [p["classifier"] for p in parameters]}

    @staticmethod
    def truncate(functions: dict[str, Any], nbits: int) -> dict[str, Any]:
        """List of the first `nbits` classifiers."""
        return {"classifiers": functions["classifiers"][:nbits]}

    @staticmethod
    def activations(functions: dict[str, Any], X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Activations of shape (n_samples, nbits) by combined parameters."""
        return np.stack([classifier.decision_function(X) for classifier in functions["classifiers"]], axis=1)


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
