"""Keep tables and pictures readable at the width of a phone.

A value and its standard deviation stay on one line, "0.850 ± 0.006", and so do the ends of a range,
"0.827 to 0.873". A table of text with three or more columns is read downwards there, so each cell repeats the
head of its column. A picture of several panels side by side gets a box in which it scrolls.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.autosummary import autosummary_table
from sphinx.util.images import get_image_size

NUMBER = re.compile(r"\s*[-+]?[\d.]")
SPREAD = re.compile(r"(?<=\d) (±|to) (?=\d)")
PANORAMA = 1.8  # width over height


def hold_spreads(app: Sphinx, doctree: nodes.document) -> None:
    """Put non-breaking spaces between a value of a table and its standard deviation."""
    for entry in doctree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(SPREAD.sub("\u00a0\\1\u00a0", text)))


def open_signatures(app: Sphinx, doctree: nodes.document) -> None:
    """Allow line breaks after the commas of signatures in lists of functions."""
    for table in doctree.findall(autosummary_table):
        for row in table.findall(nodes.row):
            for text in list(row[0].findall(nodes.Text)):
                text.parent.replace(text, nodes.Text(text.replace(", ", ",\u200b ")))


def label_cells(app: Sphinx, doctree: nodes.document) -> None:
    """Put the head of the column before each cell of a table of text; the style sheet shows it on a phone."""
    for table in doctree.findall(nodes.table):
        rows = [list(row) for row in table.findall(nodes.row)]
        heads = [entry.astext() for entry in rows[0]] if next(table.findall(nodes.thead), None) else []
        others = [entry for row in rows[1:] for entry in row[1:]]
        n_numbers = sum(bool(NUMBER.match(entry.astext())) for entry in others)
        if len(heads) < 3 or "methods" in table["classes"] or 2 * n_numbers >= len(others):
            continue
        table["classes"].append("stacked")
        for row in rows[1:]:
            for head, entry in zip(heads, row, strict=False):
                if len(entry):
                    entry[0].insert(0, nodes.inline("", f"{head}: ", classes=["cell-head"]))


def box_panoramas(app: Sphinx, doctree: nodes.document) -> None:
    """Put a picture that is much wider than high into a container of class "wide-picture"."""
    for picture in list(doctree.findall(lambda node: node.tagname in ("image", "imgsgnode"))):
        size = get_image_size(Path(app.srcdir) / picture["uri"].lstrip("/"))
        if size and size[0] > PANORAMA * size[1] and isinstance(picture.parent, nodes.section | nodes.document):
            box = nodes.container(classes=["wide-picture"])
            picture.replace_self(box)
            box += picture


def setup(app: Sphinx) -> dict[str, Any]:
    """Apply the changes to each page after it is read."""
    for change in (hold_spreads, open_signatures, label_cells, box_panoramas):
        app.connect("doctree-read", change)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
