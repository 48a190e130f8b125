"""A metric against the number of bits, one line per method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skhash.displays._base import (
    Display,
    check_shapes,
    choose_results,
    legend,
    means_by,
    metric_label,
    one_axes,
    styles,
    ticks_at,
    tidy,
    with_defaults,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class MetricByBitsDisplay(Display):
    """Mean of a metric over the seeds against the number of bits, with its standard deviation.

    Parameters
    ----------
    nbits : array-like of shape (n_nbits,)
        Numbers of bits, in ascending order.
    mean : array-like of shape (n_methods, n_nbits)
        Mean over the seeds, NaN for a method without results.
    spread : array-like of shape (n_methods, n_nbits)
        Standard deviation over the seeds, NaN for a single seed.
    names : list of str
        Methods.
    metric : str, default="ap"
        Name of the metric, for the axis.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure of the plot.
    errorbars_ : list of ErrorbarContainer
        One container per method.
    lines_ : list of Line2D
        One line per method.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import MetricByBitsDisplay
    >>> results = [
    ...     {"method": "itq", "nbits": 16, "seed": seed, "ap": ap}
    ...     for seed, ap in enumerate([0.6, 0.8])
    ... ]
    >>> display = MetricByBitsDisplay.from_results(results)
    >>> display.mean.round(3), display.spread.round(3)
    (array([[0.7]]), array([[0.141]]))
    >>> pyplot.close(display.figure_)
    """

    nbits: ArrayLike
    mean: ArrayLike
    spread: ArrayLike
    names: Sequence[str]
    metric: str = "ap"

    @classmethod
    def from_results(
        cls,
        results: Sequence[Any],
        *,
        metric: str = "ap",
        dataset: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the results of a comparison.

        Parameters
        ----------
        results : list of Result or of dict
            As :func:`skhash.comparison.compare` returns them, or as in its results.json.
        metric : str, default="ap"
            Any number of the results: "ap", "ndcg", "precision_radius_2", "fit_seconds", ...
        dataset : str, default=None
            Data set. None selects the only one.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.errorbar``, for each method.

        Returns
        -------
        MetricByBitsDisplay
            The display.

        Raises
        ------
        ValueError
            If the results are of several data sets or protocols, or lack the metric.
        """
        chosen = choose_results(results, [metric], dataset=dataset)
        names, known, mean, spread = means_by(chosen, metric, "nbits")
        return cls(known, mean, spread, names, metric).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        check_shapes((len(self.names), len(np.atleast_1d(self.nbits))), mean=self.mean, spread=self.spread)
        ax, self.errorbars_ = one_axes(ax, figsize=(6.4, 4.4)), []
        nbits, mean, spread = (np.asarray(values, dtype=float) for values in (self.nbits, self.mean, self.spread))
        for values, deviations, name, style in zip(mean, spread, self.names, styles(self.names, ax), strict=True):
            known = np.isfinite(values)
            options = with_defaults(kwargs, **style, label=name, markersize=6, linewidth=1.6) | {"capsize": 3}
            bars = None if np.isnan(deviations[known]).all() else deviations[known]
            self.errorbars_.append(ax.errorbar(nbits[known], values[known], bars, **options))
        self.lines_ = [container.lines[0] for container in self.errorbars_]
        tidy(ax, xlabel="Bits", ylabel=metric_label(self.metric), xscale="log")
        ticks_at(ax, nbits, "g")
        legend(ax)
        return ax
