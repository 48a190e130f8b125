"""Precision and recall over all Hamming radii."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._validation import check_option, numeric
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ties import (
    EMPTY,
    NO_RELEVANT_ITEM,
    check_histogram,
    divide,
    means_over_queries,
    merge_relevant,
    radius_to_reach,
    relevant_beyond,
)


def precision_recall_curve(
    H: RelevanceHistogram, *, radii: npt.ArrayLike | None = None, empty: str = "skip", average: bool = True
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[Any]]:
    """Precision and recall within each radius.

    Parameters
    ----------
    H : RelevanceHistogram
        Counts; items of a level above 0 are relevant.
    radii : array-like of shape (n_radii,), default=None
        Radii. None uses every Hamming distance, or 101 evenly spaced radii over the
        distances of a ragged histogram.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of a query with nothing relevant; "skip" leaves it out, with a warning.
    average : bool, default=True
        Means over the queries; False returns one curve per query, NaN where skipped.

    Returns
    -------
    precision : ndarray of shape (n_radii,) or (n_queries, n_radii), float64
        Precision within each radius.
    recall : ndarray of shape (n_radii,) or (n_queries, n_radii), float64
        Recall within each radius.
    radii : ndarray of shape (n_radii,)
        The radii.

    Examples
    --------
    >>> from skhash.metrics import precision_recall_curve, relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> precision_recall_curve(H)
    (array([1.        , 0.66666667, 0.66666667]), array([0.5, 1. , 1. ]), array([0, 1, 2]))
    """
    check_option("empty", empty, EMPTY)
    check_histogram(H)
    if radii is None and H.is_ragged:
        radii = np.linspace(H.distances.min(), H.distances.max(), 101)
    elif radii is None:
        radii = np.arange(H.counts.shape[1])
    radii = np.atleast_1d(numeric(radii, "radii"))
    if radii.ndim != 1 or np.isnan(radii).any():
        raise ValueError(f"`radii` must be a list of numbers, shape (n_radii,). Got {radii.tolist()} instead.")
    if hasattr(H.counts, "detach"):  # soft counts on any device
        H = replace(H, counts=H.counts.detach().cpu().numpy())
    reach = radius_to_reach(H, radii)
    per_query = np.concatenate([_within_each(reach, *block) for block in H.dense_blocks()])
    per_query[np.isnan(per_query)] = {"zero": 0.0, "one": 1.0}.get(empty, np.nan)
    if average:
        return *means_over_queries({"": (per_query, NO_RELEVANT_ITEM)}, empty)[""], radii
    return per_query[:, 0], per_query[:, 1], radii


def _within_each(radii: Any, counts: Any, distances: Any, unretrieved: Any) -> Any:
    """Precision and recall of each query within all radii, of shape (n, 2, n_radii), NaN with nothing relevant."""
    counts = merge_relevant(counts)
    nearer = np.cumsum(np.pad(counts, [(0, 0), (1, 0), (0, 0)]), axis=1)
    rows = np.broadcast_to(distances, counts.shape[:2])
    n_ties = np.stack([np.searchsorted(row, radii, side="right") for row in rows])
    inside = np.take_along_axis(nearer, n_ties[:, :, None], axis=1)
    hits, relevant = inside[..., 1], nearer[:, -1:, 1] + np.reshape(relevant_beyond(unretrieved), (-1, 1))
    values = np.stack([divide(hits, inside.sum(-1)), divide(hits, relevant)], axis=1)
    return np.where(relevant[..., None] > 0, values, np.nan)
