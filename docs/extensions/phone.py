"""Keep tables and pictures readable at the width of a phone.

A figure stays on one line with its spread, "0.850 ± 0.006", and a range with both its ends, "0.827 to
0.873". A picture of several panels side by side gets a box in which it scrolls.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.ext.autosummary import autosummary_table
from sphinx.util.images import get_image_size

SPREAD = re.compile(r"(?<=\d) (±|to) (?=\d)")
PANORAMA = 1.8  # width over height


def hold_spreads(app, doctree):
    """Put spaces that do not break between a figure of a table and its spread."""
    for entry in doctree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(SPREAD.sub("\u00a0\\1\u00a0", text)))


def open_signatures(app, doctree):
    """Let a line end after a comma in the signatures of a list of functions, where spaces do not break."""
    for table in doctree.findall(autosummary_table):
        for row in table.findall(nodes.row):
            for text in list(row[0].findall(nodes.Text)):
                text.parent.replace(text, nodes.Text(text.replace(", ", ",\u200b ")))


def box_panoramas(app, doctree):
    """Put a picture that is much wider than high into a container of class "wide-picture"."""
    for picture in list(doctree.findall(lambda node: node.tagname in ("image", "imgsgnode"))):
        size = get_image_size(Path(app.srcdir) / picture["uri"].lstrip("/"))
        if size and size[0] > PANORAMA * size[1] and isinstance(picture.parent, nodes.section | nodes.document):
            box = nodes.container(classes=["wide-picture"])
            picture.replace_self(box)
            box += picture


def setup(app):
    """Connect them to the pages as they are read."""
    for change in (hold_spreads, open_signatures, box_panoramas):
        app.connect("doctree-read", change)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
