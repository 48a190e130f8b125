"""Precision against recall, by Hamming radius."""

from skhash.displays._base import pyplot
from skhash.displays._curves import as_curves, curves_of, draw_curves
from skhash.displays._estimators import estimator_name
from skhash.metrics import RetrievalScorer, precision_recall_curve
from skhash.metrics.histogram import concatenate


class PrecisionRecallDisplay:
    """Mean precision against mean recall within every Hamming radius.

    Points go from radius 0, at the left, to the length of the code. An empty ball has
    precision 0, as in HashNet: long codes begin low.

    Parameters
    ----------
    precision : ndarray of shape (n_radii,), or list of such arrays
        Mean precision within each radius; a list draws several curves.
    recall : ndarray of shape (n_radii,), or list of such arrays
        Mean recall.
    name : str or list of str, default=None
        Names of the curves, for the legend.

    Attributes
    ----------
    ax_ : Axes
        Where it was drawn.
    figure_ : Figure
        Its figure.
    lines_ : list of Line2D
        One a curve.

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

    def __init__(self, precision, recall, name=None):
        self.precision = precision
        self.recall = recall
        self.name = name

    @classmethod
    def from_histogram(cls, H, name=None, *, ax=None, **kwargs):
        """Draw the curve of a histogram.

        Parameters
        ----------
        H : RelevanceHistogram
            Counts; of a ragged one 101 evenly spaced radii are taken.
        name : str, default=None
            Name of the curve.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        PrecisionRecallDisplay
            Drawn.
        """
        precision, recall = _curve(H)
        return cls(precision, recall, name).plot(ax=ax, **kwargs)

    @classmethod
    def from_histograms(cls, histograms, *, ax=None, **kwargs):
        """Draw the curves of several histograms on one Axes.

        Parameters
        ----------
        histograms : dict of str to RelevanceHistogram
            Counts by name of the curve.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot``, for each curve.

        Returns
        -------
        PrecisionRecallDisplay
            One display, whose `precision` and `recall` are lists.
        """
        return cls(*curves_of(histograms, _curve)).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, name=None, ax=None, **kwargs):
        """Rank the rows of fit for each row of `X` as a query, and draw the curve.

        The radius counts bits, whatever they weigh; for balls of weighted distances see
        :meth:`from_histogram`.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Their targets; not needed where the affinity compares rows of X.
        name : str, default=None
            Name of the curve; None takes that of the method.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        PrecisionRecallDisplay
            Drawn.
        """
        pyplot()
        ranking = RetrievalScorer().ranking(estimator, X, y)
        H = concatenate(ranking.histograms(weighted=False))
        return cls.from_histogram(H, estimator_name(estimator) if name is None else name, ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the curves.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot``, for each curve.

        Returns
        -------
        PrecisionRecallDisplay
            Itself.
        """
        curves = as_curves(self.recall, self.precision, self.name)
        limits = {"xlim": (-0.02, 1.02), "ylim": (-0.02, 1.02)}
        labels = {"xlabel": "Recall within Hamming radius", "ylabel": "Precision within Hamming radius"}
        self.ax_, self.lines_ = draw_curves(ax, curves, kwargs, **labels, **limits)
        self.figure_ = self.ax_.figure
        return self


def _curve(H):
    """Precision and recall of one histogram."""
    return precision_recall_curve(H)[:2]
