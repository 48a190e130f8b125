"""Early stopping: the trained metric, or AP, of held-out samples decides which epoch is kept."""

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash.affinity import Relevance
from skhash.codes import Codes, binarize
from skhash.metrics.evaluation import evaluate_histograms
from skhash.metrics.histogram import count_histograms

if TYPE_CHECKING:
    from skhash.engine import Encoder

#: assumed standard deviation of the gain of a query; a mean gain below its standard error is noise
SPREAD = 0.1


class BestEpoch(ABC):
    """The epoch with the best value on held-out queries; `best` is the value to exceed and its epoch."""

    def __init__(self, train: Any, train_relevance: Relevance | None, n_queries: int, n_iter_no_change: int) -> None:
        self.train, self.train_relevance = train, train_relevance
        self.n_queries, self.n_iter_no_change = n_queries, n_iter_no_change
        self.best: tuple[float, int] = (-math.inf, 0)

    @abstractmethod
    def measure(self, encoder: Any) -> float:
        """Value of an encoder."""

    def keep_start(self, value: float) -> None:
        """Keep the initial weights, which have this value, unless an epoch is better by more than a standard error."""
        self.best = (value + self.error, 0)

    @property
    def error(self) -> float:
        """Standard error of a mean gain of the held-out queries."""
        return SPREAD / math.sqrt(max(self.n_queries, 1))

    def improves(self, encoder: "Encoder", entry: dict[str, Any]) -> bool:
        """Add the value of an epoch to its entry of the history; return whether it is the best so far."""
        from skhash.engine.runtime import from_first

        entry["validation"] = from_first(self.measure(encoder))  # several processes stop together
        if entry["validation"] <= self.best[0]:
            return False
        self.best = (entry["validation"], entry["epoch"])
        return True

    def should_stop(self, n_epochs: int) -> bool:
        """Whether the last epochs brought no better value."""
        return n_epochs - self.best[1] >= self.n_iter_no_change


class EarlyStopping(BestEpoch):
    """Held-out samples, ranked against the training samples after each epoch."""

    def __init__(
        self,
        X: Any,
        relevance: Relevance,
        learned: npt.NDArray[np.int64],
        held_out: npt.NDArray[np.int64],
        metric: str,
        n_iter_no_change: int,
    ) -> None:
        from skhash.engine.data import ArraySubset

        super().__init__(ArraySubset(X, learned), relevance.take(learned), len(held_out), n_iter_no_change)
        self.held_out, self.database = ArraySubset(X, held_out), self.train
        self.relevance, self.metric = relevance.take(held_out, learned), metric

    def measure(self, encoder: "Encoder") -> float:
        """Metric of the held-out samples."""
        codes, database = (self._codes(encoder, X) for X in (self.held_out, self.database))
        histograms = count_histograms(codes, database, self.relevance)
        return evaluate_histograms(histograms, [self.metric], empty="zero")[self.metric]

    @staticmethod
    def _codes(encoder: "Encoder", X: Any) -> Codes:
        """Codes of samples; FloatingPointError if the last step of an epoch made the activations NaN."""
        from skhash.hashers.deep._initial_maps import compute_activations

        activations = compute_activations(encoder, X)
        if np.isnan(activations).any():
            raise FloatingPointError(
                "The activations of the training samples must be finite. Got NaN after an epoch. "
                "Lower `learning_rate`, or look for extreme values in X."
            )
        return Codes.of(binarize(activations))


def split_indices(
    n: int, fraction: float, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Indices of the samples to learn from, and of the held-out samples, both ascending."""
    n_held_out = min(max(1, round(n * fraction)), n - 2)
    if n_held_out < 1:
        raise ValueError(f"`X` must have at least 3 samples for early_stopping=True. Got {n} instead.")
    indices = rng.permutation(n)
    return np.sort(indices[n_held_out:]), np.sort(indices[:n_held_out])
