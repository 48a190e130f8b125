"""The start of linear hashers from ITQ."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from skhash.engine import Encoder
from skhash.hashers.shallow._linear import principal_map
from skhash.hashers.shallow._rotation import quantizing_rotation


@torch.no_grad()
def itq_map(
    encoder: Encoder, X: Any, indices: slice | npt.NDArray[np.int64], rng: np.random.RandomState
) -> npt.NDArray[np.float64]:
    """ITQ of the outputs of the backbone, scaled to activations with mean square 1.

    Parameters
    ----------
    encoder : Encoder
        The encoder, on the CPU, with its statistics.
    X : array or DatasetArray of shape (n_samples, ...)
        Training samples.
    indices : slice or ndarray of int
        The samples to learn from.
    rng : numpy.random.RandomState
        Draws the first rotation.

    Returns
    -------
    ndarray of shape (width, nbits), float64
        The map of the hash layer, which adds no bias.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine import Encoder
    >>> from skhash.hashers.deep._itq_start import itq_map
    >>> X = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> encoder = Encoder(2, nbits=1)
    >>> encoder.set_statistics(X)
    >>> np.abs(itq_map(encoder, X, slice(None), np.random.RandomState(0))).round(3).ravel()
    array([0.745, 0.   ])
    """
    centered = encoder.eval().features(encoder.read(X, indices)).numpy().astype(np.float64)
    encoder.train()
    return rotated(principal_map(centered, encoder.hash.out_features, rng), centered, rng)


def rotated(
    start: npt.NDArray[np.float64], centered: npt.NDArray[np.float64], rng: np.random.RandomState
) -> npt.NDArray[np.float64]:
    """A linear map of centered samples, rotated as in ITQ, and scaled to activations with mean square 1."""
    start = start @ quantizing_rotation(centered @ start, 50, rng)
    scaled: npt.NDArray[np.float64] = start / max(float(np.sqrt(np.mean((centered @ start) ** 2))), 1e-12)
    return scaled
