"""Precision among the first N items, against N."""

import numpy as np

from skhash.displays._curves import as_curves, curves_of, draw_curves
from skhash.displays._estimators import estimator_name, ranked_histogram
from skhash.metrics import evaluate_histograms

FARTHEST = 1000  # last rank of the default grid


class PrecisionAtNDisplay:
    """Mean precision among the first N items, the split tie in proportion.

    Parameters
    ----------
    n : array-like of shape (n_ranks,), or list of such arrays
        Ranks N; a list draws several curves.
    precision : ndarray of shape (n_ranks,), or list of such arrays
        Mean precision@N.
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
    >>> from skhash.displays import PrecisionAtNDisplay
    >>> from skhash.metrics import relevance_histogram
    >>> H = relevance_histogram([[0, 0]], [[0, 0], [0, 1], [1, 0]], [7], [7, 7, 5])
    >>> display = PrecisionAtNDisplay.from_histogram(H, n=[1, 2, 3])
    >>> display.precision.round(2)
    array([1.  , 0.75, 0.67])
    >>> pyplot.close(display.figure_)
    """

    def __init__(self, n, precision, name=None):
        self.n = n
        self.precision = precision
        self.name = name

    @classmethod
    def from_histogram(cls, H, name=None, *, n=None, ax=None, **kwargs):
        """Draw the curve of a histogram.

        Parameters
        ----------
        H : RelevanceHistogram
            Counts.
        name : str, default=None
            Name of the curve.
        n : array-like of shape (n_ranks,), default=None
            Ranks N; None takes up to 25 from 1 to 1,000 or the size of the database.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        PrecisionAtNDisplay
            Drawn.
        """
        ranks, precision = _curve(H, n)
        return cls(ranks, precision, name).plot(ax=ax, **kwargs)

    @classmethod
    def from_histograms(cls, histograms, *, n=None, ax=None, **kwargs):
        """Draw the curves of several histograms on one Axes.

        Parameters
        ----------
        histograms : dict of str to RelevanceHistogram
            Counts by name of the curve.
        n : array-like of shape (n_ranks,), default=None
            Ranks N, as in :meth:`from_histogram`.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot``, for each curve.

        Returns
        -------
        PrecisionAtNDisplay
            One display, whose `n` and `precision` are lists.
        """
        return cls(*curves_of(histograms, lambda H: _curve(H, n))).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, name=None, n=None, ax=None, **kwargs):
        """Rank the rows of fit for each row of `X` as a query, and draw the curve.

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
            Name of the curve; None takes that of the method.
        n : array-like of shape (n_ranks,), default=None
            Ranks N, as in :meth:`from_histogram`.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        PrecisionAtNDisplay
            Drawn.
        """
        H = ranked_histogram(estimator, X, y)
        return cls.from_histogram(H, estimator_name(estimator) if name is None else name, n=n, ax=ax, **kwargs)

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
        PrecisionAtNDisplay
            Itself.
        """
        curves = as_curves(self.n, self.precision, self.name)
        settings = {"xlabel": "Number of items N", "ylabel": "Precision@N", "xscale": "log", "ylim": (-0.02, 1.02)}
        self.ax_, self.lines_ = draw_curves(ax, curves, kwargs, **settings)
        self.ax_.xaxis.set_major_formatter("{x:,.0f}")
        self.figure_ = self.ax_.figure
        return self


def _curve(H, n):
    """Ranks and precisions of one histogram."""
    if n is None:
        first = slice(0, H.indptr[1]) if H.is_ragged else 0
        n = np.unique(np.geomspace(1, min(FARTHEST, H.counts[first].sum()), 25).round().astype(int))
    n = np.asarray(n)
    if n.ndim != 1 or n.dtype.kind not in "iu" or (n < 1).any():
        raise ValueError(f"n={n.tolist()}; a list of whole numbers of at least 1 is wanted.")
    return n, np.array([*evaluate_histograms([H], [f"precision_at_{rank}" for rank in n]).values()])
