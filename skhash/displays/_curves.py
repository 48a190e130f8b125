"""Displays of one curve a method: what precision-recall and precision@N share."""

import numpy as np

from skhash.displays._base import given_style, legend, one_axes, styles, tidy


def check_histograms(histograms):
    """Raise unless there are histograms by name."""
    if not isinstance(histograms, dict) or not histograms:
        given = "{}" if histograms == {} else f"a {type(histograms).__name__}"
        raise ValueError(f"histograms is {given}; a dict of histograms by name, not empty, is wanted.")


def curves_of(histograms, curve):
    """Compute a curve of each histogram: lists of x, of y and of names.

    Parameters
    ----------
    histograms : dict of str to RelevanceHistogram
        Counts by name.
    curve : callable
        Maps a histogram to x and y.

    Returns
    -------
    tuple of three lists
        Arguments of a display.
    """
    check_histograms(histograms)
    xs, ys = zip(*map(curve, histograms.values()), strict=True)
    return list(xs), list(ys), list(histograms)


def as_curves(x, y, name):
    """Lists of curves and names, of one array or several."""
    several = isinstance(x, list | tuple) and len(x) and np.ndim(x[0])
    xs, ys, names = (list(x), list(y), name) if several else ([x], [y], [name])
    names = [None] * len(xs) if names is None else list(names)
    if not len(xs) == len(ys) == len(names) or any(np.shape(a) != np.shape(b) for a, b in zip(xs, ys, strict=True)):
        raise ValueError(
            f"{len(xs)} and {len(ys)} curves of {[len(a) for a in xs]} and {[len(b) for b in ys]} points with "
            f"{len(names)} names: one name, and points of equal number, are wanted for each curve."
        )
    return xs, ys, names


def draw_curves(ax, curves, kwargs, **settings):
    """Draw a line a curve, with the style of its name.

    Parameters
    ----------
    ax : Axes or None
        Where to; None makes a figure.
    curves : tuple of three lists
        As :func:`as_curves` returns them.
    kwargs : dict
        What the caller gives to ``Axes.plot``.
    **settings : dict
        Labels and limits of the axes.

    Returns
    -------
    ax : Axes
        Where they were drawn.
    lines : list of Line2D
        One a curve.
    """
    ax = one_axes(ax, figsize=(6.4, 4.4))
    lines = []
    for x, y, name, style in zip(*curves, styles(curves[2], ax), strict=True):
        look = given_style(kwargs, **style, label=name, markevery=0.06, markersize=5, linewidth=1.6)
        lines += ax.plot(x, y, **look)
    tidy(ax, **settings)
    if ax.get_legend_handles_labels()[1]:
        legend(ax)
    return ax, lines
