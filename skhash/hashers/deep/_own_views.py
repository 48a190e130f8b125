"""Own views, the other views of the samples that are sorted for them: how NSH makes and keeps them the first."""

import warnings
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from skhash.engine import two_views, unit_of
from skhash.engine.augment import augmented
from skhash.hashers.deep._parameters import Augmentation

_MIN_SHARE = 0.3  # of own views that are found; below it `fit` warns
# The strength of an augmentation rises by a step after a batch in which the codes find this share, and falls otherwise.
# Chosen on held-out training samples of MNIST.
_SHARE, _STEP, _LEAST_STRENGTH = 0.9, 0.005, 0.1
# Random versions of a sample of which a weak augmentation takes the nearest. On held-out training samples of MNIST 32
# are better than 8, on those of Fashion-MNIST as good. An augmentation may change a whole batch in the same way: it is
# called eight times, on four copies of each sample.
_MAX_DRAWS, _N_COPIES = 32, 4


def _nearest_draw(augment: Augmentation, n_draws: int, batch: torch.Tensor) -> torch.Tensor:
    """Of `n_draws` random versions of each sample the one nearest to it; the first version if its shape is another.

    `augment` and `batch` are those of `_weaken`.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep._own_views import _nearest_draw
    >>> draws = torch.tensor(
    ...     [[3.0], [9.0], [4.0], [7.0]]
    ... )  # two versions of each of two samples
    >>> _nearest_draw(lambda copies: draws, 2, torch.zeros(2, 1)).flatten()
    tensor([3., 7.])
    """
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
    """Random version of a batch, weaker than `augment` at a strength below 1 unless it has another shape.

    Up to a strength of one half, the nearest of 32 random versions of each sample is mixed with the sample. Above
    it, nothing is mixed, and the number of random versions falls to one.

    Parameters
    ----------
    augment : callable
        Maps a batch to a random version of it.
    strength : tensor of shape ()
        Strength, in [0, 1].
    batch : tensor of shape (n, ...)
        Samples.

    Returns
    -------
    tensor of shape (n, ...)

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep._own_views import _weaken
    >>> _weaken(torch.neg, torch.tensor(0.125), torch.ones(1, 2))
    tensor([[0.5000, 0.5000]])
    """
    share = min(1.0, 2 * strength.item())
    n_draws = 1 + round((_MAX_DRAWS - 1) * min(1.0, 2 - 2 * strength.item()))
    views = _nearest_draw(augment, n_draws, batch)
    return torch.lerp(batch, views, share) if share < 1 and views.shape == batch.shape else views


def _next_strength(strength: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Strength of the augmentation of the next batch, which falls where own views get lost.

    Parameters
    ----------
    strength : tensor of shape ()
        Strength so far.
    share : tensor of shape ()
        Share of the own views of a batch that the codes find.

    Returns
    -------
    tensor of shape ()
        Strength in [0.1, 1].

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep._own_views import _next_strength
    >>> _next_strength(torch.tensor(0.5), torch.tensor(0.95))
    tensor(0.5050)
    >>> _next_strength(torch.tensor(0.5), torch.tensor(0.6))
    tensor(0.4950)
    """
    return (strength + torch.where(share >= _SHARE, _STEP, -_STEP)).clamp(_LEAST_STRENGTH, 1.0)


def _own_view_first(distances: torch.Tensor) -> torch.Tensor:
    """Distances with the own view in front of all others, one bit nearer than the nearest of them.

    All distances are raised by one, so that none is negative. The gradient is that of `distances`.

    Parameters
    ----------
    distances : tensor of shape (n, n)
        Hamming distances of n anchors to n views; view i is the own view of anchor i.

    Returns
    -------
    tensor of shape (n, n)
        Distances in [0, nbits + 1].

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep._own_views import _own_view_first
    >>> _own_view_first(torch.tensor([[3.0, 1.0], [2.0, 0.0]]))
    tensor([[1., 2.],
            [3., 0.]])
    """
    nearest = distances.min(1).values
    return distances + 1 + torch.diag(nearest - 1 - distances.diagonal()).detach()


def _own_view_loss(distances: torch.Tensor, sort_temperature: float) -> torch.Tensor:
    """Negative log-likelihood that the first row of the soft permutation selects the own view, mean over the anchors.

    Parameters
    ----------
    distances : tensor of shape (n, n)
        As for `_own_view_first`.
    sort_temperature : float
        Temperature of the soft sort, in units of Hamming distance.

    Returns
    -------
    tensor of shape ()
        The loss.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep._own_views import _own_view_loss
    >>> _own_view_loss(
    ...     torch.tensor([[0.0, 1.0], [1.0, 0.0]]), sort_temperature=1.0
    ... )  # ln(1 + 1 / e)
    tensor(0.3133)
    """
    return cross_entropy(-distances / sort_temperature, torch.arange(len(distances), device=distances.device))


def _count_found(distances: torch.Tensor, n_positives: int) -> torch.Tensor:
    """Number of anchors with fewer than `n_positives` views nearer than the own view.

    Parameters
    ----------
    distances : tensor of shape (n, n)
        As for `_own_view_first`.
    n_positives : int
        Number of first ranks among which the own view counts as found.

    Returns
    -------
    tensor of shape (), dtype int64

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep._own_views import _count_found
    >>> _count_found(torch.tensor([[3.0, 1.0], [2.0, 0.0]]), n_positives=1)
    tensor(1)
    """
    nearer = distances.detach().round()
    return ((nearer < nearer.diagonal()[:, None]).sum(1) < n_positives).sum()


class OwnViews(nn.Module):
    """The two views of each batch, and the place of the own view among the sorted views.

    Parameters
    ----------
    augment : callable
        Maps a batch to a random version of it.
    first : bool
        Whether the own view is always the first, and the strength of `augment` follows the share of own views that are
        found. Otherwise codes sort it as all others, and `augment` has its full strength.
    weight : float
        With `first`: weight of the loss that teaches the codes to find the own view.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep._own_views import OwnViews
    >>> own_views = OwnViews(torch.neg, first=True, weight=1.0)
    >>> view, _ = own_views.draw(torch.ones(2, 1))
    >>> view.flatten()  # at first, a fifth of the random version
    tensor([0.6000, 0.6000])
    >>> distances, loss = own_views.sort(torch.tensor([[3.0, 1.0], [2.0, 0.0]]), 1, 1.0)
    >>> distances
    tensor([[1., 2.],
            [3., 0.]])
    >>> own_views.shares()
    {'own_views_found': 0.5, 'augment_strength': 0.1}
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
        """Share of own views that the codes found among the first in this epoch, and the strength of `augment`."""
        shares = {"own_views_found": self.n_found.item() / self.n_anchors} if self.n_anchors else {}
        return shares | ({"augment_strength": round(self.strength.item(), 3)} if self.first else {})


def warn_if_not_found(history: list[dict[str, Any]], stacklevel: int) -> None:
    """Warn if the codes do not find the own views at the end of a training.

    That is, fewer than three in ten, or twice fewer than nine in ten with an augmentation that is as weak as it gets.

    Parameters
    ----------
    history : list of dict
        An entry per epoch. The last two with "own_views_found", the share of own views found, count; they may have
        "augment_strength".
    stacklevel : int
        As for :func:`warnings.warn`.

    Examples
    --------
    >>> import warnings
    >>> from skhash.hashers.deep._own_views import warn_if_not_found
    >>> warn_if_not_found([{"epoch": 1, "own_views_found": 0.9}], stacklevel=2)
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
