"""Augmentation: other versions of a batch. Those of images need kornia (``skhash[images]``)."""


def crop_and_flip(shape):
    """Build the usual augmentation of small labelled images: a shift by up to an eighth, a flip.

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
    """
    kornia = _kornia(shape)
    padding = max(1, max(shape[1:]) // 8)
    return kornia.AugmentationSequential(
        kornia.RandomCrop(tuple(shape[1:]), padding=padding), kornia.RandomHorizontalFlip(), data_keys=["input"]
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
        raise ImportError("augment='auto' for images needs kornia: pip install skhash[images]") from error
    return kornia
