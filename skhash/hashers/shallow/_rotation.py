"""The rotation of iterative quantization, which ITQ and CCA-ITQ share."""

import numpy as np
import numpy.typing as npt
from scipy.linalg import orthogonal_procrustes

from skhash.codes import binarize, signs
from skhash.hashers.shallow._linear import orthonormal_map


def quantizing_rotation(
    V: npt.NDArray[np.floating], n_iter: int, rng: np.random.RandomState
) -> npt.NDArray[np.float64]:
    """Rotation that brings samples near the corners of the cube.

    Parameters
    ----------
    V : ndarray of shape (n_samples, nbits)
        Centered samples.
    n_iter : int
        Number of iterations.
    rng : numpy.random.RandomState
        Draws the first rotation.

    Returns
    -------
    ndarray of shape (nbits, nbits), float64
        The rotation R.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._rotation import quantizing_rotation
    >>> V = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    >>> np.abs(V @ quantizing_rotation(V, 50, np.random.RandomState(0))).round(3)[0]
    array([0.707, 0.707])
    """
    rotation = orthonormal_map(V.shape[1], V.shape[1], rng)
    for _ in range(n_iter):
        corners = signs(binarize(V @ rotation))
        rotation = orthogonal_procrustes(V, corners)[0]
    return rotation
