"""The range of a metric over the orders of ties (He et al., CVPR 2018, figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skhash.displays._base import (
    HistogramDisplay,
    check_shapes,
    choose_results,
    means_by,
    metric_label,
    one_axes,
    styles,
    tidy,
    with_defaults,
)
from skhash.metrics import Metric, RelevanceHistogram, evaluate_histograms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ORDERS = ("average", "worst", "best")


@dataclass(eq=False, repr=False)
class TieRangeDisplay(HistogramDisplay):
    """Range of a metric over the orders of ties, one bar per method.

    The bar goes from the value with the relevant items of each tie last to the value with them
    first. The point is the mean over all orders.

    Parameters
    ----------
    names : list of str
        Methods, from top to bottom.
    average : array-like of shape (n_methods,)
        Mean over all orders of the ties.
    worst : array-like of shape (n_methods,)
        Value with the relevant items of each tie last.
    best : array-like of shape (n_methods,)
        Value with the relevant items of each tie first.
    metric_name : str, default="AP"
        Name of the metric, for the axis.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure of the plot.
    ranges_ : LineCollection
        One bar per method.
    points_ : list of Line2D
        One point per method.

    References
    ----------
    He, Cakir, Bargal, Sclaroff: Hashing as Tie-Aware Learning to Rank. CVPR 2018.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import TieRangeDisplay
    >>> from skhash.metrics import relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [0, 1], [1, 1]], [7], [7, 5, 7])
    >>> display = TieRangeDisplay.from_histograms({"by hand": H})
    >>> [
    ...     float(value[0].round(4))
    ...     for value in (display.worst, display.average, display.best)
    ... ]
    [0.5833, 0.7083, 0.8333]
    >>> pyplot.close(display.figure_)
    """

    names: Sequence[str]
    average: ArrayLike
    worst: ArrayLike
    best: ArrayLike
    metric_name: str = "AP"

    @classmethod
    def _plot_of(
        cls,
        histograms: Sequence[RelevanceHistogram],
        name: str | list[str] | None,
        *,
        metric: str = "ap",
        ax: Axes | None,
        **kwargs: Any,
    ) -> Self:
        """Plot histograms.

        Parameters
        ----------
        metric : str, default="ap"
            Name of a metric without an order of ties, see :meth:`skhash.metrics.Metric.parse`.
        """
        if Metric.parse(metric).ties != "average":
            raise ValueError(f"`metric` must have a name without _best and _worst. Got {metric!r} instead.")
        orders = [Metric.parse(metric).with_ties(ties) for ties in _ORDERS]
        values = [list(evaluate_histograms([H], orders).values()) for H in histograms]
        names = name if isinstance(name, list) else [name or ""]
        average, worst, best = np.transpose(values)
        return cls(names, average, worst, best, metric_label(metric, "")).plot(ax=ax, **kwargs)

    @classmethod
    def from_results(
        cls,
        results: Sequence[Any],
        *,
        nbits: int | None = None,
        dataset: str | None = None,
        metric: str = "ap",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot means over the seeds of a comparison.

        Parameters
        ----------
        results : list of Result or of dict
            As :func:`skhash.comparison.compare` returns them, or as in its results.json.
        nbits : int, default=None
            Number of bits. None selects the only one.
        dataset : str, default=None
            Data set. None selects the only one.
        metric : str, default="ap"
            A metric that the results also hold with ``_worst`` and ``_best``.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``, for the points.

        Returns
        -------
        TieRangeDisplay
            The display.
        """
        metrics = [Metric.parse(metric).with_ties(ties).name for ties in _ORDERS]
        results = choose_results(results, metrics, nbits=nbits, dataset=dataset)
        names = means_by(results, metric, "nbits")[0]
        average, worst, best = (means_by(results, order, "nbits")[2][:, 0] for order in metrics)
        metric_name = f"{metric_label(metric, '')} at {results[0]['nbits']} bits"
        return cls(names, average, worst, best, metric_name).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        n = len(self.names)
        check_shapes((n,), average=self.average, worst=self.worst, best=self.best)
        ax = one_axes(ax, figsize=(6.4, 1.3 + 0.5 * n))
        chosen = styles(self.names)
        lines = range(n)
        colors = [style["color"] for style in chosen]
        self.ranges_ = ax.hlines(lines, self.worst, self.best, colors=colors, linewidth=9, alpha=0.35)
        self.points_: list[Any] = []
        for line, value, style in zip(lines, np.asarray(self.average), chosen, strict=True):
            options = with_defaults(kwargs, **(style | {"linestyle": ""}), markersize=7, markeredgecolor="white")
            self.points_ += ax.plot(value, line, **options)
            ax.annotate(
                f"{value:.3f}", (value, line), (0, 7), textcoords="offset points", ha="center", fontsize="small"
            )
        tidy(ax, ylim=(n - 0.4, -0.7), yticks=lines, yticklabels=self.names)
        ax.set_xlabel(f"{self.metric_name}: worst to best order of ties, and their mean")
        if np.max(self.best) <= 1 < ax.get_xlim()[1]:
            ax.set_xlim(right=1.01)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False, axis="y")
        return ax
