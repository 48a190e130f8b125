"""How StructHash's restricted master is solved, bit by bit (Lin, Shen, Wu, ECCV 2014)."""

from skhash.displays._base import COLORS, given_style, legend_above, panels, tidy
from skhash.displays._estimators import history
from skhash.metrics.scorers import find_hasher

_KEYS = ("bit", "objective", "bound", "gap", "effective_bits", "n_cuts")


class GapDisplay:
    """Objective, its lower bound and the gap between them after each bit, and what the bits are worth.

    The gap is that of the restricted master, over the bits learned so far: a certificate
    that their weights are optimal, not that no other bits would do better.

    Parameters
    ----------
    bit : array-like of shape (n_bits,)
        Number of bits, 1, 2, ...
    objective : array-like of shape (n_bits,)
        The least value that was found.
    bound : array-like of shape (n_bits,)
        Proven lower bound.
    gap : array-like of shape (n_bits,)
        Difference of the two.
    effective_bits : array-like of shape (n_bits,)
        (sum w)^2 / sum w^2 of the weights.
    n_cuts : array-like of shape (n_bits,)
        Constraints at the end.
    tolerance : float, default=None
        The gap that was asked for, drawn as a line.

    Attributes
    ----------
    ax_ : ndarray of Axes of shape (2, 2)
        Objective and bound; the gap; effective bits; cuts.
    figure_ : Figure
        Their figure.
    lines_ : dict of Line2D
        By the name of the parameter.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import GapDisplay
    >>> display = GapDisplay([1, 2], [4.8, 3.9], [4.7, 3.89], [0.1, 0.01], [1, 1.9], [4, 9]).plot()
    >>> display.lines_["gap"].get_ydata().tolist()
    [0.1, 0.01]
    >>> pyplot.close(display.figure_)
    """

    def __init__(self, bit, objective, bound, gap, effective_bits, n_cuts, tolerance=None):
        self.bit = bit
        self.objective = objective
        self.bound = bound
        self.gap = gap
        self.effective_bits = effective_bits
        self.n_cuts = n_cuts
        self.tolerance = tolerance

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Draw the history of a hasher.

        Parameters
        ----------
        estimator : estimator
            A fitted StructHashHasher, or a Pipeline or search that ends in one.
        ax : Axes or array-like of 4 Axes, default=None
            Where to draw; None makes a figure, one Axes gives its place to four.
        **kwargs : dict
            Passed to ``Axes.plot``, for each line.

        Returns
        -------
        GapDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the hasher keeps no such history.
        """
        columns = history(estimator, _KEYS, "a StructHashHasher")
        hasher = find_hasher(estimator)
        named = dict(zip(_KEYS, columns, strict=True))
        return cls(**named, tolerance=hasher.C_ * hasher.tol).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw four panels.

        Parameters
        ----------
        ax : Axes or array-like of 4 Axes, default=None
            Where to draw; None makes a figure, one Axes gives its place to four.
        **kwargs : dict
            Passed to ``Axes.plot``, for each line.

        Returns
        -------
        GapDisplay
            Itself.
        """
        self.ax_ = panels(ax, (2, 2), figsize=(8.4, 5.8))
        (value, gap), (effective, cuts) = self.ax_
        self.figure_ = value.figure
        self.lines_: dict = {}

        def line(axes, name, colour, label=None, **style):
            look = given_style(kwargs, color=COLORS[colour], label=label, marker="o", markersize=4, **style)
            (self.lines_[name],) = axes.plot(self.bit, getattr(self, name), **look)

        line(value, "objective", 0, "objective")
        line(value, "bound", 2, "proven lower bound", linestyle="--")
        line(gap, "gap", 0, "gap")
        line(effective, "effective_bits", 4, "effective bits")
        line(cuts, "n_cuts", 5)
        if self.tolerance is not None:
            gap.axhline(self.tolerance, color="0.3", linestyle=":", label="C tol, what was asked for")
        effective.plot(self.bit, self.bit, color="0.3", linestyle=":", label="all weigh the same")
        tidy(value, ylabel="Objective")
        tidy(gap, ylabel="Objective - bound")
        tidy(effective, xlabel="Bits", ylabel="Effective bits")
        tidy(cuts, xlabel="Bits", ylabel="Cuts")
        for axes in self.ax_.flat:
            axes.set_ylim(bottom=0)
            axes.xaxis.get_major_locator().set_params(integer=True)
        effective.yaxis.get_major_locator().set_params(integer=True)
        for axes in (value, gap, effective):
            legend_above(axes)
        return self
