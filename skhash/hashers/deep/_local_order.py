"""Batches of samples that are near each other."""

import numpy as np
import numpy.typing as npt


def local_order(
    coordinates: npt.NDArray[np.floating], batch_size: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Order of samples whose batches are the leaves of a random tree.

    The samples are split again and again by a coordinate that is drawn at random, until the parts have
    the size of a batch.

    Parameters
    ----------
    coordinates : ndarray of shape (n_samples, n_coordinates)
        Coordinates of the samples.
    batch_size : int
        Number of samples in a batch.
    rng : numpy.random.Generator
        Draws the coordinates, and the order of and within the batches.

    Returns
    -------
    ndarray of shape (n_samples,), dtype int64
        A permutation. The last batch may be smaller.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.deep._local_order import local_order
    >>> order = local_order(
    ...     np.array([[5.0], [1.0], [6.0], [2.0]]), 2, np.random.default_rng(0)
    ... )
    >>> sorted(sorted(batch) for batch in order.reshape(2, 2).tolist())
    [[0, 2], [1, 3]]
    """
    parts = [np.arange(len(coordinates))]
    full: list[npt.NDArray[np.int64]] = []
    rest: list[npt.NDArray[np.int64]] = []
    while parts:
        part = parts.pop()
        n_batches = -(-len(part) // batch_size)
        if n_batches > 1:
            values = coordinates[part, rng.integers(coordinates.shape[1])]
            part = part[np.argsort(values, kind="stable")]
            if rng.random() < 0.5:  # the smaller batch may be anywhere
                part = part[::-1]
            cut = batch_size * (n_batches // 2)
            parts += [part[:cut], part[cut:]]
        else:
            (full if len(part) == batch_size else rest).append(rng.permutation(part))
    return np.concatenate([*(full[i] for i in rng.permutation(len(full))), *rest])
