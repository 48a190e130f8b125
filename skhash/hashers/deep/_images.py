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


def check_shape(X: Any, fitted: tuple[int, ...] | None, backbone: Any, is_dataset: bool) -> tuple[int, ...]:
    """Shape of one sample.

    Parameters
    ----------
    X : array or DatasetArray of shape (n_samples, ...)
        Validated samples.
    fitted : tuple of int or None
        Shape in `fit`; None in `fit` itself.
    backbone : None, str or torch.nn.Module
        Network before the hash layer. Only a module may have images with the channels last.
    is_dataset : bool
        Whether `X` is a Dataset, for the remedy.

    Returns
    -------
    tuple of int
        The shape.

    Raises
    ------
    ValueError
        If the samples are images with the channels last, or of another shape than in `fit`.

    Warns
    -----
    UserWarning
        If a module of the user gets images that look as if they had the channels last.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.deep._images import check_shape
    >>> check_shape(np.zeros((5, 3, 32, 32)), None, "conv", is_dataset=False)
    (3, 32, 32)
    """
    shape = tuple(X.shape[1:])
    move = "return image.transpose(2, 0, 1) from the Dataset" if is_dataset else "pass X.transpose(0, 3, 1, 2)"
    move = f"If the channels are last, {move}."
    if fitted is not None:
        if shape != fitted:
            hint = f" {move}" if (*shape[2:], *shape[:2]) == fitted else ""
            raise ValueError(f"`X` must have samples of shape {fitted}, as in fit. Got {shape} instead.{hint}")
        return shape
    if has_channels_last(shape):
        if not isinstance(backbone, nn.Module):
            raise ValueError(
                f"`X` must hold images of shape (channels, height, width). Got samples of shape {shape}, which are "
                f"{shape[0]} channels. {move}"
            )
        warnings.warn(
            f"X has images of shape {shape}, and axis 1 is taken for {shape[0]} channels. {move}",
            UserWarning,
            stacklevel=2,
        )
    return shape
