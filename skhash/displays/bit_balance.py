"""How much each bit tells, and what bits tell twice."""

import numpy as np

from skhash.codes import bit_balance, bit_correlation
from skhash.displays._base import COLORS, panels, pyplot, tidy


class BitBalanceDisplay:
    """Share of ones of each bit, and the absolute correlation of all pairs of bits.

    Parameters
    ----------
    balance : array-like of shape (nbits,)
        Share of ones, as :func:`skhash.codes.bit_balance` gives it.
    correlation : array-like of shape (nbits, nbits)
        As :func:`skhash.codes.bit_correlation` gives it.

    Attributes
    ----------
    ax_ : ndarray of Axes of shape (2,)
        Balance; correlation.
    figure_ : Figure
        Their figure.
    bars_ : BarContainer
        From 1/2 to the share of ones of each bit.
    image_ : AxesImage
        The absolute correlations.
    colorbar_ : Colorbar
        Their scale.

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

    def __init__(self, balance, correlation):
        self.balance = balance
        self.correlation = correlation

    @classmethod
    def from_codes(cls, codes, *, nbits=None, ax=None, **kwargs):
        """Draw what codes say of their bits.

        Parameters
        ----------
        codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
            Bits, or packed codes when `nbits` is given.
        nbits : int, default=None
            Length of a code, needed for packed codes.
        ax : Axes or array-like of 2 Axes, default=None
            Where to draw; None makes a figure, one Axes gives its place to two.
        **kwargs : dict
            Passed to ``Axes.bar``.

        Returns
        -------
        BitBalanceDisplay
            Drawn.
        """
        balance, correlation = bit_balance(codes, nbits=nbits), bit_correlation(codes, nbits=nbits)
        return cls(balance, correlation).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, X, *, ax=None, **kwargs):
        """Hash rows, and draw what their codes say of the bits.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Rows.
        ax : Axes or array-like of 2 Axes, default=None
            Where to draw; None makes a figure, one Axes gives its place to two.
        **kwargs : dict
            Passed to ``Axes.bar``.

        Returns
        -------
        BitBalanceDisplay
            Drawn.
        """
        pyplot()
        return cls.from_codes(np.asarray(estimator.transform(X)), ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw both panels.

        Parameters
        ----------
        ax : Axes or array-like of 2 Axes, default=None
            Where to draw; None makes a figure, one Axes gives its place to two.
        **kwargs : dict
            Passed to ``Axes.bar``.

        Returns
        -------
        BitBalanceDisplay
            Itself.
        """
        self.ax_ = panels(ax, (1, 2), figsize=(9, 3.6))[0]
        balance, correlation = self.ax_
        self.figure_ = balance.figure
        share = np.asarray(self.balance, dtype=float)
        options = {"bottom": 0.5, "width": 0.8, "color": COLORS[0]} | kwargs
        self.bars_ = balance.bar(np.arange(1, len(share) + 1), share - 0.5, **options)
        balance.axhline(0.5, color="0.3", linewidth=1)
        tidy(balance, xlabel="Bit", ylabel="Share of ones", ylim=(0, 1), xlim=(0.3, len(share) + 0.7))
        balance.grid(visible=False, axis="x")
        edges = (0.5, len(share) + 0.5)
        magnitude = np.abs(self.correlation)
        self.image_ = correlation.imshow(magnitude, vmin=0, vmax=1, cmap="cividis", extent=(*edges, *edges[::-1]))
        correlation.set(xlabel="Bit", ylabel="Bit")
        for axis in (balance.xaxis, correlation.xaxis, correlation.yaxis):
            axis.get_major_locator().set_params(integer=True)
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=correlation, label="|correlation|")
        return self
