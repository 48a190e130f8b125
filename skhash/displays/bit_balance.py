"""Balance of each bit, and correlation of all pairs of bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skhash.codes import bit_balance, bit_correlation
from skhash.displays._base import COLORS, Display, panels, pyplot, tidy


@dataclass(eq=False, repr=False)
class BitBalanceDisplay(Display):
    """Proportion of ones of each bit, and absolute correlation of all pairs of bits.

    Parameters
    ----------
    balance : array-like of shape (nbits,)
        Proportion of ones, see :func:`skhash.codes.bit_balance`.
    correlation : array-like of shape (nbits, nbits)
        Correlations, see :func:`skhash.codes.bit_correlation`.

    Attributes
    ----------
    ax_ : ndarray of Axes of shape (2,)
        Axes of the balance and of the correlation.
    figure_ : Figure
        Figure of the plots.
    bars_ : BarContainer
        Bars from 1/2 to the proportion of ones of each bit.
    image_ : AxesImage
        Absolute correlations.
    colorbar_ : Colorbar
        Scale of the correlations.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import BitBalanceDisplay
    >>> display = BitBalanceDisplay.from_codes([[0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 0, 0]])
    >>> display.balance
    array([0.5 , 0.5 , 0.75])
    >>> display.image_.get_array()[0].tolist()[:2]
    [1.0, 1.0]
    >>> pyplot.close(display.figure_)
    """

    balance: ArrayLike
    correlation: ArrayLike

    @classmethod
    def from_codes(cls, codes: ArrayLike, *, nbits: int | None = None, ax: Any = None, **kwargs: Any) -> Self:
        """Plot balance and correlation of the bits of codes.

        Parameters
        ----------
        codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
            Bits, or packed codes when `nbits` is given.
        nbits : int, default=None
            Number of bits of a packed code.
        ax : Axes or array-like of 2 Axes, default=None
            Axes to draw on. None creates a figure; a single Axes is divided into two.
        **kwargs : dict
            Keyword arguments of ``Axes.bar``.

        Returns
        -------
        BitBalanceDisplay
            The display.
        """
        balance, correlation = bit_balance(codes, nbits=nbits), bit_correlation(codes, nbits=nbits)
        return cls(balance, correlation).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike, *, ax: Any = None, **kwargs: Any) -> Self:
        """Plot balance and correlation of the bits of the codes of samples.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Samples to hash.
        ax : Axes or array-like of 2 Axes, default=None
            Axes to draw on. None creates a figure; a single Axes is divided into two.
        **kwargs : dict
            Keyword arguments of ``Axes.bar``.

        Returns
        -------
        BitBalanceDisplay
            The display.
        """
        pyplot()
        return cls.from_codes(np.asarray(estimator.transform(X)), ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        balance, correlation = drawn = panels(ax, (1, 2), figsize=(9, 3.6))[0]
        ones = np.asarray(self.balance, dtype=float)
        options = {"bottom": 0.5, "width": 0.8, "color": COLORS[0]} | kwargs
        self.bars_ = balance.bar(np.arange(1, len(ones) + 1), ones - 0.5, **options)
        balance.axhline(0.5, color="0.3", linewidth=1)
        tidy(balance, xlabel="Bit", ylabel="Proportion of ones", ylim=(0, 1), xlim=(0.3, len(ones) + 0.7))
        balance.grid(visible=False, axis="x")
        edges = (0.5, len(ones) + 0.5)
        magnitude = np.abs(self.correlation)
        self.image_ = correlation.imshow(magnitude, vmin=0, vmax=1, cmap="cividis", extent=(*edges, *edges[::-1]))
        correlation.set(xlabel="Bit", ylabel="Bit")
        for axis in (balance.xaxis, correlation.xaxis, correlation.yaxis):
            axis.get_major_locator().set_params(integer=True)
        self.colorbar_ = correlation.figure.colorbar(self.image_, ax=correlation, label="|correlation|")
        return drawn
