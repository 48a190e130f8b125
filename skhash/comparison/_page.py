"""The HTML page of a comparison, with its style and pictures inside."""

import base64
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np

from skhash._libraries import library
from skhash.comparison.results import Result
from skhash.comparison.tables import (
    Layout,
    absences,
    find_leaders,
    group_by,
    layout_of,
    mean_and_spread,
    ranked_methods,
    summarize,
    tie_range,
)
from skhash.datasets import PROTOCOLS
from skhash.registry import VARIANTS

WIDTH, HEIGHT = 5.2, 3.8  # inches; small, so that the text is large enough on a phone
N_SHOWN = 12  # methods in a picture, the best ones
N_DIGITS = 12  # of a hash, as shown
_NO_PICTURES = "There are no pictures, since matplotlib is not installed: pip install matplotlib."
_SNIPPET = """import hashlib
from skhash.comparison import make_hasher
from skhash.datasets import load_dataset

data = load_dataset({source!r}, protocol={protocol!r}, random_state={seed})
hasher = make_hasher({method!r}, {nbits}, {seed}, {affinity}{given})
codes = hasher.fit({samples}).encode(data.X_database)
print(hashlib.sha256(codes).hexdigest()[:{n_digits}])  # {digest}"""


def render_page(results: Sequence[Result], about: Mapping[str, Any]) -> str:
    """HTML of the page, which refers to no other file."""
    jinja2 = import_jinja2()
    seeds = sorted({result.seed for result in results})
    groups, layout = group_by(results, "dataset", "protocol"), layout_of(results)
    here = files("skhash.comparison")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    page: str = environment.from_string(here.joinpath("report.html.jinja").read_text(encoding="utf-8")).render(
        **about,
        missing=missing_part(),
        css=here.joinpath("report.css").read_text(encoding="utf-8").strip(),
        title=f"Hashing methods on {', '.join(dict.fromkeys(dataset for dataset, _ in groups))}",
        n_methods=len({result.method for result in results}),
        sizes=f"{_enumerate(map(layout.size, sorted({result.nbits for result in results})))} {layout.unit}",
        n_seeds=len(seeds),
        seeds=_enumerate(seeds),
        marked=layout.marked,
        tasks=sorted({result.task for result in results}),
        note=layout.note,
        datasets=[_section(dataset, protocol, part) for (dataset, protocol), part in groups.items()],
        snippet=_snippet(results),
    )
    return page


def import_jinja2() -> Any:
    """Module of jinja2, which writes the page."""
    return library("jinja2", "jinja2", "the report")


def missing_part() -> str | None:
    """What the page lacks, and how to install it."""
    return None if can_draw() else _NO_PICTURES


def _section(dataset: str, protocol: str, results: Sequence[Result]) -> dict[str, Any]:
    """Section of one data set."""
    from markupsafe import Markup  # a requirement of jinja2

    layout = layout_of(results)
    done = [result for result in results if result.is_done]
    order = ranked_methods(results, layout.headline)
    ranked = sorted(results, key=lambda result: (result.nbits, order.index(result.method), result.seed))
    return {
        "name": f"{dataset}, protocol {protocol}",
        "anchor": re.sub(r"[^\w-]+", "-", f"{dataset}-{protocol}"),
        "description": results[0].description,
        "unit": layout.unit,
        "sizes": [layout.size(nbits) for nbits in sorted({result.nbits for result in results})],
        "headline": layout.heads[layout.headline],
        "marked": layout.marked,
        "columns": layout.table_head,
        "absences": absences(ranked),
        "matrices": [_matrix(metric, results, layout) for metric in layout.matrices] if done else [],
        "pictures": draw_pictures(done) if can_draw() and done else {},
        "n_shown": N_SHOWN if layout.unit == "bits" and len({result.method for result in done}) > N_SHOWN else None,
        "cells": summarize(ranked, Markup("<b>{}</b>").format),
        "fits": [_fit(result, layout) for result in ranked if result.is_done],
    }


def _matrix(metric: str, results: Sequence[Result], layout: Layout) -> dict[str, Any]:
    """Table of a metric: one line per method, the best first, and one column per number of bits."""
    groups = group_by(results, "method", "nbits")
    n_seeds = len({result.seed for result in results})
    leaders = {
        bits: find_leaders([result for result in results if result.nbits == bits], metric)
        for bits in sorted({result.nbits for result in results})
    }
    lines = []
    for method in ranked_methods(results, metric):
        cells = []
        for bits, names in leaders.items():
            cell = _cell(metric, groups.get((method, bits), []), n_seeds, metric in layout.ranges)
            cells.append(cell | {"kind": "best"} if method in names else cell)
        lines.append({"method": method, "cells": cells})
    return {
        "name": layout.heads[metric] + (" and its tie range" if metric in layout.ranges else ""),
        "lines": lines,
    }


def _cell(metric: str, results: Sequence[Result], n_seeds: int, has_range: bool) -> dict[str, Any]:
    """Text of a cell, the small text below it, and its class."""
    done = [result for result in results if result[metric] is not None]
    if not done:
        text = "failed" if any(result.error for result in results) else "n/a" if results else ""
        return {"text": text, "small": [], "kind": "none"}
    small = []
    if has_range:
        small.append(tie_range(done, metric))
    if len(done) < n_seeds:
        small.append(f"{len(done)} of {n_seeds} seeds")
    return {"text": mean_and_spread([result[metric] for result in done]), "small": small, "kind": ""}


def _fit(result: Result, layout: Layout) -> dict[str, Any]:
    """Parameters and codes of one fit."""
    return {
        "method": result.method,
        "size": layout.size(result.nbits),
        "seed": result.seed,
        "headline": f"{result[layout.headline]:.4f}",
        "codes": (result.codes_sha256 or "")[:N_DIGITS],
        "candidates": result.n_candidates,
        "tuning_seconds": f"{result.tuning_seconds:.1f}",
        "parameters": _as_keywords(result.parameters),
    }


def _snippet(results: Sequence[Result]) -> str | None:
    """Code that computes the codes of the first result with a hash and a named protocol; None if there is none."""
    known = (result for result in results if result.method in VARIANTS and result.protocol in PROTOCOLS)
    result = next((result for result in known if result.codes_sha256), None)
    if result is None or result.codes_sha256 is None:
        return None
    own = VARIANTS[result.method].parameters
    given = _as_keywords({name: value for name, value in result.parameters.items() if name not in own})
    return _SNIPPET.format(
        source=result.source or result.dataset,
        protocol=result.protocol,
        method=result.method,
        nbits=result.nbits,
        affinity="data.affinity" if result.task == "relevance" else "'auto'",
        samples="data.X_train, data.y_train" if result.task == "relevance" else "data.X_train",
        seed=result.seed,
        given=given and f", {given}",
        n_digits=N_DIGITS,
        digest=result.codes_sha256[:N_DIGITS],
    )


def _as_keywords(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def _enumerate(values: Iterable[Any]) -> str:
    """Values with commas, and "and" before the last one."""
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last


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
    groups, layout = {}, layout_of(results)
    all_nbits = sorted({result.nbits for result in results})
    if len(all_nbits) > 1:
        draw = partial(MetricByBitsDisplay.from_results, _best_methods(results, layout))
        groups["By number of bits"] = [
            _picture(layout.heads[metric], partial(draw, metric=metric)) for metric in layout.matrices
        ]
    for nbits in all_nbits:
        column = _best_methods([result for result in results if result.nbits == nbits], layout)
        groups[f"At {nbits} bits"] = list(_draw_column(column, layout))
    return groups


def _best_methods(results: Sequence[Result], layout: Layout) -> list[Result]:
    """Results of the best methods, the best first."""
    names = ranked_methods(results, layout.headline)[:N_SHOWN]
    return [result for name in names for result in results if result.method == name]


def _draw_column(results: Sequence[Result], layout: Layout) -> Iterator[Picture]:
    """Tie ranges at one number of bits, and the curves if all results have them, at the same ranks."""
    from skhash.displays import PrecisionAtNDisplay, PrecisionRecallDisplay, TieRangeDisplay

    names = list(dict.fromkeys(result.method for result in results))
    height = max(HEIGHT, 1.3 + 0.5 * len(names))
    for metric in layout.ranges:
        ranges = partial(TieRangeDisplay.from_results, results, metric=metric)
        yield _picture(f"{layout.heads[metric]} in its tie range", ranges, height)
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


def _picture(title: str, draw: Callable[..., Any], height: float = HEIGHT, width: float = WIDTH) -> Picture:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.add_subplot()
    draw(ax=ax)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "skhash"}):  # the same results give the same bytes
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return {"title": title, "uri": f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"}
