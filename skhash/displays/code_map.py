"""Codes in the plane, by t-SNE of their Hamming distances."""

import numpy as np

from skhash._targets import n_rows
from skhash.codes import as_packed, unpack
from skhash.displays._base import legend, look_of, one_axes, pyplot

MOST_CLASSES = 20  # more of them are numbers, or too many to tell apart


class CodeMapDisplay:
    """Each code a point; codes at a small Hamming distance lie together.

    Parameters
    ----------
    embedding : array-like of shape (n_samples, 2)
        Points in the plane.
    y : array-like of shape (n_samples,), default=None
        What colours them: up to 20 classes, which are named at their medians, too; or numbers.

    Attributes
    ----------
    ax_ : Axes
        Where it was drawn.
    figure_ : Figure
        Its figure.
    points_ : list of PathCollection
        One a class, or one for all.
    names_ : list of Annotation
        Names of the classes.
    colorbar_ : Colorbar or None
        Scale of numbers.

    Examples
    --------
    >>> from matplotlib import pyplot
    >>> from skhash.displays import CodeMapDisplay
    >>> display = CodeMapDisplay([[0, 0], [0, 1], [5, 5]], ["cat", "cat", "dog"]).plot()
    >>> [name.get_text() for name in display.names_]
    ['cat', 'dog']
    >>> pyplot.close(display.figure_)
    """

    def __init__(self, embedding, y=None):
        self.embedding = embedding
        self.y = y

    @classmethod
    def from_codes(cls, codes, y=None, *, nbits=None, perplexity=30.0, random_state=0, ax=None, **kwargs):
        """Embed codes by t-SNE and draw them.

        Parameters
        ----------
        codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
            Bits, or packed codes when `nbits` is given; some thousands of them take seconds.
        y : array-like of shape (n,), default=None
            What colours the points.
        nbits : int, default=None
            Length of a code, needed for packed codes.
        perplexity : float, default=30.0
            About how many neighbours a point minds; less than n.
        random_state : int, RandomState instance or None, default=0
            Of scikit-learn's TSNE.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.scatter``.

        Returns
        -------
        CodeMapDisplay
            Drawn.
        """
        from sklearn.manifold import TSNE

        pyplot()
        bits = unpack(*as_packed(codes, nbits))
        _check_targets(y, len(bits))
        collapsed = (bits == bits[0]).all()  # no principal axis to start from: scikit-learn divides by 0 and crashes
        init = "random" if collapsed else "pca"
        tsne = TSNE(perplexity=perplexity, metric="hamming", init=init, random_state=random_state)
        return cls(tsne.fit_transform(bits), y).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, perplexity=30.0, random_state=0, ax=None, **kwargs):
        """Hash rows, embed their codes by t-SNE and draw them.

        Distances are plain Hamming distances, whatever the bits weigh.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), default=None
            What colours the points.
        perplexity, random_state, ax, **kwargs
            As in :meth:`from_codes`.

        Returns
        -------
        CodeMapDisplay
            Drawn.
        """
        pyplot()
        codes = np.asarray(estimator.transform(X))
        return cls.from_codes(codes, y, perplexity=perplexity, random_state=random_state, ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the points.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``Axes.scatter``.

        Returns
        -------
        CodeMapDisplay
            Itself.
        """
        from matplotlib.patheffects import withStroke

        points = np.asarray(self.embedding, dtype=float)
        targets = _check_targets(self.y, len(points))
        classes = np.unique([] if targets is None else targets)
        self.ax_ = ax = one_axes(ax, figsize=(6.4, 5))
        self.figure_, self.points_, self.names_, self.colorbar_ = ax.figure, [], [], None
        options = {"s": 20, "linewidth": 0, "alpha": 0.8} | kwargs
        if len(classes) > MOST_CLASSES:
            self.points_ = [ax.scatter(*points.T, **({"c": targets, "cmap": "viridis"} | options))]
            self.colorbar_ = self.figure_.colorbar(self.points_[0], ax=ax)
        elif targets is None:
            self.points_ = [ax.scatter(*points.T, **({"color": "0.5"} | options))]
        for i, label in enumerate(classes if self.colorbar_ is None else []):
            own = points[targets == label]
            look = dict(zip(("color", "marker"), look_of(i), strict=True)) | {"label": str(label)}
            self.points_.append(ax.scatter(*own.T, **(look | options)))
            above = {"xytext": (0, 8), "textcoords": "offset points", "ha": "center", "weight": "bold"}
            name = ax.annotate(str(label), np.median(own, axis=0), **above)
            name.set_path_effects([withStroke(linewidth=3, foreground="white")])
            self.names_.append(name)
        if self.names_:
            legend(ax, markerscale=1.5)
        ax.set(xticks=[], yticks=[])
        ax.set_aspect("equal", adjustable="datalim")
        ax.spines[:].set_color("0.8")
        return self


def _check_targets(y, n):
    """Targets as an array: one a point, and numbers where they are many."""
    if y is None:
        return None
    if np.ndim(y) != 1 or n_rows(y) != n:
        raise ValueError(f"y has shape {np.shape(y)}; one value for each of the {n} codes is wanted.")
    y = np.asarray(y)
    if y.dtype.kind not in "biuf" and len(np.unique(y)) > MOST_CLASSES:
        raise ValueError(f"y holds {len(np.unique(y))} classes; at most {MOST_CLASSES}, or numbers, are wanted.")
    return y
