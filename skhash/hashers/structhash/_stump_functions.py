"""Decision stumps as hash functions: thresholds of single features."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._threads import run_in_slices
from skhash._validation.schema import Array
from skhash.codes import binarize
from skhash.hashers.structhash._linear_functions import Candidates


class StumpFunctions:
    """Thresholds of single features, found by exhaustive search."""

    best_first = True
    #: what `combine` returns
    stored = {"features": Array("n_learned", "iu", below="n_features"), "thresholds": Array("n_learned")}

    def __init__(self, X: npt.NDArray[np.float64]) -> None:
        self._X = X
        self._ranks = np.stack([np.unique(x, return_inverse=True)[1] for x in X.T]).astype(np.int32)

    def search(self, A: Any, rng: np.random.RandomState | None = None) -> Iterator[Candidates]:
        """The one round of a search, see :meth:`LinearFunctions.search`; `rng` is not used."""
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
            yield binarize(self._X[:, feature] - threshold), {"feature": feature, "threshold": threshold}

    def combine(self, parameters: list[dict[str, Any]]) -> dict[str, Any]:
        """Parameters of all learned functions, as arrays."""
        return {f"{name}s": np.array([p[name] for p in parameters]) for name in ("feature", "threshold")}

    @staticmethod
    def truncate(functions: dict[str, Any], nbits: int) -> dict[str, Any]:
        """Combined parameters of the first `nbits` functions."""
        return {name: values[:nbits] for name, values in functions.items()}

    @staticmethod
    def activations(functions: dict[str, Any], X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Activations of shape (n_samples, nbits) by combined parameters."""
        return X[:, functions["features"]] - functions["thresholds"]
