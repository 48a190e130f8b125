"""Precision against recall within each Hamming radius."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from skhash.displays._base import Display, as_curves, curves_of, draw_curves, estimator_name, ranked_histogram
from skhash.metrics import RelevanceHistogram, precision_recall_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class PrecisionRecallDisplay(Display):
    """Mean precision against mean recall within each Hamming radius.

    The radius goes from 0, at the left, to `nbits`. Without items within the radius precision
    is 0, as in HashNet, so that curves of long codes begin low.

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

    @classmethod
    def from_histogram(
        cls, H: RelevanceHistogram, name: str | None = None, *, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Plot the curve of a histogram.

        Parameters
        ----------
        H : RelevanceHistogram
            Counts. With weighted distances the curve has 101 evenly spaced radii.
        name : str, default=None
            Name of the curve.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``.

        Returns
        -------
        PrecisionRecallDisplay
            The display.
        """
        precision, recall, _ = precision_recall_curve(H)
        return cls(precision, recall, name).plot(ax=ax, **kwargs)

    @classmethod
    def from_histograms(
        cls, histograms: Mapping[str, RelevanceHistogram], *, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Plot the curves of several histograms on one Axes.

        Parameters
        ----------
        histograms : dict of str to RelevanceHistogram
            Counts by name of the curve.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``, for each curve.

        Returns
        -------
        PrecisionRecallDisplay
            The display, whose `precision` and `recall` are lists.
        """
        return cls(*curves_of(histograms, lambda H: precision_recall_curve(H)[:2])).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the curve of `X` as queries of the training samples.

        The radius counts bits, even if the hasher has learned weights. :meth:`from_histogram`
        also plots curves by weighted distance.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Their targets; not needed if the affinity compares samples of X.
        name : str, default=None
            Name of the curve. None is the name of the method.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``.

        Returns
        -------
        PrecisionRecallDisplay
            The display.
        """
        H = ranked_histogram(estimator, X, y, weighted=False)
        return cls.from_histogram(H, estimator_name(estimator) if name is None else name, ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        curves = as_curves(self.recall, self.precision, self.name)
        limits = {"xlim": (-0.02, 1.02), "ylim": (-0.02, 1.02)}
        labels = {"xlabel": "Recall within Hamming radius", "ylabel": "Precision within Hamming radius"}
        ax, self.lines_ = draw_curves(ax, curves, kwargs, **labels, **limits)
        return ax
