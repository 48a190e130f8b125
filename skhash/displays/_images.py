"""Samples of any kind as images that can be shown."""

import math

import numpy as np


def as_images(samples, image_shape, name):
    """Images of shape (n, height, width) or (n, height, width, 3) from vectors or images with 1 or 3 channels."""
    images = np.asarray(samples)
    shape = images.shape[1:]
    if images.ndim == 2 and image_shape is not None and math.prod(image_shape) == images.shape[1]:
        images = images.reshape(len(images), *image_shape)
    if images.ndim == 4 and images.shape[1] in (1, 3):
        images = np.moveaxis(images, 1, -1)
    if images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    if images.ndim != 3 and not (images.ndim == 4 and images.shape[-1] == 3):
        raise ValueError(
            f"`{name}` must hold images (height, width), with 1 or 3 channels first or last, or vectors together with "
            f"the `image_shape` that fits them. Got samples of shape {shape} with image_shape={image_shape} instead."
        )
    return images


def stretch(*groups):
    """Images in [0, 1] from several arrays: bytes are divided by 255, other values are scaled by their common range."""
    if all(group.dtype == np.uint8 for group in groups):
        return [group / np.float32(255) for group in groups]
    low, high = min(float(group.min()) for group in groups), max(float(group.max()) for group in groups)
    return [(group - low) / (high - low or 1) for group in groups]
