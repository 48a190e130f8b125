"""Checks of the shapes of images: channels first, and the same shape in `transform` as in `fit`."""

import warnings
from typing import Any

from torch import nn

#: numbers of channels of usual images: gray, RGB, RGBA
CHANNELS = (1, 3, 4)


def has_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether samples look like images of shape (height, width, channels), and not (channels, height, width)."""
    return len(shape) == 3 and shape[2] in CHANNELS and shape[0] not in CHANNELS and shape[0] > 4 and shape[1] > 4


def check_channels(shape: tuple[int, ...], backbone: Any, is_dataset: bool) -> None:
    """Raise ValueError for training images with the channels last, or warn if a module of the user may take them."""
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
    """Raise ValueError unless samples have the shape of the training samples."""
    if shape != fitted:
        hint = f" {_remedy(is_dataset)}" if (*shape[2:], *shape[:2]) == fitted else ""
        raise ValueError(f"`X` must have samples of shape {fitted}, as in fit. Got {shape} instead.{hint}")


def _remedy(is_dataset: bool) -> str:
    move = "return image.transpose(2, 0, 1) from the Dataset" if is_dataset else "pass X.transpose(0, 3, 1, 2)"
    return f"If the channels are last, {move}."
