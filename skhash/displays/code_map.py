"""Codes in two dimensions, by t-SNE of their Hamming distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from skhash.affinity.targets import as_labels
from skhash.codes import Codes
from skhash.displays._base import Display, color_and_marker, legend, one_axes, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_CLASSES = 20  # with more values, y holds numbers, or its colors look alike


@dataclass(eq=False, repr=False)
class CodeMapDisplay(Display):
    """Codes as points in the plane: those at a small Hamming distance are close to each other.

    Parameters
    ----------
    embedding : array-like of shape (n_samples, 2)
        Coordinates of the points.
    y : array-like of shape (n_samples,), default=None
        Colors of the points: up to 20 classes, each with its name at its median, or numbers.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure of the plot.
    points_ : list of PathCollection
        One collection per class, or one for all points.
    names_ : list of Annotation
        Names of the classes.
    colorbar_ : Colorbar or None
        Scale, if `y` holds numbers.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import CodeMapDisplay
    >>> display = CodeMapDisplay([[0, 0], [0, 1], [5, 5]], ["cat", "cat", "dog"]).plot()
    >>> [name.get_text() for name in display.names_]
    ['cat', 'dog']
    >>> pyplot.close(display.figure_)
    """

    embedding: ArrayLike
    y: ArrayLike | None = None

    @classmethod
    def from_codes(
        cls,
        codes: ArrayLike,
        y: ArrayLike | None = None,
        *,
        nbits: int | None = None,
        perplexity: float = 30.0,
        random_state: int | np.random.RandomState | None = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Embed codes by t-SNE and plot them.

        Parameters
        ----------
        codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
            Bits, or packed codes if `nbits` is given. A few thousand codes take seconds.
        y : array-like of shape (n,), default=None
            Colors of the points, classes or numbers.
        nbits : int, default=None
            Number of bits of a packed code.
        perplexity : float, default=30.0
            Effective number of neighbors of a point, less than n.
        random_state : int, RandomState instance or None, default=0
            Random state of scikit-learn's TSNE.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.scatter``.

        Returns
        -------
        CodeMapDisplay
            The display.
        """
        from sklearn.manifold import TSNE

        pyplot()
        bits = Codes.of(codes, nbits).bits()
        _check_targets(y, len(bits))
        if len(bits) < 2:
            raise ValueError(f"`codes` must be of at least 2 items. Got {len(bits)} instead.")
        perplexity = min(perplexity, len(bits) - 1)  # t-SNE needs more items than neighbors
        collapsed = (bits == bits[0]).all()  # equal codes have no principal axis: scikit-learn would divide by 0
        init = "random" if collapsed else "pca"
        tsne = TSNE(perplexity=perplexity, metric="hamming", init=init, random_state=random_state)
        return cls(tsne.fit_transform(bits), y).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        perplexity: float = 30.0,
        random_state: int | np.random.RandomState | None = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Embed the codes of samples by t-SNE and plot them.

        Distances are Hamming distances without weights, even if the hasher has learned weights.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Samples to hash.
        y : array-like of shape (n_samples,), default=None
            Colors of the points, classes or numbers.
        perplexity, random_state, ax, **kwargs
            As in :meth:`from_codes`.

        Returns
        -------
        CodeMapDisplay
            The display.
        """
        pyplot()
        codes = np.asarray(estimator.transform(X))
        return cls.from_codes(codes, y, perplexity=perplexity, random_state=random_state, ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        from matplotlib.patheffects import withStroke

        points = np.asarray(self.embedding, dtype=float)
        targets = _check_targets(self.y, len(points))
        classes = np.unique([] if targets is None else targets)
        ax = one_axes(ax, figsize=(6.4, 5))
        self.points_: list[Any] = []
        self.names_: list[Any] = []
        self.colorbar_: Any = None
        options: dict[str, Any] = {"s": 20, "linewidth": 0, "alpha": 0.8} | kwargs
        if len(classes) > _MAX_CLASSES:
            options = {"c": targets, "cmap": "viridis"} | options
            self.points_ = [ax.scatter(*points.T, **options)]
            self.colorbar_ = ax.figure.colorbar(self.points_[0], ax=ax)
        elif targets is None:
            self.points_ = [ax.scatter(*points.T, **({"color": "0.5"} | options))]
        for i, label in enumerate(classes if self.colorbar_ is None else []):
            own = points[targets == label]
            color, marker = color_and_marker(i)
            style = {"color": color, "marker": marker, "label": str(label)} | options
            self.points_.append(ax.scatter(*own.T, **style))
            above: dict[str, Any] = {"xytext": (0, 8), "textcoords": "offset points", "ha": "center", "weight": "bold"}
            name = ax.annotate(str(label), np.median(own, axis=0), **above)
            name.set_path_effects([withStroke(linewidth=3, foreground="white")])
            self.names_.append(name)
        if self.names_:
            legend(ax, markerscale=1.5)
        ax.set(xticks=[], yticks=[])
        ax.set_aspect("equal", adjustable="datalim")
        ax.spines[:].set_color("0.8")
        return ax


def _check_targets(given: ArrayLike | None, n: int) -> npt.NDArray[Any] | None:
    """Targets as an array: one per point, and at most 20 classes unless they are numbers."""
    if given is None:
        return None
    y: npt.NDArray[Any] = as_labels(given)
    y = y[:, 0] if y.shape[1:] == (1,) else y
    if y.shape != (n,):
        raise ValueError(f"`y` must hold one value for each of the {n} codes. Got shape {y.shape} instead.")
    if y.dtype.kind not in "biuf" and len(np.unique(y)) > _MAX_CLASSES:
        raise ValueError(
            f"`y` must hold at most {_MAX_CLASSES} classes, or numbers. Got {len(np.unique(y))} classes instead."
        )
    return y
