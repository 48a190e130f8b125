"""Precision against recall within each Hamming radius."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from skhash.displays._base import HistogramDisplay, as_curves, curves_of, draw_curves
from skhash.metrics import RelevanceHistogram, precision_recall_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class PrecisionRecallDisplay(HistogramDisplay):
    """Mean precision against mean recall within each Hamming radius.

    The radius goes from 0, at the left, to `nbits`. Without items within the radius precision
    is 0, as in HashNet, so that curves of long codes begin low. With weighted distances the curve
    of a histogram has 101 evenly spaced radii. That of an estimator counts bits, even if the hasher
    has learned weights.

    Parameters
    ----------
    precision : ndarray of shape (n_radii,), or list of such arrays
        Mean precision within each radius. A list gives several curves.
    recall : ndarray of shape (n_radii,), or list of such arrays
        Mean recall within each radius.
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
    >>> from skhash.displays import PrecisionRecallDisplay
    >>> from skhash.metrics import relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> display = PrecisionRecallDisplay.from_histogram(H, name="by hand")
    >>> display.lines_[0].get_xydata().round(2).tolist()
    [[0.5, 1.0], [1.0, 0.67], [1.0, 0.67]]
    >>> pyplot.close(display.figure_)
    """

    precision: ArrayLike | Sequence[ArrayLike]
    recall: ArrayLike | Sequence[ArrayLike]
    name: str | Sequence[str] | None = None

    _weighted = False

    @classmethod
    def _plot_of(
        cls, histograms: Sequence[RelevanceHistogram], name: str | list[str] | None, *, ax: Axes | None, **kwargs: Any
    ) -> Self:
        return cls(*curves_of(histograms, name, lambda H: precision_recall_curve(H)[:2])).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        curves = as_curves(self.recall, self.precision, self.name)
        limits = {"xlim": (-0.02, 1.02), "ylim": (-0.02, 1.02)}
        labels = {"xlabel": "Recall within Hamming radius", "ylabel": "Precision within Hamming radius"}
        ax, self.lines_ = draw_curves(ax, curves, kwargs, **labels, **limits)
        return ax
