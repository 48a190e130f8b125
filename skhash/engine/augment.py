"""Augmentation: random versions of a batch. Those of images need kornia."""

from collections.abc import Callable
from typing import Any

import torch

from skhash._libraries import library
from skhash.engine.data import unit_of


def augmented(augment: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
    """A random version of a batch.

    Parameters
    ----------
    augment : callable
        Maps a batch to a random version of it.
    batch : tensor of shape (n, ...)
        Samples.

    Returns
    -------
    tensor of shape (n, ...)
        What `augment` returns. Vectors keep their number of features.

    Raises
    ------
    ValueError
        If `augment` returns anything else.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine.augment import augmented
    >>> augmented(torch.neg, torch.ones(1, 3))
    tensor([[-1., -1., -1.]])
    """
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
    """Two random versions of a batch.

    Parameters
    ----------
    augment : callable
        Maps a batch to a random version of it.
    batch : tensor of shape (n, ...)
        Samples.

    Returns
    -------
    tuple of two tensors of shape (n, ...)
        The views. Sample i of each is a version of sample i of the batch.
    """
    return augmented(augment, batch), augmented(augment, batch)


def corrupt(batch: torch.Tensor, share: float = 0.1, noise: float = 0.1) -> torch.Tensor:
    """Random version of vectors: some features come from other samples, and noise is added.

    A replaced feature takes its value from another sample of the batch, so that its
    distribution stays the same (as in SCARF, Bahri et al., ICLR 2022).

    Parameters
    ----------
    batch : tensor of shape (n, n_features)
        Samples.
    share : float, default=0.1
        Share of the features that are replaced.
    noise : float, default=0.1
        Standard deviation of the noise, in units of that of all values around the mean sample.

    Returns
    -------
    tensor of shape (n, n_features)
        The random version.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine.augment import corrupt
    >>> batch = torch.arange(8.0).reshape(4, 2)  # the first feature is even, the second odd
    >>> (corrupt(batch, share=0.5, noise=0.0) % 2).tolist()
    [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
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
    >>> from skhash.engine import crop_and_flip
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
    """Augmentation of MoCo v2: crops of at least a fifth of the area, flips, blur, and changes of color.

    Parameters
    ----------
    shape : tuple of int
        Shape of one sample, (channels, height, width).

    Returns
    -------
    callable
        Maps a batch (n, *shape) in [0, 1] to a random version of it. Images of one channel keep
        their gray values.

    Raises
    ------
    ValueError
        If the samples are not images.
    ImportError
        If kornia is not installed.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine.augment import moco_v2
    >>> [type(step).__name__ for step in moco_v2((1, 28, 28)).children()]
    ['RandomResizedCrop', 'RandomGaussianBlur', 'RandomHorizontalFlip']
    >>> moco_v2((3, 32, 32))(torch.rand(4, 3, 32, 32)).shape
    torch.Size([4, 3, 32, 32])
    """
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
