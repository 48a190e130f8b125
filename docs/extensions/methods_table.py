"""Directive ``methods-table``: one line per method, and the navigation to their pages, made from `skhash.registry`."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from skhash import registry

FAMILIES = {"structhash": "column generation"}
LABELS = {"labels": "labels", "relevance": "labels or an affinity", "samples": "no labels"}
HEAD = ["method", "family", "paper", "labels", "use it for"]


def lines_of_methods() -> list[list[str]]:
    """Cells of each method, in the order of the registry; the first is a link to its page."""
    return [
        [
            f":doc:`{method.name} </methods/{page}>`",
            FAMILIES.get(method.family, method.family),
            method.paper,
            LABELS[method.learns_from],
            method.use_for,
        ]
        for page, method in zip(pages_of_methods(), registry.METHODS.values(), strict=True)
    ]


def pages_of_methods() -> list[str]:
    """Names of the pages of all methods, in the order of the registry."""
    return [name.replace("-", "_") for name in registry.METHODS]


class MethodsTable(SphinxDirective):
    """Build the table and the navigation."""

    def run(self) -> list[nodes.Node]:
        """Nodes of both."""
        self.env.note_dependency(registry.__file__)
        text = ".. list-table::\n   :header-rows: 1\n   :class: methods\n\n"
        for line in [HEAD, *lines_of_methods()]:
            text += "   * - " + "\n     - ".join(line) + "\n"
        text += "\n.. toctree::\n   :hidden:\n\n" + "".join(f"   {page}\n" for page in pages_of_methods())
        return self.parse_text_to_nodes(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("methods-table", MethodsTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
