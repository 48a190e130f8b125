"""What all displays share: matplotlib at first use, axes, colors and labels."""

from collections import Counter

import numpy as np

from skhash._libraries import library
from skhash.metrics import Metric
from skhash.registry import FOR_NEIGHBORS, METHODS

#: Petroff's sequence of ten colors that color-blind readers can distinguish (Accessible Color Sequences, 2021).
COLORS = ("#3F90DA", "#FFA90E", "#BD1F01", "#94A4A2", "#832DB6", "#A96B59", "#E76300", "#B9AC70", "#717581", "#92DADD")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_N_STYLES = len(COLORS) * len(MARKERS)
_FIRST_FREE = 40  # styles from here on are for names that are not in the registry
_LINES = {"": "-", "-mlp": "--", "-ndcg": ":", "-ndcg-mlp": "-."}
#: method and variant, without hyphens, to its style number and line style
_REGISTERED = {
    (method.name + variant).replace("-", ""): (method.style, line)
    for method in METHODS.values()
    for variant, line in _LINES.items()
} | {
    name.replace("-", ""): (variant.method.style, "--" if name.endswith("-factors") else "-")
    for name, variant in FOR_NEIGHBORS.items()
}


def pyplot():
    """matplotlib.pyplot, or an error with the command that installs it."""
    return library("matplotlib.pyplot", "matplotlib", "the displays of skhash")


def check_shapes(shape, **values):
    """Raise ValueError unless all values have a shape."""
    for name, value in values.items():
        if np.shape(value) != shape:
            raise ValueError(f"`{name}` must have shape {shape}. Got shape {np.shape(value)} instead.")


def new_figure(figsize):
    """Empty figure that fits labels and legends inside."""
    figure = pyplot().figure(figsize=figsize, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    return figure


def one_axes(ax, figsize):
    """Given Axes, or those of a new figure."""
    if ax is None:
        ax = new_figure(figsize).add_subplot()
    if not hasattr(ax, "get_subplotspec"):
        raise TypeError(f"`ax` must be None or a matplotlib Axes. Got an instance of {type(ax).__name__} instead.")
    return ax


def panels(ax, shape, figsize):
    """Axes of shape `shape` for several panels: of a new figure, the given ones, or those that divide one Axes."""
    if ax is None:
        return new_figure(figsize).subplots(*shape, squeeze=False)
    n_panels = shape[0] * shape[1]
    if isinstance(ax, list | tuple | np.ndarray):
        given = np.asarray(ax, dtype=object)
        if given.size != n_panels:
            raise ValueError(f"`ax` must be None, one Axes or {n_panels} Axes. Got {given.size} Axes instead.")
        return np.array([one_axes(panel, figsize) for panel in given.flat], dtype=object).reshape(shape)
    place = one_axes(ax, figsize).get_subplotspec()
    if place is None:
        raise ValueError(
            f"`ax` must be an Axes of a grid, so that {n_panels} panels can share its place, or {n_panels} Axes. "
            "Got an Axes outside of a grid instead. Create it by pyplot.subplots."
        )
    ax.set_axis_off()
    grid = place.subgridspec(*shape, wspace=0.35, hspace=0.45)
    return np.array([ax.figure.add_subplot(cell) for cell in grid], dtype=object).reshape(shape)


def color_and_marker(number):
    """Color and marker of a style number. The first 70 are all different."""
    turn, color = divmod(number, len(COLORS))
    return COLORS[color], MARKERS[(color + turn) % len(MARKERS)]


def styles(names, ax=None):
    """Color, marker and line style of each name: those of the registry, or for other names new ones on `ax`."""
    from matplotlib.colors import to_hex

    numbers: dict = {name: _REGISTERED.get(str(name).lower().removesuffix("hasher").replace("-", "")) for name in names}
    used = [(to_hex(line.get_color()).upper(), line.get_marker()) for line in ([] if ax is None else ax.lines)]
    used += [color_and_marker(number[0]) for number in numbers.values() if number]
    for name, number in numbers.items():
        if number is None:
            colors = Counter(color for color, _ in used)
            free = [i for i in range(_FIRST_FREE, _N_STYLES) if color_and_marker(i) not in used]
            free = free or list(range(_FIRST_FREE, _N_STYLES))
            numbers[name] = min(free, key=lambda i, colors=colors: colors[color_and_marker(i)[0]]), "-"
            used.append(color_and_marker(numbers[name][0]))
    chosen = ((*color_and_marker(numbers[name][0]), numbers[name][1]) for name in names)
    return [dict(zip(("color", "marker", "linestyle"), style, strict=True)) for style in chosen]


def with_defaults(kwargs, **defaults):
    """Keyword arguments of a line, with defaults for those not given. Aliases (c, lw) are resolved."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return defaults | normalize_kwargs(kwargs, Line2D)


def tidy(ax, **settings):
    """Set labels and limits, add a grid, and remove the spines at the top and at the right."""
    ax.set(**settings)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def ticks_at(ax, values, form=""):
    """Set the ticks of the horizontal axis to the values, whose labels have the format `form`, on any scale."""
    ax.set_xticks(values, [f"{value:{form}}" for value in values])
    ax.minorticks_off()


def legend(ax, **options):
    """Legend beside the data if the layout makes room for it, else at the best place inside."""
    beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
    place = {"loc": "best"} if ax.figure.get_layout_engine() is None else beside
    return ax.legend(**{"frameon": False, **place, **options})


def legend_above(ax):
    """Legend above a panel."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    return ax.legend(**place, ncols=3, columnspacing=1.2, frameon=False, fontsize="small")


def metric_label(name, average="$_T$"):
    """Axis label of a metric, or of another field of results such as fit_seconds."""
    try:
        return Metric.parse(name).label(average)
    except ValueError:
        return name.replace("_", " ").capitalize()
