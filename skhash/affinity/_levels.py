"""Levels of pairs as indices, the form in which everything else counts them, and a check of those of a fit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from skhash._validation import numeric
from skhash.affinity._targets import as_targets

BATCH_SIZE = 16  # samples that are compared with all others at a time; the first ones are usually enough


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
    y_a, y_b = as_targets(y_a, "y_a"), as_targets(y_b, "y_b")
    values = numeric(affinity(y_a, y_b), "affinity(y_a, y_b)")
    shape = (y_a.shape[0], y_b.shape[0])
    if values.shape != shape:
        raise ValueError(f"`affinity` must return levels of shape {shape}. Got shape {values.shape} instead.")
    if hasattr(affinity, "possible_levels"):
        levels = np.asarray(affinity.possible_levels(y_a, y_b))
        levels = levels if len(levels) == 2 and levels[0] == 0 < levels[1] else np.union1d([0], levels)
    else:
        levels = np.union1d([0], checked_levels(values, "`affinity`"))
    whole = values.dtype.kind in "bui" and np.array_equal(levels, np.arange(len(levels)))
    is_small = whole and values.dtype in (np.uint8, np.bool_)
    indices = values if whole else np.searchsorted(levels, values)
    indices = indices.astype(np.uint8 if is_small else np.uint32, copy=False)
    # the kernels trust these indices: one outside the levels would write outside the counts
    if indices.max(initial=0) >= len(levels) or (not whole and (levels[indices] != values).any()):
        raise ValueError(f"`affinity` must return levels among its possible_levels, {levels}. Got other levels.")
    return indices, levels


def checked_levels(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Distinct levels, ascending; ValueError unless they are finite and >= 0."""
    values = np.unique(values)
    if len(values) and not (np.isfinite(values).all() and values[0] >= 0):
        raise ValueError(f"{name} must have finite levels >= 0. Got levels from {values[0]} to {values[-1]} instead.")
    return values


def check_pairs(affinity: Any, targets: Any) -> None:
    """Raise ValueError unless the fitted affinity has relevant and irrelevant pairs of different samples."""
    relevant = irrelevant = False
    for batch in gen_batches(targets.shape[0], BATCH_SIZE):
        indices, _ = small_level_indices(affinity, targets[batch], targets)
        others = np.ones(indices.shape, dtype=bool)
        others[np.arange(len(indices)), np.arange(batch.start, batch.stop)] = False
        relevant |= bool((indices[others] > 0).any())
        irrelevant |= bool((indices[others] == 0).any())
        if relevant and irrelevant:
            return
    if not getattr(affinity, "requires_y", True):
        raise ValueError(
            "`affinity` must make some pairs of different samples relevant, and others not. Got "
            f"{affinity!r}, with which {'all' if relevant else 'no'} pairs are."
        )
    if relevant:
        raise ValueError(
            "`y` must have at least two classes. Got targets that make every pair of samples relevant. In "
            "cross-validation sorted labels do this: use StratifiedKFold(shuffle=True)."
        )
    raise ValueError(
        "`y` must have at least one class of two samples. Got targets that make no pair of different samples relevant."
    )
