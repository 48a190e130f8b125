"""Directives that show the sources of skhash: formulas beside the code that computes them.

The docstring of a method's module states the equations of the method. The directive ``formulas``
typesets this docstring, and ``formulas-beside-code`` also shows functions of the module. So the
pages and the code cannot disagree.
"""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sources import PACKAGE, page_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typeset import typeset

_MARKUP = re.compile(r"(:[\w:]+:`[^`]+`|``[^`]+``|`[^`]+`)")


class Formulas(SphinxDirective):
    """Typeset the docstring of a module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Nodes of the docstring."""
        return self.head_of(self.arguments[0])

    def head_of(self, name: str) -> list[nodes.Node]:
        """Nodes of the docstring of a module, whose first line names the paper."""
        module = importlib.import_module(name)
        self.env.note_dependency(inspect.getfile(module))
        title, *chunks = re.split(r"\n\s*\n", inspect.getdoc(module) or "")
        title = " ".join(title.splitlines())
        content = [nodes.paragraph("", "", *self.line(title), classes=["formulas-title"])]
        for chunk in chunks:
            lines = chunk.splitlines()
            if lines[0].startswith("    "):
                content.append(self.equations(lines))
            elif lines[0].startswith("* "):
                items = re.split(r"^\* ", chunk, flags=re.MULTILINE)[1:]
                content.append(nodes.bullet_list("", *(nodes.list_item("", self.paragraph(item)) for item in items)))
            else:
                content.append(self.paragraph(chunk))
        return content

    def paragraph(self, text: str) -> nodes.paragraph:
        """Node of a paragraph of prose."""
        return nodes.paragraph("", "", *self.line(" ".join(text.split("\n"))))

    def line(self, text: str, block: bool = False) -> list[nodes.Node]:
        """Nodes of a line, with reStructuredText markup and formulas."""
        pieces = []
        for part in _MARKUP.split(text):
            if part.startswith("`"):
                pieces.append(nodes.literal(text=part.strip("`")))
            elif _MARKUP.fullmatch(part):
                pieces += self.parse_inline(part)[0]
            else:
                pieces += typeset(part, block)
        return pieces

    def equations(self, lines: list[str]) -> nodes.container:
        """Node of displayed formulas, with the columns of the source."""
        indent = min(len(line) - len(line.lstrip()) for line in lines)
        lines = [line[indent:].rstrip() for line in lines]
        stops = [0, *_columns(lines), None]
        rows = []
        for line in lines:
            cells = [line[a:b].strip() for a, b in pairwise(stops)]
            gaps = [re.split(r"\s{2,}", cell) for cell in cells]
            rows.append(nodes.container("", *(self.cell(parts) for parts in gaps), classes=["equation"]))
        return nodes.container("", *rows, classes=["equations"])

    def cell(self, parts: Sequence[str]) -> nodes.paragraph:
        """Node of a cell: formulas that are separated by a wide space."""
        pieces = []
        for part in parts:
            pieces += [nodes.Text("\u2003"), *self.line(part, block=True)]
        return nodes.paragraph("", "", *pieces[1:])


class FormulasBesideCode(Formulas):
    """Show the docstring of a module, and beside it functions without their docstrings."""

    option_spec = {"code": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Nodes of the formulas and of the code."""
        module = self.arguments[0]
        objects = [name if ":" in name else f"{module}:{name}" for name in self.options["code"].split()]
        return [
            nodes.container(
                "",
                nodes.container("", *self.head_of(module), classes=["formulas"]),
                nodes.container("", *chain.from_iterable(map(self.code_of, objects)), classes=["code"]),
                classes=["formulas-beside-code"],
            )
        ]

    def code_of(self, name: str) -> list[nodes.Node]:
        """Nodes of the caption and the code of an object ``module:name``."""
        module, name = name.split(":")
        path = Path(inspect.getfile(importlib.import_module(module)))
        self.env.note_dependency(str(path))
        lines = path.read_text(encoding="utf-8").splitlines()
        try:
            first, last, docstring = _find(ast.parse("\n".join(lines)), name)
        except StopIteration:
            raise self.error(f"{path.name} defines no {name}") from None
        shown = [line for number, line in enumerate(lines[first - 1 : last], first) if number not in docstring]
        block = nodes.literal_block(text=wrap_code(inspect.cleandoc("\n".join(["", *shown]))), language="python")
        caption = [nodes.literal(text=name)]
        if PACKAGE in path.parents:
            up = "../" * self.env.docname.count("/")
            file = nodes.Text(str(path.relative_to(PACKAGE.parent)))
            caption += [nodes.Text(" in "), nodes.reference("", "", file, refuri=up + page_of(path, first))]
        return [nodes.paragraph("", "", *caption, classes=["code-caption"]), block]


class AboutMethod(SphinxDirective):
    """Show the class of a method, what it learns from, and its paper."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Nodes of a list of fields."""
        from numpydoc.docscrape import ClassDoc

        import skhash

        cls = getattr(skhash, self.arguments[0])
        self.env.note_dependency(inspect.getfile(cls))
        references = "\n".join(ClassDoc(cls)["References"])
        entries = {
            "class": f":class:`~skhash.{cls.__name__}`",
            "learns from": "labels, or the targets that its affinity compares"
            if cls()._supervised
            else "features only, no labels",
            "source": " ".join(references.split()),
        }
        fields = [
            nodes.field(
                "", nodes.field_name(text=name), nodes.field_body("", nodes.paragraph("", "", *self.line(text)))
            )
            for name, text in entries.items()
        ]
        return [nodes.field_list("", *fields, classes=["about-method"])]

    def line(self, text: str) -> list[nodes.Node]:
        """Nodes of a line of reStructuredText."""
        return self.parse_inline(text)[0]


class CommandLineHelp(SphinxDirective):
    """Show what ``skhash COMMAND --help`` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Node of the text."""
        from skhash.cli import _options

        self.env.note_dependency(_options.__file__)
        parser = _options.parser()
        commands = next(action for action in parser._actions if action.choices and not action.option_strings)
        return [nodes.literal_block(text=commands.choices[self.arguments[0]].format_help(), language="text")]


def wrap_code(code: str) -> str:
    """Code in lines of at most 88 columns; the files of the package have 120."""
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "88", "-"]
    wrapped = subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout
    return "\n".join(map(_wrap_comment, wrapped.rstrip().splitlines()))


def _wrap_comment(line: str) -> str:
    before, _, text = line.partition("# ")
    if len(line) <= 88 or before.strip():
        return line
    return textwrap.fill(text, 88, initial_indent=f"{before}# ", subsequent_indent=f"{before}# ")


def _columns(lines: Sequence[str]) -> list[int]:
    """Positions where a column begins: at least two lines have text after a gap, and no text crosses it."""
    after_gap = Counter(match.end() for line in lines for match in re.finditer(r"\s{2,}(?=\S)", line))
    columns = []
    for column in sorted(column for column, n in after_gap.items() if n > 1):
        reach = [line for line in lines if len(line) > column]
        if all(line[column - 1] == " " and line[column] != " " for line in reach):
            columns.append(column)
    return columns


def _find(tree: ast.Module, name: str) -> tuple[int, int, Sequence[int]]:
    """First and last line of a definition, and the lines of its docstring."""
    found: Any = tree
    for part in name.split("."):
        found = next(node for node in found.body if getattr(node, "name", None) == part)
    first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    text = found.body[0] if ast.get_docstring(found) else None
    return first, found.end_lineno, range(text.lineno, text.end_lineno + 1) if text else ()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("formulas", Formulas)
    app.add_directive("formulas-beside-code", FormulasBesideCode)
    app.add_directive("about-method", AboutMethod)
    app.add_directive("command-line-help", CommandLineHelp)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
