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
from results import LABELS, ROOT, Cell, make_table, read_results, select
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
        path = ROOT / self.arguments[0]
        self.env.note_dependency(str(path))
        results = select(read_results(path), _conditions(self.options.get("where", "")))
        if not results:
            raise self.error(f"{self.arguments[0]} has no such results: {self.options.get('where')}")
        table = make_table(
            results,
            self.options["by"].split(),
            self.options["columns"].split(),
            self.options.get("across"),
            self.options.get("best-within", "").split(),
            "best-in-line" in self.options,
        )
        if "heads" in self.options:
            table[0] = [Cell(head.strip()) for head in self.options["heads"].split(",")]
        below = [
            *self._legend(table),
            nodes.Text("Results: "),
            nodes.literal(text=self.arguments[0]),
            nodes.Text(". Command: "),
            nodes.literal(text=self.options["command"]),
            nodes.Text("."),
        ]
        content: list[nodes.Node] = [_table_node(table), nodes.paragraph("", "", *below)]
        return [nodes.container("", *content, classes=["results"])]

    def _legend(self, table: list[list[Cell]]) -> list[nodes.Node]:
        """Nodes of the sentence that says what is bold; none if nothing is."""
        if not any(cell.best for line in table for cell in line):
            return []
        within = [LABELS.get(key, key) for key in self.options.get("best-within", "").split()]
        place = "line" if "best-in-line" in self.options else "column"
        place += f" among the lines with the same {' and '.join(within)}" if within else ""
        several = len({result["seed"] for result in read_results(ROOT / self.arguments[0])}) > 1
        level = ", and means that are at most two standard errors of the difference below it" if several else ""
        return [nodes.strong(text="Bold"), nodes.Text(f": the best mean of each {place}{level}. ")]


def _conditions(text: str) -> dict[str, list[str]]:
    parts = [part.partition("=") for part in text.split(";") if part.strip()]
    return {key.strip(): [value.strip() for value in values.split("|")] for key, _, values in parts}


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
