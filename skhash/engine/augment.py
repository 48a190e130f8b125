"""Augmentation: other versions of a batch. Those of images need kornia."""

import torch


def two_views(augment, batch):
    """Draw two random versions of a batch.

    Parameters
    ----------
    augment : callable
        Maps a batch to a random version of it.
    batch : tensor of shape (n, ...)
        Rows.

    Returns
    -------
    tuple of two tensors of shape (n, ...)
        The views; row i of each comes from row i.
    """
    return augment(batch), augment(batch)


def corrupt(batch, share=0.1, noise=0.1):
    """Draw another version of vectors: some of the features of other rows, and noise.

    A feature that is dropped takes its value in another row of the batch, which is as
    likely as any, whatever its mean and scale are (as in SCARF, Bahri et al., ICLR 2022).

    Parameters
    ----------
    batch : tensor of shape (n, n_features)
        Rows.
    share : float, default=0.1
        Share of the features that are exchanged.
    noise : float, default=0.1
        Standard deviation of the noise, in units of that of all values around the mean row.

    Returns
    -------
    tensor of shape (n, n_features)
        The version.

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
    scale = torch.sqrt(torch.mean((batch - batch.mean(0)) ** 2))
    return batch + noise * scale * torch.randn_like(batch)


def crop_and_flip(shape):
    """Build the usual augmentation of small labelled images: a shift by up to an eighth, a flip.

    Parameters
    ----------
    shape : tuple of int
        Shape of one row, (channels, height, width).

    Returns
    -------
    callable
        Maps a batch (n, channels, height, width) in [0, 1] to another version of it.

    Raises
    ------
    ValueError
        If the rows are no images.
    ImportError
        Without kornia.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine import crop_and_flip
    >>> crop_and_flip((3, 32, 32))(torch.rand(4, 3, 32, 32)).shape
    torch.Size([4, 3, 32, 32])
    """
    kornia = _kornia(shape)
    padding = max(1, max(shape[1:]) // 8)
    return kornia.AugmentationSequential(
        kornia.RandomCrop(tuple(shape[1:]), padding=padding), kornia.RandomHorizontalFlip(), data_keys=["input"]
    )


def moco_v2(shape):
    """Build the augmentation of MoCo v2: crops of a fifth and more, flips, blur, and colours where there are any.

    Parameters
    ----------
    shape : tuple of int
        Shape of one row, (channels, height, width).

    Returns
    -------
    callable
        Maps a batch (n, *shape) in [0, 1] to another version of it.

    Raises
    ------
    ValueError
        If the rows are no images.
    ImportError
        Without kornia.

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
    colours = [kornia.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8), kornia.RandomGrayscale(p=0.2)]
    kernel = 2 * (max(size) // 20) + 1  # a tenth of the image, odd
    return kornia.AugmentationSequential(
        kornia.RandomResizedCrop(tuple(size), scale=(0.2, 1.0)),
        *(colours if channels == 3 else []),
        *([kornia.RandomGaussianBlur((kernel, kernel), (0.1, 2.0), p=0.5)] if kernel > 1 else []),
        kornia.RandomHorizontalFlip(),
        data_keys=["input"],
    )


def _kornia(shape):
    if len(shape) != 3:
        raise ValueError(
            f"augment='auto' with rows of shape {tuple(shape)}; images (channels, height, width), or a callable, are "
            "wanted."
        )
    try:
        import kornia.augmentation as kornia
    except ImportError as error:
        raise ImportError("augment='auto' for images needs kornia: pip install kornia") from error
    return kornia
