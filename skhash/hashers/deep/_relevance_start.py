r"""Initial weights of EmbeddingHasher for learned relevance: a ridge regression of the levels of all pairs.

With the labeled samples x in the rows of X, centered, and their levels L, centered over rows and columns, the
estimate of a level is a bilinear function of two samples,

    L_ij ~ x_i' M x_j,   M = P L P',   P = (X'X + c I)^-1 X'

a regression on one sample, and then on the other. The eigenvectors of M, times the roots of its largest eigenvalues,
map samples to vectors whose inner products are these estimates. A rotation as in ITQ brings them near the corners of
the cube.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.affinity import ClassAffinity, level_indices
from skhash.codes._bits import memory_chunks
from skhash.hashers.deep._itq_start import rotated

#: candidates for the penalty c, in units of the mean eigenvalue of X'X
PENALTIES = (1.0, 0.1, 0.3, 3.0, 10.0)
UNLABELED = -1


def labeled_indices(affinity: Any, targets: Any) -> npt.NDArray[np.int64]:
    """Indices of the labeled samples, ascending: classes other than -1, or samples with a relevant sample."""
    n = targets.shape[0]
    if isinstance(affinity, ClassAffinity):
        is_number = np.asarray(targets).dtype.kind in "if"
        labeled = (np.asarray(targets).reshape(n) != UNLABELED) if is_number else np.ones(n, dtype=bool)
        return np.flatnonzero(labeled)
    labeled = np.zeros(n, dtype=bool)
    for chunk in memory_chunks(n, 32 * n):
        labeled[chunk] = level_indices(affinity, targets[chunk], targets)[0].any(axis=1)
    return np.flatnonzero(labeled)


def levels_of(affinity: Any, targets_a: Any, targets_b: Any) -> npt.NDArray[np.float64]:
    """Levels of all pairs of targets, of shape (n_a, n_b)."""
    indices, levels = level_indices(affinity, targets_a, targets_b)
    return np.asarray(levels, dtype=np.float64)[indices]


def relevance_map(
    features: npt.NDArray[np.float64],
    labeled: npt.NDArray[np.float64],
    levels: npt.NDArray[np.float64],
    penalty: float,
    nbits: int,
    rng: np.random.RandomState,
) -> npt.NDArray[np.float64]:
    """Map (width, nbits) of centered samples to activations with mean square 1; zero if all levels are equal.

    `labeled` has the shape (n_labeled, width) and `levels` (n_labeled, n_labeled). The rotation is learned from
    `features`. `penalty` is in units of the mean eigenvalue of the normal equations.
    """
    width = labeled.shape[1]
    moments = labeled.T @ labeled
    moments[np.diag_indices(width)] += penalty * max(np.trace(moments) / width, 1e-12)
    regression = np.linalg.solve(moments, labeled.T)
    centered = levels - levels.mean(axis=0) - levels.mean(axis=1)[:, None] + levels.mean()
    metric = regression @ centered @ regression.T
    values, vectors = np.linalg.eigh((metric + metric.T) / 2)
    n_kept = min(nbits, width)
    start = np.zeros((width, nbits))
    start[:, :n_kept] = (vectors * np.sqrt(values.clip(0)))[:, : -n_kept - 1 : -1]
    start /= max(float(np.abs(start).max()), 1e-300)
    return rotated(start, features, rng)
