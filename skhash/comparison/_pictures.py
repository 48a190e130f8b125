"""Displays of a comparison as SVG pictures inside the HTML page."""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from skhash.comparison._groups import ranked_methods
from skhash.comparison._layouts import layout_of
from skhash.comparison.results import Result

WIDTH, HEIGHT = 5.2, 3.8  # inches; small, so that the text is large enough on a phone
N_SHOWN = 12  # methods in a picture, those with the highest AP_T

#: "title" and "uri", a data URI of an SVG file
Picture = dict[str, str]


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw_pictures(results: Sequence[Result]) -> dict[str, list[Picture]]:
    """Pictures in groups, by the title of the group, of the results of one data set that all have metrics."""
    from skhash.displays import MetricByBitsDisplay

    if results[0].task == "neighbors":
        return {"By bytes": list(_draw_recalls(results))}
    groups, heads = {}, layout_of(results).heads
    all_nbits = sorted({result.nbits for result in results})
    if len(all_nbits) > 1:
        draw = partial(MetricByBitsDisplay.from_results, _best_methods(results))
        groups["By number of bits"] = [
            _picture(heads[metric], partial(draw, metric=metric)) for metric in ("ap", "ndcg")
        ]
    for nbits in all_nbits:
        column = _best_methods([result for result in results if result.nbits == nbits])
        groups[f"At {nbits} bits"] = list(_draw_column(column))
    return groups


def _best_methods(results: Sequence[Result]) -> list[Result]:
    """Results of the methods with the highest AP_T, the highest first."""
    return [result for name in ranked_methods(results)[:N_SHOWN] for result in results if result.method == name]


def _draw_column(results: Sequence[Result]) -> Iterator[Picture]:
    """Tie ranges at one number of bits, and the curves if all results have them, at the same ranks."""
    from skhash.displays import PrecisionAtNDisplay, PrecisionRecallDisplay, TieRangeDisplay

    names = list(dict.fromkeys(result.method for result in results))
    height = max(HEIGHT, 1.3 + 0.5 * len(names))
    ranges = partial(TieRangeDisplay.from_results, results)
    yield _picture("AP_T in its tie range", ranges, height, xlabel="AP, from the worst to the best order of ties")
    found = {tuple(result.curves["ranks"]) if result.curves else () for result in results}
    if len(found) > 1 or () in found:
        return
    curves: list[list[Any]] = [[result.curves for result in results if result.method == name] for name in names]
    precision, recall, at_rank = (
        [np.mean([seed[curve] for seed in seeds], axis=0) for seeds in curves]
        for curve in ("radius_precision", "radius_recall", "rank_precision")
    )
    ranks = [np.array(seeds[0]["ranks"]) for seeds in curves]
    yield _picture("Precision and recall by radius", PrecisionRecallDisplay(precision, recall, names).plot)
    yield _picture("Precision among the first N", PrecisionAtNDisplay(ranks, at_rank, names).plot)


def _draw_recalls(results: Sequence[Result]) -> Iterator[Picture]:
    """Recall against bytes, of real queries and of codes as queries."""
    from skhash.displays import RecallByBytesDisplay

    layout = layout_of(results)
    for metric in layout.matrices:
        names = ranked_methods([result for result in results if result[metric] is not None], metric)
        chosen = [result for name in names for result in results if result.method == name]
        if chosen:
            draw = partial(RecallByBytesDisplay.from_results, chosen, metric=metric)
            yield _picture(f"{layout.heads[metric]} against bytes", draw, HEIGHT + 0.6, WIDTH + 0.6)


def _picture(
    title: str, draw: Callable[..., Any], height: float = HEIGHT, width: float = WIDTH, **labels: str
) -> Picture:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.add_subplot()
    draw(ax=ax)
    ax.set(**labels)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "skhash"}):  # the same results give the same bytes
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return {"title": title, "uri": f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"}
