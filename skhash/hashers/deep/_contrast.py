"""Contrast of two random views of each sample, for NSH and CIBHash."""

import torch
from torch.nn.functional import cross_entropy, normalize

from skhash.engine.augment import corrupt, moco_v2
from skhash.hashers.deep._parameters import Augmentation


def view_maker(augment: str | Augmentation, shape: tuple[int, ...]) -> Augmentation:
    """Function that draws a random version of a batch, from the parameter `augment`.

    "auto" is for vectors, and for images with kornia.
    """
    if callable(augment):
        return augment
    return corrupt if len(shape) == 1 else moco_v2(shape)


def nt_xent(first: torch.Tensor, second: torch.Tensor, temperature: float) -> torch.Tensor:
    """Loss of SimCLR: each view must find the other view of its sample among all other views.

    It is the mean of -log(e^s(i, i') / sum_{j != i} e^s(i, j)) over the 2 n views i with their counterparts i',
    where s is the cosine over the temperature (Chen et al., ICML 2020).

    Parameters
    ----------
    first, second : tensor of shape (n, width)
        Views; row i of each comes from sample i of the batch.
    temperature : float
        Temperature.

    Returns
    -------
    tensor of shape ()
        The loss.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep import nt_xent
    >>> views = torch.eye(2)
    >>> nt_xent(views, views, temperature=1.0)  # ln(1 + 2 / e)
    tensor(0.5514)
    """
    views = normalize(torch.cat([first, second]), dim=1, eps=1e-3)
    logits = (views @ views.T / temperature).fill_diagonal_(-torch.inf)
    return cross_entropy(logits, torch.arange(len(views), device=views.device).roll(len(first)))
