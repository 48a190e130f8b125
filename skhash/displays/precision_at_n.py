"""Precision among the first N items, against N."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from skhash.displays._base import Display, as_curves, curves_of, draw_curves, estimator_name, ranked_histogram
from skhash.metrics import RelevanceHistogram, evaluate_histograms
from skhash.metrics._ties import check_histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LAST_RANK = 1000  # of the default ranks


@dataclass(eq=False, repr=False)
class PrecisionAtNDisplay(Display):
    """Mean precision among the first N items, averaged over all orders of ties.

    Parameters
    ----------
    n : array-like of shape (n_ranks,), or list of such arrays
        Ranks N. A list gives several curves.
    precision : ndarray of shape (n_ranks,), or list of such arrays
        Mean precision@N.
    name : str or list of str, default=None
        Names of the curves, for the legend.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure of the plot.
    lines_ : list of Line2D
        One line per curve.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import PrecisionAtNDisplay
    >>> from skhash.metrics import relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> display = PrecisionAtNDisplay.from_histogram(H, n=[1, 2, 3])
    >>> display.precision.round(2)
    array([1.  , 0.75, 0.67])
    >>> pyplot.close(display.figure_)
    """

    n: ArrayLike | Sequence[ArrayLike]
    precision: ArrayLike | Sequence[ArrayLike]
    name: str | Sequence[str] | None = None

    @classmethod
    def from_histogram(
        cls,
        H: RelevanceHistogram,
        name: str | None = None,
        *,
        n: ArrayLike | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the curve of a histogram.

        Parameters
        ----------
        H : RelevanceHistogram
            Counts.
        name : str, default=None
            Name of the curve.
        n : array-like of shape (n_ranks,), default=None
            Ranks N. None selects up to 25 ranks from 1 to 1,000 or the size of the database.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``.

        Returns
        -------
        PrecisionAtNDisplay
            The display.
        """
        ranks, precision = _curve(H, n)
        return cls(ranks, precision, name).plot(ax=ax, **kwargs)

    @classmethod
    def from_histograms(
        cls,
        histograms: Mapping[str, RelevanceHistogram],
        *,
        n: ArrayLike | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the curves of several histograms on one Axes.

        Parameters
        ----------
        histograms : dict of str to RelevanceHistogram
            Counts by name of the curve.
        n : array-like of shape (n_ranks,), default=None
            Ranks N, as in :meth:`from_histogram`.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``, for each curve.

        Returns
        -------
        PrecisionAtNDisplay
            The display, whose `n` and `precision` are lists.
        """
        return cls(*curves_of(histograms, lambda H: _curve(H, n))).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        name: str | None = None,
        n: ArrayLike | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the curve of `X` as queries of the training samples.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one. Samples are
            ranked as in its `score`: by weighted distances if it has learned weights.
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Their targets; not needed if the affinity compares samples of X.
        name : str, default=None
            Name of the curve. None is the name of the method.
        n : array-like of shape (n_ranks,), default=None
            Ranks N, as in :meth:`from_histogram`.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``.

        Returns
        -------
        PrecisionAtNDisplay
            The display.
        """
        H = ranked_histogram(estimator, X, y)
        return cls.from_histogram(H, estimator_name(estimator) if name is None else name, n=n, ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        curves = as_curves(self.n, self.precision, self.name)
        settings = {"xlabel": "Number of items N", "ylabel": "Precision@N", "xscale": "log", "ylim": (-0.02, 1.02)}
        ax, self.lines_ = draw_curves(ax, curves, kwargs, **settings)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        return ax


def _curve(H: RelevanceHistogram, n: ArrayLike | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Ranks and precision of one histogram."""
    if n is None:
        check_histogram(H)
        first = slice(0, H.indptr[1]) if H.is_ragged else 0
        n = np.unique(np.geomspace(1, min(_LAST_RANK, H.counts[first].sum()), 25).round().astype(int))
    ranks = np.asarray(n)
    if ranks.ndim != 1 or ranks.dtype.kind not in "iu" or (ranks < 1).any():
        raise ValueError(f"`n` must be None or a list of int >= 1. Got {ranks.tolist()} instead.")
    return ranks, np.array([*evaluate_histograms([H], [f"precision_at_{rank}" for rank in ranks]).values()])
