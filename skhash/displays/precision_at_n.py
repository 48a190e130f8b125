"""Precision among the first N items, against N."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from skhash.displays._base import HistogramDisplay, as_curves, curves_of, draw_curves
from skhash.metrics import RelevanceHistogram, evaluate_histograms
from skhash.metrics.ties import check_histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LAST_RANK = 1000  # of the default ranks


@dataclass(eq=False, repr=False)
class PrecisionAtNDisplay(HistogramDisplay):
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
    def _plot_of(
        cls,
        histograms: Sequence[RelevanceHistogram],
        name: str | list[str] | None,
        *,
        n: ArrayLike | None = None,
        ax: Axes | None,
        **kwargs: Any,
    ) -> Self:
        """Plot histograms.

        Parameters
        ----------
        n : array-like of shape (n_ranks,), default=None
            Ranks N. None selects up to 25 ranks from 1 to 1,000 or the size of the database.
        """
        return cls(*curves_of(histograms, name, lambda H: _curve(H, n))).plot(ax=ax, **kwargs)

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
        n_items = max(counts.sum(axis=(1, 2)).max() for counts, *_ in H.dense_blocks())  # queries of a run differ
        n = np.unique(np.geomspace(1, min(_LAST_RANK, n_items), 25).round().astype(int))
    ranks = np.asarray(n)
    if ranks.ndim != 1 or ranks.dtype.kind not in "iu" or (ranks < 1).any():
        raise ValueError(f"`n` must be None or a list of int >= 1. Got {ranks.tolist()} instead.")
    return ranks, np.array([*evaluate_histograms([H], [f"precision_at_{rank}" for rank in ranks]).values()])
