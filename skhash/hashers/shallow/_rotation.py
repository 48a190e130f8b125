"""The rotation of iterative quantization, which ITQ and CCA-ITQ share."""

import numpy as np
import numpy.typing as npt
from scipy.linalg import orthogonal_procrustes

from skhash.codes import binarize, signs
from skhash.hashers.shallow._linear import orthonormal_map


def quantizing_rotation(
    V: npt.NDArray[np.floating], n_iter: int, rng: np.random.RandomState
) -> npt.NDArray[np.float64]:
    """Rotation (nbits, nbits) that brings centered samples V (n_samples, nbits) near the corners of the cube."""
    rotation = orthonormal_map(V.shape[1], V.shape[1], rng)
    for _ in range(n_iter):
        corners = signs(binarize(V @ rotation))
        rotation = orthogonal_procrustes(V, corners)[0]
    return rotation
