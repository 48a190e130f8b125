"""Directive ``results-table``: a table of means, made from the results of an experiment when the pages are built.

    .. results-table:: experiments/results/quality.json
       :command: python experiments/quality.py
       :where: task=mnist linear|mnist mlp; nbits=32
       :by: task
       :columns: ap_and_range
       :across: method
       :best-in-line:

`results.make_table` says what the options mean; ``where`` selects results and orders them. A line below the table
says what is bold.
"""

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from results import ROOT, Cell, make_described_table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class ResultsTable(SphinxDirective):
    """Build a table, and name the file and the command below it."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "command": directives.unchanged_required,
        "where": directives.unchanged,
        "by": directives.unchanged_required,
        "columns": directives.unchanged_required,
        "heads": directives.unchanged_required,
        "across": directives.unchanged_required,
        "best-within": directives.unchanged_required,
        "best-in-line": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Nodes of the table and of the line below it."""
        self.env.note_dependency(str(ROOT / self.arguments[0]))
        try:
            table, bold = make_described_table(self.arguments[0], self.options)
        except ValueError as error:
            raise self.error(str(error)) from None
        below = [
            *([nodes.strong(text="Bold"), nodes.Text(bold)] if bold else []),
            nodes.Text("Results: "),
            nodes.literal(text=self.arguments[0]),
            nodes.Text(". Command: "),
            nodes.literal(text=self.options["command"]),
            nodes.Text("."),
        ]
        content: list[nodes.Node] = [_table_node(table), nodes.paragraph("", "", *below)]
        return [nodes.container("", *content, classes=["results"])]


def _table_node(table: list[list[Cell]]) -> nodes.table:
    head, *body = [nodes.row("", *map(_entry, line)) for line in table]
    columns = [nodes.colspec(colwidth=1) for _ in table[0]]
    group = nodes.tgroup("", *columns, nodes.thead("", head), nodes.tbody("", *body), cols=len(columns))
    return nodes.table("", group)


def _entry(cell: Cell) -> nodes.entry:
    text = nodes.strong(text=cell.text) if cell.best else nodes.Text(cell.text)
    return nodes.entry("", nodes.paragraph("", "", text))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("results-table", ResultsTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
