"""What EmbeddingHasher does with an affinity: it learns bits that keep relevance, from labels that may be few."""

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch

from skhash._targets import n_targets, take_targets
from skhash._validation.schema import OPTIONAL
from skhash.affinity._pairs import check_pairs
from skhash.engine import ArraySubset, Objective, Trainer, evenly_spaced
from skhash.hashers.deep._binarize import sign
from skhash.hashers.deep._early_stopping import EarlyStopping, compute_activations, split_indices
from skhash.hashers.deep._held_out_queries import SPREAD
from skhash.hashers.deep._relevance_start import PENALTIES, labeled_indices, levels_of, relevance_map

N_PAIRED = 4096  # labeled samples at most, of which all pairs are regressed
N_ROTATED = 4096  # samples at most that the rotation is learned from


class RelevanceObjective(Objective):
    """Loss of a batch: a seventh of its labeled samples are queries, which rank the others by level.

    The loss is the mean of that of the real queries and that of their codes.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    loss : callable
        Function of similarities and scores, (n_queries, n_items); the sum over the queries.
    """

    def __init__(self, affinity: Any, loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.affinity, self.loss = affinity, loss

    def forward(self, encoder: Any, X: torch.Tensor, targets: Any, indices: npt.NDArray[np.int64]) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        labeled = labeled_indices(self.affinity, targets)
        n_queries = -(-len(labeled) // 7)
        queries, items = labeled[:n_queries], labeled[n_queries:]
        activations = encoder(X)
        codes = sign(activations)
        total: torch.Tensor = 0.0 * activations.sum()
        if len(items) == 0:
            return total
        levels = levels_of(self.affinity, take_targets(targets, queries), take_targets(targets, items))
        has_relevant = (levels > 0).any(axis=1)  # others say nothing about the order of the items
        similarities = torch.from_numpy(levels[has_relevant]).to(activations)
        queries = queries[has_relevant]
        for asked in (encoder.query(X[queries]), codes[queries]):
            total = total + self.loss(similarities, asked @ codes[items].T) / (2 * max(len(queries), 1))
        return total


class HeldOutRelevance(EarlyStopping):
    """Held-out labeled samples, ranked against the other labeled samples: AP of their codes.

    Training takes the samples that are not held out, in `train`.

    Parameters
    ----------
    X : array or DatasetArray of shape (n_samples, ...)
        All training samples.
    targets : array of shape (n_samples, ...)
        Their targets.
    affinity : callable
        The fitted affinity.
    fraction : float
        Share of the labeled samples to hold out.
    rng : numpy.random.Generator
        Draws them.
    n_iter_no_change : int
        Number of epochs without a better value before stopping.
    """

    def __init__(
        self, X: Any, targets: Any, affinity: Any, fraction: float, rng: np.random.Generator, n_iter_no_change: int
    ) -> None:
        labeled = labeled_indices(affinity, targets)
        learned, held_out = (labeled[part] for part in split_indices(len(labeled), targets, fraction, rng))
        items, queries = ((ArraySubset(X, part), take_targets(targets, part)) for part in (learned, held_out))
        super().__init__(*queries, *items, affinity, "ap", n_iter_no_change)
        others = np.setdiff1d(np.arange(len(X)), held_out)
        self.train, self.train_targets = ArraySubset(X, others), take_targets(targets, others)


class RelevanceMixin:
    """Mixin of a hasher that learns relevance if it has an affinity, and else something that its class defines.

    Unlabeled samples have the class -1, no label at all, or no sample that is relevant to them.
    """

    n_labeled_: Annotated[int, OPTIONAL]
    affinity: Any
    affinity_: Any
    history_: list[dict[str, Any]]
    n_iter_no_change: int
    validation_fraction: float
    _nbits: int
    _store_weights: Any

    @property
    def _supervised(self) -> bool:
        return self.affinity is not None

    def _fit_affinity(self, targets: Any) -> None:
        super()._fit_affinity(targets)  # type: ignore[misc]
        self.__dict__.pop("n_labeled_", None)  # of an earlier fit
        if self._supervised:
            labeled = labeled_indices(self.affinity_, targets)
            self.n_labeled_ = len(labeled)
            if len(labeled) < n_targets(targets):
                check_labeled(self.affinity_, take_targets(targets, labeled))

    def _resolve_defaults(self, X: Any) -> None:
        super()._resolve_defaults(ArraySubset(X, np.arange(self.n_labeled_)) if self._supervised else X)  # type: ignore[misc]

    def _hold_out(self, X: Any, targets: Any, order: np.random.Generator) -> EarlyStopping:
        return HeldOutRelevance(X, targets, self.affinity_, self.validation_fraction, order, self.n_iter_no_change)

    def _build_trainer(self, encoder: Any, X: Any, targets: Any, *others: Any, **changes: Any) -> Trainer:
        if self._supervised:
            labeled = labeled_indices(self.affinity_, targets)
            if len(labeled) > 1:  # else the batches of a stream teach nothing
                X, targets = ArraySubset(X, labeled), take_targets(targets, labeled)
        trainer: Trainer = super()._build_trainer(encoder, X, targets, *others, **changes)  # type: ignore[misc]
        return trainer

    def _fit_loop(self, trainer: Trainer, held_out: Any, *others: Any) -> None:
        if self._supervised and not self.history_:
            learn_start(trainer, trainer.X.X if held_out is None else held_out.train, self.affinity_, held_out)
            self._store_weights(trainer.encoder.state_dict())
        super()._fit_loop(trainer, held_out, *others)  # type: ignore[misc]


def check_labeled(affinity: Any, targets: Any) -> None:
    """Raise ValueError unless there are relevant and irrelevant pairs of labeled samples."""
    if n_targets(targets) < 2:
        raise ValueError(
            f"`y` must have at least two labeled samples. Got {n_targets(targets)} instead; unlabeled ones have the "
            "class -1, or no label."
        )
    check_pairs(affinity, targets)


def learn_start(trainer: Trainer, X: Any, affinity: Any, held_out: HeldOutRelevance | None) -> None:
    """Give the encoder the best of some starts: ITQ, which it has, and regressions of relevance.

    Parameters
    ----------
    trainer : Trainer
        With the labeled samples.
    X : array of shape (n_samples, ...)
        All samples but the held-out ones.
    affinity : callable
        The fitted affinity.
    held_out : HeldOutRelevance or None
        Judges the starts; None takes the regression with the first of the penalties.
    """
    encoder: Any = trainer.encoder
    seed = int(trainer.rng.integers(np.iinfo(np.int32).max))
    features, labeled = (
        compute_activations(encoder, samples[evenly_spaced(len(samples), n)], encoder.features).astype(np.float64)
        for samples, n in ((X, N_ROTATED), (trainer.X, N_PAIRED))
    )
    targets = take_targets(trainer.targets, evenly_spaced(len(trainer.X), N_PAIRED))
    levels = levels_of(affinity, targets, targets)

    def start_from(weight: torch.Tensor) -> None:
        with torch.no_grad():
            encoder.hash.weight.copy_(weight)
            encoder.queries.weight.copy_(weight)

    best = -math.inf if held_out is None else held_out.measure(encoder)
    for penalty in PENALTIES if held_out is not None else PENALTIES[:1]:
        before = encoder.hash.weight.detach().clone()
        rng = np.random.RandomState(seed)
        start_from(
            torch.from_numpy(relevance_map(features, labeled, levels, penalty, encoder.hash.out_features, rng).T)
        )
        value = 0.0 if held_out is None else held_out.measure(encoder)
        if value > best:
            best = value
        else:
            start_from(before)
    if held_out is not None:
        held_out.best = (best + SPREAD / math.sqrt(len(held_out.held_out)), 0)
