"""The page of a comparison: one HTML file with its style and pictures inside."""

import re
from importlib.resources import files

from skhash.comparison import pictures
from skhash.comparison.leaders import NAMES, find_lead
from skhash.comparison.methods import METHODS
from skhash.comparison.provenance import provenance
from skhash.comparison.tables import (
    COLUMNS,
    absences,
    by_dataset,
    by_method,
    leader_sentences,
    mean_and_spread,
    ranked_methods,
    summarize,
    tie_range,
)
from skhash.datasets import PROTOCOLS

DIGITS = 12  # of a hash, as shown
NO_PICTURES = 'There are no pictures, as matplotlib is not installed: pip install "skhash[report]".'
_SNIPPET = """import hashlib
from skhash.comparison import make_hasher
from skhash.datasets import load_dataset

data = load_dataset({source!r}, protocol={protocol!r}, random_state={seed})
hasher = make_hasher({method!r}, {nbits}, {seed}, data.affinity{given})
codes = hasher.fit(data.X_train, data.y_train).encode(data.X_database)
print(hashlib.sha256(codes).hexdigest()[:{digits}])  # {digest}"""


def render_page(rows, description="", about=None):
    """Render the page.

    Parameters
    ----------
    rows : list of dict
        As :func:`skhash.comparison.compare` returns them.
    description : str, default=""
        The protocol in a sentence, for rows that do not hold it.
    about : dict, default=None
        What :func:`skhash.comparison.provenance.provenance` returns.

    Returns
    -------
    str
        HTML that refers to no other file.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError('jinja2 is not installed, and the report wants it: pip install "skhash[report]"') from error

    about = provenance([]) if about is None else about
    can_draw = pictures.can_draw()
    seeds = sorted({row["seed"] for row in rows})
    groups = by_dataset(rows)
    here = files("skhash.comparison")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return environment.from_string(here.joinpath("report.html.jinja").read_text(encoding="utf-8")).render(
        css=here.joinpath("report.css").read_text(encoding="utf-8").strip(),
        title=f"Hashing methods on {', '.join(dict.fromkeys(dataset for dataset, _ in groups))}",
        n_methods=len({row["method"] for row in rows}),
        lengths=_enumeration(sorted({row["nbits"] for row in rows})),
        n_seeds=len(seeds),
        seeds=_enumeration(seeds),
        columns=COLUMNS,
        datasets=[_section(name, part, description, can_draw) for name, part in groups.items()],
        snippet=_snippet(rows),
        **(about | {"notes": [*about["notes"], *([] if can_draw else [NO_PICTURES])]}),
    )


def _section(name, rows, description, can_draw):
    """What the page says about one data set."""
    dataset, protocol = name
    done = [row for row in rows if row["ap"] is not None]
    order = ranked_methods(rows)
    ranked = sorted(rows, key=lambda row: (row["nbits"], order.index(row["method"]), row["seed"]))
    return {
        "name": f"{dataset}, protocol {protocol}",
        "anchor": re.sub(r"[^\w-]+", "-", f"{dataset}-{protocol}"),
        "description": rows[0].get("description") or description,
        "lengths": sorted({row["nbits"] for row in rows}),
        "leaders": leader_sentences(ranked),
        "absences": absences(ranked),
        "matrices": [_matrix(figure, rows) for figure in NAMES] if done else [],
        "pictures": pictures.pictures_of(done) if can_draw and done else {},
        "cropped": pictures.SHOWN if len({row["method"] for row in done}) > pictures.SHOWN else None,
        "cells": summarize(ranked),
        "fits": [_fit(row) for row in ranked if row["ap"] is not None],
    }


def _matrix(figure, rows):
    """One line a method, the best first, and one column a code length."""
    groups = by_method(rows)
    n_seeds = len({row["seed"] for row in rows})
    columns = {bits: [row for row in rows if row["nbits"] == bits] for bits in sorted({row["nbits"] for row in rows})}
    leads = {bits: find_lead(column, figure)[0] for bits, column in columns.items()}
    lines = []
    for method in ranked_methods(rows, figure):
        cells = []
        for bits, lead in leads.items():
            cell = _cell(figure, groups.get((method, bits), []), n_seeds)
            cells.append(cell | {"kind": "best"} if lead is not None and lead.leader == method else cell)
        lines.append({"method": method, "cells": cells})
    return {"name": NAMES[figure] + (" and its tie range" if figure == "ap" else ""), "lines": lines}


def _cell(figure, rows, n_seeds):
    """Text of a cell, what stands small below it, and its class."""
    done = [row for row in rows if row["ap"] is not None]
    if not done:
        text = "failed" if any(row.get("error") for row in rows) else "n/a" if rows else ""
        return {"text": text, "small": [], "kind": "none"}
    small = []
    if figure == "ap":
        small.append(tie_range(done))
    if len(done) < n_seeds:
        small.append(f"{len(done)} of {n_seeds} seeds")
    return {"text": mean_and_spread([row[figure] for row in done]), "small": small, "kind": ""}


def _fit(row):
    """Parameters and codes of one fit."""
    return {
        **{name: row[name] for name in ("method", "nbits", "seed")},
        "ap": f"{row['ap']:.4f}",
        "codes": (row.get("codes_sha256") or "")[:DIGITS],
        "candidates": row.get("n_candidates", 1),
        "tuning_seconds": f"{row.get('tuning_seconds', 0):.1f}",
        "parameters": _keywords(row.get("parameters", {})),
    }


def _snippet(rows):
    """Code that makes the codes of a row again, for the first row that has a hash and a protocol known by its name."""
    row = next((row for row in rows if row.get("codes_sha256") and row["protocol"] in PROTOCOLS), None)
    if row is None:
        return None
    own = METHODS[row["method"]][1]
    given = _keywords({name: value for name, value in row["parameters"].items() if name not in own})
    about = {"source": row["dataset"]} | row  # an own file is known by its path alone; older rows do not tell it
    return _SNIPPET.format(**about, given=given and f", {given}", digits=DIGITS, digest=row["codes_sha256"][:DIGITS])


def _keywords(parameters):
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def _enumeration(values):
    """Values with commas, and before the last one "and"."""
    *most, last = map(str, values)
    return f"{', '.join(most)} and {last}" if most else last
