"""Directives that show skhash's own sources: formulas beside the code that computes them.

The head of a method's file states the equations that it implements. ``formulas`` typesets such
a head; ``formulas-beside-code`` puts functions of the file next to it; neither is written twice.
"""

import ast
import importlib
import inspect
import re
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sources import HOUSE, page_of
from sphinx.util.docutils import SphinxDirective
from typeset import typeset

_MARKUP = re.compile(r"(:[\w:]+:`[^`]+`|``[^`]+``|`[^`]+`)")


class Formulas(SphinxDirective):
    """Typeset the docstring of a module, or of an object ``module:name``."""

    required_arguments = 1

    def run(self):
        """Build the nodes."""
        return self.head_of(self.arguments[0])

    def head_of(self, name):
        """Nodes of the docstring; of a module the first line is a reference to the paper."""
        module = importlib.import_module(name)
        self.env.note_dependency(module.__file__)
        title, *chunks = re.split(r"\n\s*\n", inspect.cleandoc(module.__doc__))
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

    def paragraph(self, text):
        """Nodes of lines that flow."""
        return nodes.paragraph("", "", *self.line(" ".join(text.split("\n"))))

    def line(self, text, block=False):
        """Nodes of a line: markup as in any docstring, formulas in between."""
        pieces = []
        for part in _MARKUP.split(text):
            if part.startswith("`"):
                pieces.append(nodes.literal(text=part.strip("`")))
            elif _MARKUP.fullmatch(part):
                pieces += self.parse_inline(part)[0]
            else:
                pieces += typeset(part, block)
        return pieces

    def equations(self, lines):
        """Nodes of displayed formulas; what stands in one column in the source does so here."""
        indent = min(len(line) - len(line.lstrip()) for line in lines)
        lines = [line[indent:].rstrip() for line in lines]
        stops = [0, *_columns(lines), None]
        rows = []
        for line in lines:
            cells = [line[a:b].strip() for a, b in pairwise(stops)]
            gaps = [re.split(r"\s{2,}", cell) for cell in cells]
            rows.append(nodes.container("", *(self.cell(parts) for parts in gaps), classes=["equation"]))
        return nodes.container("", *rows, classes=["equations"])

    def cell(self, parts):
        """Nodes of a cell: formulas with a gap in between."""
        pieces = []
        for part in parts:
            pieces += [nodes.Text("\u2003"), *self.line(part, block=True)]
        return nodes.paragraph("", "", *pieces[1:])


class FormulasBesideCode(Formulas):
    """The head of a file, and beside it functions of it without their docstrings."""

    option_spec = {"code": directives.unchanged_required}

    def run(self):
        """Build the nodes."""
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

    def code_of(self, name):
        """Nodes of the code of an object ``module:name``."""
        module, name = name.split(":")
        path = Path(importlib.import_module(module).__file__)
        self.env.note_dependency(str(path))
        lines = path.read_text(encoding="utf-8").splitlines()
        try:
            first, last, docstring = _find(ast.parse("\n".join(lines)), name)
        except StopIteration:
            raise self.error(f"{path.name} defines no {name}") from None
        shown = [line for number, line in enumerate(lines[first - 1 : last], first) if number not in docstring]
        block = nodes.literal_block(text=inspect.cleandoc("\n".join(["", *shown])), language="python")
        caption = [nodes.literal(text=name)]
        if HOUSE in path.parents:
            up = "../" * self.env.docname.count("/")
            file = nodes.Text(str(path.relative_to(HOUSE.parent)))
            caption += [nodes.Text(" in "), nodes.reference("", "", file, refuri=up + page_of(path, first))]
        return [nodes.paragraph("", "", *caption, classes=["code-caption"]), block]


class AboutMethod(SphinxDirective):
    """What the class of a method says of itself: its name, what it learns from, its papers."""

    required_arguments = 1

    def run(self):
        """Build the nodes."""
        from numpydoc.docscrape import ClassDoc

        from skhash import hashers

        cls = getattr(hashers, self.arguments[0])
        self.env.note_dependency(inspect.getsourcefile(cls))
        references = "\n".join(ClassDoc(cls)["References"])
        entries = {
            "class": f":class:`~skhash.{cls.__name__}`",
            "learns from": "labels, or what its affinity compares"
            if cls()._supervised
            else "rows alone, without labels",
            "source": " ".join(references.split()),
        }
        fields = [
            nodes.field(
                "", nodes.field_name(text=name), nodes.field_body("", nodes.paragraph("", "", *self.line(text)))
            )
            for name, text in entries.items()
        ]
        return [nodes.field_list("", *fields, classes=["about-method"])]

    def line(self, text):
        """Nodes of a line of reStructuredText."""
        return self.parse_inline(text)[0]


class CommandLineHelp(SphinxDirective):
    """What ``skhash COMMAND --help`` prints."""

    required_arguments = 1

    def run(self):
        """Build the nodes."""
        from skhash import cli

        self.env.note_dependency(cli.__file__)
        parser = cli._parser()
        commands = next(action for action in parser._actions if action.choices and not action.option_strings)
        return [nodes.literal_block(text=commands.choices[self.arguments[0]].format_help(), language="text")]


def _columns(lines):
    """Columns in which two lines or more begin anew after a gap, and no line has anything running across."""
    after_gap = Counter(match.end() for line in lines for match in re.finditer(r"\s{2,}(?=\S)", line))
    columns = []
    for column in sorted(column for column, n in after_gap.items() if n > 1):
        reach = [line for line in lines if len(line) > column]
        if all(line[column - 1] == " " and line[column] != " " for line in reach):
            columns.append(column)
    return columns


def _find(tree, name):
    """First and last line of a definition, and the lines of its docstring."""
    for part in name.split("."):
        tree = next(node for node in tree.body if getattr(node, "name", None) == part)
    first = min([tree.lineno, *(decorator.lineno for decorator in tree.decorator_list)])
    text = tree.body[0] if ast.get_docstring(tree) else None
    return first, tree.end_lineno, range(text.lineno, text.end_lineno + 1) if text else ()


def setup(app):
    """Register the directives."""
    app.add_directive("formulas", Formulas)
    app.add_directive("formulas-beside-code", FormulasBesideCode)
    app.add_directive("about-method", AboutMethod)
    app.add_directive("command-line-help", CommandLineHelp)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
