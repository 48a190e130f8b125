"""What all displays share: figures and axes, styles, curves, and what they read from hashers and results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import cleandoc, getdoc, signature
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skhash._libraries import library
from skhash.metrics import Metric, RelevanceHistogram, RetrievalScorer
from skhash.metrics.histogram import concatenate
from skhash.registry import CONV, FOR_NEIGHBORS, METHODS, PAPER
from skhash.unwrap import find_hasher

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Petroff's sequence of ten colors that color-blind readers can distinguish (Accessible Color Sequences, 2021).
COLORS = ("#3F90DA", "#FFA90E", "#BD1F01", "#94A4A2", "#832DB6", "#A96B59", "#E76300", "#B9AC70", "#717581", "#92DADD")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_N_STYLES = len(COLORS) * len(MARKERS)
_FIRST_FREE = 42  # styles from here on are for names that are not in the registry
_SETTINGS = {"dataset", "protocol", "method", "nbits", "seed", "asked_seeds"}  # of results, not metrics
_LINES: dict[str, Any] = {"": "-", "-mlp": "--", "-ndcg": ":", "-ndcg-mlp": "-.", CONV: (0, (5, 1, 1, 1))}
_LINES[PAPER] = (0, (3, 1, 1, 1, 1, 1))
#: method and variant, without hyphens, to its style number and line style
_REGISTERED = {
    (method.name + variant).replace("-", ""): (method.style, line)
    for method in METHODS.values()
    for variant, line in _LINES.items()
} | {
    name.replace("-", ""): (variant.method.style, "--" if name.endswith("-factors") else "-")
    for name, variant in FOR_NEIGHBORS.items()
}


class Display:
    """A plot of computed values, which subclasses draw."""

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Plot the values.

        Parameters
        ----------
        ax : Axes or array-like of Axes, default=None
            Axes to draw on. None creates a figure. A display with several panels divides a single Axes, or takes one
            Axes for each panel.
        **kwargs : dict
            Keyword arguments of matplotlib, as in the methods that compute the values.

        Returns
        -------
        self : object
            The display.
        """
        self.ax_ = self._draw(ax, kwargs)
        self.figure_ = np.ravel(self.ax_)[0].figure
        return self

    def _draw(self, ax: Any, kwargs: dict[str, Any]) -> Any:
        """Draw on Axes or on those of a new figure, and return them."""
        raise NotImplementedError


class HistogramDisplay(Display):
    """A plot of what is computed from relevance histograms, which subclasses compute in `_plot_of`."""

    _weighted = True  # `from_estimator` ranks by weighted distances, if the hasher has learned weights

    def __init_subclass__(cls) -> None:
        """Show the options of `_plot_of` in the signature and the docstring of each method that passes them on."""
        for name in ("from_histogram", "from_histograms", "from_estimator"):
            setattr(cls, name, classmethod(_with_options(vars(HistogramDisplay)[name].__func__, cls._plot_of)))

    @classmethod
    def _plot_of(
        cls, histograms: Sequence[RelevanceHistogram], name: str | list[str] | None, *, ax: Axes | None, **kwargs: Any
    ) -> Self:
        """Plot histograms with a list of names, or a single one with its name."""
        raise NotImplementedError

    @classmethod
    def from_histogram(
        cls, H: RelevanceHistogram, name: str | None = None, *, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Plot a histogram.

        Parameters
        ----------
        H : RelevanceHistogram
            Counts.
        name : str, default=None
            Name of the method or of the curve.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``.

        Returns
        -------
        self : object
            The display.
        """
        return cls._plot_of([H], name, ax=ax, **kwargs)

    @classmethod
    def from_histograms(
        cls, histograms: Mapping[str, RelevanceHistogram], *, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Plot several histograms on one Axes.

        Parameters
        ----------
        histograms : dict of str to RelevanceHistogram
            Counts by name of the method or of the curve.
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``, for each histogram.

        Returns
        -------
        self : object
            The display. The values of curves are lists, with one item per histogram.
        """
        check_histograms(histograms)
        return cls._plot_of(list(histograms.values()), list(histograms), ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot `X` as queries of the training samples.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a Pipeline or search that ends in one. Samples are
            ranked as in its `score`: by weighted distances if it has learned weights,
            unless the display is one of distances in bits.
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Their targets; not needed if the affinity compares samples of X.
        name : str, default=None
            Name of the method or of the curve. None is the name of the class without "Hasher".
        ax : Axes, default=None
            Axes to draw on. None creates a figure.
        **kwargs : dict
            Keyword arguments of ``Axes.plot``.

        Returns
        -------
        self : object
            The display.
        """
        H = ranked_histogram(estimator, X, y, weighted=cls._weighted)
        return cls.from_histogram(H, estimator_name(estimator) if name is None else name, ax=ax, **kwargs)


def _with_options(method: Callable[..., Any], hook: Callable[..., Any]) -> Callable[..., Any]:
    """The method, with the keyword-only parameters of the hook before `ax` in its signature and docstring."""

    @wraps(method)
    def with_options(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return method(cls, *args, **kwargs)

    *shared, ax, keywords = signature(method).parameters.values()
    options = [p for p in signature(hook).parameters.values() if p.kind is p.KEYWORD_ONLY and p.name != "ax"]
    changed = signature(method).replace(parameters=[*shared, *options, ax, keywords])
    with_options.__signature__ = changed  # type: ignore[attr-defined]
    before, line, after = cleandoc(method.__doc__ or "").partition("ax : Axes")
    documented = (getdoc(hook) or "").partition("----------\n")[2]
    with_options.__doc__ = before + documented + "\n" * bool(documented) + line + after
    return with_options


# --- axes


def pyplot():
    """matplotlib.pyplot, or an error with the command that installs it."""
    return library("matplotlib.pyplot", "matplotlib", "the displays of skhash")


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


# --- styles


def color_and_marker(number):
    """Color and marker of a style number. The first 70 are all different."""
    turn, color = divmod(number, len(COLORS))
    return COLORS[color], MARKERS[(color + turn) % len(MARKERS)]


def styles(names, ax=None):
    """Color, marker and line style of each name: those of the registry, or for other names new ones on `ax`."""
    from matplotlib.colors import to_hex

    numbers: dict = {}
    for name in names:
        method = str(name).partition(" (")[0]  # without the number of seeds
        numbers[name] = _REGISTERED.get(method.lower().removesuffix("hasher").replace("-", ""))
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


# --- values and curves


def check_shapes(shape, **values):
    """Raise ValueError unless all values have a shape."""
    for name, value in values.items():
        if np.shape(value) != shape:
            raise ValueError(f"`{name}` must have shape {shape}. Got shape {np.shape(value)} instead.")


def check_histograms(histograms):
    """Raise ValueError unless `histograms` is a dict with at least one histogram."""
    if not isinstance(histograms, dict) or not histograms:
        given = "{}" if isinstance(histograms, dict) else f"an instance of {type(histograms).__name__}"
        raise ValueError(f"`histograms` must be a dict of name to RelevanceHistogram, not empty. Got {given} instead.")


def curves_of(histograms, name, curve):
    """Two values and the names of curves, where ``curve(H)`` returns two values: lists of them for a list of names."""
    first, second = map(list, zip(*map(curve, histograms), strict=True))
    return (first, second, name) if isinstance(name, list) else (first[0], second[0], name)


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


# --- hashers


def estimator_name(estimator):
    """Name of the method of a hasher: its class without "Hasher"."""
    return type(find_hasher(estimator)).__name__.removesuffix("Hasher")


def ranked_histogram(estimator, X, y, *, weighted=True):
    """Histogram of the training samples as `score` ranks them, for metrics of ranks; or by distances in bits."""
    pyplot()  # an error about matplotlib must come before the ranking, which takes time
    ranking = RetrievalScorer().ranking(estimator, X, y)
    return concatenate(H.by_ranks() for H in ranking.histograms(weighted=weighted))


def history(estimator, keys, source):
    """Columns of the entries of `history_` with all `keys`; ValueError, naming `source`, if there are none."""
    pyplot()
    check_is_fitted(estimator)
    hasher = find_hasher(estimator)
    entries = [entry for entry in getattr(hasher, "history_", []) if entry.keys() >= set(keys)]
    if not entries:
        raise ValueError(
            f"`estimator` must have a history_ with {', '.join(map(repr, keys))}, as a {source} has. "
            f"Got an instance of {type(hasher).__name__} instead."
        )
    return [[entry[key] for entry in entries] for key in keys]


# --- results of a comparison


def choose_results(results, metrics, **chosen):
    """Results with metrics as dicts, of one data set, and of one number of bits if `chosen` has it.

    None in `chosen` selects the only value that occurs. ValueError if there are several values, or no result.
    """
    if wrong := [result for result in results if not isinstance(result, Mapping)]:
        raise TypeError(
            "`results` must be those of compare, or dicts as in its results.json. "
            f"Got an instance of {type(wrong[0]).__name__} instead."
        )
    results = list(map(dict, results))
    for name, value in (chosen | {"protocol": None}).items():
        known = list(dict.fromkeys(result.get(name) for result in results))
        listed = ", ".join(map(str, known)) or "none"
        if value is None and len(known) > 1:
            remedy = f"Choose one: {name}={known[0]!r}." if name in chosen else "Pass the results of one of them."
            raise ValueError(f"`results` must have a single {name}. Got {listed} instead. {remedy}")
        if value is not None and value not in known:
            raise ValueError(f"`{name}` must be one of those of `results`: {listed}. Got {value!r} instead.")
        results = [result for result in results if value in (None, result.get(name))]
    known = [key for key in dict.fromkeys(key for result in results for key in result) if _is_metric(results, key)]
    for metric in metrics:
        if results and metric not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(f"`metric` must have a value in all results: {listed}. Got {metric!r} instead.")
    results = [result for result in results if all(result[metric] is not None for metric in metrics)]
    if not results:
        raise ValueError("`results` must hold at least one result with metrics. Got none.")
    return results


def _is_metric(results, key):
    """Whether a key has a number in at least one result, and a number or None in all results."""
    values = [result.get(key, "") for result in results]
    return (
        key not in _SETTINGS
        and all(value is None or isinstance(value, Real) for value in values)
        and any(value is not None for value in values)
    )


def means_by(results, metric, key):
    """Labels of methods in their order, values of a key (n_values,), means and deviations (n_methods, n_values).

    NaN stands for a mean of no results, and for a deviation of one. The label of a method with fewer seeds than were
    asked for, or than another one has, ends in their number.
    """
    names, values = list(dict.fromkeys(result["method"] for result in results)), sorted({r[key] for r in results})
    mean, deviation = np.full((2, len(names), len(values)), np.nan)
    labels = dict(zip(names, names, strict=True))
    for i, name in enumerate(names):
        for j, value in enumerate(values):
            found = [result[metric] for result in results if (result["method"], result[key]) == (name, value)]
            mean[i, j] = np.mean(found) if found else np.nan
            deviation[i, j] = np.std(found, ddof=1) if len(found) > 1 else np.nan
            column = [result for result in results if result[key] == value]
            n_seeds = max(len({r["seed"] for r in column}), *(r.get("asked_seeds") or 0 for r in column))
            if 0 < len(found) < n_seeds:
                labels[name] = f"{name} ({len(found)} of {n_seeds} seeds)"
    return list(labels.values()), np.array(values), mean, deviation
