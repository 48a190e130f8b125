"""What displays of curves share: precision-recall and precision@N."""

import numpy as np

from skhash.displays._base import legend, one_axes, styles, tidy, with_defaults


def check_histograms(histograms):
    """Raise ValueError unless `histograms` is a dict with at least one histogram."""
    if not isinstance(histograms, dict) or not histograms:
        given = "{}" if isinstance(histograms, dict) else f"an instance of {type(histograms).__name__}"
        raise ValueError(f"`histograms` must be a dict of name to RelevanceHistogram, not empty. Got {given} instead.")


def curves_of(histograms, curve):
    """Lists of the x, the y and the name of each histogram, where ``curve(H)`` returns x and y."""
    check_histograms(histograms)
    xs, ys = zip(*map(curve, histograms.values()), strict=True)
    return list(xs), list(ys), list(histograms)


def as_curves(x, y, name):
    """Lists of x, y and names, from one curve or several."""
    several = isinstance(x, list | tuple) and len(x) and np.ndim(x[0])
    xs, ys, names = (list(x), list(y), name) if several else ([x], [y], [name])
    names = [None] * len(xs) if names is None else list(names)
    if not len(xs) == len(ys) == len(names) or any(np.shape(a) != np.shape(b) for a, b in zip(xs, ys, strict=True)):
        raise ValueError(
            f"Each curve must have one name, and as many x as y. Got {len(xs)} and {len(ys)} curves of "
            f"{[len(a) for a in xs]} and {[len(b) for b in ys]} points with {len(names)} names instead."
        )
    return xs, ys, names


def draw_curves(ax, curves, kwargs, **settings):
    """Axes and lines of a plot of the curves of :func:`as_curves`, each in the style of its name."""
    ax = one_axes(ax, figsize=(6.4, 4.4))
    lines = []
    for x, y, name, style in zip(*curves, styles(curves[2], ax), strict=True):
        options = with_defaults(kwargs, **style, label=name, markevery=0.06, markersize=5, linewidth=1.6)
        lines += ax.plot(x, y, **options)
    tidy(ax, **settings)
    if ax.get_legend_handles_labels()[1]:
        legend(ax)
    return ax, lines
