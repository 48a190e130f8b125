"""Levels of pairs as indices, until all callers hold a Relevance."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.affinity.relevance import Relevance


def level_indices(
    affinity: Callable[[Any, Any], Any], y_a: Any, y_b: Any
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
    """Levels of all pairs, as indices into the levels that can occur.

    Parameters
    ----------
    affinity : callable
        Maps two sets of targets to levels.
    y_a, y_b : array-like of shape (len a, ...) and (len b, ...)
        Targets.

    Returns
    -------
    indices : ndarray of shape (len a, len b), dtype uint32
        ``levels[indices]`` are the levels.
    levels : ndarray of shape (n_levels,)
        Ascending, the first one 0.

    Raises
    ------
    ValueError
        If the affinity returns another shape, or levels below 0 or not finite.

    Examples
    --------
    >>> from skhash.affinity import level_indices
    >>> level_indices(lambda a, b: [[0.0, 2.5]], [1], [2, 3])
    (array([[0, 1]], dtype=uint32), array([0. , 2.5]))
    """
    indices, levels = small_level_indices(affinity, y_a, y_b)
    return indices.astype(np.uint32), levels


def small_level_indices(
    affinity: Callable[[Any, Any], Any], y_a: Any, y_b: Any
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Levels of all pairs as in `level_indices`, uint8 if the affinity returns bytes or bools, else uint32."""
    if not callable(affinity):
        raise TypeError(f"`affinity` must be callable, see skhash.affinity. Got {affinity!r} instead.")
    return Relevance.between(y_a, y_b, affinity).levels()


def check_pairs(affinity: Any, targets: Any) -> None:
    """Raise ValueError unless the fitted affinity has relevant and irrelevant pairs of different samples."""
    Relevance.between(targets, targets, affinity).check_pairs()
