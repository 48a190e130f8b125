"""Write a comparison: results as JSON, tables as Markdown, and an HTML page with its style and pictures inside."""

import base64
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from skhash._files import write_atomically
from skhash._libraries import library
from skhash.comparison.differences import (
    Difference,
    difference_cells,
    difference_head,
    difference_note,
    differences_table,
    grouped_tests,
)
from skhash.comparison.formats import FORMATS, check_formats
from skhash.comparison.results import Record, Result, as_results, key_of, read_records, versions, write_list
from skhash.comparison.tables import (
    ABOUT_SEEDS,
    NOT_ASKED,
    Layout,
    absences,
    count_seeds,
    group_by,
    head_of,
    layout_of,
    leaders_of,
    markdown_table,
    mean_and_spread,
    method_and_seeds,
    ranked_methods,
    seeds_by_size,
    split_asked,
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
_TUNED = (
    "for every method with parameters to tune, {budget} candidates including the default were compared by {metric} "
    "on a fifth of the training samples, separately for each data set, number of bits and seed (of unsupervised "
    "methods, too, by the targets of these samples); the queries were not used"
)
_NOT_TUNED = "the defaults of every method"


def write_report(
    folder: str | os.PathLike[str],
    results: Iterable[Mapping[str, Any]],
    description: str = "",
    *,
    baseline: str | None = None,
    formats: Iterable[str] = (),
) -> Path:
    """Write ``results.json``, ``results.md`` and ``report.html``, and tables in other formats.

    Parameters
    ----------
    folder : str or Path
        Created if necessary. If the results are stored there, the page names their
        commands, versions and tuning.
    results : iterable of Result or of dict
        Results, or entries of a ``results.json``.
    description : str, default=""
        The split in a sentence, for results without one.
    baseline : str, default=None
        Method that the others are compared with over the queries, as in :func:`find_differences`; None is the best.
    formats : iterable of "csv" or "latex", default=()
        Also write ``results.csv`` (:func:`csv_table`) or ``results.tex`` (:func:`latex_table`).

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ValueError
        If there are no results, no method is called `baseline`, or a format is unknown.
    InvalidFileError
        If a result that is stored there is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare, write_report
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1)
    >>> sorted(path.name for path in write_report(tempfile.mkdtemp(), results).iterdir())
    ['report.html', 'results.json', 'results.md']
    """
    completed = [replace(result, description=result.description or description) for result in as_results(results)]
    if not completed:
        raise ValueError("`results` must hold at least one result. Got none.")
    formats = check_formats(formats)
    groups, tests = grouped_tests(completed, baseline)
    folder = Path(folder).expanduser()
    stored = read_records(folder)
    records = [stored[key] for key in map(key_of, completed) if key in stored]
    differences = {name: list(tests(name, layout_of(part).headline).values()) for name, part in groups.items()}
    texts = {
        "results.md": _markdown_report(completed, differences),
        "report.html": _render_page(completed, _provenance(records), differences),
    }
    for name in formats:
        write, ending = FORMATS[name]
        texts[f"results.{ending}"] = write(groups, tests, baseline)
    folder.mkdir(parents=True, exist_ok=True)
    write_list(folder, completed)
    for name, text in texts.items():
        with write_atomically(folder / name) as file:
            file.write(text.encode())
    return folder


#: differences over queries by the names of data set and protocol
Differences = Mapping[tuple[Any, ...], Sequence[Difference]]


def _markdown_report(results: Sequence[Result], differences: Differences) -> str:
    """Markdown section for each data set: split, table, what the marks mean, differences, methods without results."""
    sections = []
    for (dataset, protocol), part in group_by(results, "dataset", "protocol").items():
        n_seeds, layout = count_seeds(split_asked(part)[0]), layout_of(part)
        remarks = "\n".join(f"- {sentence}" for sentence in absences(part))
        table = markdown_table(part)
        about = [f"Means over {n_seeds} seed{'s' * (n_seeds > 1)}, ± their standard deviation.", *layout.notes]
        about += [layout.legend(table).replace("*", r"\*")]
        parts = (
            f"# {dataset}, protocol {protocol}",
            part[0].description,
            table,
            remarks,
            " ".join(filter(None, about)),
            differences_table(differences[dataset, protocol]).replace(" *", r" \*"),
        )
        sections.append("\n\n".join(filter(None, parts)) + "\n")
    return "\n".join(sections)


def _provenance(records: Sequence[Record]) -> dict[str, Any]:
    """Commands, versions and tuning of stored results, for the page; the versions of now if nothing was stored."""
    found = [record.settings["versions"] for record in records] or [versions()]
    sentences = [
        _TUNED.format(budget=tuning["budget"], metric=head_of(tuning["metric"])) if tuning else _NOT_TUNED
        for tuning in (record.settings["tuning"] for record in records)
    ]
    last = max((record.finished for record in records), default=None)
    return {
        "commands": list(dict.fromkeys(record.command for record in records if record.command)),
        "versions": {name: ", ".join(dict.fromkeys(each[name] for each in found if name in each)) for name in found[0]},
        "finished": last and last[:16].replace("T", " ") + " UTC",
        "tuning": "; ".join(dict.fromkeys(sentences)),
    }


def _render_page(results: Sequence[Result], about: Mapping[str, Any], differences: Differences) -> str:
    """HTML of the page, which refers to no other file."""
    jinja2 = import_jinja2()
    groups = group_by(results, "dataset", "protocol")
    layouts = [layout_of(part) for part in groups.values()]
    asked = [result for part in groups.values() for result in split_asked(part)[0]]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("skhash.comparison", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    page: str = environment.get_template("report.html.jinja").render(
        **about,
        missing=missing_part(),
        title=f"Hashing methods on {', '.join(dict.fromkeys(dataset for dataset, _ in groups))}",
        n_methods=len({result.method for result in asked}),
        n_seeds=count_seeds(asked),
        sizes=f"{_enumerate(map(layouts[0].size, sorted({result.nbits for result in results})))} {layouts[0].unit}",
        seeds=sorted({result.seed for result in results}),
        notes=list(dict.fromkeys(note for layout in layouts for note in layout.notes)),
        datasets=[_section(name, part, differences[name]) for name, part in groups.items()],
        snippet=_snippet(asked),
        enumerate=_enumerate,
        keywords=_as_keywords,
        n_digits=N_DIGITS,
    )
    return page


def import_jinja2() -> Any:
    """Module of jinja2, which writes the page."""
    return library("jinja2", "jinja2", "the report")


def missing_part() -> str | None:
    """What the page lacks, and how to install it."""
    return _NO_PICTURES if find_spec("matplotlib") is None else None


def _section(name: tuple[Any, ...], results: Sequence[Result], differences: Sequence[Difference]) -> dict[str, Any]:
    """Section of one data set, by the names of data set and protocol."""
    from markupsafe import Markup  # a requirement of jinja2

    layout = layout_of(results)
    ranked, others = (_by_size(part, layout.headline) for part in split_asked(results))
    done = [result for result in ranked if result.is_done]
    matrices = [_matrix(metric, ranked, layout) for metric in layout.matrices] if done else []
    return {
        "name": ", protocol ".join(name),
        "anchor": re.sub(r"[^\w-]+", "-", "-".join(name)),
        "description": results[0].description,
        "layout": layout,
        "sizes": [layout.size(nbits) for nbits in sorted({result.nbits for result in ranked})],
        "absences": absences([*ranked, *others]),
        "matrices": matrices,
        "about_seeds": ABOUT_SEEDS if " seeds" in str(matrices) else None,
        "pictures": _draw_pictures(done, layout) if done and missing_part() is None else {},
        "n_shown": N_SHOWN if layout.unit == "bits" and len({result.method for result in done}) > N_SHOWN else None,
        "differences": _difference_lines(differences),
        "cells": summarize(ranked, Markup("<b>{}</b>").format),
        "not_asked": NOT_ASKED,
        "others": summarize(others, str) if others else [],
        "fits": [*done, *(result for result in others if result.is_done)],
    }


def _by_size(results: Sequence[Result], metric: str) -> list[Result]:
    """Results by number of bits, the best method by a metric first."""
    order = ranked_methods(results, metric)
    return sorted(results, key=lambda result: (result.nbits, order.index(result.method), result.seed))


def _difference_lines(differences: Sequence[Difference]) -> dict[str, Any] | None:
    """Head, lines and note of the table of differences; None for none."""
    if not differences:
        return None
    lines = [difference_cells(difference) for difference in differences]
    return {"head": difference_head(differences), "lines": lines, "note": difference_note(differences)}


def _matrix(metric: str, results: Sequence[Result], layout: Layout) -> dict[str, Any]:
    """Table of a metric: one line per method, the best first, and one column per number of bits."""
    groups, leaders = group_by(results, "method", "nbits"), leaders_of(results, metric)
    n_seeds, has_range = seeds_by_size(results), metric in layout.ranges
    lines: dict[str, list[dict[str, Any]]] = {}
    for method in ranked_methods(results, metric):
        lines[method] = []
        for bits in sorted({result.nbits for result in results}):
            cell = _cell(metric, groups.get((method, bits), []), n_seeds[bits], has_range)
            lines[method].append(cell | {"kind": "best"} if (method, bits) in leaders else cell)
    return {"name": layout.heads[metric] + (" and its tie range" if has_range else ""), "lines": lines}


def _cell(metric: str, results: Sequence[Result], n_seeds: int, has_range: bool) -> dict[str, Any]:
    """Text of a cell, the small text below it, and its class."""
    done = [result for result in results if result[metric] is not None]
    if not done:
        text = "failed" if any(result.error for result in results) else "n/a" if results else ""
        return {"text": text, "small": [], "kind": "none"}
    small = [tie_range(done, metric)] if has_range else []
    small += [f"{len(done)} of {n_seeds} seeds"] if len(done) < n_seeds else []
    return {"text": mean_and_spread([result[metric] for result in done]), "small": small, "kind": ""}


def _snippet(results: Sequence[Result]) -> str | None:
    """Code that computes the codes of the first result with a hash and a named protocol; None if there is none."""
    known = (result for result in results if result.method in VARIANTS and result.protocol in PROTOCOLS)
    # vectors are as load_dataset returns them; images are reshaped, and samples in memory have no name
    vectors = (result for result in known if result.parameters.get("backbone") != "conv" and result.source)
    result = next((result for result in vectors if result.codes_sha256), None)
    if result is None or result.codes_sha256 is None:
        return None
    own = VARIANTS[result.method].parameters
    given = _as_keywords({name: value for name, value in result.parameters.items() if name not in own})
    return _SNIPPET.format(
        source=result.source,
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


def _draw_pictures(results: Sequence[Result], layout: Layout) -> dict[str, list[Picture]]:
    """Pictures in groups, by the title of the group, of the results of one data set that all have metrics."""
    from skhash.displays import MetricByBitsDisplay

    if layout.task == "neighbors":
        return {"By bytes": list(_draw_recalls(results, layout))}
    groups = {}
    all_nbits = sorted({result.nbits for result in results})
    if len(all_nbits) > 1:
        draw = partial(MetricByBitsDisplay.from_results, _by_rank(results, layout.headline, N_SHOWN))
        groups["By number of bits"] = [
            _picture(layout.heads[metric], partial(draw, metric=metric)) for metric in layout.matrices
        ]
    for nbits in all_nbits:
        column = _by_rank([result for result in results if result.nbits == nbits], layout.headline, N_SHOWN)
        groups[f"At {nbits} bits"] = list(_draw_column(column, layout))
    return groups


def _by_rank(results: Sequence[Result], metric: str, n: int | None = None) -> list[Result]:
    """Results of the n best methods by a metric, the best first."""
    known = [result for result in results if result[metric] is not None]
    return [result for name in ranked_methods(known, metric)[:n] for result in known if result.method == name]


def _draw_column(results: Sequence[Result], layout: Layout) -> Iterator[Picture]:
    """Tie ranges at one number of bits, and the curves if all results have them."""
    from skhash.displays import PrecisionAtNDisplay, PrecisionRecallDisplay, TieRangeDisplay

    names = list(dict.fromkeys(result.method for result in results))
    height = max(HEIGHT, 1.3 + 0.5 * len(names))
    for metric in layout.ranges:
        ranges = partial(TieRangeDisplay.from_results, results, metric=metric)
        yield _picture(f"{layout.heads[metric]} in its tie range", ranges, height)
    if not all(result.curves for result in results):
        return
    curves: list[list[Any]] = [[result.curves for result in results if result.method == name] for name in names]
    precision, recall, ranks, at_rank = (
        [np.mean([seed[curve] for seed in seeds], axis=0) for seeds in curves]
        for curve in ("radius_precision", "radius_recall", "ranks", "rank_precision")
    )
    n_seeds = count_seeds(results)
    labels = [method_and_seeds(name, len(seeds), n_seeds) for name, seeds in zip(names, curves, strict=True)]
    yield _picture("Precision and recall by radius", PrecisionRecallDisplay(precision, recall, labels).plot)
    yield _picture("Precision among the first N", PrecisionAtNDisplay(ranks, at_rank, labels).plot)


def _draw_recalls(results: Sequence[Result], layout: Layout) -> Iterator[Picture]:
    """Recall against bytes, of real queries and of codes as queries."""
    from skhash.displays import RecallByBytesDisplay

    for metric in layout.matrices:
        if chosen := _by_rank(results, metric):
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
