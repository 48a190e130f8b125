"""Recall of the nearest neighbors against the bytes of an item, one line per method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skhash.displays._base import (
    Display,
    check_shapes,
    choose_results,
    legend,
    means_by,
    one_axes,
    styles,
    ticks_at,
    tidy,
    with_defaults,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class RecallByBytesDisplay(Display):
    """Recall of each method against the bytes that it stores of an item; the best at each size has a ring.

    Parameters
    ----------
    nbytes : array-like of shape (n_sizes,)
        Bytes of an item, in ascending order.
    recall : array-like of shape (n_methods, n_sizes)
        Mean recall over the seeds, NaN for a method without results.
    names : list of str
        Methods.
    ylabel : str, default="R@10"
        Label of the recall.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure of the plot.
    lines_ : list of Line2D
        One line per method.
    rings_ : PathCollection
        The best method at each size.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import RecallByBytesDisplay
    >>> display = RecallByBytesDisplay(
    ...     [8, 16], [[0.3, 0.6], [0.5, 0.4]], ["itq", "pq"]
    ... ).plot()
    >>> display.rings_.get_offsets().tolist()
    [[8.0, 0.5], [16.0, 0.6]]
    >>> pyplot.close(display.figure_)
    """

    nbytes: ArrayLike
    recall: ArrayLike
    names: Sequence[str]
    ylabel: str = "R@10"

    @classmethod
    def from_results(
        cls,
        results: Sequence[Any],
        *,
        metric: str = "real_neighbor_recall_at_10",
        dataset: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the results of a comparison of neighbors.

        Parameters
        ----------
        results : list of Result or of dict
            As :func:`skhash.comparison.compare` returns them with ``task="neighbors"``, or as in its results.json.
        metric : str, default="real_neighbor_recall_at_10"
            A recall of the results; "neighbor_recall_at_10" is that of codes as queries.
        dataset : str, default=None
            Data set. None selects the only one.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``, for each method.

        Returns
        -------
        RecallByBytesDisplay
            The display.

        Raises
        ------
        ValueError
            If the results are of several data sets or protocols, or lack the metric.
        """
        chosen = choose_results(results, [metric, "bytes_per_item"], dataset=dataset)
        names, sizes, recall, _ = means_by(chosen, metric, "bytes_per_item")
        queries = "" if metric.startswith("real_") else ", codes as queries"
        return cls(sizes, recall, names, f"Recall of the 10 nearest{queries}").plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        check_shapes((len(self.names), len(np.atleast_1d(self.nbytes))), recall=self.recall)
        ax = one_axes(ax, figsize=(6.8, 4.6))
        self.lines_: list[Any] = []
        nbytes, recall = np.asarray(self.nbytes, dtype=float), np.asarray(self.recall, dtype=float)
        comparable = np.isfinite(recall) & np.array([[not str(name).endswith(" seeds)")] for name in self.names])
        best, has_best = np.where(comparable, recall, -np.inf).argmax(axis=0), comparable.any(axis=0)
        for method, (values, name, style) in enumerate(zip(recall, self.names, styles(self.names, ax), strict=True)):
            known = np.isfinite(values)
            wins = bool((best[has_best] == method).any())
            width = {"linewidth": 2.4 if wins else 1.2, "zorder": 3 if wins else 2}
            options = with_defaults(kwargs, **style, label=name, markersize=6, **width)
            self.lines_ += ax.plot(nbytes[known], values[known], **options)
        nbytes_of_best, highest = nbytes[has_best], recall[best, np.arange(len(nbytes))][has_best]
        ring = {"s": 130, "facecolors": "none", "edgecolors": "#22262b", "linewidths": 1.6, "zorder": 4}
        self.rings_ = ax.scatter(nbytes_of_best, highest, **ring, label="the best")
        tidy(ax, xlabel="Bytes per item", ylabel=self.ylabel, xscale="log", ylim=(0, 1.02))
        ticks_at(ax, nbytes, "g")
        legend(ax)
        return ax
