"""HashNet's loss before and after binarisation, and how binary its codes are (Cao et al., ICCV 2017)."""

import numpy as np

from skhash.displays._base import COLORS, given_style, legend_above, panels, tidy
from skhash.displays._estimators import activations, history

_KEYS = ("beta", "relaxed_loss", "binary_loss")


class QuantizationDisplay:
    """J of the relaxed codes and L of the binary ones after each stage, beside the relaxed codes.

    Parameters
    ----------
    beta : array-like of shape (n_stages,)
        Slope of each stage.
    relaxed_loss : array-like of shape (n_stages,)
        J, the loss of tanh(beta z).
    binary_loss : array-like of shape (n_stages,)
        L, the loss of sign(z).
    codes : array-like of shape (n_samples, nbits)
        Values tanh(beta z) at the last beta, in [-1, 1].

    Attributes
    ----------
    ax_ : ndarray of Axes of shape (2,)
        Losses by stage; histogram of the codes.
    figure_ : Figure
        Their figure.
    relaxed_line_, binary_line_ : Line2D
        J and L.
    gap_ : FillBetweenPolyCollection
        What lies between them.
    bars_ : BarContainer
        Share of the code values in each of 40 bins.

    References
    ----------
    Cao, Long, Wang, Yu: HashNet: Deep Learning to Hash by Continuation. ICCV 2017.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import QuantizationDisplay
    >>> display = QuantizationDisplay([1, 5], [0.34, 0.30], [0.35, 0.32], [[-0.9, 1.0], [0.8, 0.99]]).plot()
    >>> display.binary_line_.get_ydata().tolist()
    [0.35, 0.32]
    >>> pyplot.close(display.figure_)
    """

    def __init__(self, beta, relaxed_loss, binary_loss, codes):
        self.beta = beta
        self.relaxed_loss = relaxed_loss
        self.binary_loss = binary_loss
        self.codes = codes

    @classmethod
    def from_estimator(cls, estimator, X, *, ax=None, **kwargs):
        """Draw the history of a hasher, and the codes that it relaxes to for some rows.

        Parameters
        ----------
        estimator : estimator
            A fitted HashNetHasher, or a Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Rows whose codes are counted.
        ax : Axes or array-like of 2 Axes, default=None
            Where to draw; None makes a figure, one Axes gives its place to two.
        **kwargs : dict
            Passed to ``Axes.plot``, for both losses.

        Returns
        -------
        QuantizationDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the hasher keeps no such history.
        """
        beta, relaxed, binary = history(estimator, _KEYS, "a HashNetHasher")
        codes = np.tanh(beta[-1] * activations(estimator, X))
        return cls(beta, relaxed, binary, codes).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw both panels.

        Parameters
        ----------
        ax : Axes or array-like of 2 Axes, default=None
            Where to draw; None makes a figure, one Axes gives its place to two.
        **kwargs : dict
            Passed to ``Axes.plot``, for both losses.

        Returns
        -------
        QuantizationDisplay
            Itself.
        """
        self.ax_ = panels(ax, (1, 2), figsize=(9, 3.6))[0]
        losses, values = self.ax_
        self.figure_ = losses.figure
        stages = np.arange(1, len(self.beta) + 1)
        looks = [
            given_style(kwargs, color=COLORS[0], marker="o", label="J, codes relaxed"),
            given_style(kwargs, color=COLORS[2], marker="s", linestyle="--", label="L, codes binary"),
        ]
        (self.relaxed_line_,) = losses.plot(stages, self.relaxed_loss, **looks[0])
        (self.binary_line_,) = losses.plot(stages, self.binary_loss, **looks[1])
        self.gap_ = losses.fill_between(stages, self.relaxed_loss, self.binary_loss, color="0.9", label="gap")
        tidy(losses, ylabel="Loss")
        named = stages[:: -(-len(stages) // 10)]
        losses.set_xticks(named, [f"{stage}\n{self.beta[stage - 1]:.3g}" for stage in named], fontsize="small")
        losses.set_xlabel("Stage, and its slope beta")
        legend_above(losses)
        codes = np.ravel(self.codes)
        shares = np.full(len(codes), 1 / len(codes))
        _, _, self.bars_ = values.hist(codes, bins=40, range=(-1, 1), weights=shares, color=COLORS[0])
        tidy(values, xlabel=f"tanh(beta z) at beta = {self.beta[-1]:.3g}", ylabel="Share of the code values")
        values.set_xticks([-1, -0.5, 0, 0.5, 1])
        values.yaxis.set_major_formatter(lambda share, _: f"{share:.3g}")
        return self
