"""Convergence of StructHash's restricted master problem (Lin, Shen, Wu, ECCV 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from skhash.displays._base import COLORS, Display, history, legend_above, panels, tidy, with_defaults
from skhash.unwrap import find_hasher

_KEYS = ("bit", "objective", "bound", "gap", "effective_bits", "n_cuts")


@dataclass(eq=False, repr=False)
class GapDisplay(Display):
    """Objective, lower bound, gap, effective bits and number of cuts after each bit.

    The gap is that of the restricted master problem, over the bits learned so far. It proves
    that their weights are optimal, not that other bits would not be better.

    Parameters
    ----------
    bit : array-like of shape (nbits,)
        Number of bits, 1, 2, ...
    objective : array-like of shape (nbits,)
        Best value found.
    bound : array-like of shape (nbits,)
        Proven lower bound.
    gap : array-like of shape (nbits,)
        Objective minus bound.
    effective_bits : array-like of shape (nbits,)
        (sum w)^2 / sum w^2 of the weights.
    n_cuts : array-like of shape (nbits,)
        Number of constraints.
    tolerance : float, default=None
        Largest gap that the solver accepts, plotted as a line.

    Attributes
    ----------
    ax_ : ndarray of Axes of shape (2, 2)
        Axes of objective and bound, of the gap, of the effective bits and of the cuts.
    figure_ : Figure
        Figure of the plots.
    lines_ : dict of Line2D
        Line of each parameter, by its name.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import GapDisplay
    >>> display = GapDisplay(
    ...     [1, 2], [4.8, 3.9], [4.7, 3.89], [0.1, 0.01], [1, 1.9], [4, 9]
    ... ).plot()
    >>> display.lines_["gap"].get_ydata().tolist()
    [0.1, 0.01]
    >>> pyplot.close(display.figure_)
    """

    bit: ArrayLike
    objective: ArrayLike
    bound: ArrayLike
    gap: ArrayLike
    effective_bits: ArrayLike
    n_cuts: ArrayLike
    tolerance: float | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Plot the history of a hasher.

        Parameters
        ----------
        estimator : estimator
            A fitted StructHashHasher, or a Pipeline or search that ends in one.
        ax : Axes or array-like of 4 Axes, default=None
            Axes to draw on. None creates a figure; a single Axes is divided into four.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``, for each line.

        Returns
        -------
        GapDisplay
            The display.

        Raises
        ------
        ValueError
            If the hasher has no such history.
        """
        columns = history(estimator, _KEYS, "StructHashHasher")
        hasher = find_hasher(estimator)
        named = dict(zip(_KEYS, columns, strict=True))
        return cls(**named, tolerance=hasher.C_ * hasher.tol).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        drawn = panels(ax, (2, 2), figsize=(8.4, 5.8))
        (value, gap), (effective, cuts) = drawn
        self.lines_: dict[str, Any] = {}

        def line(axes: Any, name: str, color: int, label: str | None = None, **style: Any) -> None:
            options = with_defaults(kwargs, color=COLORS[color], label=label, marker="o", markersize=4, **style)
            (self.lines_[name],) = axes.plot(self.bit, getattr(self, name), **options)

        line(value, "objective", 0, "objective")
        line(value, "bound", 2, "proven lower bound", linestyle="--")
        line(gap, "gap", 0, "gap")
        line(effective, "effective_bits", 4, "effective bits")
        line(cuts, "n_cuts", 5)
        if self.tolerance is not None:
            gap.axhline(self.tolerance, color="0.3", linestyle=":", label="tolerance, C tol")
        effective.plot(self.bit, self.bit, color="0.3", linestyle=":", label="all weights equal")
        tidy(value, ylabel="Objective")
        tidy(gap, ylabel="Objective - bound")
        tidy(effective, xlabel="Bits", ylabel="Effective bits")
        tidy(cuts, xlabel="Bits", ylabel="Cuts")
        for axes in drawn.flat:
            axes.set_ylim(bottom=0)
            axes.xaxis.get_major_locator().set_params(integer=True)
        effective.yaxis.get_major_locator().set_params(integer=True)
        for axes in (value, gap, effective):
            legend_above(axes)
        return drawn
