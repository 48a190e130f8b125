"""Queries and the images that are found for them."""

import numpy as np

from skhash._targets import take_targets
from skhash.affinity import level_indices
from skhash.codes import hamming_distances, is_count
from skhash.displays._base import one_axes, pyplot
from skhash.displays._images import as_images, stretch
from skhash.metrics import RetrievalScorer

RIGHT, WRONG = "\N{CHECK MARK}", "\N{BALLOT X}"
TITLE = "Nearest images by rank, and their distances;{}ties in the order of the database"
GREEN, RED = "#009E73", "#C8102E"


class RetrievedImagesDisplay:
    """A query a row, its nearest images in order: right ones framed in green, wrong ones in red.

    A tick or a cross in the corner says the same without colours.

    Parameters
    ----------
    images : array-like of shape (n_queries, height, width) or (n_queries, height, width, 3)
        The queries; grey, or in colours. Real values are in [0, 1].
    neighbours : array-like of shape (n_queries, n_neighbors, height, width) or (..., 3)
        What was found for each, nearest first.
    relevant : array-like of shape (n_queries, n_neighbors), bool
        Whether it is right.
    distances : array-like of shape (n_queries, n_neighbors), default=None
        Distances to the query, written below the images.
    title : str, default=None
        What stands above; :meth:`from_estimator` says how ties were broken.

    Attributes
    ----------
    ax_ : Axes
        Where it was drawn.
    figure_ : Figure
        Its figure.
    images_ : list of AxesImage
        Row by row, the query first.
    frames_ : list of Rectangle
        Around what was found, row by row.
    marks_ : list of Text
        Ticks and crosses, row by row.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib import pyplot
    >>> from skhash.displays import RetrievedImagesDisplay
    >>> display = RetrievedImagesDisplay(np.zeros((1, 8, 8)), np.ones((1, 2, 8, 8)), [[True, False]]).plot()
    >>> [mark.get_text() for mark in display.marks_]
    ['✓', '✗']
    >>> pyplot.close(display.figure_)
    """

    def __init__(self, images, neighbours, relevant, distances=None, title=None):
        self.images = images
        self.neighbours = neighbours
        self.relevant = relevant
        self.distances = distances
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X_query,
        y_query,
        X_database,
        y_database,
        images_query=None,
        images_database=None,
        n_neighbors=10,
        *,
        image_shape=None,
        ax=None,
        **kwargs,
    ):
        """Rank a database for each query, and draw what comes first.

        Items at one distance stay in the order of the database: another order of it would
        show others of them. The metrics of skhash average over all orders instead.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one. Learned weights of
            its bits weigh the distance, as in its `score`.
        X_query : array-like of shape (n_queries, ...)
            Queries, a row of images each: some will do.
        y_query : array-like of shape (n_queries, ...)
            Their targets; None where the affinity compares rows of X.
        X_database : array-like of shape (n_items, ...)
            What is ranked.
        y_database : array-like of shape (n_items, ...)
            Its targets; None where the affinity compares rows of X.
        images_query, images_database : array-like of shape (n, ...), default=None
            Their images, grey (n, height, width) or with channels first or last; None takes the
            rows of X. Real values are stretched to what is shown of them.
        n_neighbors : int, default=10
            Images a query.
        image_shape : tuple of int, default=None
            Shape of an image that is stored as a vector: ``(8, 8)``, ``(3, 32, 32)``.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.imshow``.

        Returns
        -------
        RetrievedImagesDisplay
            Drawn.

        Raises
        ------
        ValueError
            If rows are no images, or there are fewer items than `n_neighbors`.
        """
        pyplot()
        queries = as_images(X_query if images_query is None else images_query, image_shape, "images_query")
        items = as_images(X_database if images_database is None else images_database, image_shape, "images_database")
        for name, images, X in (("query", queries, X_query), ("database", items, X_database)):
            if len(images) != len(X):
                raise ValueError(f"images_{name} holds {len(images)} images and X_{name} {len(X)} rows; one each.")
        if not is_count(n_neighbors, len(items)):
            raise ValueError(f"n_neighbors={n_neighbors!r}; an integer from 1 to {len(items)} items is wanted.")
        ranking = RetrievalScorer(database=(X_database, y_database)).ranking(estimator, X_query, y_query)
        distances, order = _nearest(ranking, n_neighbors)
        relevant = np.array([_is_relevant(ranking, query, nearest) for query, nearest in enumerate(order)])
        queries, found = stretch(queries, items[order])
        title = TITLE.format(" " if n_neighbors > 7 else "\n")
        return cls(queries, found, relevant, distances, title).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the images.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.imshow``.

        Returns
        -------
        RetrievedImagesDisplay
            Itself.
        """
        relevant = np.asarray(self.relevant, dtype=bool)
        n_queries, n_neighbors = relevant.shape
        step = 1.15 if self.distances is None else 1.4  # room for the distances
        columns = [0, *np.arange(n_neighbors) * 1.15 + 1.4]
        self.ax_ = ax = one_axes(ax, figsize=(max(4.5, 0.75 * columns[-1] + 1.2), 0.75 * step * n_queries + 0.8))
        self.figure_, self.images_, self.frames_, self.marks_ = ax.figure, [], [], []
        options = {"cmap": "gray", "vmin": 0, "vmax": 1} | kwargs
        for query in range(n_queries):
            top = query * step
            for i, left in enumerate(columns):
                image = self.neighbours[query][i - 1] if i else self.images[query]
                self.images_.append(ax.imshow(image, extent=_inside(left, top, np.shape(image)), **options))
                if i:
                    self._frame(left, top, relevant[query, i - 1])
                if i and self.distances is not None:
                    text = f"{self.distances[query][i - 1]:.3g}"
                    ax.text(left + 0.5, top + 1.19, text, ha="center", va="center", fontsize="x-small", color="0.3")
        ax.set(xlim=(-0.1, columns[-1] + 1.1), ylim=(step * n_queries - 0.1, -0.1), aspect="equal", yticks=[])
        ax.set_xticks(np.add(columns, 0.5), ["query", *range(1, n_neighbors + 1)])
        ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        ax.spines[:].set_visible(False)
        ax.set_title(self.title or "", fontsize="medium", pad=10)
        return self

    def _frame(self, left, top, right):
        """Frame an image, and mark it in the corner."""
        from matplotlib.patches import Rectangle

        colour = GREEN if right else RED
        frame = Rectangle((left, top), 1, 1, fill=False, edgecolor=colour, linewidth=2.5)
        self.frames_.append(self.ax_.add_patch(frame))
        box = {"boxstyle": "square,pad=0.1", "facecolor": colour, "edgecolor": colour}
        place = {"ha": "right", "va": "bottom", "fontsize": "small", "color": "white", "bbox": box}
        self.marks_.append(self.ax_.text(left + 0.99, top + 0.99, RIGHT if right else WRONG, **place))


def _inside(left, top, shape):
    """Place of an image of any proportions in the middle of its square."""
    height, width = np.divide(shape[:2], max(shape[:2]))
    left, top = left + (1 - width) / 2, top + (1 - height) / 2
    return left, left + width, top + height, top


def _nearest(ranking, n):
    """Distances and row numbers of the n nearest items of each query, ties in the order of the rows."""
    codes = ranking.query_codes, ranking.database_codes
    distances = hamming_distances(*codes, bit_weights=ranking.bit_weights, nbits=ranking.nbits)
    order = np.argsort(distances, axis=1, kind="stable")[:, :n]
    return np.take_along_axis(distances, order, axis=1), order


def _is_relevant(ranking, query, items):
    """Whether some items are relevant to a query."""
    targets = take_targets(ranking.query_y, [query]), take_targets(ranking.database_y, items)
    return level_indices(ranking.affinity, *targets)[0][0] > 0
