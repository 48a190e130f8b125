"""Axes, styles and errors that all displays share."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from numpy.testing import assert_array_equal

from skhash import displays
from skhash.displays import (
    BitBalanceDisplay,
    CodeMapDisplay,
    MetricByBitsDisplay,
    PrecisionAtNDisplay,
    PrecisionRecallDisplay,
    TieRangeDisplay,
)
from skhash.registry import METHODS

CURVE, PAIR = [0.5, 1.0], [[0.2, 0.8], [0.9, -1.0]]
MADE = {
    "TieRangeDisplay": (["itq"], [0.5], [0.4], [0.6]),
    "PrecisionRecallDisplay": (CURVE, CURVE),
    "PrecisionAtNDisplay": ([1, 2], CURVE),
    "MetricByBitsDisplay": ([8, 16], [CURVE], [CURVE], ["itq"]),
    "RecallByCandidatesDisplay": ([10, 20], [CURVE], [64], [8]),
    "RecallByBytesDisplay": ([8, 16], [CURVE], ["itq"]),
    "QuantizationDisplay": (CURVE, CURVE, CURVE, PAIR),
    "BitBalanceDisplay": (CURVE, PAIR),
    "CodeMapDisplay": (PAIR, ["cat", "dog"]),
    "RetrievedImagesDisplay": (
        np.zeros((1, 4, 4)),
        np.zeros((1, 2, 4, 4)),
        [[True, False]],
        [[0.5, 1]],
        "Nearest images\n",
    ),
    "GapDisplay": ([1, 2], CURVE, CURVE, CURVE, CURVE, CURVE, 0.1),
}
PANELS = {"QuantizationDisplay": 2, "BitBalanceDisplay": 2, "GapDisplay": 4}
every_display = pytest.mark.parametrize("name", [name for name in displays.__all__ if name.endswith("Display")])


def make(name):
    return getattr(displays, name)(*MADE[name])


@every_display
def test_a_display_opens_one_figure_and_cuts_nothing_off(name):
    display = make(name)
    assert display.plot() is display
    figure = display.figure_
    assert pyplot.get_fignums() == [figure.number]
    assert all(ax.figure is figure for ax in np.ravel(display.ax_))
    figure.canvas.draw()
    for ax in figure.axes:
        box = ax.get_tightbbox(figure.canvas.get_renderer())
        assert (box.min > -1).all()
        assert (box.max < figure.bbox.max + 1).all()


@every_display
def test_a_display_draws_on_given_axes_and_opens_no_figure(name):
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 5))
    display = make(name).plot(ax=axes[1])
    assert display.figure_ is figure
    assert pyplot.get_fignums() == [figure.number]
    assert np.size(display.ax_) == PANELS.get(name, 1)
    assert not axes[0].has_data()
    if name not in PANELS:
        assert display.ax_ is axes[1]
    figure.canvas.draw()


@pytest.mark.parametrize("name", PANELS)
def test_panels_may_be_given_one_by_one(name):
    axes = pyplot.figure().subplots(1, PANELS[name])
    assert_array_equal(np.ravel(make(name).plot(ax=list(axes)).ax_), axes)
    with pytest.raises(ValueError, match=f"`ax` must be None, one Axes or {PANELS[name]} Axes. Got 1 Axes instead"):
        make(name).plot(ax=axes[:1])
    with pytest.raises(ValueError, match="`ax` must be an Axes of a grid"):
        make(name).plot(ax=pyplot.figure().add_axes((0, 0, 1, 1)))


@every_display
def test_ax_must_be_axes(name):
    with pytest.raises(TypeError, match=r"`ax` must be None or a matplotlib Axes. Got an instance of str instead"):
        make(name).plot(ax="left")


@every_display
def test_keywords_reach_the_artists(name):
    if name == "RetrievedImagesDisplay":
        assert make(name).plot(cmap="gray_r").images_[0].get_cmap().name == "gray_r"
        return
    display = make(name).plot(alpha=0.25)
    drawn = [artist for ax in np.ravel(display.ax_) for artist in (*ax.lines, *ax.collections, *ax.patches)]
    assert 0.25 in [artist.get_alpha() for artist in drawn]


def test_aliases_of_keywords_do_not_clash():
    lines = PrecisionRecallDisplay(CURVE, CURVE, "itq").plot(c="black", lw=3).lines_
    assert (lines[0].get_color(), lines[0].get_linewidth()) == ("black", 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrecisionRecallDisplay([CURVE, CURVE], [CURVE], ["a", "b"]).plot(), "Got 1 and 2 curves"),
        (lambda: PrecisionRecallDisplay([CURVE], [CURVE], ["a", "b"]).plot(), "with 2 names"),
        (lambda: PrecisionAtNDisplay([1, 2, 3], CURVE).plot(), r"of \[3\] and \[2\] points"),
        (lambda: PrecisionAtNDisplay.from_histograms({}), "`histograms` must be a dict .* Got {} instead"),
        (lambda: TieRangeDisplay.from_histograms([1]), "Got an instance of list instead"),
        (
            lambda: TieRangeDisplay.from_histograms({"a": 1}, metric="ap_best"),
            "`metric` must have a name without _best and _worst. Got 'ap_best'",
        ),
        (lambda: TieRangeDisplay.from_histograms({"a": 1}, metric="map"), "`metric` must be one of ap"),
        (
            lambda: PrecisionAtNDisplay.from_histogram(None, n=[0, 1]),
            r"`n` must be None or a list of int >= 1. Got \[0",
        ),
        (lambda: PrecisionAtNDisplay.from_histogram(None, n=[1.5]), r"Got \[1.5\] instead"),
        (
            lambda: CodeMapDisplay(PAIR, [1]).plot(),
            r"`y` must hold one value for each of the 2 .* Got shape \(1",
        ),
        (lambda: CodeMapDisplay.from_codes([[0, 1], [1, 1]], np.eye(2)), r"Got shape \(2, 2\) instead"),
        (
            lambda: CodeMapDisplay(np.zeros((30, 2)), [f"c{i}" for i in range(30)]).plot(),
            "`y` must hold at most 20 classes, or numbers. Got 30 classes",
        ),
        (lambda: BitBalanceDisplay.from_codes([[0, 2]]), "`codes` must hold only 0 and 1"),
    ],
)
def test_errors_name_the_parameter_and_the_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- styles and labels


def looks(names):
    """Color, marker and line style of the curve of each name on one Axes."""
    display = PrecisionRecallDisplay([CURVE] * len(names), [CURVE] * len(names), names).plot()
    return [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in display.lines_]


def test_a_method_has_the_same_style_in_every_figure():
    alone, among = looks(["lsh"])[0], looks(["talr", "mine", "lsh", "itq"])[2]
    assert alone == among == looks(["LSHHasher"])[0]
    assert looks(["itq-cca"]) == looks(["ITQCCA"])
    assert looks(["talr"])[0][:2] == looks(["talr-mlp"])[0][:2] == looks(["talr-paper"])[0][:2]
    assert looks(["talr"]) != looks(["talr-mlp"]) != looks(["talr-ndcg-mlp"])


def test_methods_have_different_styles():
    names = [*METHODS, *(f"{name}-mlp" for name in METHODS), *(f"my own {i}" for i in range(15))]
    assert len(set(looks(names))) == len(names)
    assert len({color for color, *_ in looks([f"{i}" for i in range(10)])}) == 10


def test_curves_added_to_the_same_axes_have_different_styles():
    display = PrecisionRecallDisplay(CURVE, CURVE, "first").plot()
    for name in ("talr", "second", None):
        PrecisionRecallDisplay(CURVE, CURVE, name).plot(ax=display.ax_)
    assert len({(line.get_color(), line.get_marker()) for line in display.ax_.lines}) == 4
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["first", "talr", "second"]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("ap", "AP$_T$"),
        ("ap_worst", "AP, worst order of ties"),
        ("ndcg_at_100_delayed_log2", "NDCG$_T$@100, delayed log2"),
        ("precision_at_100", "Precision@100"),
        ("precision_radius_2", "Precision within radius 2"),
        ("roc_auc", "Area under the ROC curve"),
        ("codes_per_second", "Codes per second"),
    ],
)
def test_metrics_have_readable_labels(name, label):
    assert MetricByBitsDisplay([8], [[0.5]], [[0.1]], ["itq"], name).plot().ax_.get_ylabel() == label


def test_missing_matplotlib_is_an_error_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"must be installed for the displays of skhash: pip install matplotlib$"):
        TieRangeDisplay(["itq"], [0.5], [0.4], [0.6]).plot()
    with pytest.raises(ImportError, match="install matplotlib"):
        PrecisionAtNDisplay.from_estimator("no hasher", "no samples")
    with pytest.raises(ImportError, match="install matplotlib"):
        CodeMapDisplay.from_codes("no codes")


def test_all_displays_are_listed():
    assert set(displays.__all__) <= set(dir(displays))
    with pytest.raises(AttributeError, match="no attribute 'NoDisplay'"):
        displays.NoDisplay  # noqa: B018


def test_the_imports_for_type_checkers_are_those_of_the_package():
    tree = ast.parse(Path(displays.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    found = {alias.name: f"{node.module}.{alias.name}" for node in block.body for alias in node.names}
    classes = [getattr(displays, name) for name in displays.__all__]
    assert found == {cls.__name__: f"{cls.__module__}.{cls.__name__}" for cls in classes}


@pytest.mark.parametrize(
    ("name", "values", "fault"),
    [
        ("TieRangeDisplay", (["a", "b"], [0.5], [0.4], [0.6]), r"`average` must have shape \(2,\)"),
        ("TieRangeDisplay", ("a", 0.5, 0.4, 0.6), r"`average` must have shape \(1,\)"),
        ("MetricByBitsDisplay", ([8, 16], [[0.5]], [[0.1]], ["a"]), r"`mean` must have shape \(1, 2\)"),
        ("RecallByBytesDisplay", ([4], [0.5], ["a"]), r"`recall` must have shape \(1, 1\)"),
        (
            "RetrievedImagesDisplay",
            (np.zeros((1, 8, 8)), np.zeros((2, 3, 8, 8)), np.ones((1, 3))),
            r"`relevant` must have shape \(2, 3\)",
        ),
        (
            "RetrievedImagesDisplay",
            (np.zeros((1, 8, 8)), np.zeros((2, 3, 8, 8)), np.ones((2, 3))),
            r"`images` must have shape \(2, 8, 8\)",
        ),
    ],
)
def test_values_of_another_shape_are_named(name, values, fault):
    with pytest.raises(ValueError, match=fault):
        getattr(displays, name)(*values).plot()
