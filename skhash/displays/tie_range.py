"""The range of a metric over the orders of ties (He et al., CVPR 2018, figure 3)."""

import numpy as np

from skhash.displays._base import given_style, metric_label, one_axes, styles, tidy
from skhash.displays._curves import check_histograms
from skhash.displays._estimators import estimator_name, ranked_histogram
from skhash.displays._results import choose_results, mean_and_deviation, methods_of
from skhash.metrics import Metric, evaluate_histograms

ORDERS = ("average", "worst", "best")


class TieRangeDisplay:
    """What a lucky or unlucky sort could report for the very same codes, one method a line.

    The bar reaches from the value with the relevant items of every tie last to the one with
    them first; the point is the mean over all orders.

    Parameters
    ----------
    names : list of str
        Methods, from the top down.
    average : array-like of shape (n_methods,)
        Mean over all orders of the ties.
    worst : array-like of shape (n_methods,)
        Relevant items last.
    best : array-like of shape (n_methods,)
        Relevant items first.
    metric_name : str, default="AP"
        What was measured, for the axis.

    Attributes
    ----------
    ax_ : Axes
        Where it was drawn.
    figure_ : Figure
        Its figure.
    ranges_ : LineCollection
        A bar a method.
    points_ : list of Line2D
        A point a method.

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
    >>> [float(value[0].round(4)) for value in (display.worst, display.average, display.best)]
    [0.5833, 0.7083, 0.8333]
    >>> pyplot.close(display.figure_)
    """

    def __init__(self, names, average, worst, best, metric_name="AP"):
        self.names = names
        self.average = average
        self.worst = worst
        self.best = best
        self.metric_name = metric_name

    @classmethod
    def from_histogram(cls, H, name=None, *, metric="ap", ax=None, **kwargs):
        """Draw the range of a metric of a histogram.

        Parameters
        ----------
        H : RelevanceHistogram
            Counts.
        name : str, default=None
            Name of the method.
        metric : str, default="ap"
            As in :meth:`from_histograms`.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot`` for the points.

        Returns
        -------
        TieRangeDisplay
            Drawn.
        """
        return cls.from_histograms({name or "": H}, metric=metric, ax=ax, **kwargs)

    @classmethod
    def from_histograms(cls, histograms, *, metric="ap", ax=None, **kwargs):
        """Draw the range of a metric of several histograms.

        Parameters
        ----------
        histograms : dict of str to RelevanceHistogram
            Counts by name of the method.
        metric : str, default="ap"
            A name that :meth:`skhash.metrics.Metric.parse` reads, of no order of ties.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot`` for the points.

        Returns
        -------
        TieRangeDisplay
            Drawn.
        """
        check_histograms(histograms)
        if Metric.parse(metric).ties != "average":
            raise ValueError(f"metric={metric!r} is of one order of ties; a name without _best and _worst is wanted.")
        orders = [Metric.parse(metric).with_ties(ties) for ties in ORDERS]
        values = [list(evaluate_histograms([H], orders).values()) for H in histograms.values()]
        average, worst, best = np.transpose(values)
        return cls(list(histograms), average, worst, best, metric_label(metric, "")).plot(ax=ax, **kwargs)

    @classmethod
    def from_results(cls, rows, *, nbits=None, dataset=None, metric="ap", ax=None, **kwargs):
        """Draw means over the seeds of a comparison.

        Parameters
        ----------
        rows : list of dict
            As :func:`skhash.comparison.compare` returns them.
        nbits : int, default=None
            Code length; None takes the only one.
        dataset : str, default=None
            Data set; None takes the only one.
        metric : str, default="ap"
            A figure of the rows that is there with ``_worst`` and ``_best``, too.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot`` for the points.

        Returns
        -------
        TieRangeDisplay
            Drawn.
        """
        figures = [Metric.parse(metric).with_ties(ties).name for ties in ORDERS]
        rows = choose_results(rows, figures, nbits=nbits, dataset=dataset)
        names = methods_of(rows)
        average, worst, best = (
            np.array([mean_and_deviation(rows, figure, method=name)[0] for name in names]) for figure in figures
        )
        metric_name = f"{metric_label(metric, '')} at {rows[0]['nbits']} bits"
        return cls(names, average, worst, best, metric_name).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, name=None, metric="ap", ax=None, **kwargs):
        """Rank the rows of fit for each row of `X` as a query, and draw the range.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one. Learned weights of
            its bits weigh the distance, as in its `score`.
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Their targets; not needed where the affinity compares rows of X.
        name : str, default=None
            Name of the method; None takes that of the class.
        metric : str, default="ap"
            As in :meth:`from_histograms`.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot`` for the points.

        Returns
        -------
        TieRangeDisplay
            Drawn.
        """
        name = estimator_name(estimator) if name is None else name
        return cls.from_histogram(ranked_histogram(estimator, X, y), name, metric=metric, ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the ranges, the first method at the top.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot`` for the points.

        Returns
        -------
        TieRangeDisplay
            Itself.
        """
        n = len(self.names)
        self.ax_ = ax = one_axes(ax, figsize=(6.4, 1.3 + 0.5 * n))
        self.figure_ = ax.figure
        looks = styles(self.names)
        lines = range(n)
        colours = [look["color"] for look in looks]
        self.ranges_ = ax.hlines(lines, self.worst, self.best, colors=colours, linewidth=9, alpha=0.35)
        self.points_ = []
        for line, value, look in zip(lines, self.average, looks, strict=True):
            look = given_style(kwargs, **(look | {"linestyle": ""}), markersize=7, markeredgecolor="white")
            self.points_ += ax.plot(value, line, **look)
            ax.annotate(
                f"{value:.3f}", (value, line), (0, 7), textcoords="offset points", ha="center", fontsize="small"
            )
        tidy(ax, ylim=(n - 0.4, -0.7), yticks=lines, yticklabels=self.names)
        ax.set_xlabel(f"{self.metric_name}: worst to best order of ties, mean marked")
        if np.max(self.best) <= 1 < ax.get_xlim()[1]:
            ax.set_xlim(right=1.01)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False, axis="y")
        return self
