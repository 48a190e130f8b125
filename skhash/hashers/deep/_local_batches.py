"""Batches of samples that are near each other."""

import numpy as np
import numpy.typing as npt


def local_batches(
    coordinates: npt.NDArray[np.floating], n_batches: int, rng: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Batches of samples that are near each other, whose sizes differ by at most one.

    A random tree splits the samples by coordinates of shape (n_samples, n_coordinates); its leaves are the batches.
    """
    n = len(coordinates)
    smaller, n_larger = divmod(n, n_batches)
    sizes = rng.permutation(np.repeat([smaller + 1, smaller], [n_larger, n_batches - n_larger]))
    parts, leaves = [(np.arange(n), sizes)], []
    while parts:
        part, sizes = parts.pop()
        if len(sizes) == 1:
            leaves.append(rng.permutation(part))
            continue
        part = part[np.argsort(coordinates[part, rng.integers(coordinates.shape[1])], kind="stable")]
        half = len(sizes) // 2
        cut = sizes[:half].sum()
        parts += [(part[:cut], sizes[:half]), (part[cut:], sizes[half:])]
    return [leaves[i] for i in rng.permutation(n_batches)]
