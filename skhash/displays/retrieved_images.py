"""Queries and the images nearest to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from skhash._validation import as_count
from skhash.codes import hamming_distances
from skhash.displays._base import Display, check_shapes, one_axes, pyplot
from skhash.metrics import RetrievalScorer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICK, _CROSS = "\N{CHECK MARK}", "\N{BALLOT X}"
_TITLE = "Nearest images by rank, and their distances;{}ties in the order of the database"
_GREEN, _RED = "#009E73", "#C8102E"


@dataclass(eq=False, repr=False)
class RetrievedImagesDisplay(Display):
    """One row per query with its nearest images: relevant ones in a green frame, others in a red one.

    A tick or a cross in the corner shows the same without colors.

    Parameters
    ----------
    images : array-like of shape (n_queries, height, width) or (n_queries, height, width, 3)
        Queries, gray or in color. Real values are in [0, 1].
    neighbors : array-like of shape (n_queries, n_neighbors, height, width) or (..., 3)
        Images found for each query, nearest first.
    relevant : array-like of shape (n_queries, n_neighbors), bool
        Whether they are relevant.
    distances : array-like of shape (n_queries, n_neighbors), default=None
        Distances to the query, shown below the images.
    title : str, default=None
        Title above the images.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure of the plot.
    images_ : list of AxesImage
        Images of each row, the query first.
    frames_ : list of Rectangle
        Frames of the images found, row by row.
    marks_ : list of Text
        Ticks and crosses of the images found, row by row.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib import pyplot
    >>> from skhash.displays import RetrievedImagesDisplay
    >>> display = RetrievedImagesDisplay(
    ...     np.zeros((1, 8, 8)), np.ones((1, 2, 8, 8)), [[True, False]]
    ... ).plot()
    >>> [mark.get_text() for mark in display.marks_]
    ['✓', '✗']
    >>> pyplot.close(display.figure_)
    """

    images: ArrayLike
    neighbors: ArrayLike
    relevant: ArrayLike
    distances: ArrayLike | None = None
    title: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X_query: ArrayLike,
        y_query: ArrayLike | None,
        X_database: ArrayLike,
        y_database: ArrayLike | None,
        images_query: ArrayLike | None = None,
        images_database: ArrayLike | None = None,
        n_neighbors: int = 10,
        *,
        image_shape: tuple[int, ...] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Rank a database for each query, and plot its first images.

        Items at the same distance are in the order of the database, so that another order of it
        may show other items. The metrics of skhash average over all orders instead.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one. Samples are
            ranked as in its `score`: by weighted distances if it has learned weights.
        X_query : array-like of shape (n_queries, ...)
            Queries. Each takes one row of the plot, so a few are enough.
        y_query : array-like of shape (n_queries, ...)
            Their targets; None if the affinity compares samples of X.
        X_database : array-like of shape (n_items, ...)
            Database to rank.
        y_database : array-like of shape (n_items, ...)
            Its targets; None if the affinity compares samples of X.
        images_query, images_database : array-like of shape (n, ...), default=None
            Their images, gray (n, height, width) or with channels first or last. None shows the
            samples of X. Real values are scaled to the range of the images shown.
        n_neighbors : int, default=10
            Number of images per query.
        image_shape : tuple of int, default=None
            Shape of the images, if samples are vectors: ``(8, 8)``, ``(3, 32, 32)``.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.imshow``.

        Returns
        -------
        RetrievedImagesDisplay
            The display.

        Raises
        ------
        ValueError
            If samples are not images, or the database has fewer items than `n_neighbors`.
        """
        pyplot()
        queries = _as_images(X_query if images_query is None else images_query, image_shape, "images_query")
        items = _as_images(X_database if images_database is None else images_database, image_shape, "images_database")
        for name, images, X in (("query", queries, X_query), ("database", items, X_database)):
            if len(images) != len(np.asarray(X)):
                raise ValueError(
                    f"`images_{name}` must hold one image for each of the {len(np.asarray(X))} samples of X_{name}. "
                    f"Got {len(images)} images instead."
                )
        what = f"an int from 1 to {len(items)} items"
        n_neighbors = as_count(n_neighbors, "n_neighbors", what, largest=len(items))
        ranking = RetrievalScorer(database=(X_database, y_database)).ranking(estimator, X_query, y_query)
        codes = ranking.query_codes, ranking.database_codes
        distances = hamming_distances(*codes, bit_weights=ranking.bit_weights)
        order = np.argsort(distances, axis=1, kind="stable")[:, :n_neighbors]
        levels = [ranking.relevance.levels([query], nearest)[0][0] for query, nearest in enumerate(order)]
        queries, found = _stretch(queries, items[order])
        title = _TITLE.format(" " if n_neighbors > 7 else "\n")
        distances = np.take_along_axis(distances, order, axis=1)
        return cls(queries, found, np.array(levels) > 0, distances, title).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        relevant = np.asarray(self.relevant, dtype=bool)
        n_queries, n_neighbors = shape = np.shape(self.neighbors)[:2]
        check_shapes(shape, relevant=relevant, **({} if self.distances is None else {"distances": self.distances}))
        check_shapes((n_queries, *np.shape(self.neighbors)[2:]), images=self.images)
        neighbors, queries = np.asarray(self.neighbors), np.asarray(self.images)
        distances = None if self.distances is None else np.asarray(self.distances)
        step = 1.15 if distances is None else 1.4  # room for the distances
        columns = [0, *np.arange(n_neighbors) * 1.15 + 1.4]
        ax = one_axes(ax, figsize=(max(4.5, 0.75 * columns[-1] + 1.2), 0.75 * step * n_queries + 0.8))
        self.images_: list[Any] = []
        self.frames_: list[Any] = []
        self.marks_: list[Any] = []
        options: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1} | kwargs
        for query in range(n_queries):
            top = query * step
            for i, left in enumerate(columns):
                image = neighbors[query, i - 1] if i else queries[query]
                self.images_.append(ax.imshow(image, extent=_inside(left, top, np.shape(image)), **options))
                if i:
                    self._frame(ax, left, top, relevant[query, i - 1])
                if i and distances is not None:
                    text = f"{distances[query, i - 1]:.3g}"
                    ax.text(left + 0.5, top + 1.19, text, ha="center", va="center", fontsize="x-small", color="0.3")
        ax.set(xlim=(-0.1, columns[-1] + 1.1), ylim=(step * n_queries - 0.1, -0.1), aspect="equal", yticks=[])
        ax.set_xticks(np.add(columns, 0.5), ["query", *range(1, n_neighbors + 1)])
        ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        ax.spines[:].set_visible(False)
        ax.set_title(self.title or "", fontsize="medium", pad=10)
        return ax

    def _frame(self, ax: Any, left: float, top: float, relevant: bool) -> None:
        """Add a frame to an image, and a tick or a cross in its corner."""
        from matplotlib.patches import Rectangle

        color = _GREEN if relevant else _RED
        frame = Rectangle((left, top), 1, 1, fill=False, edgecolor=color, linewidth=2.5)
        self.frames_.append(ax.add_patch(frame))
        box = {"boxstyle": "square,pad=0.1", "facecolor": color, "edgecolor": color}
        place = {"ha": "right", "va": "bottom", "fontsize": "small", "color": "white", "bbox": box}
        self.marks_.append(ax.text(left + 0.99, top + 0.99, _TICK if relevant else _CROSS, **place))


def _inside(left: float, top: float, shape: tuple[int, ...]) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of an image in the middle of its square."""
    height, width = np.divide(shape[:2], max(shape[:2]))
    left, top = left + (1 - width) / 2, top + (1 - height) / 2
    return left, left + width, top + height, top


def _as_images(samples: ArrayLike, image_shape: tuple[int, ...] | None, name: str) -> npt.NDArray[Any]:
    """Images of shape (n, height, width) or (n, height, width, 3) from vectors or images with 1 or 3 channels."""
    images = np.asarray(samples)
    shape = images.shape[1:]
    if images.ndim == 2 and image_shape is not None and math.prod(image_shape) == images.shape[1]:
        images = images.reshape(len(images), *image_shape)
    if images.ndim == 4 and images.shape[1] in (1, 3):
        images = np.moveaxis(images, 1, -1)
    if images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    if images.ndim != 3 and not (images.ndim == 4 and images.shape[-1] == 3):
        raise ValueError(
            f"`{name}` must hold images (height, width), with 1 or 3 channels first or last, or vectors together with "
            f"the `image_shape` that fits them. Got samples of shape {shape} with image_shape={image_shape} instead."
        )
    return images


def _stretch(*groups: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Images in [0, 1] from several arrays: bytes are divided by 255, other values are scaled by their common range."""
    if all(group.dtype == np.uint8 for group in groups):
        return [group / np.float32(255) for group in groups]
    low, high = min(float(group.min()) for group in groups), max(float(group.max()) for group in groups)
    return [(group - low) / (high - low or 1) for group in groups]
