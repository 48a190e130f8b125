"""HashNet's loss before and after binarization, and the values of its relaxed codes (Cao et al., ICCV 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skhash.displays._base import COLORS, Display, history, legend_above, panels, tidy, with_defaults
from skhash.unwrap import find_hasher, hasher_input

_KEYS = ("beta", "relaxed_loss", "binary_loss")


@dataclass(eq=False, repr=False)
class QuantizationDisplay(Display):
    """Loss of relaxed and of binary codes after each stage, and a histogram of the relaxed codes.

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
        Axes of the losses by stage and of the histogram of the codes.
    figure_ : Figure
        Figure of the plots.
    relaxed_line_, binary_line_ : Line2D
        Lines of J and L.
    gap_ : FillBetweenPolyCollection
        Area between the lines.
    bars_ : BarContainer
        Proportion of the values of the codes in each of 40 bins.

    References
    ----------
    Cao, Long, Wang, Yu: HashNet: Deep Learning to Hash by Continuation. ICCV 2017.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import QuantizationDisplay
    >>> display = QuantizationDisplay(
    ...     [1, 5], [0.34, 0.30], [0.35, 0.32], [[-0.9, 1.0], [0.8, 0.99]]
    ... ).plot()
    >>> display.binary_line_.get_ydata().tolist()
    [0.35, 0.32]
    >>> pyplot.close(display.figure_)
    """

    beta: ArrayLike
    relaxed_loss: ArrayLike
    binary_loss: ArrayLike
    codes: ArrayLike

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike, *, ax: Any = None, **kwargs: Any) -> Self:
        """Plot the history of a hasher, and the relaxed codes of samples.

        Parameters
        ----------
        estimator : estimator
            A fitted HashNetHasher, or a Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Samples to hash for the histogram.
        ax : Axes or array-like of 2 Axes, default=None
            Axes to draw on. None creates a figure; a single Axes is divided into two.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``, for both losses.

        Returns
        -------
        QuantizationDisplay
            The display.

        Raises
        ------
        ValueError
            If the hasher has no such history.
        """
        beta, relaxed, binary = history(estimator, _KEYS, "HashNetHasher")
        codes = np.tanh(beta[-1] * find_hasher(estimator).project(hasher_input(estimator, X)))
        return cls(beta, relaxed, binary, codes).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        losses, values = drawn = panels(ax, (1, 2), figsize=(9, 3.6))[0]
        beta = np.asarray(self.beta)
        stages = np.arange(1, len(beta) + 1)
        options = [
            with_defaults(kwargs, color=COLORS[0], marker="o", label="J, codes relaxed"),
            with_defaults(kwargs, color=COLORS[2], marker="s", linestyle="--", label="L, codes binary"),
        ]
        (self.relaxed_line_,) = losses.plot(stages, self.relaxed_loss, **options[0])
        (self.binary_line_,) = losses.plot(stages, self.binary_loss, **options[1])
        self.gap_ = losses.fill_between(stages, self.relaxed_loss, self.binary_loss, color="0.9", label="gap")
        tidy(losses, ylabel="Loss")
        labeled = stages[:: -(-len(stages) // 10)]
        losses.set_xticks(labeled, [f"{stage}\n{beta[stage - 1]:.3g}" for stage in labeled], fontsize="small")
        losses.set_xlabel("Stage and its slope beta")
        legend_above(losses)
        codes = np.ravel(self.codes)
        shares = np.full(len(codes), 1 / len(codes))
        _, _, self.bars_ = values.hist(codes, bins=40, range=(-1, 1), weights=shares, color=COLORS[0])
        tidy(values, xlabel=f"tanh(beta z) at beta = {beta[-1]:.3g}", ylabel="Proportion of values")
        values.set_xticks([-1, -0.5, 0, 0.5, 1])
        values.yaxis.set_major_formatter(lambda share, _: f"{share:.3g}")
        return drawn
