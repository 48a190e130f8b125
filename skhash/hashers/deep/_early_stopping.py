"""Early stopping: the trained metric, or AP, of held-out samples decides which epoch is kept."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.affinity import Relevance
from skhash.codes import Codes, binarize
from skhash.engine import Encoder
from skhash.engine.data import ArraySubset
from skhash.engine.early_stopping import BestEpoch
from skhash.hashers.deep._initial_maps import compute_activations
from skhash.metrics import Ranking, evaluate_ranking


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
        super().__init__(len(held_out), n_iter_no_change)
        self.train = ArraySubset(X, learned)
        self.train_relevance: Relevance | None = relevance.take(learned)
        self.held_out = ArraySubset(X, held_out)
        self.relevance, self.metric = relevance.take(held_out, learned), metric

    def measure(self, encoder: Encoder) -> float:
        """Metric of the held-out samples."""
        codes, database = (self._codes(encoder, X) for X in (self.held_out, self.train))
        return evaluate_ranking(Ranking(codes, database, self.relevance), [self.metric], empty="zero")[self.metric]

    @staticmethod
    def _codes(encoder: Encoder, X: Any) -> Codes:
        """Codes of samples; FloatingPointError if the last step of an epoch made the activations NaN."""
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
