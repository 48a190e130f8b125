"""The own view of NSH, which is the other view of the same sample: how it is drawn, and how codes learn to find it."""

import warnings
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from skhash.engine import two_views, unit_of
from skhash.engine.augment import augmented
from skhash.hashers.deep._parameters import Augmentation

_MIN_SHARE = 0.3  # of own views that the codes find; below it `fit` warns
# The strength of an augmentation rises by _STEP after a batch in which the codes find _SHARE of the own views, and
# falls by _STEP otherwise. Chosen on held-out training samples of MNIST.
_SHARE, _STEP, _LEAST_STRENGTH = 0.9, 0.005, 0.1
# A weak augmentation takes the nearest of _MAX_DRAWS random versions of a sample. On held-out training samples of MNIST
# 32 are better than 8, on those of Fashion-MNIST as good. Since an augmentation may change a whole batch in the same
# way, it is called eight times with _N_COPIES copies of each sample.
_MAX_DRAWS, _N_COPIES = 32, 4


def _nearest_draw(augment: Augmentation, n_draws: int, batch: torch.Tensor) -> torch.Tensor:
    """The nearest of `n_draws` random versions of each sample; the first one if its shape differs from the batch."""
    nearest = batch[:0]
    for n_done in range(0, n_draws, _N_COPIES):
        copies = batch.repeat(min(_N_COPIES, n_draws - n_done), *[1] * (batch.ndim - 1))
        draws = augmented(augment, copies)
        if draws.shape != copies.shape:
            return draws[: len(batch)]
        draws = torch.cat([nearest, draws]).view(-1, *batch.shape)
        changes = draws - batch
        distances = (changes / unit_of(changes)).flatten(2).square().sum(2)
        nearest = draws[distances.argmin(0), torch.arange(len(batch), device=batch.device)]
    return nearest


def _weaken(augment: Augmentation, strength: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """Random version of a batch, weaker than `augment` at a strength below 1 unless its shape differs.

    Up to a strength of 1/2, the nearest of 32 random versions of each sample is mixed with the sample. Above it,
    nothing is mixed, and the number of random versions falls to one.
    """
    share = min(1.0, 2 * strength.item())
    n_draws = 1 + round((_MAX_DRAWS - 1) * min(1.0, 2 - 2 * strength.item()))
    views = _nearest_draw(augment, n_draws, batch)
    return torch.lerp(batch, views, share) if share < 1 and views.shape == batch.shape else views


def _next_strength(strength: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Strength for the next batch, in [0.1, 1]: higher if the codes found enough own views, else lower."""
    return (strength + torch.where(share >= _SHARE, _STEP, -_STEP)).clamp(_LEAST_STRENGTH, 1.0)


def _own_view_first(distances: torch.Tensor) -> torch.Tensor:
    """Distances (n, n) in [0, nbits + 1] in which the own view is one bit nearer than all others.

    All distances are raised by one, so that none is negative. The gradient is that of `distances`.
    """
    nearest = distances.min(1).values
    return distances + 1 + torch.diag(nearest - 1 - distances.diagonal()).detach()


def _own_view_loss(distances: torch.Tensor, sort_temperature: float) -> torch.Tensor:
    """Mean negative log-likelihood that the first row of the soft permutation selects the own view."""
    return cross_entropy(-distances / sort_temperature, torch.arange(len(distances), device=distances.device))


def _count_found(distances: torch.Tensor, n_positives: int) -> torch.Tensor:
    """Number of anchors with fewer than `n_positives` views nearer than the own view."""
    nearer = distances.detach().round()
    return ((nearer < nearer.diagonal()[:, None]).sum(1) < n_positives).sum()


class OwnViews(nn.Module):
    """The two views of each batch, and the rank of the own view among the sorted views.

    With `first`, the own view is always the first, the strength of `augment` follows the share of own views that the
    codes find, and `weight` is the weight of the loss of own views. Otherwise the codes sort it as all others.
    """

    strength: torch.Tensor

    def __init__(self, augment: Augmentation, first: bool, weight: float) -> None:
        super().__init__()
        self.augment = partial(augment)  # hidden from nn.Module: modules of the user are not trained
        self.first, self.weight = first, weight
        self.register_buffer("strength", torch.tensor(_LEAST_STRENGTH if first else 1.0))
        self.n_found, self.n_anchors = torch.tensor(0), 0

    def start_epoch(self) -> None:
        """Reset the counts of own views."""
        self.n_found, self.n_anchors = torch.tensor(0), 0

    def draw(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two views of a batch."""
        return two_views(partial(_weaken, self.augment, self.strength) if self.first else self.augment, batch)

    def sort(self, distances: torch.Tensor, n_positives: int, tau: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Distances by which the views are sorted, and the loss of own views; see :func:`_own_view_first`."""
        n_found = _count_found(distances, n_positives)
        self.n_found, self.n_anchors = n_found + self.n_found.to(n_found.device), self.n_anchors + len(distances)
        if not self.first:
            return distances, distances.new_zeros(())
        self.strength = _next_strength(self.strength, n_found / len(distances))
        return _own_view_first(distances), self.weight * _own_view_loss(distances, tau)

    def shares(self) -> dict[str, float]:
        """Share of own views found in this epoch, and the strength of `augment`."""
        shares = {"own_views_found": self.n_found.item() / self.n_anchors} if self.n_anchors else {}
        return shares | ({"augment_strength": round(self.strength.item(), 3)} if self.first else {})


def warn_if_not_found(history: list[dict[str, Any]], stacklevel: int) -> None:
    """Warn if the codes rarely find the own views at the end of a training.

    Fewer than 30 % in the last epoch are too few. Fewer than 90 % in the last two epochs are, too, if the augmentation
    had its lowest strength.
    """
    entries = [entry for entry in history if "own_views_found" in entry]
    if not entries:
        return
    share, strength = entries[-1]["own_views_found"], entries[-1].get("augment_strength", 1.0)
    stays_weak = len(entries) > 1 and all(
        entry["own_views_found"] < _SHARE and entry.get("augment_strength", 1.0) <= _LEAST_STRENGTH + _STEP
        for entry in entries[-2:]
    )
    if share < _MIN_SHARE or stays_weak:
        message = (
            "The codes find the other view of a sample among the first `n_positives` views of its batch for only "
            f"{100 * share:.0f} % of the samples at the end of the training, with `augment` at "
            f"{100 * strength:.0f} % of its strength, so that they have learned little from it. "
            "Weaken `augment`, raise `n_epochs`, or use own_view='first'."
        )
        warnings.warn(message, UserWarning, stacklevel=stacklevel + 1)
