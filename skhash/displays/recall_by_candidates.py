"""Recall of the nearest vectors against the number of candidates, one line per length of codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skhash.displays._base import Display, legend, one_axes, styles, ticks_at, tidy, with_defaults

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from skhash.neighbors import ChosenCode

_MAX_TICKS = 12  # more labels overlap


@dataclass(eq=False, repr=False)
class RecallByCandidatesDisplay(Display):
    """Recall against the number of candidates, one line per length of codes, with its bytes.

    Parameters
    ----------
    candidates : array-like of shape (n_candidates,)
        Numbers of candidates, in ascending order.
    recall : array-like of shape (n_lengths, n_candidates)
        Recall of each length.
    nbits : sequence of int
        Lengths of codes.
    bytes_per_item : sequence of int
        Bytes of an item of each length.
    lower_bound : array-like of shape (n_lengths, n_candidates), default=None
        Lower bounds of the recalls, drawn as areas below the lines.
    target_recall : float, default=None
        Target, drawn as a line.
    chosen : tuple of int, default=None
        Chosen number of bits and of candidates, drawn as a ring.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure of the plot.
    lines_ : list of Line2D
        One line per length.
    chosen_ : Line2D or None
        The ring.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import RecallByCandidatesDisplay
    >>> display = RecallByCandidatesDisplay(
    ...     [10, 20], [[0.5, 0.7], [0.8, 0.9]], [32, 64], [4, 8]
    ... ).plot()
    >>> [line.get_label() for line in display.lines_]
    ['32 bits, 4 bytes', '64 bits, 8 bytes']
    >>> pyplot.close(display.figure_)
    """

    candidates: ArrayLike
    recall: ArrayLike
    nbits: Sequence[int]
    bytes_per_item: Sequence[int]
    _: KW_ONLY
    lower_bound: ArrayLike | None = None
    target_recall: float | None = None
    chosen: tuple[int, int] | None = None

    @classmethod
    def from_choice(cls, chosen: ChosenCode, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot what a choice has measured with the chosen kind of queries and of vectors.

        Parameters
        ----------
        chosen : ChosenCode
            What :func:`skhash.neighbors.choose_code` returns.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``, for each length.

        Returns
        -------
        RecallByCandidatesDisplay
            The display.
        """
        table = [code for code in chosen.table if (code.query, code.vectors) == (chosen.query, chosen.vectors)]
        sizes = {code.nbits: code.bytes_per_item for code in table}
        candidates = [code.candidates for code in table if code.nbits == chosen.nbits]
        shape = len(sizes), len(candidates)
        return cls(
            np.array(candidates),
            np.array([code.recall for code in table]).reshape(shape),
            list(sizes),
            list(sizes.values()),
            lower_bound=np.array([code.lower_bound for code in table]).reshape(shape),
            target_recall=chosen.target_recall,
            chosen=(chosen.nbits, chosen.candidates),
        ).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        ax, self.chosen_ = one_axes(ax, figsize=(6.4, 4.4)), None
        self.lines_: list[Any] = []
        candidates, recall = np.asarray(self.candidates), np.asarray(self.recall, dtype=float)
        lengths = list(self.nbits)
        names = [
            f"{nbits} bits, {size} byte{'s' * (size != 1)}"
            for nbits, size in zip(lengths, self.bytes_per_item, strict=True)
        ]
        for i, (name, style) in enumerate(zip(names, styles(names, ax), strict=True)):
            options = with_defaults(kwargs, **style, label=name, markersize=5, linewidth=1.6)
            self.lines_ += ax.plot(candidates, recall[i], **options)
            if self.lower_bound is not None:
                color = self.lines_[-1].get_color()
                ax.fill_between(candidates, np.asarray(self.lower_bound)[i], recall[i], color=color, alpha=0.15, lw=0)
        if self.target_recall is not None:
            ax.axhline(self.target_recall, color="0.3", linestyle=":", label=f"target {self.target_recall:g}")
        if self.chosen is not None:
            nbits, number = self.chosen
            at = recall[lengths.index(nbits), candidates.tolist().index(number)]
            (self.chosen_,) = ax.plot([number], [at], "o", color="0.1", fillstyle="none", markersize=13, label="chosen")
        tidy(ax, xlabel="Candidates", ylabel="Recall of the nearest vectors", xscale="log")
        if len(candidates) <= _MAX_TICKS:
            ticks_at(ax, candidates)
        legend(ax)
        return ax
