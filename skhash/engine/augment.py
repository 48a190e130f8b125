"""Augmentation: random versions of a batch. Those of images need kornia."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skhash._libraries import library, torch
from skhash.engine.data import unit_of


def augmented(augment: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
    """What `augment` returns for a batch; ValueError unless vectors keep their shape, and images their number."""
    views = augment(batch)
    n_fixed = batch.ndim if batch.ndim == 2 else 1  # images may be cut to another size
    if not isinstance(views, torch.Tensor) or views.shape[:n_fixed] != batch.shape[:n_fixed]:
        expected = f"shape {tuple(batch.shape)}, as its batch" if batch.ndim == 2 else f"{len(batch)} samples"
        given = f"shape {tuple(views.shape)}" if isinstance(views, torch.Tensor) else type(views).__name__
        raise ValueError(f"`augment` must return a tensor of {expected}. Got {given} instead.")
    return views


def two_views(
    augment: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two random versions of a batch, each of shape (n, ...)."""
    return augmented(augment, batch), augmented(augment, batch)


def corrupt(batch: torch.Tensor, share: float = 0.1, noise: float = 0.1) -> torch.Tensor:
    """Random version of vectors (n, n_features): some features come from other samples, and noise is added.

    This is the augmentation of SCARF (Bahri et al., ICLR 2022). `noise` is in units of the standard deviation of all
    values around the mean sample.
    """
    others = batch[torch.randperm(len(batch), device=batch.device)]
    batch = torch.where(torch.rand_like(batch) < share, others, batch)
    deviations = batch - batch.mean(0)
    unit = unit_of(deviations)
    scale = torch.sqrt(torch.mean((deviations / unit) ** 2)) * unit
    return batch + noise * scale * torch.randn_like(batch)


def crop_and_flip(shape: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Augmentation of small labeled images: a shift by up to an eighth of the size, and a flip.

    Parameters
    ----------
    shape : tuple of int
        Shape of one sample, (channels, height, width).

    Returns
    -------
    callable
        Maps a batch (n, channels, height, width) in [0, 1] to a random version of it.

    Raises
    ------
    ValueError
        If the samples are not images.
    ImportError
        If kornia is not installed.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine.augment import crop_and_flip
    >>> crop_and_flip((3, 32, 32))(torch.rand(4, 3, 32, 32)).shape
    torch.Size([4, 3, 32, 32])
    """
    kornia = _kornia(shape)
    padding = max(1, max(shape[1:]) // 8)
    augment: Callable[[torch.Tensor], torch.Tensor] = kornia.AugmentationSequential(
        kornia.RandomCrop(tuple(shape[1:]), padding=padding), kornia.RandomHorizontalFlip(), data_keys=["input"]
    )
    return augment


def moco_v2(shape: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Augmentation of MoCo v2 for images of this shape with values in [0, 1]; gray images keep their gray values."""
    kornia = _kornia(shape)
    channels, *size = shape
    colors = [kornia.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8), kornia.RandomGrayscale(p=0.2)]
    kernel = 2 * (max(size) // 20) + 1  # a tenth of the image, odd
    augment: Callable[[torch.Tensor], torch.Tensor] = kornia.AugmentationSequential(
        kornia.RandomResizedCrop(tuple(size), scale=(0.2, 1.0)),
        *(colors if channels == 3 else []),
        *([kornia.RandomGaussianBlur((kernel, kernel), (0.1, 2.0), p=0.5)] if kernel > 1 else []),
        kornia.RandomHorizontalFlip(),
        data_keys=["input"],
    )
    return augment


def _kornia(shape: tuple[int, ...]) -> Any:
    if len(shape) != 3:
        raise ValueError(
            f"`augment` must be None or a callable for samples of shape {tuple(shape)}. Got 'auto' instead, which is "
            "for images of shape (channels, height, width)."
        )
    return library("kornia.augmentation", "kornia", "augment='auto' for images")
