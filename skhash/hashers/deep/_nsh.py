"""The objective of NSH, with the views that it contrasts. See the equations in nsh.py."""

import warnings
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, normalize, softplus
from torch.utils.checkpoint import checkpoint

from skhash.engine import Encoder, Objective
from skhash.engine.augment import augmented, two_views
from skhash.engine.backbones import HIDDEN
from skhash.engine.data import unit_of
from skhash.hashers.deep._objectives import nt_xent, sign
from skhash.hashers.deep._parameters import (
    Augmentation,
)

_MAX_WEIGHTS = 2**23  # entries of the soft permutations in memory at a time: 32 MiB


def _tied_levels(distances: torch.Tensor, max_distance: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Different whole distances of each row, ascending, and the number of items at each, both padded by 0."""
    whole = distances.detach().round().long()
    taken = torch.zeros(len(whole), max_distance + 1, dtype=torch.long, device=whole.device).scatter_(1, whole, 1)
    slots = (taken.cumsum(1) - 1).gather(1, whole)
    empty = distances.new_zeros(len(distances), int(slots.max()) + 1)
    counts = empty.scatter_add(1, slots, torch.ones_like(distances))
    return empty.scatter_add(1, slots, distances) / counts.clamp_min(1), counts


def _soft_permutation(levels: torch.Tensor, distances: torch.Tensor, tau: float = 1.0) -> torch.Tensor:
    """Different rows of the soft permutations, of shape (n, n_levels, n_items); each sums to 1 over the items."""
    return torch.softmax(-(levels[:, :, None] - distances[:, None, :]).abs() / tau, dim=-1)


def _sorted_nce(
    cosines: torch.Tensor,
    counts: torch.Tensor,
    n_positives: int,
    tau: float = 0.2,
    *,
    all_in_denominator: bool = False,
) -> torch.Tensor:
    """SortedNCE, the mean over positives and anchors, of the cosines (n, n_levels) of sorted rows and their anchors."""
    positives = torch.minimum((n_positives - counts.cumsum(1) + counts).clamp_min(0), counts)
    others = counts if all_in_denominator else counts - positives
    logits = cosines / tau
    denominators = torch.logsumexp(logits + others.log(), dim=1, keepdim=True) - logits
    losses = denominators if all_in_denominator else softplus(denominators)
    loss: torch.Tensor = (positives * losses).sum() / (n_positives * len(cosines))
    return loss


def _quantization_loss(h: torch.Tensor) -> torch.Tensor:
    """L_R: mean distance of activations (n, nbits) from their signs, which are held constant."""
    distances: torch.Tensor = torch.linalg.vector_norm(sign(h).detach() - h, dim=1)
    return distances.mean()


def _sorted_items(levels: torch.Tensor, distances: torch.Tensor, items: torch.Tensor, tau: float) -> torch.Tensor:
    """Unit rows e_i, of shape (n, n_levels, n_latent)."""
    # sums of items, and above all of codes, may be near 0: `eps` limits the gradient
    return normalize(_soft_permutation(levels, distances, tau) @ items, dim=-1, eps=1e-3)


def _cosines(
    levels: torch.Tensor, distances: torch.Tensor, items: torch.Tensor, anchors: torch.Tensor, tau: float
) -> torch.Tensor:
    """Cosines of softly sorted items with their anchors, of shape (n, n_levels)."""
    return (_sorted_items(levels, distances, items, tau) @ anchors[:, :, None])[:, :, 0]


def _soft_cosines(
    levels: torch.Tensor, distances: torch.Tensor, items: torch.Tensor, anchors: torch.Tensor, tau: float
) -> torch.Tensor:
    """`_cosines` in blocks of anchors that are computed again for the gradient, which limits the memory."""
    size = max(1, _MAX_WEIGHTS // (levels.shape[1] * distances.shape[1]))
    if size >= len(levels):
        return _cosines(levels, distances, items, anchors, tau)
    parts = zip(levels.split(size), distances.split(size), anchors.split(size), strict=True)
    computed_again = partial(checkpoint, _cosines, use_reentrant=False, preserve_rng_state=False)
    return torch.cat([computed_again(part[0], part[1], items, part[2], tau) for part in parts])


class NSHObjective(Objective):
    """SortedNCE of two views of a batch, and the distance of activations from their signs."""

    def __init__(
        self,
        augment: Augmentation,
        width: int,
        n_inputs: int,
        n_latent: int = 128,
        n_positives: int = 2,
        temperature: float = 0.2,
        sort_temperature: float = 1.0,
        quantization_weight: float = 0.1,
        variant: str = "full",
        own_view: str = "sorted",
        own_view_weight: float = 0.2,
        query_view: str = "anchor",
    ) -> None:
        super().__init__()
        self.n_positives, self.temperature, self.sort_temperature = n_positives, temperature, sort_temperature
        self.quantization_weight = 0.0 if variant == "no_quantization" else quantization_weight
        self.variant, self.query_view = variant, query_view
        # "no_softsort" sorts nothing
        self.own_views = OwnViews(augment, own_view == "first" and variant != "no_softsort", own_view_weight)
        on_codes = variant in ("single_bottleneck", "no_softsort")
        self.latent = None if on_codes else nn.Linear(width, n_latent)
        if variant == "decoding":
            self.decoder = nn.Sequential(nn.Linear(n_latent, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_inputs))

    def start_stage(self, stage: int, n_stages: int) -> None:
        """Reset the counts of own views; called before each epoch."""
        self.own_views.start_epoch()

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        features = encoder.features(torch.cat(self.own_views.draw(X)))
        h = torch.tanh(encoder.head(features))
        if h.isnan().any():
            return h.sum()  # NaN, so that the training loop raises an error
        codes = sign(h)
        z = normalize(codes if self.latent is None else self.latent(features), dim=1)
        loss = self._contrast(codes.chunk(2), z.chunk(2), encoder, X)
        return loss + self.quantization_weight * _quantization_loss(h) if self.quantization_weight else loss

    def _contrast(
        self, codes: tuple[torch.Tensor, ...], latents: tuple[torch.Tensor, ...], encoder: Encoder, X: torch.Tensor
    ) -> torch.Tensor:
        """Loss of the two views b~, b^ and z~, z^, which must agree."""
        nbits = codes[0].shape[1]
        if self.variant == "no_softsort":
            similarities = codes[0] @ codes[1].T / (2 * nbits) + 0.5
            return nt_xent(similarities @ codes[0], similarities @ codes[1], self.temperature)
        queries, keys = codes if self.query_view == "items" else codes[::-1]
        distances = (nbits - queries @ keys.T) / 2
        n_positives = min(self.n_positives, len(X) - 1)  # at least one negative
        distances, own_loss = self.own_views.sort(distances, n_positives, self.sort_temperature)
        if self.variant == "decoding":
            return own_loss + self._reconstruction(distances, latents[0], encoder, X)
        max_distance = nbits + self.own_views.first
        return own_loss + self._sorted_contrast(distances, max_distance, latents, n_positives)

    def _sorted_contrast(
        self, distances: torch.Tensor, max_distance: int, latents: tuple[torch.Tensor, ...], n_positives: int
    ) -> torch.Tensor:
        """SortedNCE of latents that are sorted by `distances`."""
        items, anchors = latents
        if self.variant == "hard_sort":
            cosines = (anchors @ items.T).gather(1, distances.argsort(dim=1, stable=True))
            return _sorted_nce(cosines, torch.ones_like(cosines), n_positives, self.temperature)
        levels, counts = _tied_levels(distances, max_distance)
        cosines = _soft_cosines(levels, distances, items, anchors, self.sort_temperature)
        multi_label = self.variant == "multi_label"
        return _sorted_nce(cosines, counts, n_positives, self.temperature, all_in_denominator=multi_label)

    def _reconstruction(
        self, distances: torch.Tensor, items: torch.Tensor, encoder: Encoder, X: torch.Tensor
    ) -> torch.Tensor:
        """Squared error of samples that are decoded from the nearest items."""
        first = _sorted_items(distances.amin(1, keepdim=True), distances, items, self.sort_temperature)[:, 0]
        return mse_loss(self.decoder(first), ((X - encoder.mean) / encoder.scale).flatten(1))


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


def _own_view_first(distances: torch.Tensor) -> torch.Tensor:
    """Distances in which the own view is one bit nearer than all others, raised by one so that none is negative."""
    nearest = distances.min(1).values
    return distances + 1 + torch.diag(nearest - 1 - distances.diagonal()).detach()


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
        step = torch.where(n_found / len(distances) >= _SHARE, _STEP, -_STEP)
        self.strength = (self.strength + step).clamp(_LEAST_STRENGTH, 1.0)
        # the likelihood that the first row of the soft permutation selects the own view
        own_loss = cross_entropy(-distances / tau, torch.arange(len(distances), device=distances.device))
        return _own_view_first(distances), self.weight * own_loss

    def shares(self) -> dict[str, float]:
        """Share of own views found in this epoch, and the strength of `augment`."""
        shares = {"own_views_found": self.n_found.item() / self.n_anchors} if self.n_anchors else {}
        return shares | ({"augment_strength": round(self.strength.item(), 3)} if self.first else {})


_MIN_SHARE = 0.3  # of own views that the codes find; below it `fit` warns


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
