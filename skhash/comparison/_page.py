"""The HTML page of a comparison, with its style and pictures inside."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from skhash._libraries import library
from skhash.comparison import _pictures
from skhash.comparison._groups import by_dataset, by_method, ranked_methods
from skhash.comparison._layouts import LAYOUTS, Layout, is_done, layout_of, mean_and_spread, tie_range
from skhash.comparison.leaders import find_leaders
from skhash.comparison.provenance import Provenance
from skhash.comparison.results import Result
from skhash.comparison.tables import absences, summarize
from skhash.datasets import PROTOCOLS
from skhash.registry import VARIANTS

N_DIGITS = 12  # of a hash, as shown
_NO_PICTURES = "There are no pictures, since matplotlib is not installed: pip install matplotlib."
_JINJA2 = ("jinja2", "jinja2", "the report")
_SNIPPET = """import hashlib
from skhash.comparison import make_hasher
from skhash.datasets import load_dataset

data = load_dataset({source!r}, protocol={protocol!r}, random_state={seed})
hasher = make_hasher({method!r}, {nbits}, {seed}, {affinity}{given})
codes = hasher.fit({samples}).encode(data.X_database)
print(hashlib.sha256(codes).hexdigest()[:{n_digits}])  # {digest}"""


def render_page(results: Sequence[Result], about: Provenance) -> str:
    """HTML of the page, which refers to no other file."""
    jinja2 = library(*_JINJA2)
    can_draw = _pictures.can_draw()
    seeds = sorted({result.seed for result in results})
    groups = by_dataset(results)
    here = files("skhash.comparison")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    page: str = environment.from_string(here.joinpath("report.html.jinja").read_text(encoding="utf-8")).render(
        **asdict(about) | {"notes": [*about.notes, *missing_parts()]},
        css=here.joinpath("report.css").read_text(encoding="utf-8").strip(),
        title=f"Hashing methods on {', '.join(dict.fromkeys(dataset for dataset, _ in groups))}",
        n_methods=len({result.method for result in results}),
        sizes=_sizes(results),
        n_seeds=len(seeds),
        seeds=_enumerate(seeds),
        marked=layout_of(results).marked,
        tasks=sorted({result.task for result in results}),
        note=LAYOUTS["neighbors"].note,
        datasets=[_section(dataset, protocol, part, can_draw) for (dataset, protocol), part in groups.items()],
        snippet=_snippet(results),
    )
    return page


def check_libraries() -> None:
    """Raise ImportError if the page cannot be written."""
    library(*_JINJA2)


def missing_parts() -> list[str]:
    """Sentences about what the page lacks, and how to install it."""
    return [] if _pictures.can_draw() else [_NO_PICTURES]


def _section(dataset: str, protocol: str, results: Sequence[Result], can_draw: bool) -> dict[str, Any]:
    """Section of one data set."""
    from markupsafe import Markup  # a requirement of jinja2

    layout = layout_of(results)
    done = [result for result in results if is_done(result)]
    order = ranked_methods(results, layout.headline)
    ranked = sorted(results, key=lambda result: (result.nbits, order.index(result.method), result.seed))
    n_shown = _pictures.N_SHOWN
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
        "pictures": _pictures.draw_pictures(done) if can_draw and done else {},
        "n_shown": n_shown if layout.unit == "bits" and len({result.method for result in done}) > n_shown else None,
        "cells": summarize(ranked, Markup("<b>{}</b>").format),
        "fits": [_fit(result, layout) for result in ranked if is_done(result)],
    }


def _sizes(results: Sequence[Result]) -> str:
    """Sizes of the results of all data sets, with their unit."""
    layout = layout_of(results)
    return f"{_enumerate(map(layout.size, sorted({result.nbits for result in results})))} {layout.unit}"


def _matrix(metric: str, results: Sequence[Result], layout: Layout) -> dict[str, Any]:
    """Table of a metric: one line per method, the best first, and one column per number of bits."""
    groups = by_method(results)
    n_seeds = len({result.seed for result in results})
    leaders = {
        bits: find_leaders([result for result in results if result.nbits == bits], metric)
        for bits in sorted({result.nbits for result in results})
    }
    lines = []
    for method in ranked_methods(results, metric):
        cells = []
        for bits, names in leaders.items():
            cell = _cell(metric, groups.get((method, bits), []), n_seeds, layout.matrices[metric])
            cells.append(cell | {"kind": "best"} if method in names else cell)
        lines.append({"method": method, "cells": cells})
    return {
        "name": layout.heads[metric] + (" and its tie range" if layout.matrices[metric] else ""),
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
        source=result.source or result.dataset,  # results of earlier versions have no source
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
