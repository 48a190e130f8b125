"""A figure against the length of the codes, one line a method."""

import numpy as np

from skhash.displays._base import given_style, legend, metric_label, one_axes, styles, tidy
from skhash.displays._results import choose_results, mean_and_deviation, methods_of


class MetricByBitsDisplay:
    """A figure of a comparison against code length, with the spread over the seeds.

    Parameters
    ----------
    nbits : array-like of shape (n_lengths,)
        Code lengths, ascending.
    mean : array-like of shape (n_methods, n_lengths)
        Mean over the seeds, NaN where a method was not run.
    spread : array-like of shape (n_methods, n_lengths)
        Half the length of an error bar: the standard deviation, NaN for a single seed.
    names : list of str
        Methods.
    figure : str, default="ap"
        What was measured: a key of the rows, for the axis.

    Attributes
    ----------
    ax_ : Axes
        Where it was drawn.
    figure_ : Figure
        Its figure.
    errorbars_ : list of ErrorbarContainer
        One a method.
    lines_ : list of Line2D
        Their lines.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import MetricByBitsDisplay
    >>> rows = [{"method": "itq", "nbits": 16, "seed": seed, "ap": ap} for seed, ap in enumerate([0.6, 0.8])]
    >>> display = MetricByBitsDisplay.from_results(rows, figure="ap")
    >>> display.mean.round(3), display.spread.round(3)
    (array([[0.7]]), array([[0.141]]))
    >>> pyplot.close(display.figure_)
    """

    def __init__(self, nbits, mean, spread, names, figure="ap"):
        self.nbits = nbits
        self.mean = mean
        self.spread = spread
        self.names = names
        self.figure = figure

    @classmethod
    def from_results(cls, rows, *, figure="ap", dataset=None, ax=None, **kwargs):
        """Draw means and standard deviations over the seeds of a comparison.

        Parameters
        ----------
        rows : list of dict
            As :func:`skhash.comparison.compare` returns them.
        figure : str, default="ap"
            Any key of the rows with a number: "ap", "ndcg", "precision_radius_2", "fit_seconds", ...
        dataset : str, default=None
            Data set; None takes the only one.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.errorbar``, for each method.

        Returns
        -------
        MetricByBitsDisplay
            Drawn.

        Raises
        ------
        ValueError
            If rows of several data sets or protocols are mixed, or lack the figure.
        """
        rows = choose_results(rows, [figure], dataset=dataset)
        names, nbits = methods_of(rows), sorted({row["nbits"] for row in rows})
        cells = [[mean_and_deviation(rows, figure, method=name, nbits=bits) for bits in nbits] for name in names]
        mean, spread = np.moveaxis(np.array(cells), -1, 0)
        return cls(np.array(nbits), mean, spread, names, figure).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the lines.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.errorbar``, for each method.

        Returns
        -------
        MetricByBitsDisplay
            Itself.
        """
        self.ax_ = ax = one_axes(ax, figsize=(6.4, 4.4))
        self.figure_, self.errorbars_ = ax.figure, []
        nbits, mean, spread = (np.asarray(values, dtype=float) for values in (self.nbits, self.mean, self.spread))
        for values, deviations, name, style in zip(mean, spread, self.names, styles(self.names, ax), strict=True):
            run = np.isfinite(values)
            look = given_style(kwargs, **style, label=name, markersize=6, linewidth=1.6) | {"capsize": 3}
            bars = None if np.isnan(deviations[run]).all() else deviations[run]
            self.errorbars_.append(ax.errorbar(nbits[run], values[run], bars, **look))
        self.lines_ = [container.lines[0] for container in self.errorbars_]
        tidy(ax, xlabel="Bits", ylabel=metric_label(self.figure), xscale="log")
        ax.set_xticks(nbits, [f"{bits:g}" for bits in nbits])
        ax.minorticks_off()
        legend(ax)
        return self
