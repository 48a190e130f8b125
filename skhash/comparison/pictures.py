"""The displays of a comparison as SVG pictures for a page that stands alone."""

import base64
import io
from functools import partial
from importlib.util import find_spec

import numpy as np

from skhash.comparison.leaders import NAMES
from skhash.comparison.tables import ranked_methods

WIDTH, HEIGHT = 5.2, 3.8  # inches; small, so that their text is large enough on a phone
SHOWN = 12  # methods in a picture, those of the highest AP_T


def can_draw():
    """Say whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def pictures_of(rows):
    """Draw the rows of one data set.

    Parameters
    ----------
    rows : list of dict
        As :func:`skhash.comparison.compare` returns them, of one data set, all with figures.

    Returns
    -------
    dict of str to list of dict
        Groups of pictures by title: of each picture "title" and "uri", a data URI of an SVG file.
    """
    from skhash.displays import MetricByBitsDisplay

    groups = {}
    lengths = sorted({row["nbits"] for row in rows})
    if len(lengths) > 1:
        draw = partial(MetricByBitsDisplay.from_results, leading(rows))
        groups["By code length"] = [_picture(name, partial(draw, metric=metric)) for metric, name in NAMES.items()]
    for bits in lengths:
        groups[f"At {bits} bits"] = list(_pictures_of_length(leading([row for row in rows if row["nbits"] == bits])))
    return groups


def leading(rows):
    """Rows of the methods with the highest AP_T, the highest first."""
    return [row for name in ranked_methods(rows)[:SHOWN] for row in rows if row["method"] == name]


def _pictures_of_length(rows):
    """Tie ranges, and the curves where the rows have them."""
    from skhash.displays import PrecisionAtNDisplay, PrecisionRecallDisplay, TieRangeDisplay

    names = list(dict.fromkeys(row["method"] for row in rows))
    height = max(HEIGHT, 1.3 + 0.5 * len(names))
    ranges = partial(TieRangeDisplay.from_results, rows)
    yield _picture("AP_T in its tie range", ranges, height, xlabel="AP, from the worst to the best order of ties")
    if not all(row.get("curves") for row in rows):
        return
    curves = [[row["curves"] for row in rows if row["method"] == name] for name in names]
    precision, recall, at_rank = (
        [np.mean([seed[curve] for seed in seeds], axis=0) for seeds in curves]
        for curve in ("radius_precision", "radius_recall", "rank_precision")
    )
    ranks = [np.array(seeds[0]["ranks"]) for seeds in curves]
    yield _picture("Precision and recall by radius", PrecisionRecallDisplay(precision, recall, names).plot)
    yield _picture("Precision among the first N", PrecisionAtNDisplay(ranks, at_rank, names).plot)


def _picture(title, draw, height=HEIGHT, **labels):
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    ax = figure.add_subplot()
    draw(ax=ax)
    ax.set(**labels)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "skhash"}):  # the same rows give the same bytes
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return {"title": title, "uri": f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"}
