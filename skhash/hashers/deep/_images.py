"""Shapes of samples with several axes: the same in `transform` as in `fit`, and images with the channels first."""

import warnings
from typing import Any

from torch import nn

#: numbers of channels of images that are written to the last axis: gray, RGB, RGBA
CHANNELS = (1, 3, 4)


def has_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether samples look like images of shape (height, width, channels), and not (channels, height, width).

    Parameters
    ----------
    shape : tuple of int
        Shape of one sample.

    Returns
    -------
    bool
        True if the last axis alone can be that of the channels.

    Examples
    --------
    >>> from skhash.hashers.deep._images import has_channels_last
    >>> (
    ...     has_channels_last((32, 32, 3)),
    ...     has_channels_last((3, 32, 32)),
    ...     has_channels_last((3, 4, 3)),
    ... )
    (True, False, False)
    """
    return len(shape) == 3 and shape[2] in CHANNELS and shape[0] not in CHANNELS and shape[0] > 4 and shape[1] > 4


def check_channels(shape: tuple[int, ...], backbone: Any, is_dataset: bool) -> None:
    """Raise ValueError for training images with the channels last; a module of the user may have them.

    Parameters
    ----------
    shape : tuple of int
        Shape of one sample.
    backbone : None, str or torch.nn.Module
        Network before the hash layer.
    is_dataset : bool
        Whether the samples are those of a Dataset, for the remedy.

    Raises
    ------
    ValueError
        If the samples are images with the channels last.

    Warns
    -----
    UserWarning
        If a module of the user gets images that look as if they had the channels last.

    Examples
    --------
    >>> from skhash.hashers.deep._images import check_channels
    >>> check_channels((3, 32, 32), "conv", is_dataset=False)
    """
    if not has_channels_last(shape):
        return
    if not isinstance(backbone, nn.Module):
        raise ValueError(
            f"`X` must hold images of shape (channels, height, width). Got samples of shape {shape}, which are "
            f"{shape[0]} channels. {_remedy(is_dataset)}"
        )
    warnings.warn(
        f"X has images of shape {shape}, and axis 1 is taken for {shape[0]} channels. {_remedy(is_dataset)}",
        UserWarning,
        stacklevel=2,
    )


def check_same_shape(shape: tuple[int, ...], fitted: tuple[int, ...], is_dataset: bool) -> None:
    """Raise ValueError for samples of another shape than the training samples.

    Parameters
    ----------
    shape : tuple of int
        Shape of one sample.
    fitted : tuple of int
        That of a training sample.
    is_dataset : bool
        Whether the samples are those of a Dataset, for the remedy.

    Examples
    --------
    >>> from skhash.hashers.deep._images import check_same_shape
    >>> check_same_shape((8, 8), (1, 8, 8), is_dataset=False)
    Traceback (most recent call last):
    ...
    ValueError: `X` must have samples of shape (1, 8, 8), as in fit. Got (8, 8) instead.
    """
    if shape != fitted:
        hint = f" {_remedy(is_dataset)}" if (*shape[2:], *shape[:2]) == fitted else ""
        raise ValueError(f"`X` must have samples of shape {fitted}, as in fit. Got {shape} instead.{hint}")


def _remedy(is_dataset: bool) -> str:
    move = "return image.transpose(2, 0, 1) from the Dataset" if is_dataset else "pass X.transpose(0, 3, 1, 2)"
    return f"If the channels are last, {move}."
