"""What all displays share: matplotlib at first use, axes, colours and labels."""

import re
from collections import Counter

import numpy as np

from skhash.registry import METHODS

#: Petroff's sequence of ten that colour-blind eyes tell apart (Accessible Color Sequences, 2021).
COLORS = ("#3F90DA", "#FFA90E", "#BD1F01", "#94A4A2", "#832DB6", "#A96B59", "#E76300", "#B9AC70", "#717581", "#92DADD")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_VARIANTS = {"": "-", "-mlp": "--", "-ndcg": ":", "-ndcg-mlp": "-."}
_PLACES = {
    (method + variant).replace("-", ""): (place, line)
    for method, place in ((method.name, method.style) for method in METHODS.values())
    for variant, line in _VARIANTS.items()
}
_N_LOOKS = len(COLORS) * len(MARKERS)
_OWN = 40  # names that are no method's take the places from here on
_FIGURES = {"ap": "AP", "ndcg": "NDCG", "r_precision": "R-precision", "roc_auc": "Area under the ROC curve"}


def pyplot():
    """Import matplotlib.pyplot, or say how to install it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            'matplotlib is not installed, and the displays of skhash draw with it: pip install "skhash[plot]"'
        ) from error
    return pyplot


def new_figure(figsize):
    """An empty figure that keeps labels and legends inside."""
    figure = pyplot().figure(figsize=figsize, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    return figure


def one_axes(ax, figsize):
    """Axes to draw on: the given ones, or those of a new figure."""
    if ax is None:
        ax = new_figure(figsize).add_subplot()
    if not hasattr(ax, "get_subplotspec"):
        raise TypeError(f"ax is a {type(ax).__name__}; None or a matplotlib Axes is wanted.")
    return ax


def panels(ax, shape, figsize):
    """Axes of a display of several panels: given ones, parts of a given one, or those of a new figure.

    Parameters
    ----------
    ax : None, Axes or array-like of Axes
        None makes a figure; one Axes gives its place to the panels.
    shape : tuple of int
        Rows and columns of panels.
    figsize : tuple of float
        Size of a new figure, in inches.

    Returns
    -------
    ndarray of Axes, of shape `shape`
    """
    if ax is None:
        return new_figure(figsize).subplots(*shape, squeeze=False)
    n_panels = shape[0] * shape[1]
    if isinstance(ax, list | tuple | np.ndarray):
        given = np.asarray(ax, dtype=object)
        if given.size != n_panels:
            raise ValueError(f"ax holds {given.size} Axes; None, one or {n_panels} of them are wanted.")
        return np.array([one_axes(panel, figsize) for panel in given.flat], dtype=object).reshape(shape)
    place = one_axes(ax, figsize).get_subplotspec()
    if place is None:
        raise ValueError(
            f"ax has no place in a grid that {n_panels} panels could share; one made by subplots, or {n_panels} "
            "Axes are wanted."
        )
    ax.set_axis_off()
    grid = place.subgridspec(*shape, wspace=0.35, hspace=0.45)
    return np.array([ax.figure.add_subplot(cell) for cell in grid], dtype=object).reshape(shape)


def look_of(place):
    """Colour and marker of a place; no two of the first 70 are the same."""
    turn, colour = divmod(place, len(COLORS))
    return COLORS[colour], MARKERS[(colour + turn) % len(MARKERS)]


def styles(names, ax=None):
    """Colour, marker and line of each name: those of its method, else a look that is not on `ax` yet."""
    from matplotlib.colors import to_hex

    looks: dict = {name: _PLACES.get(str(name).lower().removesuffix("hasher").replace("-", "")) for name in names}
    used = [(to_hex(line.get_color()).upper(), line.get_marker()) for line in ([] if ax is None else ax.lines)]
    used += [look_of(place[0]) for place in looks.values() if place]
    for name, place in looks.items():
        if place is None:
            colours = Counter(colour for colour, _ in used)
            own = [i for i in range(_OWN, _N_LOOKS) if look_of(i) not in used] or range(_OWN, _N_LOOKS)
            looks[name] = min(own, key=lambda i, colours=colours: colours[look_of(i)[0]]), "-"
            used.append(look_of(looks[name][0]))
    chosen = ((*look_of(looks[name][0]), looks[name][1]) for name in names)
    return [dict(zip(("color", "marker", "linestyle"), look, strict=True)) for look in chosen]


def given_style(kwargs, **defaults):
    """Defaults of a line under what the caller gives, whose aliases (c, lw) are resolved."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return defaults | normalize_kwargs(kwargs, Line2D)


def tidy(ax, **settings):
    """Set labels and limits; take away what carries nothing."""
    ax.set(**settings)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def legend(ax, **options):
    """Legend beside the data where the layout makes room for it, else where it hides least."""
    beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
    place = {"loc": "best"} if ax.figure.get_layout_engine() is None else beside
    return ax.legend(**{"frameon": False, **place, **options})


def legend_above(ax):
    """Legend on top of a panel, where it hides nothing."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    return ax.legend(**place, ncols=3, columnspacing=1.2, frameon=False, fontsize="small")


def metric_label(name, average="$_T$"):
    """Axis label of a figure: "precision_radius_2" is "Precision within radius 2"."""
    metric, *ties = re.split("_(?=best$|worst$)", name)
    stem, *cut = re.split("(?=_at_|_radius_)", metric)
    text = _FIGURES.get(stem, stem.replace("_", " ").capitalize())
    text += average if stem in ("ap", "ndcg") and not ties else ""
    text += "".join(cut).replace("_at_", "@").replace("_radius_", " within radius ").replace("_", ", ")
    return "".join([text, *(f", {order} order of ties" for order in ties)])
