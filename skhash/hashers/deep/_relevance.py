r"""EmbeddingHasher with an affinity: it learns bits that keep relevance, from few or many labels.

It starts from a ridge regression of the levels of all pairs, and trains as TALR on AP. Real queries are activations.

With the labeled samples x in the rows of X, centered, and their levels L, centered over rows and columns, the
estimate of a level is a bilinear function of two samples,

    L_ij ~ x_i' M x_j,   M = P L P',   P = (X'X + c I)^-1 X'

a regression on one sample, and then on the other. The eigenvectors of M, times the roots of its largest eigenvalues,
map samples to vectors whose inner products are these estimates. A rotation as in ITQ brings them near the corners of
the cube.
"""

import math
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from skhash._validation import OPTIONAL, evenly_spaced
from skhash.affinity import ClassAffinity, Relevance
from skhash.codes.bits import memory_chunks
from skhash.hashers.deep._early_stopping import EarlyStopping, split_indices

if TYPE_CHECKING:
    import torch

    from skhash.engine import Objective, Trainer

#: candidates for the penalty c, in units of the mean eigenvalue of X'X
PENALTIES = (1.0, 0.1, 0.3, 3.0, 10.0)
UNLABELED = -1


def labeled_indices(relevance: Relevance) -> npt.NDArray[np.int64]:
    """Indices of the labeled samples, ascending: classes other than -1, or samples with a relevant sample."""
    n = relevance.shape[0]
    if isinstance(relevance.affinity, ClassAffinity):
        classes = relevance.targets.reshape(n)
        return np.flatnonzero(classes != UNLABELED) if classes.dtype.kind in "if" else np.arange(n)
    labeled = np.zeros(n, dtype=bool)
    for chunk in memory_chunks(n, 32 * n):
        labeled[chunk] = relevance.levels(chunk)[0].any(axis=1)
    return np.flatnonzero(labeled)


def relevance_map(
    features: npt.NDArray[np.float64],
    labeled: npt.NDArray[np.float64],
    levels: npt.NDArray[np.float64],
    penalty: float,
    nbits: int,
    rng: np.random.RandomState,
) -> npt.NDArray[np.float64]:
    """Map (width, nbits) of centered samples to activations with mean square 1; zero if all levels are equal."""
    width = labeled.shape[1]
    moments = labeled.T @ labeled
    moments[np.diag_indices(width)] += penalty * max(np.trace(moments) / width, 1e-12)
    regression = np.linalg.solve(moments, labeled.T)
    centered = levels - levels.mean(axis=0) - levels.mean(axis=1)[:, None] + levels.mean()
    metric = regression @ centered @ regression.T
    values, vectors = np.linalg.eigh((metric + metric.T) / 2)
    n_kept = min(nbits, width)
    start = np.zeros((width, nbits))
    start[:, :n_kept] = (vectors * np.sqrt(values.clip(0)))[:, : -n_kept - 1 : -1]
    start /= max(float(np.abs(start).max()), 1e-300)
    from skhash.hashers.deep._initial_maps import rotated

    return rotated(start, features, rng)


N_PAIRED = 4096  # maximum number of labeled samples, whose pairs are regressed
N_ROTATED = 4096  # maximum number of samples from which the rotation is learned


class HeldOutRelevance(EarlyStopping):
    """AP of the codes of held-out labeled samples, ranked against the other labeled samples."""

    def __init__(
        self, X: Any, relevance: Relevance, fraction: float, rng: np.random.Generator, n_iter_no_change: int
    ) -> None:
        from skhash.engine.data import ArraySubset

        labeled = labeled_indices(relevance)
        learned, held_out = (labeled[part] for part in split_indices(len(labeled), fraction, rng))
        super().__init__(X, relevance, learned, held_out, "ap", n_iter_no_change)
        others = np.setdiff1d(np.arange(len(X)), held_out)
        self.train, self.train_relevance = ArraySubset(X, others), relevance.take(others)

    def should_stop(self, n_epochs: int) -> bool:
        """Whether an earlier epoch than the last ones was best, and better than the start."""
        return self.best[1] > 0 and super().should_stop(n_epochs)


class RelevanceMixin:
    """Mixin of a hasher that learns relevance if it has an affinity."""

    n_labeled_: Annotated[int, OPTIONAL]
    affinity: Any
    affinity_: Any
    history_: list[dict[str, Any]]
    n_iter_no_change: int
    validation_fraction: float

    @property
    def _supervised(self) -> bool:
        return self.affinity is not None

    def _note_relevance(self, relevance: Relevance | None) -> None:
        self.__dict__.pop("n_labeled_", None)  # of an earlier fit
        if relevance is not None:
            labeled = labeled_indices(relevance)
            self.n_labeled_ = len(labeled)
            if len(labeled) < relevance.shape[0]:
                _check_count(len(labeled))
                relevance.take(labeled).check_pairs()

    def _check_next_relevance(self, relevance: Relevance) -> None:
        _check_count(len(labeled_indices(relevance)))

    def _kind(self) -> str:
        kind: str = super()._kind()  # type: ignore[misc]
        return f"{kind}, relevance" if self._supervised else kind

    def _objective(self) -> "Objective":
        from skhash.hashers.deep.talr import TALRObjective

        return TALRObjective()

    def _resolve_defaults(self, X: Any) -> None:
        from skhash.engine.data import ArraySubset

        super()._resolve_defaults(ArraySubset(X, np.arange(self.n_labeled_)) if self._supervised else X)  # type: ignore[misc]

    def _hold_out(self, X: Any, relevance: Any, order: np.random.Generator) -> EarlyStopping:
        return HeldOutRelevance(X, relevance, self.validation_fraction, order, self.n_iter_no_change)

    def _build_trainer(self, encoder: Any, X: Any, relevance: Any, *others: Any, **changes: Any) -> "Trainer":
        from skhash.engine.data import ArraySubset

        if self._supervised:
            labeled = labeled_indices(relevance)
            X, relevance = ArraySubset(X, labeled), relevance.take(labeled)
        trainer: Trainer = super()._build_trainer(encoder, X, relevance, *others, **changes)  # type: ignore[misc]
        return trainer

    def _fit_loop(self, trainer: "Trainer", held_out: Any, *others: Any) -> None:
        if self._supervised and not self.history_:
            learn_start(trainer, trainer.X.X if held_out is None else held_out.train, held_out)
            self._keep_weights(trainer.encoder.state_dict())
        super()._fit_loop(trainer, held_out, *others)  # type: ignore[misc]

    def _keep_weights(self, weights: "dict[str, torch.Tensor]") -> None:
        if self._supervised:  # the map of the items is trained
            weights = weights | {f"queries.{name}": weights[f"hash.{name}"] for name in ("weight", "bias")}
        super()._keep_weights(weights)  # type: ignore[misc]


def _check_count(n_labeled: int) -> None:
    """Raise ValueError for fewer than two labeled samples."""
    if n_labeled < 2:
        raise ValueError(
            f"`y` must have at least two labeled samples. Got {n_labeled} instead. Unlabeled samples have the class "
            "-1, or no label."
        )


def learn_start(trainer: "Trainer", X: Any, held_out: HeldOutRelevance | None) -> None:
    """Give the encoder the best initial weights: ITQ, or a regression of relevance."""
    from skhash.hashers.deep._initial_maps import compute_activations

    encoder: Any = trainer.encoder
    seed = int(trainer.rng.integers(np.iinfo(np.int32).max))
    features, labeled = (
        compute_activations(encoder, samples[evenly_spaced(len(samples), n)], encoder.features).astype(np.float64)
        for samples, n in ((X, N_ROTATED), (trainer.X, N_PAIRED))
    )
    indices, distinct = trainer.relevance.take(evenly_spaced(len(trainer.X), N_PAIRED)).levels()
    levels = np.asarray(distinct, dtype=np.float64)[indices]

    best = -math.inf if held_out is None else held_out.measure(encoder)
    for penalty in PENALTIES if held_out is not None else PENALTIES[:1]:
        before = encoder.hash.weight.detach().clone()
        rng = np.random.RandomState(seed)
        encoder.set_maps(relevance_map(features, labeled, levels, penalty, encoder.hash.out_features, rng).T)
        value = 0.0 if held_out is None else held_out.measure(encoder)
        if value > best:
            best = value
        else:
            encoder.set_maps(before)
    if held_out is not None:
        held_out.keep_start(best)
