"""Rows of any kind as images that can be shown."""

import math

import numpy as np


def as_images(rows, image_shape, name):
    """Turn rows into images, grey or with the channels last.

    Parameters
    ----------
    rows : array-like of shape (n, n_features), (n, height, width), (n, channels, height, width) or
            (n, height, width, channels)
        Vectors or images, with 1 or 3 channels.
    image_shape : tuple of int or None
        Shape of the image that a vector stands for.
    name : str
        How error messages call the rows.

    Returns
    -------
    ndarray of shape (n, height, width) or (n, height, width, 3)
        Images.

    Raises
    ------
    ValueError
        If the rows are no images.
    """
    rows = np.asarray(rows)
    if rows.ndim == 2 and image_shape is not None and math.prod(image_shape) == rows.shape[1]:
        rows = rows.reshape(len(rows), *image_shape)
    if rows.ndim == 4 and rows.shape[1] in (1, 3):
        rows = np.moveaxis(rows, 1, -1)
    if rows.ndim == 4 and rows.shape[-1] == 1:
        rows = rows[..., 0]
    if rows.ndim != 3 and not (rows.ndim == 4 and rows.shape[-1] == 3):
        raise ValueError(
            f"{name} has rows of shape {rows.shape[1:]}, with image_shape={image_shape}; images (height, width), with "
            "1 or 3 channels first or last, or vectors and the image_shape that fits them are wanted."
        )
    return rows


def stretch(*groups):
    """Bring images to [0, 1]: bytes as they are, real values by the least and the largest of all groups.

    Parameters
    ----------
    *groups : ndarrays
        Images that are shown together.

    Returns
    -------
    list of ndarray, float32 or float64
        In [0, 1].
    """
    if all(group.dtype == np.uint8 for group in groups):
        return [group / np.float32(255) for group in groups]
    low, high = min(float(group.min()) for group in groups), max(float(group.max()) for group in groups)
    return [(group - low) / (high - low or 1) for group in groups]
